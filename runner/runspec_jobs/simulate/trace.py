"""A trace: what machines cost, how many there are, and when they are taken away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from pydantic import Field, model_validator

from runspec_jobs.diagnostics.problem import Problem, did_you_mean
from runspec_jobs.simulate.types import Count, Moment, Number
from runspec_jobs.spec.base import Model
from runspec_jobs.spec.types import Key, Positive, Word, problem


class Pool(Model):
    """Machines of one kind, as they are at the beginning."""

    price: Number = Field(description="What a node costs for an hour.")
    nodes: Count = Field(description="How many there are for this job.")
    boot: Moment = Field(
        default=0, description="From being given a node until it can join; paid for."
    )
    notice: Moment = Field(
        default=0, description="How long before a node goes it is told; 0 is not at all."
    )
    losses_per_hour: Number = Field(
        default=0, description="How often a node is taken away, on average; drawn with the seed."
    )
    wait: Moment = Field(
        default=0,
        description="How long until there is another for one that was taken, on average; drawn with the seed.",
    )


class Event(Model):
    """What changes in a pool at *time*, in seconds from the start."""

    time: Moment
    pool: Key
    price: Number | None = None
    nodes: Count | None = None
    lost: Positive | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.price is None and self.nodes is None and self.lost is None:
            raise problem("nothing changes here", "give price, nodes or lost")
        return self


class Trace(Model):
    """The file."""

    about: Word | None = Field(default=None, description="Where it is from.")
    pools: Mapping[Key, Pool] = Field(min_length=1)
    events: tuple[Event, ...] = ()


def broken(trace: Trace) -> Iterator[Problem]:
    """Give what does not fit together in *trace*."""
    before = 0.0
    for i, event in enumerate(trace.events):
        if event.pool not in trace.pools:
            hint = did_you_mean(event.pool, trace.pools)
            yield Problem(("events", i, "pool"), f"there is no pool '{event.pool}'", hint)
        if event.time < before:
            what = "this is earlier than the line before"
            yield Problem(("events", i, "time"), what, "sort them by time")
        before = max(before, event.time)
