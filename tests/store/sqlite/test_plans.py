"""No statement's cost may grow with the number of runs that have ended: none walks through the table of runs."""

from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from pyrula_runtime.stores.sqlite import queries, schema
from pyrula_runtime.stores.sqlite.queries import named

# counting runs is counting them, of `pins` only those that have not ended; what `check` does is a walk through
# everything by its nature
ALLOWED = {("listing", "counts"), ("listing", "pins")}
# tables that grow with the work ever done, walked from end to end
GROWING = tuple(f"SCAN {table}" for table in ("run", "r ", "journal", "document", "inbox", "fact"))
FILES = sorted(file.stem for file in Path(queries.__file__).parent.glob("queries/*.sql") if file.stem != "checks")
STATEMENTS = [(file, name) for file in FILES for name in named(file) if (file, name) not in ALLOWED]


@pytest.mark.parametrize(("file", "name"), STATEMENTS)
def test_a_statement_finds_its_runs_by_an_index(file: str, name: str, tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "plan.db"))
    schema.migrate(db, tmp_path / "plan.db", 0)
    statement = named(file)[name]
    values = (None,) * max([int(number) for number in re.findall(r"\?(\d+)", statement)], default=0)
    plan = [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    db.close()
    assert [line for line in plan if line.startswith(GROWING)] == []
