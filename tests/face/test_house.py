"""The house rules that a machine can see; an exception is a line in EXCEPTIONS, with its reason.

Each rule is a function from one source file to the places where it is broken, and each is shown a breach of itself, so
that none can rot into one that sees nothing.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("pyrula", "pyrula_runtime", "pyrula_supervisor")
FOLDERS = (*PRODUCT, "tests", "examples", "benchmarks")

# What is allowed in spite of a rule: the finding as the test prints it, without "line N " -> the reason.
EXCEPTIONS: dict[str, str] = {
    "tests/faults/guilty.py: sleeps: wait for an event or move a clock": "it is the deed that has to be found out",
    "tests/supervisor/systemd/test_systemd.py: skips": "not every host can boot a systemd; pytest prints why not",
}

FILE_LINES, FUNCTION_LINES, POSITIONAL, LINES_PER_BROAD_EXCEPT = 400, 60, 5, 1000
EMPTY_CLASS_NAMES = re.compile(r"(Manager|Handler|Helpers?|Service|Utils?|Data|Info)$")
EMPTY_MODULE_NAMES = re.compile(r"(^|_)(utils?|helpers?|common|misc)$")
BROAD = {"Exception", "BaseException"}
Function = ast.FunctionDef | ast.AsyncFunctionDef
parse = functools.cache(ast.parse)


@functools.cache
def walked(text: str) -> tuple[ast.AST, ...]:
    """Every node of a source, for all rules."""
    return tuple(ast.walk(parse(text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file, read once."""

    path: str  # relative to the checkout
    text: str

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        return walked(self.text)

    @property
    def functions(self) -> Iterator[Function]:
        return (node for node in self.nodes if isinstance(node, Function))

    @property
    def comments(self) -> Iterator[str]:
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return (token.string for token in tokens if token.type == tokenize.COMMENT)


def file_length(source: Source) -> Iterator[str]:
    if (lines := source.text.count("\n")) > FILE_LINES:
        yield f"{lines} lines"


def function_length(source: Source) -> Iterator[str]:
    for function in source.functions:
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES:
            yield f"{function.name} has {lines} lines"


def positional(function: Function) -> list[ast.arg]:
    return [arg for arg in function.args.posonlyargs + function.args.args if arg.arg not in ("self", "cls")]


def parameters(source: Source) -> Iterator[str]:
    for function in source.functions:
        if len(positional(function)) > POSITIONAL:
            yield f"{function.name} has {len(positional(function))} positional parameters"


def positional_booleans(source: Source) -> Iterator[str]:
    for function in source.functions:
        args = positional(function)
        defaults = [None] * (len(args) - len(function.args.defaults)) + function.args.defaults
        for arg, default in zip(args, defaults[-len(args) :] if args else [], strict=True):
            declared = re.split(r"[ |]+", ast.unparse(arg.annotation)) if arg.annotation else []
            if "bool" in declared or (isinstance(default, ast.Constant) and isinstance(default.value, bool)):
                yield f"{function.name} takes the boolean {arg.arg} by position"


def broad_catches(source: Source) -> Iterator[tuple[int, list[ast.stmt]]]:
    """Line and body of every clause that catches everything; `suppress(Exception)` has an empty body."""
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler):
            caught = {ast.unparse(name) for name in getattr(node.type, "elts", [node.type]) if name}
            if not caught or caught & BROAD:
                yield node.lineno, node.body
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("suppress", "contextlib.suppress"):
            yield from ((node.lineno, []) for arg in node.args if ast.unparse(arg) in BROAD)


def says_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass | ast.Continue | ast.Break)


def silent_excepts(source: Source) -> Iterator[str]:
    for line, body in broad_catches(source):
        if all(says_nothing(statement) for statement in body):
            yield f"line {line} swallows every error"


def docstring(source: Source) -> Iterator[str]:
    if not ast.get_docstring(parse(source.text)):
        yield "does not open by saying why it exists"


def names(source: Source) -> Iterator[str]:
    if EMPTY_MODULE_NAMES.search(Path(source.path).stem):
        yield "the module's name says nothing"
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and EMPTY_CLASS_NAMES.search(node.name):
            yield f"the name {node.name} says nothing"


def comments(source: Source) -> Iterator[str]:
    for comment in source.comments:
        if re.search(r"type:\s*ignore(?!\[)", comment):
            yield f"ignores a type error without its code: {comment}"
        if re.search(r"\b(TODO|FIXME|XXX)\b", comment):
            yield f"leaves work behind: {comment}"


