"""The face: `pyrula` holds imports, `__all__` and the version only, and offers the listed public names, no others."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTED = set((Path(__file__).with_name("public_names.txt")).read_text().split())
MODULES = sorted((ROOT / "pyrula").rglob("*.py"))


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def is_plain(statement: ast.stmt) -> bool:
    """Whether a statement may stand in the face, after the docstring."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return True
    names = [ast.unparse(target) for target in getattr(statement, "targets", ())]
    computed = any(isinstance(node, ast.Call) for node in ast.walk(statement))
    return names in (["__all__"], ["__version__"]) and not computed


def logic_in(source: str) -> list[str]:
    tree = ast.parse(source)
    return [
        ast.unparse(statement)
        for statement in tree.body[ast.get_docstring(tree) is not None :]
        if not is_plain(statement)
    ]


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_the_face_has_no_logic(path: Path) -> None:
    assert logic_in(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    ["def f(): ...", "x = 1", "if True:\n    import os", '"""Doc."""\n"""More."""', "a.b = 1", "__version__ = read()"],
)
def test_logic_is_seen(source: str) -> None:
    assert logic_in(source) != []


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_a_module_offers_what_it_imports(path: Path) -> None:
    module = importlib.import_module(dotted(path))
    tree = ast.parse(path.read_text())
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", "") != "__future__"
        for alias in node.names
    }
    offered = getattr(module, "__all__", [])
    assert set(offered) - {"__version__"} == imported
    assert [name for name in offered if not hasattr(module, name)] == []


def test_public_names_are_those_listed() -> None:
    offered = {
        f"{dotted(path)}.{name}"
        for path in MODULES
        for name in getattr(importlib.import_module(dotted(path)), "__all__", ())
    }
    assert offered == LISTED, "a change of public names belongs into public_names.txt and the changelog"
