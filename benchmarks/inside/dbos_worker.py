"""A DBOS process that serves the queue until it is ended; `--once` only makes the database."""

from __future__ import annotations

import argparse
import signal

from benchmarks.inside import QUEUE, dbos_app


def main() -> None:
    """Launch, declare the queue, wait."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--executor", default="local")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--tuned", action="store_true")
    given = parser.parse_args()
    dbos_app.configure(given.path, given.executor)
    dbos_app.dbos.DBOS.launch()
    best = {"worker_concurrency": 50, "polling_interval_sec": 0.1} if given.tuned else {}
    dbos_app.dbos.DBOS.register_queue(QUEUE, **best)
    dbos_app.pen.note("ready")
    if not given.once:
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    dbos_app.dbos.DBOS.destroy()


if __name__ == "__main__":
    main()