def hopeful_tests(source: Source) -> Iterator[str]:
    if not source.path.startswith("tests/"):
        return
    for node in source.nodes:
        if not isinstance(node, ast.Attribute | ast.ImportFrom):
            continue
        said = ast.unparse(node)
        if said == "time.sleep" or re.match(r"from time import .*\bsleep\b", said):
            yield f"line {node.lineno} sleeps: wait for an event or move a clock"
        if re.fullmatch(r"pytest\.(mark\.)?(skip|skipif|importorskip)", said):
            yield f"line {node.lineno} skips"


def environment(source: Source) -> Iterator[str]:
    """The whole environment may be passed on to the options; single variables are theirs to read."""
    if source.path.split("/")[0] not in PRODUCT:
        return
    for node in source.nodes:
        read = isinstance(node, ast.Subscript | ast.Attribute) and ast.unparse(node.value) == "os.environ"
        if read or (isinstance(node, ast.Attribute) and ast.unparse(node) == "os.getenv"):
            yield f"line {getattr(node, 'lineno', 0)} reads the environment: pass os.environ to options or settings"


# Each rule with a file that breaks it.
RULES: dict[Callable[[Source], Iterator[str]], list[str]] = {
    file_length: ["x = 1\n" * 401],
    function_length: ["def f():\n" + "    x = 1\n" * 60],
    parameters: ["def f(a, b, c, d, e, f): ...", "class C:\n    async def f(self, a, b, c, /, d, e, f): ..."],
    positional_booleans: ["def f(a: bool): ...", "def f(a: bool | None): ...", "def f(a, b=False): ..."],
    silent_excepts: [
        "try:\n    f()\nexcept Exception:\n    pass",
        "try:\n    f()\nexcept (OSError, BaseException):\n    ...",
        "for x in y:\n    try:\n        f()\n    except:\n        continue",
        "with contextlib.suppress(Exception):\n    f()",
    ],
    docstring: ["import os"],
    names: ["class RunManager: ...", "class RunInfo: ..."],
    comments: ["x = f()  # type: ignore", "# TODO: later"],
    environment: ["x = os.environ['X']", "x = os.environ.get('X')", "x = os.getenv('X')"],
    hopeful_tests: ["time.sleep(1)", "from time import sleep", "@pytest.mark.skip\ndef test_it(): ..."],
}
BREACHES = [(rule, breach) for rule, breaches in RULES.items() for breach in breaches]


def sources(*folders: str) -> list[Source]:
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [Source(path=path.relative_to(ROOT).as_posix(), text=path.read_text()) for path in paths]


def test_the_house_is_in_order() -> None:
    found = [f"{each.path}: {fault}" for each in sources(*FOLDERS) for rule in RULES for fault in rule(each)]
    excused = {finding: re.sub(r"line \d+ ", "", finding) for finding in found}
    faults = [finding for finding in found if excused[finding] not in EXCEPTIONS]
    assert not faults, "\n".join(faults)
    assert sorted(EXCEPTIONS.keys() - excused.values()) == [], "exceptions that are needed no more"


def test_errors_are_caught_by_name() -> None:
    product = sources(*PRODUCT)
    broad = [f"{each.path}:{line}" for each in product for line, _ in broad_catches(each)]
    lines = sum(each.text.count("\n") for each in product)
    assert len(broad) <= max(1, lines // LINES_PER_BROAD_EXCEPT), broad


@pytest.mark.parametrize(("rule", "breach"), BREACHES)
def test_breaches_are_seen(rule: Callable[[Source], Iterator[str]], breach: str) -> None:
    seen = [fault for path in ("tests/test_it.py", "pyrula/it.py") for fault in rule(Source(path=path, text=breach))]
    assert seen != []


def test_a_module_name_that_says_nothing_is_seen() -> None:
    assert list(names(Source(path="pyrula_runtime/json_utils.py", text=""))) != []


def test_good_style_is_left_alone() -> None:
    good = '''"""Why this exists."""
class Runs:
    def pick(self, a: int, b: Callable[[bool], None], c, d, e=1, *, f: bool = True): ...
try:
    pick()
except OSError:
    pass
except Exception:
    log()
x = f()  # type: ignore[attr-defined]
'''
    sound = [Source(path="tests/test_it.py", text=good), Source(path="pyrula/it.py", text='"""Why."""\nf(os.environ)')]
    assert [fault for rule in RULES for each in sound for fault in rule(each)] == []
