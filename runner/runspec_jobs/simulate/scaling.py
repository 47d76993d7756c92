"""A scaling file: measured throughput by size, as `runspec report --json` writes it, or Amdahl's law by its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pydantic import ConfigDict, Field

from runspec_jobs.diagnostics.problem import Path, Problem
from runspec_jobs.simulate.throughput import Curve, Point, amdahl
from runspec_jobs.simulate.types import Known, Number, Rate
from runspec_jobs.spec.base import Model
from runspec_jobs.spec.types import Word


class Open(Model):
    """A report holds more than is asked of it here."""

    model_config = ConfigDict(extra="ignore")


class Measured(Open):
    """Samples a second at one size; a report also has sizes without a number, and why."""

    size: Rate
    throughput: Known = None


class Series(Open):
    """One job at several sizes: `points`, or `rate` and `serial`."""

    name: Word | None = None
    points: tuple[Measured, ...] = ()
    per_node: Rate = Field(default=1, description="How much of a size is one node: 8 for GPUs.")
    rate: Rate | None = Field(default=None, description="Samples a second of one node.")
    serial: Number | None = Field(
        default=None, description="The part of the work that does not scale."
    )

    @property
    def measured(self) -> tuple[Point, ...]:
        """Give the points that have a number, by nodes."""
        found = [(p.size / self.per_node, p.throughput) for p in self.points]
        return tuple(sorted(Point(nodes, speed) for nodes, speed in found if speed is not None))

    @property
    def measured_to(self) -> float | None:
        """The most nodes that were measured; None where a law says it of all."""
        return max((point.nodes for point in self.measured), default=None)

    @property
    def curve(self) -> Curve:
        if self.rate is not None:
            return amdahl(self.rate, self.serial or 0.0)
        return Curve(self.measured)


class Scaling(Series):
    """The file: a series, or a report, which has several."""

    series: tuple[Series, ...] = ()


def chosen(scaling: Scaling, name: str | None, most: int) -> tuple[Series | None, list[Problem]]:
    """Give the series called *name*, or the only one, and why it says nothing of a job on up to *most* nodes."""
    if not scaling.series:
        return scaling, list(broken(scaling, most, ()))
    names = [one.name or "" for one in scaling.series]
    found = [i for i, known in enumerate(names) if name in (None, known)]
    if len(found) != 1:
        what = "several series" if found else f"no series '{name}'"
        hint = f"say which: --series '{names[0]}'"
        return None, [Problem(("series",), f"{what}, there are: {', '.join(names)}", hint)]
    at = ("series", found[0])
    return scaling.series[found[0]], list(broken(scaling.series[found[0]], most, at))


def broken(scaling: Series, most: int, at: Path) -> Iterator[Problem]:
    """Give why *scaling*, which stands at the path *at*, says nothing that could be true up to *most* nodes."""
    if bool(scaling.measured) == (scaling.rate is not None):
        hint = "write points: [{size: 1, throughput: 5874}, ...], or rate and serial"
        yield Problem(at, "there have to be points, or a rate: one of them", hint)
        return
    if scaling.serial is not None and scaling.rate is None:
        yield Problem(
            (*at, "serial"), "a serial part without a rate", "points say it by themselves"
        )
    for size, times in Counter(p.size for p in scaling.points).items():
        if times > 1:
            last = max(i for i, p in enumerate(scaling.points) if p.size == size)
            yield Problem((*at, "points", last, "size"), f"the size {size:g} is there twice")
            return
    curve = scaling.curve
    silent = [n for n in range(1, most + 1) if not curve.samples_per_s(n)]
    if silent:
        what = f"these points say nothing that could be true of {silent[-1]} nodes"
        yield Problem((*at, "points"), what, "measure it on fewer nodes, too")
