"""What a request says of the runs that its job waits for: the ids that their service gave them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_jobs.errors import Conflict
from runspec_jobs.plan.model import ANSWER, find_marked
from runspec_jobs.state import run_record
from runspec_jobs.state.journal import RunState


def without_ended(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return *params* without the items of lists that are about runs which have ended.

    The service may have forgotten those. Whoever starts a job checks that its parents have ended as it needs.
    """
    if not any(find_marked(params, ANSWER)):
        return params
    return {
        name: [item for item in value if not _is_of_ended(item)]
        if isinstance(value, list)
        else value
        for name, value in params.items()
    }


def _is_of_ended(item: Any) -> bool:
    return any(_memory(mark).status is not None for mark in find_marked(item, ANSWER))


def answer(mark: str) -> Any:
    """Return the value of a mark `RUN/STEP.FIELD`. Raises Conflict if that run has no such answer."""
    step, _, field = mark.partition("/")[2].partition(".")
    try:
        return _memory(mark).answers[step][field]
    except LookupError:
        run = mark.partition("/")[0]
        raise Conflict(
            f"{run}, which must end first, was not submitted", f"runspec destroy {run}"
        ) from None


def _memory(mark: str) -> RunState:
    run = mark.partition("/")[0]
    return run_record.Record(run_record.find_runs_folder() / run).read_memory()
