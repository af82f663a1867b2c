"""Values are values: every dataclass of the core is frozen, slotted and made by keywords, but for what counts on."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from pyrula_runtime import core
from pyrula_runtime.core.cursor import Asked
from pyrula_runtime.core.ids import Branch

# What changes while a turn runs; both are slotted all the same.
COUNTERS = {Asked, Branch}


def dataclasses() -> list[type]:
    modules = [
        importlib.import_module(f"{core.__name__}.{path.stem}") for path in sorted(Path(core.__path__[0]).glob("*.py"))
    ]
    return [
        cls
        for module in modules
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if cls.__module__ == module.__name__ and is_dataclass(cls)
    ]


@pytest.mark.parametrize("cls", dataclasses(), ids=lambda cls: cls.__name__)
def test_a_value_cannot_change(cls: type) -> None:
    assert "__slots__" in vars(cls)
    is_value = cls not in COUNTERS
    assert cls.__dataclass_params__.frozen is is_value  # type: ignore[attr-defined]
    assert all(field.kw_only is is_value for field in fields(cls))
