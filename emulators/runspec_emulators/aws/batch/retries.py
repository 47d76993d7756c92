"""Decide whether a failed attempt is followed by another one: retryStrategy and evaluateOnExit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_emulators.aws.batch.jobs import Attempt

CONDITIONS = {"onExitCode": "exit_code", "onReason": "reason", "onStatusReason": "status_reason"}


def matches(pattern: str, said: str) -> bool:
    """Return whether a condition is met.

    "It can optionally end with an asterisk (*) so that only the start of the string needs to be
    an exact match." SubmitJob, EvaluateOnExit. Case is not said to be ignored, so it counts.

    >>> matches("Host EC2*", "Host EC2 (instance i-1) terminated."), matches("1", "137")
    (True, False)
    """
    if pattern.endswith("*"):
        return said.startswith(pattern[:-1])
    return said == pattern


def met(rule: Mapping[str, Any], attempt: Attempt) -> bool:
    """Return whether *all* the conditions of a rule are met.

    "Specifies the action to take if all of the specified conditions (onStatusReason, onReason,
    and onExitCode) are met." A value that is not there is met by `*` alone.
    """
    for condition, name in CONDITIONS.items():
        value = getattr(attempt, name)
        if condition in rule and not matches(rule[condition], "" if value is None else str(value)):
            return False
    return True


def again(strategy: Mapping[str, Any], attempt: Attempt) -> bool:
    """Return whether there is to be another attempt after a failed one.

    The first rule that is met decides; "if none of the listed conditions match, then the job is
    retried". The action's case does not matter. SubmitJob, RetryStrategy.
    """
    if attempt.number >= strategy.get("attempts", 1):
        return False
    for rule in strategy.get("evaluateOnExit", ()):
        if met(rule, attempt):
            return bool(rule["action"].upper() == "RETRY")
    return True
