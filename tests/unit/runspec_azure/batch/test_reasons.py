"""What stands in the way of a task is told in words, whatever the service's word for it."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_azure.batch import reasons
from runspec_emulators.azure_batch.account.pools import NODE_STATES

TASK: dict[str, Any] = {"id": "task-00000", "state": "active"}
WORKS = {"idle", "running"}  # and what no pool of this kind comes to
NEVER = {"deallocated", "deallocating", "upgradingos"}


def waiting(**pool: Any) -> str:
    return reasons.waiting({"id": "p", "allocationState": "steady", "nodes": [], **pool}, [TASK])


@pytest.mark.parametrize("code", reasons.ERRORS)
def test_a_resize_that_failed_is_told_in_words_and_by_its_code(code: str) -> None:
    found = waiting(resizeErrors=[{"code": code, "message": "The specified ..."}])

    assert found == f"{reasons.ERRORS[code]} ({code})"


def test_every_resize_error_is_shown_unknown_codes_by_their_message() -> None:
    errors = [{"code": "New", "message": "Its words.\nRequestId: 1"}, {"code": "ResizeStopped"}]

    assert waiting(resizeErrors=errors).startswith(
        "New: Its words.; the resizing of the pool was stopped"
    )


@pytest.mark.parametrize("state", sorted(NODE_STATES.keys() - WORKS - NEVER))
def test_a_machine_in_any_state_in_which_it_takes_no_task_is_told_in_words(state: str) -> None:
    found = waiting(nodes=[{"id": "n1", "state": state}])

    assert reasons.NODES[state] in found


def test_a_start_task_that_failed_is_told_with_its_code() -> None:
    node = {"id": "n", "state": "starttaskfailed", "startTaskInfo": {"exitCode": 7}}

    assert waiting(nodes=[node]) == (
        "no machine of p can be used: the first one failed its start task (exited with code 7)"
    )


def test_an_unusable_machine_is_reported_with_its_own_error() -> None:
    error = {"code": "DiskFull", "message": "No space."}

    found = waiting(nodes=[{"id": "n", "state": "unusable", "errors": [error]}])

    assert found == "no machine of p can be used: the first one is unusable (DiskFull: No space.)"


@pytest.mark.parametrize("code", reasons.FAILURES)
def test_a_failure_of_the_service_is_told_in_words_with_its_first_detail(code: str) -> None:
    failure = {"code": code, "message": "The ...", "details": [{"name": "a", "value": "why"}]}

    found = reasons.ended({"failureInfo": failure}, None)

    assert found == f"{reasons.FAILURES[code]} ({code}): why"


def test_a_code_of_the_program_is_told_as_such() -> None:
    failure = {"code": "FailureExitCode", "message": "The task exited ..."}

    assert reasons.ended({"failureInfo": failure}, 139) == "exited with code 139 (SIGSEGV)"


NO_CORES = [{"code": "AccountCoreQuotaReached", "message": "The specified account ..."}]


@pytest.mark.parametrize(
    ("created", "told"),
    [
        ("2026-11-20T10:30:00Z", False),
        ("2026-11-20T10:29:59.1234567Z", True),
        (None, True),
    ],
)
def test_a_resize_that_failed_long_before_the_task_is_not_why_it_waits(
    created: str | None, told: bool
) -> None:
    """The pool keeps the errors of its last resize until the next one; the one for a task may be before the task."""
    task = {**TASK, "creationTime": created} if created else TASK
    pool = {
        "id": "p",
        "allocationState": "steady",
        "allocationStateTransitionTime": "2026-11-20T09:29:59.9Z",
        "resizeErrors": NO_CORES,
    }

    found = reasons.waiting(pool, [task, {**task, "state": "completed", "creationTime": "2020"}])

    why = f"{reasons.ERRORS['AccountCoreQuotaReached']} (AccountCoreQuotaReached)"
    assert found == (f"at 2026-11-20 09:29 UTC: {why}" if told else "waits for machines")
