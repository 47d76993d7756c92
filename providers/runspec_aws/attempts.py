"""The attempts of a job and how each ended; preempted attempts are distinguished from failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws import reasons
from runspec_jobs.provider import Attempt
from runspec_jobs.provider.node_ends import NodeEnds

AGAIN = 75  # the exit code of a job that needs another attempt, whatever its program's code was
Job = Mapping[str, Any]


class AttemptKey(NamedTuple):
    """The number of an attempt, and its node."""

    task: int
    rank: int
    number: int


Codes = Callable[[AttemptKey], int | None]
"""A function that returns the exit code that the agent recorded for a failed attempt, or None if it recorded none."""


def ended(job: Job) -> Sequence[tuple[int, Job]]:
    """Return the attempts of *job* that have ended, with their numbers.

    An attempt has `stoppedAt` once it has ended, also if another one follows it. It is empty if it is one of an earlier
    job of the node that the service has forgotten.
    https://docs.aws.amazon.com/batch/latest/APIReference/API_AttemptDetail.html
    """
    over = job.get("status") in ("SUCCEEDED", "FAILED")
    attempts = enumerate(job.get("attempts", ()), 1)
    return [
        (number, attempt)
        for number, attempt in attempts
        if over or attempt.get("stoppedAt") or not attempt
    ]


def over(job: Job, task: int, rank: int, codes: Codes, ends: NodeEnds) -> tuple[Attempt, ...]:
    """Return the ended attempts of *job*, as the service and the job itself recorded them."""
    attempts = ended(job)
    return tuple(
        _attempt(AttemptKey(task, rank, number), attempt, job, codes, ends)
        for number, attempt in attempts
    )


def _attempt(which: AttemptKey, attempt: Job, job: Job, codes: Codes, ends: NodeEnds) -> Attempt:
    preempted = reasons.was_reclaimed(attempt, job)
    code = attempt.get("container", {}).get("exitCode")
    end = ends.of((which.task, which.rank, which.number))
    late = reasons.late(attempt, job, end, ends.record)
    if end is not None and not preempted and (end.code or not code):
        began_s, ended_s = _seconds(attempt.get("startedAt")), _seconds(attempt.get("stoppedAt"))
        reason = late or reasons.recorded(end, ends.record, attempt)
        return Attempt(which.number, end.code, reason, end.preempted, began_s, ended_s, end.setup_s)
    noted = codes(which) if code == AGAIN and not preempted else None
    reason = reasons.of_attempt(attempt, code if noted is None else noted, preempted=preempted)
    reason = late or reason
    began_s, ended_s = _seconds(attempt.get("startedAt")), _seconds(attempt.get("stoppedAt"))
    own_code = code if noted is None else noted
    setup_s = None if end is None else end.setup_s
    return Attempt(which.number, own_code, reason, preempted, began_s, ended_s, setup_s)


def began_s(job: Job) -> float | None:
    """Return when the attempt that runs began, in seconds since 1970, or None if it has not begun.

    https://docs.aws.amazon.com/batch/latest/APIReference/API_JobDetail.html
    """
    return _seconds(job.get("startedAt"))


def _seconds(milliseconds: int | None) -> float | None:
    return milliseconds / 1000 if milliseconds else None


def noted(key: str) -> tuple[AttemptKey, int] | None:
    """Return the attempt and exit code in the name of a failure record of `runspec_agent.job.agent`.

    >>> noted("2-0/1-139")
    (AttemptKey(task=2, rank=0, number=1), 139)
    """
    node, _, attempt = key.partition("/")
    numbers = [*node.split("-"), *attempt.split("-")]
    if len(numbers) != 4 or not all(word.isdigit() for word in numbers):
        return None
    task, rank, number, code = map(int, numbers)
    return AttemptKey(task, rank, number), code
