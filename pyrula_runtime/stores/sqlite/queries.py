"""Reads named statements from `.sql` files, once, at import, so that SQL stays out of Python."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "queries"
_MARK = "-- name: "


def named(file: str) -> dict[str, str]:
    """The statements of `queries/<file>.sql` by the name in the `-- name:` line above each."""
    statements: dict[str, str] = {}
    for block in (_FOLDER / f"{file}.sql").read_text("utf-8").split(_MARK)[1:]:
        name, _, statement = block.partition("\n")
        statements[name.strip()] = statement.strip()
    return statements
