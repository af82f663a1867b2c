"""From what stands on a command line (`app:process_order`, or `app` for all of it) to workflows.

Our own faults are told together, each in a sentence. A fault in the user's code is the user's: it comes up as
`AppImportError` with the original error behind it, traceback and all.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from pyrula_runtime.core.errors import AppImportError, ConfigurationError
from pyrula_runtime.workflows.registry import REGISTRY, AnyWorkflow
from pyrula_runtime.workflows.workflow import Workflow

_MODULE = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_TARGET = re.compile(rf"(?P<module>{_MODULE})(?::(?P<attribute>{_MODULE}))?")


def resolve(targets: Sequence[str]) -> tuple[AnyWorkflow, ...]:
    """The workflows that the targets stand for, each once, in their order.

    Raises ConfigurationError with every fault of the targets, or AppImportError for one in the user's modules.
    """
    parsed = [None if _is_file(target) else _TARGET.fullmatch(target) for target in targets]
    faults = [_form_fault(target) for target, match in zip(targets, parsed, strict=True) if match is None]
    named = [match for match in parsed if match is not None]
    if len({match["attribute"] is None for match in named}) > 1:
        faults.append(
            f"{', '.join(targets)}: name workflows (module:attribute) or whole modules (module), not both at once"
        )
    if faults:
        raise ConfigurationError(faults)
    found: dict[str, AnyWorkflow] = {}
    for match in named:
        try:
            served = _find(match["module"], match["attribute"])
        except AppImportError:
            raise
        except ConfigurationError as error:
            faults.extend(error.faults)
        else:
            found |= {workflow.name: workflow for workflow in served}
    if faults:
        raise ConfigurationError(faults)
    return tuple(found.values())


def _is_file(target: str) -> bool:
    path = target.partition(":")[0]
    return path.endswith(".py") or "/" in path


def _form_fault(target: str) -> str:
    hint = "write module:attribute, such as app:process_order, or module"
    if _is_file(target):
        path, colon, attribute = target.partition(":")
        module = path.removesuffix(".py").strip("./").replace("/", ".")
        hint = f"write the module's name instead of its file, such as {module}{colon}{attribute}"
    return f"{target!r} names no workflow: {hint}"


def _find(module: str, attribute: str | None) -> Iterable[AnyWorkflow]:
    imported = _import(module)
    if attribute is not None:
        return [_attribute(imported, module, attribute)]
    served = list(_registered_by(module))
    if not served:
        raise ConfigurationError(
            [f"module {module!r} registers no workflow: decorate one with @workflow, or name another module"]
        )
    return served


def _registered_by(module: str) -> Iterator[AnyWorkflow]:
    for workflow in REGISTRY:
        if workflow.module == module or workflow.module.startswith(f"{module}."):
            yield workflow


def _import(module: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise AppImportError(module, error) from error
        raise ConfigurationError(
            [f"there is no module {error.name!r}{_meant(module, _modules_beside(error.name))}"]
        ) from error
    except Exception as error:
        raise AppImportError(module, error) from error


def _modules_beside(missing: str) -> list[str]:
    """Modules that could be meant: of the parent package, or of the working directory."""
    parent, _, _ = missing.rpartition(".")
    if not parent:
        return [found.name for found in pkgutil.iter_modules([os.getcwd()])]
    paths = getattr(sys.modules.get(parent), "__path__", [])
    return [f"{parent}.{found.name}" for found in pkgutil.iter_modules(paths)]


def function_at(target: str) -> Callable[[], object]:
    """The plain function that `module:function` names. Raises ConfigurationError."""
    value = _named(target, callable)
    if not callable(value) or inspect.iscoroutinefunction(value):
        raise ConfigurationError([f"{target} is called without a loop, so it must be a plain function, not async"])
    function: Callable[[], object] = value
    return function


def object_at(target: str) -> Any:
    """What `module:attribute` names. Raises ConfigurationError."""
    match = _TARGET.fullmatch(target)
    if match is None or match["attribute"] is None:
        raise ConfigurationError([f"{target!r} names no object: write module:attribute, such as app:codec"])
    return _named(target, lambda _each: True)


def _named(target: str, could_be: Callable[[Any], bool]) -> Any:
    module, _, attribute = target.partition(":")
    imported = _import(module)
    value = _value(imported, attribute)
    if value is None:
        names = [name for name, each in vars(imported).items() if could_be(each)]
        raise ConfigurationError([f"module {module!r} has no {attribute!r}{_meant(attribute, names)}"])
    return value


def _value(imported: ModuleType, attribute: str) -> Any:
    value: Any = imported
    for word in attribute.split("."):
        value = getattr(value, word, None)
    return value


def _attribute(imported: ModuleType, module: str, attribute: str) -> AnyWorkflow:
    value = _value(imported, attribute)
    if value is None:
        names = [name for name, each in vars(imported).items() if isinstance(each, Workflow)]
        hint = _meant(attribute, names) or f"; its workflows are {', '.join(names) or 'none'}"
        raise ConfigurationError([f"module {module!r} has no {attribute!r}{hint}"])
    if isinstance(value, Workflow):
        return value
    hint = "decorate it with @workflow" if callable(value) else "name a function decorated with @workflow"
    raise ConfigurationError([f"{module}:{attribute} is no workflow but of type {type(value).__name__}: {hint}"])


def _meant(written: str, possible: list[str]) -> str:
    close = difflib.get_close_matches(written, possible, 3)
    return f"; did you mean {' or '.join(close)}?" if close else ""
