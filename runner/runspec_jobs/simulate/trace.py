"""The trace: the prices and numbers of machines, and when they are reclaimed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from pydantic import Field, model_validator

from runspec_jobs.diagnostics.problem import Problem, did_you_mean
from runspec_jobs.simulate.types import Count, Moment, Number
from runspec_jobs.spec.types import Key, Model, Positive, Word, make_error


class Pool(Model):
    """Machines of one kind, as they are at the start of the trace."""

    price: Number = Field(description="Price of a node per hour.")
    nodes: Count = Field(description="Number of nodes that this job can get.")
    boot: Moment = Field(
        default=0,
        description="Time from the allocation of a node until it can join. It is paid for.",
    )
    notice: Moment = Field(
        default=0, description="Time between the notice and the loss of a node; 0 means no notice."
    )
    losses_per_hour: Number = Field(
        default=0,
        description="Average number of losses of a node per hour; the times are drawn with the seed.",
    )
    wait: Moment = Field(
        default=0,
        description="Average time until a lost node can be replaced; the times are drawn with the seed.",
    )


class Event(Model):
    """A change of a pool at *time*, in seconds from the start."""

    time: Moment
    pool: Key
    price: Number | None = None
    nodes: Count | None = None
    lost: Positive | None = None

    @model_validator(mode="after")
    def _require_change(self) -> Self:
        if self.price is None and self.nodes is None and self.lost is None:
            raise make_error("this event changes nothing", "add price, nodes or lost")
        return self


class Trace(Model):
    """The content of the file."""

    about: Word | None = Field(default=None, description="The source of the trace.")
    pools: Mapping[Key, Pool] = Field(min_length=1)
    events: tuple[Event, ...] = ()


def find_broken(trace: Trace) -> Iterator[Problem]:
    """Yield the contradictions in *trace*."""
    before = 0.0
    for i, event in enumerate(trace.events):
        if event.pool not in trace.pools:
            hint = did_you_mean(event.pool, trace.pools)
            yield Problem(("events", i, "pool"), f"there is no pool '{event.pool}'", hint)
        if event.time < before:
            message = "this time is earlier than the one before"
            yield Problem(("events", i, "time"), message, "sort them by time")
        before = max(before, event.time)
