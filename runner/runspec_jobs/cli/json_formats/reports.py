"""The formats of `report` and `simulate`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from runspec_jobs.api.lifecycle import State
from runspec_jobs.cli.json_formats.base import (
    Code,
    Document,
    Part,
    Reason,
    Run,
    RunState,
    Time,
)
from runspec_jobs.cli.json_formats.runs import Cost, WithChanges
from runspec_jobs.cli.json_formats.usage import Usage


class Metric(Part):
    """The number by which tasks are compared."""

    name: str
    goal: Literal["min", "max"]
    measured: str = Field(description="Where the number is, for people.")


class Task(Part):
    """One task in the ranking, the best first."""

    place: int | None = Field(
        description="Counts from 1; null if the task has no value, failed or was cancelled."
    )
    task: int
    values: dict[str, str] = Field(description="The values of its parameters.")
    state: RunState
    value: float | None
    why: str = Field(description="Why it has no value or no place, for people.")
    among: int = Field(description="How many numbers were found.")


class Ranking(Document, WithChanges):
    """The tasks of a sweep by their metric."""

    format: Literal["runspec.ranking/v1"]
    run: Run
    state: State
    metric: Metric
    stopped: list[int] = Field(description="The tasks that were stopped early.")
    cost: Cost | None = Field(description="null if the run has no price, or no attempt is known.")
    usage: Usage | None = Field(description="null if the run has not started or was deleted.")
    tasks: list[Task]


class Changes(Document, WithChanges):
    """The membership changes of an elastic job without a metric."""

    format: Literal["runspec.changes/v1"]
    run: Run
    state: State
    cost: Cost | None = Field(description="null if the run has no price, or no attempt is known.")
    usage: Usage | None = Field(description="null if the run has not started or was deleted.")


class CostGroup(Part):
    """What the runs of one spec, or on one provider, have cost."""

    group: str = Field(description="The name of the spec or the provider.")
    runs: int
    cost: Cost


class Spending(Document):
    """What the runs on record have cost."""

    format: Literal["runspec.cost/v1"]
    by: Literal["name", "provider"]
    since: Time | None = Field(
        description="From when on costs are counted; null is from the first."
    )
    groups: list[CostGroup]
    total: Cost
    stale: list[str] = Field(description="Runs that may have cost more since they were last seen.")
    unpriced: list[str] = Field(description="Runs whose record has no price.")
    unreadable: list[str] = Field(description="Runs whose record is damaged.")


class Report(Document):
    """The report of a run without a metric, whose nodes do not change."""

    format: Literal["runspec.report/v1"]
    run: Run
    state: State
    reason: Reason
    exit_code: Code
    cost: Cost | None = Field(description="null if the run has no price, or no attempt is known.")
    usage: Usage | None = Field(description="null if the run has not started or was deleted.")


class Baseline(Part):
    """What the sizes were measured on; null means that it was not given."""

    size: float | None = Field(description="The size to which the others are compared.")
    gpus_per_node: int | None
    processes_per_node: int | None
    batch: int | None
    data: str | None
    software: str | None
    provider: str | None
    metric: str | None


class Asked(Part):
    """The options of the report."""

    base: float | None
    price_per_node_hour: float | None
    samples: float | None


class Fit(Part):
    """Amdahl's law, fitted to the points."""

    base: float = Field(description="The size to which the others are compared.")
    rate: float = Field(description="Samples per second at the size `base`.")
    lost: float = Field(
        description="The share of the work that is not parallel; above 1 where more units are slower, and below 0 "
        "where they are faster than linear."
    )
    parallel: float | None = Field(
        description="The share of the work that is parallel; null where `lost` is above 1 or below 0."
    )
    worst: float = Field(description="The largest relative distance of a point from the law.")
    points: int


class Point(Part):
    """One size; null means unknown."""

    size: float
    throughput: float | None = Field(description="In samples per second.")
    speedup: float | None
    efficiency: float | None
    expected: float | None = Field(description="The throughput by the law.")
    cost_per_million: float | None
    hours: float | None
    cost: float | None
    why: str = Field(description="Why it was not measured, for people.")
    note: str


class Series(Part):
    """One job at several sizes."""

    name: str
    unit: str = Field(description="What a size counts, such as nodes.")
    per_node: float = Field(description="How many of the unit a node has.")
    source: str
    baseline: Baseline
    asked: Asked
    fit: Fit | None
    points: list[Point]


class Scaling(Document):
    """Sizes of a job compared. `report --points` and `simulate --scaling` read it."""

    format: Literal["runspec.scaling/v1"]
    title: str
    notes: list[str]
    series: list[Series]


class Spread(Part):
    """The distribution of a value over many runs."""

    mean: float
    low: float = Field(description="The 10th percentile.")
    high: float = Field(description="The 90th percentile.")


class Count(Part):
    """The smallest and the largest number of nodes."""

    min: int
    max: int


class Case(Part):
    """One way to run the job. `time_s` is over the runs that finished, all other values over all."""

    kind: Literal["elastic", "fixed"]
    nodes: Count
    take: dict[str, int] = Field(description="How many nodes of each pool it uses at most.")
    time_s: Spread | None = Field(description="null if no run finished.")
    cost: Spread
    runs: int
    finished: int
    why: str = Field(description="Why runs did not finish, for people.")
    mean_s: float
    node_h: float
    losses: float
    redone_s: float
    idle_s: float


class Costs(Part):
    """The costs of a membership change, in seconds; null means that nothing is saved, or is not given."""

    join_s: float
    loss_s: float
    checkpoint_s: float | None
    lost_s: float | None


class Simulation(Document):
    """When a job would finish, and what it would cost."""

    format: Literal["runspec.simulation/v1"]
    samples: float
    samples_per_s: list[tuple[float, float]] = Field(
        description="Pairs of a number of nodes and its samples per second."
    )
    seed: int
    costs: Costs
    cases: list[Case]
