"""From the words of a command line to workflows: the user's own errors keep their traceback, ours are sentences."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyrula.workflows import ConfigurationError
from pyrula_runtime.core.errors import AppImportError
from pyrula_runtime.workflows.loading import resolve
from pyrula_runtime.workflows.registry import REGISTRY

Write = Callable[[str, str], None]

APP = """
from pyrula.workflows import step, workflow

@workflow
async def process_order(ctx): ...

@workflow(name="refund")
async def give_back(ctx): ...

@step
def charge(): ...

class Flows:
    nested = process_order

LIMIT = 3
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes modules into the working directory, which nothing remembers afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(REGISTRY, "_by_name", {})
    known = set(sys.modules)

    def write_module(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    yield write_module
    for module in set(sys.modules) - known:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[module]


def names(*targets: str) -> list[str]:
    return [workflow.name for workflow in resolve(targets)]


def test_an_attribute_of_a_module_in_the_working_directory(write: Write) -> None:
    write("loaded_a.py", APP)
    assert names("loaded_a:process_order") == ["process_order"]
    assert names("loaded_a:give_back", "loaded_a:process_order") == ["refund", "process_order"]
    assert names("loaded_a:Flows.nested", "loaded_a:process_order") == ["process_order"]


def test_a_bare_module_serves_all_it_registers(write: Write) -> None:
    write("loaded_b.py", APP)
    write("other_b.py", APP.replace("process_order", "other_order").replace("refund", "other refund"))
    resolve(["other_b"])
    assert names("loaded_b") == ["process_order", "refund"]


def test_a_bare_package_serves_its_submodules(write: Write) -> None:
    write("loaded_c/__init__.py", "from loaded_c import orders")
    write("loaded_c/orders.py", APP)
    assert names("loaded_c") == ["process_order", "refund"]
    assert names("loaded_c.orders:process_order") == ["process_order"]


@pytest.mark.parametrize(
    ("targets", "reason"),
    [
        (["loaded_d:"], "'loaded_d:' names no workflow: write module:attribute"),
        (["a b"], "'a b' names no workflow"),
        (["loaded_d.py:process_order"], "instead of its file, such as loaded_d:process_order"),
        (["loaded_d.py"], "instead of its file, such as loaded_d"),
        (["./orders/loaded_d.py"], r"instead of its file, such as orders\.loaded_d"),
        (["loaded_d", "loaded_d:process_order"], "not both at once"),
        (["loaded_dd:process_order"], "there is no module 'loaded_dd'; did you mean loaded_d?"),
        (["loaded_d.orders:process_order"], "there is no module 'loaded_d.orders'"),
        (["loaded_d:process_ordre"], "module 'loaded_d' has no 'process_ordre'; did you mean process_order?"),
        (["loaded_d:zzz"], "has no 'zzz'; its workflows are process_order, give_back"),
        (["loaded_d:Flows.zzz"], "has no 'Flows.zzz'"),
        (["loaded_d:charge"], "loaded_d:charge is no workflow but of type Step: decorate it with @workflow"),
        (["loaded_d:LIMIT"], "loaded_d:LIMIT is no workflow but of type int: name a function"),
        (["empty_d"], "module 'empty_d' registers no workflow"),
        (["empty_d:zzz"], "has no 'zzz'; its workflows are none"),
    ],
)
def test_what_leads_nowhere_is_told(write: Write, targets: list[str], reason: str) -> None:
    write("loaded_d.py", APP)
    write("empty_d.py", "")
    with pytest.raises(ConfigurationError, match=reason) as refused:
        resolve(targets)
    assert len(refused.value.faults) == 1


def test_all_faults_are_told_together(write: Write) -> None:
    write("loaded_e.py", APP)
    with pytest.raises(ConfigurationError) as refused:
        resolve(["loaded_e:zzz", "loaded_e:process_order", "nowhere_e:flow"])
    assert len(refused.value.faults) == 2


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def broken(:", SyntaxError),
        ("1 / 0", ZeroDivisionError),
        ("import package_that_is_not_installed", ModuleNotFoundError),
        (
            APP + APP.replace("process_order(", "another(").replace("@workflow\n", '@workflow(name="refund")\n'),
            Exception,
        ),
    ],
)
def test_an_error_of_the_users_keeps_its_traceback(write: Write, text: str, kind: type[Exception]) -> None:
    write("loaded_f.py", text)
    with pytest.raises(AppImportError, match="cannot import 'loaded_f': ") as refused:
        resolve(["loaded_f:process_order"])
    assert isinstance(refused.value.__cause__, kind)
    assert refused.value.module == "loaded_f"
    assert "loaded_f.py" in "".join(traceback.format_exception(refused.value))
