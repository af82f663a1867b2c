"""The handle on a store in memory: its verbs for runs and their turns.

Several handles on one `World` are what several processes are to a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyrula_runtime.core.errors import UsageError
from pyrula_runtime.core.locks import Token, outage_grace
from pyrula_runtime.core.status import RunStatus
from pyrula_runtime.stores import protocol as p
from pyrula_runtime.stores.memory.handle import page_of, verb
from pyrula_runtime.stores.memory.waits import WaitingStore
from pyrula_runtime.stores.memory.world import MemoryListener, Run


class MemoryStore(WaitingStore):
    """A handle on a `World`."""

    @property
    def url(self) -> str:
        return "memory://"

    @property
    def identity(self) -> str:
        return f"memory:{id(self.world)}"

    @verb
    def submit(self, run: p.NewRun) -> p.Submitted:
        return self._submit(run)

    @verb
    def claim(self, request: p.ClaimRequest) -> tuple[p.Claim, ...]:
        return self._claim(request)

    def _claim(self, request: p.ClaimRequest) -> tuple[p.Claim, ...]:
        lines = {(serves.workflow, version) for serves in request.serves for version in (None, serves.version)}
        fit = [
            run
            for run in self.world.runs.values()
            if run.ready and run.dossier.is_suspect is request.suspects and (run.new.workflow, run.new.version) in lines
        ]
        fit.sort(key=lambda run: -run.new.priority)  # of one priority in order of submission
        if fit:
            self.world.sign_of_life()
        return tuple(self._take(run, request) for run in fit[: request.limit])

    def _take(self, run: Run, request: p.ClaimRequest) -> p.Claim:
        self.world.nonces += 1
        run.ready, run.status, run.owner = False, request.to_status, request.incarnation
        run.rev, run.fence, run.nonce = run.rev + 1, run.fence + 1, f"nonce-{self.world.nonces}"
        run.lock_until_ms, run.claim_len = self._mono_ms + request.lock_ttl_ms, len(run.journal)
        run.started_ms = self._wall_ms if run.started_ms is None else run.started_ms
        return p.Claim(
            token=run.token(),
            workflow=run.new.workflow,
            version=run.new.version,
            input=run.input,
            journal=tuple(run.journal[: page_of(run.journal, 1_000_000)]),
            journal_len=len(run.journal),
            journal_bytes=sum(map(len, run.journal)),
            created_ms=run.created_ms,
            started_ms=run.started_ms,
            now_ms=self._wall_ms,
            cancel_requested=run.cancel_requested,
            dossier=run.dossier,
            inbox=self._inbox(run),
            inbox_len=len(run.inbox),
            parent=run.new.parent,
            generation=run.generation,
        )

    @verb
    def renew(self, tokens: Sequence[Token], lock_ttl_ms: int) -> p.Renewed:
        self.world.sign_of_life()
        lost, cancelled, inbox = set(), set(), {}
        for token in tokens:
            run = self._held(token)
            if run is None:
                lost.add(token.run_id)
                continue
            run.lock_until_ms = self._mono_ms + lock_ttl_ms
            if run.cancel_requested:
                cancelled.add(token.run_id)
            if run.inbox:
                inbox[token.run_id] = len(run.inbox)
        return p.Renewed(lost=frozenset(lost), cancelled=frozenset(cancelled), inbox=inbox)

    def _held(self, token: Token) -> Run | None:
        run = self.world.runs.get(token.run_id)
        return run if run is not None and run.held and run.has_token(token) else None

    @verb
    def commit(self, commit: p.Commit) -> p.Committed:
        if commit.facts and not commit.entries and commit.ending is None:
            raise UsageError(f"a commit of run {commit.token.run_id} tells facts without entries or an ending")
        self.world.sign_of_life()
        run = self.world.runs.get(commit.token.run_id)
        if run is None:
            return p.Committed(append=p.Append.fenced, length=0)
        append = self._judge(run, commit)
        claims: tuple[p.Claim, ...] = ()
        if append is p.Append.done:
            run.journal += commit.entries
            run.dossier = run.dossier if commit.dossier is None else commit.dossier
        if append in (p.Append.done, p.Append.duplicate) and run.held:
            run.lock_until_ms = self._mono_ms + commit.lock_ttl_ms
        told = p.Committed(append=append, length=0, cancel_requested=run.cancel_requested, inbox_len=len(run.inbox))
        if append is p.Append.done:
            run.consumed.update(seq for seq in commit.consumed if seq <= len(run.inbox))
            if commit.ending is not None:
                self._end(run, commit.ending)
            length = len(run.journal)
            self._accompany(run, commit)
            if commit.claim is not None:
                claims = self._claim(commit.claim)
            return replace(told, length=length, claims=claims)
        return replace(told, length=len(run.journal))

    def _accompany(self, run: Run, commit: p.Commit) -> None:
        for body in commit.facts:
            run.facts.append(p.Fact(seq=len(run.facts) + 1, at_ms=self._wall_ms, body=body))
        run.shown = run.shown if commit.shown is None else commit.shown
        self._perform(commit.effects)

    def _judge(self, run: Run, commit: p.Commit) -> p.Append:
        at, ending = commit.expected_len, commit.ending
        if not run.has_token(commit.token):
            return p.Append.fenced
        if run.held and len(run.journal) == at:
            return p.Append.done
        if run.held and len(run.journal) < at:
            return p.Append.gap
        there = at >= run.claim_len and run.journal[at : at + len(commit.entries)] == list(commit.entries)
        if run.held:
            return p.Append.duplicate if there and ending is None else p.Append.fenced
        if ending is not None and ending.again is not None:
            anew = (run.status, run.input) == (ending.status, ending.again)
            return p.Append.duplicate if anew else p.Append.fenced
        ended_so = (
            ending is not None
            and len(run.journal) == at + len(commit.entries)
            and run.status in {ending.status, ending.status if ending.wait is None else ending.wait.wake_status}
            and (ending.result, ending.error) in ((run.result, run.error), (None, None))
        )
        return p.Append.duplicate if there and ended_so else p.Append.fenced

    def _end(self, run: Run, ending: p.Ending) -> None:
        run.let_go()
        self._set_status(run, ending.status)
        if ending.result is not None or ending.error is not None:
            run.result, run.error = ending.result, ending.error
        if ending.again is not None:
            run.journal.clear()
            run.input, run.started_ms, run.claim_len = ending.again, None, 0
            run.generation += 1
            self._go_on(run, ending.status)
        elif ending.wait is not None:
            self._suspend(run, ending.wait)

    def _suspend(self, run: Run, wait: p.Wait) -> None:
        is_due = wait.due_ms is not None and wait.due_ms <= self._wall_ms
        has_mail = wait.inbox_seen is not None and len(run.inbox) > wait.inbox_seen
        if is_due or has_mail or (run.cancel_requested and not wait.cancel_seen):
            self._go_on(run, wait.wake_status)
        else:
            self._wait(run, wait.due_ms, None if wait.inbox_seen is None else wait.awaits)

    def _set_status(self, run: Run, status: RunStatus) -> None:
        run.status = status
        run.rev += 1
        if status.is_terminal:
            run.finished_ms = self._wall_ms
            self.world.wake(p.Wake.ended)

    @verb
    def release(self, release: p.Release) -> bool:
        self.world.sign_of_life()
        run = self._held(release.token)
        if run is None:
            return False
        run.let_go()
        run.nonce, run.ready = None, release.ready
        run.dossier = run.dossier if release.dossier is None else release.dossier
        run.error = run.error if release.error is None else release.error
        self._set_status(run, release.status)
        if release.ready:
            self.world.wake(p.Wake.ready)
        self._perform(release.effects)
        return True

    @verb
    def amend(self, amendment: p.Amendment) -> bool:
        self.world.sign_of_life()
        run, wanted = self.world.runs.get(amendment.run_id), amendment
        if run is None or run.rev != wanted.rev or (wanted.append and len(run.journal) != wanted.expected_len):
            return False
        if run.held and wanted.ready and wanted.status is None:
            raise UsageError(f"run {wanted.run_id} is held by a worker; to make it claimable, give its new status too")
        if run.held:
            self.world.wake(p.Wake.attention)
        if run.held and wanted.status is not None:
            run.let_go()
            run.nonce = None
        if wanted.clear_outcome:
            run.result = run.error = run.finished_ms = None
        run.journal += wanted.append
        run.ready = run.ready if wanted.ready is None else wanted.ready
        if wanted.status is not None or wanted.ready:
            run.due_ms, run.hears = None, None
        if wanted.status is not None:
            self._wait(run, wanted.due_ms)
        run.cancel_requested = run.cancel_requested if wanted.cancel_requested is None else wanted.cancel_requested
        run.dossier = run.dossier if wanted.dossier is None else wanted.dossier
        if wanted.status is None:
            run.rev += 1
        else:
            self._set_status(run, wanted.status)
        if wanted.ready:
            self.world.wake(p.Wake.ready)
        self._perform(wanted.effects)
        return True

    @verb
    def reclaim_lapsed(self, to_status: RunStatus, lock_ttl_ms: int, limit: int) -> p.Lapsed:
        world, now = self.world, self._mono_ms
        world.sign_of_life()
        silence_ms, world.silence_ms = world.silence_ms, 0
        held = [run for run in world.runs.values() if run.lock_until_ms is not None]
        if outage_grace(silence_ms, 0, lock_ttl_ms):
            for run in held:
                run.lock_until_ms = max(run.lock_until_ms or 0, now + lock_ttl_ms)
            return p.Lapsed(run_ids=(), grace=True)
        lapsed = sorted((run for run in held if (run.lock_until_ms or 0) < now), key=lambda run: run.lock_until_ms or 0)
        for run in lapsed[:limit]:
            run.let_go()
            run.nonce, run.ready = None, True
            self._set_status(run, to_status)
            world.wake(p.Wake.ready, p.Wake.attention)
        return p.Lapsed(run_ids=tuple(run.new.run_id for run in lapsed[:limit]))

    @verb
    def holdings(self, incarnation: str) -> tuple[p.Holding, ...]:
        return tuple(
            p.Holding(token=run.token(), workflow=run.new.workflow, dossier=run.dossier)
            for run in self.world.runs.values()
            if run.owner == incarnation
        )

    @verb
    def read(self, run_id: str) -> p.RunRecord | None:
        run = self.world.runs.get(run_id)
        return None if run is None else self.record(run)

    def record(self, run: Run) -> p.RunRecord:
        """The run as it stands."""
        return p.RunRecord(
            run_id=run.new.run_id,
            workflow=run.new.workflow,
            version=run.new.version,
            status=run.status,
            rev=run.rev,
            fence=run.fence,
            input=run.input,
            result=run.result,
            error=run.error,
            digest=run.new.digest,
            journal_len=len(run.journal),
            journal_bytes=sum(map(len, run.journal)),
            inbox_len=len(run.inbox),
            cancel_requested=run.cancel_requested,
            dossier=run.dossier,
            created_ms=run.created_ms,
            started_ms=run.started_ms,
            finished_ms=run.finished_ms,
            owner=run.owner,
            lock_left_ms=None if run.lock_until_ms is None else run.lock_until_ms - self._mono_ms,
            priority=run.new.priority,
            start_at_ms=run.new.start_at_ms,
            due_ms=run.due_ms,
            awaits=run.hears,
            parent=run.new.parent,
            schedule_id=run.new.schedule_id,
            generation=run.generation,
            shown=run.shown,
        )

    @verb
    def read_journal(self, run_id: str, start: int, max_bytes: int = 1_000_000) -> tuple[bytes, ...]:
        run = self.world.runs.get(run_id)
        left = [] if run is None else run.journal[start:]
        return tuple(left[: page_of(left, max_bytes)])

    @verb
    def find(self, query: p.RunQuery) -> tuple[p.RunRecord, ...]:
        found = (
            run
            for run_id, run in sorted(self.world.runs.items(), reverse=True)
            if (query.workflow is None or run.new.workflow == query.workflow)
            and (query.statuses is None or run.status in query.statuses)
            and (query.before is None or run_id < query.before)
            and (query.parent is None or (run.new.parent is not None and run.new.parent.run_id == query.parent))
            and (query.schedule_id is None or run.new.schedule_id == query.schedule_id)
        )
        return tuple(self.record(run) for run in list(found)[: query.limit])

    @verb
    def counts(self, statuses: frozenset[RunStatus] = p.EVERY_STATUS) -> Mapping[tuple[str, RunStatus], int]:
        return self._counts(statuses)

    def _counts(self, statuses: frozenset[RunStatus]) -> Mapping[tuple[str, RunStatus], int]:
        return Counter((run.new.workflow, run.status) for run in self.world.runs.values() if run.status in statuses)

    @verb
    def census(self, statuses: frozenset[RunStatus]) -> p.Census:
        runs = (run for run in self.world.runs.values() if not run.status.is_terminal)
        pins = Counter((run.new.workflow, run.new.version) for run in runs if run.new.version is not None)
        return p.Census(counts=self._counts(statuses), suspects=self._suspects(), pins=pins)

    @verb
    def suspects(self) -> int:
        return self._suspects()

    def _suspects(self) -> int:
        return sum(run.ready and run.dossier.is_suspect for run in self.world.runs.values())

    @verb
    def beat(self, worker: p.WorkerRecord, forget_after_ms: int) -> None:
        self.world.sign_of_life()
        oldest_ms = self._mono_ms - forget_after_ms
        known = {name: entry for name, entry in self.world.workers.items() if entry[1] >= oldest_ms}
        self.world.workers = {**known, worker.incarnation: (worker, self._mono_ms)}

    @verb
    def retire(self, incarnation: str) -> None:
        self.world.sign_of_life()
        self.world.workers.pop(incarnation, None)

    @verb
    def workers(self) -> tuple[p.WorkerRecord, ...]:
        known = sorted(self.world.workers.items())
        return tuple(replace(worker, age_ms=self._mono_ms - beat_ms) for _, (worker, beat_ms) in known)

    @verb
    def purge(self, limit: int) -> int:
        self.world.sign_of_life()
        over = [key for key, (_, _, expires_ms) in self.world.keys.items() if expires_ms <= self._wall_ms][:limit]
        for key in over:
            del self.world.keys[key]
        return len(over) + self._purge_events(limit)

    @verb
    def drop_finished(self, statuses: frozenset[RunStatus], older_than_ms: int, limit: int) -> int:
        last_ms = self._wall_ms - older_than_ms
        ended = [
            (run.finished_ms, run_id)
            for run_id, run in self.world.runs.items()
            if run.status in statuses and run.finished_ms is not None and run.finished_ms <= last_ms
        ]
        over = [run_id for _, run_id in sorted(ended) if not self._has_living_parent(run_id)][:limit]
        for run_id in over:
            del self.world.runs[run_id]
        return len(over)

    def _has_living_parent(self, run_id: str) -> bool:
        link = self.world.runs[run_id].new.parent
        parent = None if link is None else self.world.runs.get(link.run_id)
        return parent is not None and parent.finished_ms is None

    async def ping(self) -> None:
        self.check_open()

    def tell_tenure(self, tell: Callable[[int], None]) -> None:
        self.check_open()

    def listen(self, on_wake: Callable[[p.Wake], None], kinds: frozenset[p.Wake] = p.EVERY_WAKE) -> MemoryListener:
        self.check_open()
        listener = MemoryListener(self.world, on_wake, kinds)
        with self.world.mutex:
            self.world.listeners.append(listener)
        return listener

    def audit(self) -> list[str]:
        """Where the store contradicts itself: the same laws that `store check` holds a file to."""
        return [
            f"run {run_id} is {run.status}, ready {run.ready}, held {run.held}"
            for run_id, run in self.world.runs.items()
            if (run.ready and run.held)
            or (run.status.is_terminal and (run.ready or run.held))
            or ((run.hears is not None or run.due_ms is not None) and (run.ready or run.held))
        ]
