"""What a job needs of other jobs: that they have ended, and how, and the outputs that it mounts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.spec.types import NAME, Name, compiled, make_error

RUN_OUTPUT = (
    r"^run://(?P<run>[a-z][a-z0-9-]{0,46})/(?P<output>[a-z][a-z0-9_-]{0,39})"
    r"(\?(?P<best>best)|\?task=(?P<same>same)|\?task=(?P<task>0|[1-9][0-9]{0,6}))?$"
)
WRITE_SOURCE = "write run://JOB/OUTPUT, with ?best, ?task=3 or ?task=same for one task of a sweep"


class Condition(StrEnum):
    """How a job must have ended before another one starts."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ENDED = "ended"


class RunOutput(NamedTuple):
    """An output that is mounted: `run://JOB/OUTPUT`. *job* is a job of the same chain, or the name or id of a run.

    *task* is the task of a sweep whose files are mounted, and None for all tasks, each in a folder `task-N`. With
    *best*, it is the task with the best value of the sweep's metric; with *same*, each task mounts the files of the
    task of its own number.
    """

    job: str
    output: str
    task: int | None = None
    best: bool = False
    same: bool = False


def run_output(source: str) -> RunOutput | None:
    """Return what *source* names, or None if it is not of the form `run://JOB/OUTPUT`.

    >>> run_output("run://search/model?task=3")
    RunOutput(job='search', output='model', task=3, best=False, same=False)
    """
    match = compiled(RUN_OUTPUT).match(source)
    if match is None:
        return None
    task = match["task"]
    number = None if task is None else int(task)
    return RunOutput(
        match["run"], match["output"], number, bool(match["best"]), bool(match["same"])
    )


def _conditions(value: Any) -> Any:
    """Return `needs` as a mapping of jobs to conditions; a list means that all must have succeeded."""
    if isinstance(value, str):
        raise make_error("a list is expected here", f"write needs: [{value}]")
    if isinstance(value, list | tuple):
        names = [str(name) for name in value]
        for name in names:
            if names.count(name) > 1:
                raise make_error(f"'{name}' is listed twice")
        return dict.fromkeys(names, "succeeded")
    return value


def _condition(value: Any) -> Any:
    conditions = [str(condition) for condition in Condition]
    if isinstance(value, str) and value not in conditions:
        raise make_error(
            f"'{value}' is not succeeded, failed or ended", did_you_mean(value, conditions)
        )
    return value


Needs = Annotated[
    Mapping[Name, Annotated[Condition, BeforeValidator(_condition)]],
    BeforeValidator(_conditions),
    WithJsonSchema(
        {
            "oneOf": [
                {
                    "type": "array",
                    "items": {"type": "string", "pattern": NAME},
                    "uniqueItems": True,
                },
                {
                    "type": "object",
                    "propertyNames": {"pattern": NAME},
                    "additionalProperties": {"enum": [str(one) for one in Condition]},
                },
            ]
        }
    ),
]
