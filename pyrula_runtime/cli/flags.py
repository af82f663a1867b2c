"""Flags made from the table of options: name, unit, default and variable come from there, and so does every check.

A flag hands its text on as it is: parsing and ranges are the options' own, so that all faults of flags and environment
are told together and in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pyrula_runtime.options import Option
from pyrula_runtime.settings import SETTINGS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

STORE = next(each for each in SETTINGS if each.key == "store_url")


def flag(option: Option) -> Callable[[Decorated], Decorated]:
    """The option as a flag of a command, under its key."""
    return click.option(
        option.flag,
        option.key,
        help=f"{option.help} [{_origin(option)}]",
        metavar=_metavar(option),
        shell_complete=_choices(option),
    )


def flags(options: Iterable[Option]) -> Callable[[Decorated], Decorated]:
    """All of these options that have a flag."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed([each for each in options if each.flag]):
            command = flag(option)(command)
        return command

    return decorate


def _origin(option: Option) -> str:
    default = "" if option.default is None else f"{_number(option.default)} {option.unit}".rstrip() + ", "
    return f"{default}{option.env}"


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _metavar(option: Option) -> str:
    if option.choices:
        return "|".join(option.choices)
    if option.kind is str:
        return "URL" if option is STORE else "TEXT"
    return "SECONDS" if option.unit == "s" else "NUMBER"


def _choices(option: Option) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(choice) for choice in option.choices if choice.startswith(incomplete)]

    return complete


def values_of(table: Iterable[Option], given: dict[str, Any]) -> dict[str, Any]:
    """Those of a command's parameters that belong to this table, for its `from_env`."""
    return {each.key: given[each.key] for each in table if each.key in given}
