"""The layers: a module imports only from its own line of the list below or a lower one, and the core is pure.

Read off the source without importing it, so an import inside a function or under TYPE_CHECKING counts as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("pyrula", "pyrula_supervisor", "pyrula_runtime")
LINES = """
    pyrula
    pyrula_supervisor
    pyrula_runtime.template pyrula_runtime.clerk pyrula_runtime.child
    pyrula_runtime.voice
    pyrula_runtime.worker pyrula_runtime.http pyrula_runtime.cli
    pyrula_runtime.upkeep
    pyrula_runtime.worker_setup
    pyrula_runtime.testing
    pyrula_runtime.agents
    pyrula_runtime.workflows
    pyrula_runtime.engine pyrula_runtime.duties pyrula_runtime.client
    pyrula_runtime.scheduling
    pyrula_runtime.stores
    pyrula_runtime.settings pyrula_runtime.options pyrula_runtime.uplink pyrula_runtime.hygiene pyrula_runtime.probe
    pyrula_runtime.packets
    pyrula_runtime.wire
    pyrula_runtime.forms
    pyrula_runtime.stacks
    pyrula_runtime.blackbox pyrula_runtime.runtime_dir pyrula_runtime.listening pyrula_runtime.looking
    pyrula_runtime.kernel pyrula_runtime.log_lines pyrula_runtime.log_stream pyrula_runtime.leaving
    pyrula_runtime.streams pyrula_runtime.users_code pyrula_runtime.foreign_frames
    pyrula_runtime.cpython_layout
    pyrula_runtime.core
"""
DEPTH = {part: depth for depth, line in enumerate(LINES.split("\n")) for part in line.split()}
# What neither waits nor looks at the world; not datetime, uuid or random, which can.
PURE = """
    __future__ abc base64 bisect collections dataclasses difflib enum fractions functools hashlib heapq itertools
    json math operator re string textwrap types typing
"""
AWAITS = (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)
EFFECTS = {"open", "print", "input", "exec", "eval", "__import__"}


def part_of(name: str) -> str:
    """The entry of the list a dotted name belongs to: its first word, or two within the runtime."""
    words = name.split(".")
    return ".".join(words[: 2 if words[0] == "pyrula_runtime" else 1])


def imports(tree: ast.Module) -> Iterator[str]:
    """Every name imported; `from package import x` names package.x, since x may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def effects(tree: ast.Module) -> Iterator[int]:
    """Lines that await or call what reaches outside."""
    for node in ast.walk(tree):
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        if isinstance(node, AWAITS) or called in EFFECTS:
            yield getattr(node, "lineno", 0)


def faults_of(module: str, source: str) -> Iterator[str]:
    tree, part = ast.parse(source), part_of(module)
    if part not in DEPTH and module != "pyrula_runtime":
        yield f"{module} is on no line: give it a place in LINES"
    for name in imports(tree):
        if name.startswith("."):
            yield f"{module} imports {name}: write the whole name"
        elif part_of(name).split(".")[0] in PACKAGES:
            # The package `pyrula_runtime` itself stands below everything and imports nothing of ours.
            if DEPTH.get(part_of(name), -1) < DEPTH.get(part, len(DEPTH)):
                yield f"{module} imports {name}, which is above it"
        elif part == "pyrula_runtime.core" and name.split(".")[0] not in PURE.split():
            yield f"{module} imports {name}, but the core is pure"
    if part == "pyrula_runtime.core":
        yield from (f"{module}:{line} awaits or reaches outside, but the core is pure" for line in effects(tree))


def modules() -> Iterator[tuple[str, str]]:
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path.read_text()


def test_every_import_points_down() -> None:
    faults = [fault for module, source in modules() for fault in faults_of(module, source)]
    assert not faults, "\n".join(faults)


def test_parts_of_one_line_do_not_import_each_other_both_ways() -> None:
    edges = {(part_of(module), part_of(name)) for module, source in modules() for name in imports(ast.parse(source))}
    assert sorted((a, b) for a, b in edges if a < b and (b, a) in edges) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("pyrula_runtime.core.replay", "from pyrula_runtime.stores import protocol"),
        ("pyrula_runtime.core.replay", "import time"),
        ("pyrula_runtime.core.replay", "from datetime import datetime"),
        ("pyrula_runtime.core.replay", "import apsw"),
        ("pyrula_runtime.core.replay", "async def replay(): ..."),
        ("pyrula_runtime.core.replay", "print('replayed')"),
        ("pyrula_runtime.core.replay", "from .status import RunStatus"),
        ("pyrula_runtime.options", "from pyrula_runtime import stores"),
        ("pyrula_runtime.stores.sqlite", "def late():\n    import pyrula_runtime.engine.turn"),
        ("pyrula_runtime.worker", "from pyrula_supervisor import slots"),
        ("pyrula_runtime.worker", "from pyrula.workflows import workflow"),
        ("pyrula_runtime.worker", "from pyrula_runtime.unheard_of import x"),
        ("pyrula_runtime", "from pyrula_runtime.core import ids"),
        ("pyrula_runtime.unheard_of", ""),
        ("pyrula_supervisor.slots", "import pyrula"),
    ],
)
def test_breaches_are_seen(module: str, source: str) -> None:
    assert list(faults_of(module, source)) != []


def test_good_neighbours_are_left_alone() -> None:
    good = "import os, redis\nfrom pyrula_runtime.core.errors import PyrulaError\nfrom pyrula_runtime import options"
    assert list(faults_of("pyrula_runtime.stores.opening", good)) == []
