"""From flags and environment to a supervisor that runs, and from its last word to the end of its process.

Everything that can be wrong here is looked at before the first process is made, and told together. What only a process
with the user's code or the store can find out (an app that does not import, a store that refuses) comes back from it,
and ends the start with the same exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from setproctitle import setproctitle

from pyrula_runtime.cli.endings import Faults
from pyrula_runtime.cli.flags import values_of
from pyrula_runtime.cli.signals import Signals
from pyrula_runtime.log_stream import PatientStream
from pyrula_runtime.options import OPTIONS, WorkerOptions
from pyrula_runtime.runtime_dir import runtime_dir
from pyrula_runtime.settings import Settings
from pyrula_supervisor import logs
from pyrula_supervisor.cli.group import PLACES, refuse_unserved
from pyrula_supervisor.control import ControlSocket
from pyrula_supervisor.crew import Calling
from pyrula_supervisor.facts import Identity
from pyrula_supervisor.health import HealthPort
from pyrula_supervisor.leftovers import sweep_of_the_dead
from pyrula_supervisor.naming import socket_path, take_name
from pyrula_supervisor.notify import ServiceSocket
from pyrula_supervisor.options import SUPERVISOR_OPTIONS, Policy, SupervisorOptions
from pyrula_supervisor.pages import Pages
from pyrula_supervisor.parent import Parent, ParentSetup
from pyrula_supervisor.status import supervisor_state

log = logging.getLogger("pyrula.supervisor")

# a supervisor makes a pass every second at least; one that has missed three of them is not alive (ms)
_PASS_LIMIT_MS = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What was asked for, found sound as far as it can be known here."""

    targets: tuple[str, ...]
    options: SupervisorOptions
    worker: WorkerOptions
    settings: Settings
    directory: Path
    log_format: str
    log_level: str


def run(
    *,
    targets: Sequence[str],
    agents: Sequence[str],
    llm_ref: str | None,
    log_format: str,
    log_level: str,
    **given: Any,
) -> int:
    """Be a supervisor, to the end: the exit code."""
    signals = Signals()
    refuse_unserved(targets, agents, llm_ref)
    plan = _plan(tuple(targets), given, log_format, log_level)
    take_name(plan.directory, plan.options.name)  # until the process ends
    stream = logs.configure(log_format, log_level)
    for warning in plan.settings.unserved_warnings():
        log.warning(warning)
    if swept := sweep_of_the_dead():
        log.warning("killed %d processes that supervisors had left which are no more", len(swept))
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    code = loop.run_until_complete(_supervise(plan, stream))
    signals.ignore()
    stream.push()
    return code


def _plan(targets: tuple[str, ...], given: dict[str, Any], log_format: str, log_level: str) -> Plan:
    faults = Faults()
    with faults.kept():
        options = SupervisorOptions.from_env(os.environ, **values_of(SUPERVISOR_OPTIONS, given))
    with faults.kept():
        worker = WorkerOptions.from_env(os.environ, **values_of(OPTIONS, given))
    with faults.kept():
        settings = Settings.from_env(os.environ, **values_of(PLACES, given))
    with faults.kept():
        directory = runtime_dir(os.environ)
    faults.refuse()
    return Plan(
        targets=targets,
        options=options,
        worker=worker,
        settings=settings,
        directory=directory,
        log_format=log_format,
        log_level=log_level.upper(),
    )


async def _supervise(plan: Plan, stream: PatientStream) -> int:
    """Run the parent, and answer probes and commands from before its first process until after its last."""
    async with _answering(plan, stream) as parent:
        return await parent.run()


@contextlib.asynccontextmanager
async def _answering(plan: Plan, stream: PatientStream) -> AsyncIterator[Parent]:
    with contextlib.ExitStack() as stack:
        port, url = HealthPort(), ""
        stack.callback(port.close)
        if plan.options.health_port:
            url = port.bind(plan.options.health_host, plan.options.health_port)
            log.info("probes answer on %s", url)
        service = ServiceSocket.from_env(os.environ, os.getpid())
        stack.callback(service.close)
        parent = Parent(_setup(plan, stream, url, service.longest_ms))
        await port.serve(Pages(parent, _PASS_LIMIT_MS))
        control = ControlSocket(parent)
        stack.callback(control.close)
        await control.open(socket_path(plan.directory, plan.options.name))
        title = _Title(parent, plan.options.name)

        def passed(now_ms: int) -> None:
            control.tell_progress()
            title.show()
            service.passed(now_ms)

        parent.audience.answer = control.answer
        parent.audience.notify = service.tell
        parent.audience.passed = passed
        yield parent


def _setup(plan: Plan, stream: PatientStream, health_url: str, longest_ms: int) -> ParentSetup:
    settings, options = plan.settings, plan.options
    store_url = settings.store_url_or()
    calling = Calling(
        name=options.name,
        worker_id=settings.worker_id or socket.gethostname(),
        workflows=plan.targets,
        store_url=store_url,
        runtime_dir=plan.directory,
        environ=os.environ,
        options=_values(plan.worker),
        log_format=plan.log_format,
        log_level=plan.log_level,
        warmup=options.warmup or "",
        after_fork=options.after_fork or "",
    )
    identity = Identity(
        name=options.name,
        pid=os.getpid(),
        version=version("pyrula"),
        health_url=health_url,
        store_url=without_secrets(store_url),
    )
    return ParentSetup(
        policy=Policy.of(options, plan.worker), calling=calling, identity=identity, stream=stream, longest_ms=longest_ms
    )


def _values(options: WorkerOptions) -> dict[str, Any]:
    """The options by key, as a child reads them."""
    owners = {each: options.poison if each.name.startswith("poison.") else options for each in OPTIONS}
    return {each.key: getattr(owner, each.field) for each, owner in owners.items()}


def without_secrets(url: str) -> str:
    """A store's URL without user, password and parameters; the clerk tells it better once it speaks."""
    try:
        parts = urlsplit(url)
    except ValueError:  # whoever opens it says what is wrong with it
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class _Title:
    """The name of the process, as `ps` shows it: how many workers are ready."""

    def __init__(self, parent: Parent, name: str) -> None:
        self._parent = parent
        self._name = name
        self._shown = ""

    def show(self) -> None:
        """Bring it up to date."""
        state = self._parent.state
        word = supervisor_state(state)
        ready = f"{state.ready_workers}/{state.procs} ready"
        title = f"pyrula-supervisor {self._name} {ready}{'' if word == 'running' else f', {word}'}"
        if title != self._shown:
            self._shown = title
            setproctitle(title)
