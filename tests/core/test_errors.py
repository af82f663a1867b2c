"""The tree of errors: who is to blame, and the sentences that people read."""

from __future__ import annotations

import inspect

import pytest

from pyrula_runtime.core import errors
from pyrula_runtime.core.errors import (
    AppImportError,
    ChildFailed,
    ConfigurationError,
    ContinuesAsNew,
    ErrorRecord,
    HookError,
    IdempotencyConflict,
    LockLost,
    PyrulaError,
    RunCancelled,
    RunEnded,
    RunFailed,
    RunNotFound,
    RunQuarantined,
    SignalTimeout,
    StepFailed,
    StepTimeout,
    StoreRefused,
    TurnSuspended,
)

# Each class and what it is a case of: whoever catches the right-hand one also gets the left-hand one.
TREE = """
    PyrulaError Exception
    UsageError PyrulaError
    InputError UsageError
    IdempotencyConflict UsageError
    RunNotFound UsageError
    IllegalTransition UsageError
    ConfigurationError PyrulaError
    AppImportError ConfigurationError
    HookError ConfigurationError
    StoreRefused ConfigurationError
    StoreUnavailable PyrulaError
    StoreCorrupt StoreUnavailable
    LockLost PyrulaError
    LimitExceeded PyrulaError
    JournalMismatch PyrulaError
    BodyStuck PyrulaError
    StepFailed PyrulaError
    StepTimeout StepFailed
    WaitTimeout TimeoutError
    SignalTimeout WaitTimeout
    ChildFailed PyrulaError
    RunTimeout PyrulaError
    RunEnded PyrulaError
    RunFailed RunEnded
    RunCancelled RunEnded
    RunQuarantined RunEnded
    TurnSuspended BaseException
"""
NOT_ENOUGH = ErrorRecord(type="ValueError", message="not enough", detail={"step": "pay"})


def test_the_tree() -> None:
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, BaseException)]
    found = [f"{cls.__name__} {cls.__base__.__name__}" for cls in classes if cls.__base__]
    assert {line.strip() for line in TREE.strip().splitlines()} <= set(found)
    assert [cls for cls in classes if not issubclass(cls, PyrulaError)] == [ContinuesAsNew, TurnSuspended]


def test_a_turns_end_is_no_failure_to_code_that_catches_failures() -> None:
    assert not issubclass(TurnSuspended, Exception)
    assert not issubclass(ContinuesAsNew, Exception)
    assert ContinuesAsNew(b"1").given == b"1"


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (NOT_ENOUGH, "ValueError: not enough"),
        (ErrorRecord(type="KeyboardInterrupt", message=""), "KeyboardInterrupt"),
    ],
)
def test_a_record_reads_as_one_line(record: ErrorRecord, line: str) -> None:
    assert str(record) == line


def test_records_do_not_share_their_details() -> None:
    one, other = (ErrorRecord(type="A", message="") for _ in range(2))
    one.detail["line"] = 7
    assert (other.detail, other.traceback) == ({}, "")


def test_an_idempotency_conflict_names_the_first_run() -> None:
    conflict = IdempotencyConflict("order-7", "01J")
    assert (conflict.key, conflict.run_id) == ("order-7", "01J")
    assert str(conflict) == (
        "idempotency key 'order-7' already belongs to run 01J, which was submitted with another workflow or input; use "
        "a new key, or submit the same input to get that run back"
    )


def test_a_missing_run_says_what_to_check() -> None:
    assert str(RunNotFound("01J")) == "no run '01J' in this store; check the id and the store URL"
    assert RunNotFound("01J").run_id == "01J"


def test_all_faults_of_a_configuration_are_told_and_kept() -> None:
    error = ConfigurationError(["one is wrong", "two is wrong"])
    assert (str(error), error.faults) == ("one is wrong; two is wrong", ("one is wrong", "two is wrong"))
    assert StoreRefused("a network file system").faults == ("a network file system",)


def test_an_app_that_cannot_be_imported_is_named_with_its_error() -> None:
    error = AppImportError("shop.app", ModuleNotFoundError("No module named 'stripe'"))
    assert error.module == "shop.app"
    assert error.faults == ("cannot import 'shop.app': ModuleNotFoundError: No module named 'stripe'",)


def test_a_lost_lock_names_the_run() -> None:
    assert str(LockLost("01J")) == "run 01J is no longer held by this worker"
    assert LockLost("01J").run_id == "01J"


def test_a_wait_that_took_too_long_is_a_timeout_to_everybody() -> None:
    late = SignalTimeout("no signal 'go' within 3 s", "go#1")
    assert isinstance(late, TimeoutError)
    assert (str(late), late.op_id) == ("no signal 'go' within 3 s", "go#1")


@pytest.mark.parametrize(
    ("status", "told"), [("failed", "failed"), ("cancelled", "was cancelled"), ("quarantined", "was quarantined")]
)
def test_a_failed_child_keeps_the_stored_error_and_says_how_it_ended(status: str, told: str) -> None:
    failed = ChildFailed("ship", "01J", status, NOT_ENOUGH, "ship#1")
    assert str(failed) == f"child 'ship' (run 01J) {told}: ValueError: not enough"
    assert (failed.workflow, failed.run_id, failed.status, failed.op_id) == ("ship", "01J", status, "ship#1")
    assert failed.error is NOT_ENOUGH
    assert failed.matches(KeyError, ValueError)
    assert not failed.matches(KeyError)


def test_a_failed_step_keeps_the_stored_error() -> None:
    failed = StepFailed("pay", NOT_ENOUGH, "pay#1")
    assert (failed.step, failed.error, failed.op_id) == ("pay", NOT_ENOUGH, "pay#1")
    assert str(failed) == "step 'pay' failed: ValueError: not enough"
    assert StepFailed("pay", NOT_ENOUGH).op_id == ""


def test_a_failed_step_is_compared_by_the_bare_name_of_a_class() -> None:
    failed = StepTimeout("pay", NOT_ENOUGH)
    assert failed.matches(ValueError)
    assert failed.matches(KeyError, ValueError)
    assert failed.matches(type("ValueError", (Exception,), {}))
    assert not failed.matches(KeyError)
    assert not failed.matches(Exception)
    assert not failed.matches()


@pytest.mark.parametrize(
    ("kind", "verb"),
    [
        (RunEnded, "ended"),
        (RunFailed, "failed"),
        (RunCancelled, "was cancelled"),
        (RunQuarantined, "was quarantined"),
    ],
)
def test_the_end_of_a_run_is_told_with_its_error(kind: type[RunEnded], verb: str) -> None:
    ended = kind("01J", NOT_ENOUGH)
    assert (ended.run_id, ended.error) == ("01J", NOT_ENOUGH)
    assert str(ended) == f"run 01J {verb}: ValueError: not enough"
    assert str(kind("01J", None)) == f"run 01J {verb}"
    assert isinstance(ended, PyrulaError)


def test_a_hook_that_raised_is_named_by_its_option() -> None:
    error = HookError("--warmup", "app:warm", ValueError("cold"))
    assert error.faults == ("--warmup 'app:warm' raised ValueError: cold",)


def test_what_a_run_goes_on_with_is_no_failure() -> None:
    goes_on = ContinuesAsNew(b'{"round": 2}')
    assert goes_on.given == b'{"round": 2}'
    assert not isinstance(goes_on, Exception)
