"""A program that is nothing but a parent: for tests of processes, without ports and sockets. Commands come on stdin.

Arguments: a JSON document of `policy`, `calling` (fields that differ from the defaults). What the reducer tells comes
out as JSON lines on stdout.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from pyrula_runtime.runtime_dir import runtime_dir
from pyrula_supervisor import logs, pace
from pyrula_supervisor.actions import Answer, Notify
from pyrula_supervisor.crew import Calling
from pyrula_supervisor.events import DumpAsked, ReloadAsked, RestartAsked, ScaleAsked, StopAsked
from pyrula_supervisor.facts import Identity
from pyrula_supervisor.leftovers import sweep_of_the_dead
from pyrula_supervisor.options import Policy
from pyrula_supervisor.parent import Audience, Parent, ParentSetup

ASKER = 1


def main(given: dict[str, Any]) -> int:
    stream = logs.configure("text", "info")
    if steps_ms := given["policy"].pop("pace_ms", None):  # instead of the steps of a supervisor that has time
        pace.STEPS_MS = tuple(steps_ms)
    sweep_of_the_dead()
    calling = Calling(
        **{
            "name": "test",
            "worker_id": "w",
            "runtime_dir": runtime_dir(os.environ),
            "environ": os.environ,
            **given["calling"],
            "workflows": tuple(given["calling"].get("workflows", ["app"])),
        }
    )
    setup = ParentSetup(
        policy=Policy(**given["policy"]),
        calling=calling,
        identity=Identity(name="test", pid=os.getpid(), version="0"),
        stream=stream,
    )
    return asyncio.run(supervised(Parent(setup)))


def tell(**told: Any) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


async def supervised(parent: Parent) -> int:
    def answer(each: Answer) -> None:
        tell(answer=each.text, ok=each.ok)

    def notify(each: Notify) -> None:
        tell(notify=each.state)

    parent.audience = Audience(answer=answer, notify=notify)
    asyncio.get_running_loop().add_reader(0, lambda: obey(parent, os.read(0, 4096).decode()))
    return await parent.run()


def obey(parent: Parent, text: str) -> None:
    if not text:
        asyncio.get_running_loop().remove_reader(0)
    for line in text.splitlines():
        word, *rest = line.split()
        if word == "document":
            tell(document=parent.document(), modules=sorted(sys.modules), threads=len(os.listdir("/proc/self/task")))
        elif word == "break":
            parent._observations = None  # type: ignore[assignment]
        elif word == "stop":
            parent.post(StopAsked(now_ms=0, is_signal=False))
        elif word == "reload":
            parent.post(ReloadAsked(now_ms=0, asker=ASKER))
        else:
            kinds: dict[str, Any] = {"dump": DumpAsked, "scale": ScaleAsked, "restart": RestartAsked}
            key = "procs" if word == "scale" else "slot"
            parent.post(kinds[word](now_ms=0, asker=ASKER, **{key: int(rest[0])}))


if __name__ == "__main__":
    Path("host.pid").write_text(str(os.getpid()))
    sys.exit(main(json.loads(sys.argv[1])))
