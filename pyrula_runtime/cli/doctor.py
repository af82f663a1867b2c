"""`pyrula doctor`: everything that somebody who helps would ask first, and whether anything is wrong.

A finding is a *fault* (Pyrula cannot work like this: exit code 1) or a *warning*. The JSON document has the same
content as the text; fields may be added, never renamed.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pyrula_runtime.cli.commands import example
from pyrula_runtime.cli.doctor_of_servers import look_at_servers, server_lines
from pyrula_runtime.cli.flags import STORE, flag
from pyrula_runtime.cli.tables import fields, size, table
from pyrula_runtime.core.errors import ConfigurationError, StoreUnavailable
from pyrula_runtime.core.spans import spoken
from pyrula_runtime.core.why import SILENT_AFTER_MS
from pyrula_runtime.options import OPTIONS, WorkerOptions
from pyrula_runtime.settings import Settings

if TYPE_CHECKING:
    from pyrula_runtime.stores.protocol import Store

# the first SQLite whose concurrent checkpoints cannot lose a commit
_SOUND_SQLITE = (3, 51, 3)
# free space below which a store soon stops (bytes)
_LITTLE_SPACE = 100_000_000


@dataclass(slots=True, kw_only=True)
class Findings:
    """What was found; the fields of the JSON document."""

    versions: dict[str, str] = field(default_factory=dict)
    store: dict[str, Any] = field(default_factory=dict)
    workers: list[dict[str, Any]] = field(default_factory=list)
    runtime_dir: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@click.command(epilog=example("pyrula doctor --json"))
@flag(STORE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(*, store_url: str | None, as_json: bool) -> int:
    """Tell what is here and what is wrong with it.

    Versions, store, workers, runtime directory and options. Exit code 1 if anything is wrong.
    """
    found = Findings()
    _look_at_versions(found)
    _look_at_runtime_dir(found)
    _look_at_options(found)
    try:
        settings = Settings.from_env(os.environ, store_url=store_url)
        found.warnings += settings.unserved_warnings()
        _look_at_store(found, settings.store_url_or())
    except ConfigurationError as error:
        found.faults += error.faults
    if as_json:
        import json

        click.echo(json.dumps(asdict(found), indent=2))
    else:
        _print(found)
    return 1 if found.faults else 0


def _look_at_versions(found: Findings) -> None:
    from importlib.metadata import version

    import apsw

    sqlite = apsw.sqlite_lib_version()
    found.versions = {
        "pyrula": version("pyrula"),
        "python": platform.python_version(),
        "sqlite": sqlite,
        "apsw": apsw.apsw_version(),
        "system": platform.platform(),
    }
    if tuple(int(part) for part in sqlite.split(".")) < _SOUND_SQLITE:
        wanted = ".".join(map(str, _SOUND_SQLITE))
        found.warnings.append(
            f"SQLite {sqlite} can lose a commit when other programs checkpoint the file; install an apsw with "
            f"SQLite {wanted} or newer"
        )


def _look_at_runtime_dir(found: Findings) -> None:
    from pyrula_runtime.blackbox import read_box
    from pyrula_runtime.blackbox.layout import boxes_in
    from pyrula_runtime.runtime_dir import boot_id, runtime_dir

    try:
        directory = runtime_dir(os.environ)
    except ConfigurationError as error:
        found.faults += error.faults
        return
    boxes = [box for path in sorted(boxes_in(directory).glob("*.box")) if (box := read_box(path)) is not None]
    alive = sum(box.held for box in boxes)
    found.runtime_dir = {
        "path": str(directory),
        "boot_id": boot_id(),
        "boxes_alive": alive,
        "boxes_dead": len(boxes) - alive,
    }
    if alive < len(boxes):
        found.warnings.append(f"{len(boxes) - alive} workers died here; what they held goes on when one is started")


def _look_at_options(found: Findings) -> None:
    try:
        options = WorkerOptions.from_env(os.environ)
    except ConfigurationError as error:
        found.faults += error.faults
        return
    for each in OPTIONS:
        owner = options.poison if each.name.startswith("poison.") else options
        value = getattr(owner, each.field)
        if value != each.default:
            found.options[each.name] = value


def _look_at_store(found: Findings, url: str) -> None:
    import asyncio

    from pyrula_runtime.stores.opening import open_store

    store = open_store(url)
    found.store = {"url": store.url, "ok": False}
    try:
        asyncio.run(_ask(found, store))
        found.store["ok"] = True
    except ConfigurationError as error:
        found.faults += error.faults
    except StoreUnavailable as error:
        found.faults.append(str(error))
    path = Path(store.url.removeprefix("sqlite:///"))
    if store.url.startswith("sqlite:") and path.exists():
        _look_at_file(found, path)


async def _ask(found: Findings, store: Store) -> None:
    await store.open()
    try:
        await store.ping()
        counts: Counter[str] = Counter()
        for (_, status), count in (await store.counts()).items():
            counts[status] += count
        found.store["runs"] = dict(counts)
        found.workers = [asdict(worker) for worker in await store.workers()]
        if not store.url.startswith("sqlite:"):
            await look_at_servers(found, store)
    finally:
        await store.close()
    for worker in found.workers:
        if worker["age_ms"] >= SILENT_AFTER_MS:
            age = spoken(worker["age_ms"])
            found.warnings.append(f"worker {worker['worker_id']} was last heard of {age} ago; is it still there?")


def _look_at_file(found: Findings, path: Path) -> None:
    import shutil

    from pyrula_runtime.stores.sqlite import file_system

    wal = path.with_name(f"{path.name}-wal")
    free = shutil.disk_usage(path).free
    found.store |= {
        "file_system": _file_system_of(path),
        "file_bytes": path.stat().st_size,
        "wal_bytes": wal.stat().st_size if wal.exists() else 0,
        "disk_free_bytes": free,
    }
    if free < _LITTLE_SPACE:
        found.warnings.append(f"only {size(free)} are free on the disk of {path}; when it is full, runs stop")
    try:
        warning = file_system.check(path)
    except ConfigurationError as error:
        found.faults += [fault for fault in error.faults if fault not in found.faults]
        return
    if warning:
        found.warnings.append(warning)


def _file_system_of(path: Path) -> str:
    """The type of the file system that holds the path, as the system calls it."""
    import psutil  # type: ignore[import-untyped]

    real = path.resolve()
    mounts = [each for each in psutil.disk_partitions(all=True) if real.is_relative_to(each.mountpoint)]
    return max(mounts, key=lambda each: len(each.mountpoint)).fstype if mounts else "unknown"


def _print(found: Findings) -> None:
    store, runtime = found.store, found.runtime_dir
    runs = ", ".join(f"{count} {status}" for status, count in sorted(store.get("runs", {}).items()))
    pairs = list(found.versions.items())
    pairs.append(("store", store.get("url", "")))
    if "file_bytes" in store:
        pairs += [
            ("file system", f"{store['file_system']}, {size(store['disk_free_bytes'])} free"),
            ("file", f"{size(store['file_bytes'])}, and {size(store['wal_bytes'])} of write-ahead log"),
        ]
    pairs += server_lines(store)
    if store.get("ok"):
        pairs.append(("runs", runs or "none"))
    if runtime:
        boxes = f"{runtime['boxes_alive']} workers alive, {runtime['boxes_dead']} dead"
        pairs.append(("runtime dir", f"{runtime['path']} ({boxes})"))
    pairs.append(("options", "\n".join(f"{name} = {value}" for name, value in found.options.items()) or "all default"))
    pairs.append(("workers", "" if found.workers else "none connected"))
    fields(pairs)
    if found.workers:
        click.echo()
        _print_workers(found.workers)
    click.echo()
    for warning in found.warnings:
        click.echo(f"warning: {warning}")
    for fault in found.faults:
        click.echo(f"wrong: {fault}")
    if not found.faults:
        click.echo("all is well" if not found.warnings else "it works, but see the warnings")


def _print_workers(workers: list[dict[str, Any]]) -> None:
    table(
        ["worker", "pid", "host", "serves", "turns", "state", "last heard of"],
        [
            [
                worker["worker_id"],
                str(worker["pid"]),
                worker["host"],
                ", ".join(each["workflow"] for each in worker["serves"]),
                f"{worker['running']}/{worker['capacity']}",
                "draining" if worker["draining"] else "serving",
                f"{spoken(worker['age_ms'])} ago",
            ]
            for worker in workers
        ],
    )
