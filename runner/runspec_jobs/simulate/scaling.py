"""The scaling file: measured throughput by size, from `runspec report --json`, or the parameters of Amdahl's law."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pydantic import ConfigDict, Field

from runspec_jobs.diagnostics.problem import Path, Problem
from runspec_jobs.simulate.throughput import Curve, Point, make_amdahl
from runspec_jobs.simulate.types import Known, Number, Rate
from runspec_jobs.spec.types import Model, Word


class Open(Model):
    """The base class of models that ignore unknown keys, because reports contain more than a simulation needs."""

    model_config = ConfigDict(extra="ignore")


class Measured(Open):
    """The throughput in samples per second at one size; None if a report has no number for this size."""

    size: Rate
    throughput: Known = None


class Series(Open):
    """The throughput of one job by size, either as `points` or as `rate` and `serial`."""

    name: Word | None = None
    points: tuple[Measured, ...] = ()
    per_node: Rate = Field(default=1, description="How much of a size is one node: 8 for GPUs.")
    rate: Rate | None = Field(default=None, description="Samples a second of one node.")
    serial: Number | None = Field(
        default=None, description="The part of the work that does not scale."
    )

    @property
    def measured(self) -> tuple[Point, ...]:
        """The points with a throughput, ordered by number of nodes."""
        pairs = [(p.size / self.per_node, p.throughput) for p in self.points]
        return tuple(sorted(Point(nodes, speed) for nodes, speed in pairs if speed is not None))

    @property
    def measured_to(self) -> float | None:
        """The largest number of nodes that was measured; None if Amdahl's law covers all numbers."""
        return max((point.nodes for point in self.measured), default=None)

    @property
    def curve(self) -> Curve:
        if self.rate is not None:
            return make_amdahl(self.rate, self.serial or 0.0)
        return Curve(self.measured)


class Scaling(Series):
    """The content of the file: one series, or a report with several."""

    series: tuple[Series, ...] = ()


def choose_series(
    scaling: Scaling, name: str | None, most: int
) -> tuple[Series | None, list[Problem]]:
    """Return the series called *name*, or the only one, and the reasons why it cannot be used up to *most* nodes."""
    if not scaling.series:
        return scaling, list(find_broken(scaling, most, ()))
    names = [series.name or "" for series in scaling.series]
    matching = [i for i, known in enumerate(names) if name in (None, known)]
    if len(matching) != 1:
        message = "there are several series" if matching else f"there is no series '{name}'"
        hint = f"choose one: --series '{names[0]}'"
        return None, [Problem(("series",), f"{message}; the series are {', '.join(names)}", hint)]
    at = ("series", matching[0])
    return scaling.series[matching[0]], list(find_broken(scaling.series[matching[0]], most, at))


def find_broken(scaling: Series, most: int, at: Path) -> Iterator[Problem]:
    """Yield the reasons why *scaling*, which is at the path *at*, cannot be used for up to *most* nodes."""
    if bool(scaling.measured) == (scaling.rate is not None):
        hint = "write points: [{size: 1, throughput: 5874}, ...], or rate and serial"
        yield Problem(at, "either points or rate is required", hint)
        return
    if scaling.serial is not None and scaling.rate is None:
        yield Problem(
            (*at, "serial"), "serial needs rate", "remove serial, which points already imply"
        )
    for size, times in Counter(p.size for p in scaling.points).items():
        if times > 1:
            last = max(i for i, p in enumerate(scaling.points) if p.size == size)
            yield Problem((*at, "points", last, "size"), f"the size {size:g} is listed twice")
            return
    curve = scaling.curve
    # The line through two points may fall below zero for fewer nodes than were measured.
    silent = [n for n in range(1, most + 1) if not curve.compute_throughput(n)]
    if silent:
        message = f"no positive throughput follows from these points for {silent[-1]} nodes"
        yield Problem((*at, "points"), message, "add measurements with fewer nodes")
