"""Computes speed-up, efficiency, fitted law and costs from the throughput at several sizes. All functions are pure.

The law is Amdahl's: T(n) = n r / (1 + a (n - 1)), with r the throughput of one unit and a the part of the work that
is not parallel, so that 1 - a is the parallel part and 1 / (1 + a (n - 1)) the efficiency. Contention between machines
has the same form. G. M. Amdahl, "Validity of the single processor approach to achieving large
scale computing capabilities", 1967, https://doi.org/10.1145/1465482.1465560; on contention, N. J. Gunther, "Guerrilla
Capacity Planning", 2007.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runspec_agent.base.light_typing import NamedTuple

HOUR_S = 3600
LEAST, MOST = (
    1e-9,
    1e15,
)  # limits for measured numbers, so that products and quotients of them are finite


class Point(NamedTuple):
    """The throughput at one *size* in samples per second, or *why* there is none."""

    size: float
    throughput: float | None
    why: str = ""
    note: str = ""


class Baseline(NamedTuple):
    """What the numbers of a report were measured on; None means that it was not given."""

    gpus_per_node: int | None = None
    processes_per_node: int | None = None
    batch: int | None = None
    data: str | None = None
    software: str | None = None
    provider: str | None = None
    metric: str | None = None


class Series(NamedTuple):
    """One job at several sizes. *per_node* is the number of *unit* in a node, such as 8 GPUs."""

    name: str
    unit: str
    points: tuple[Point, ...]
    baseline: Baseline = Baseline()
    per_node: float = 1.0
    source: str = ""


class Fit(NamedTuple):
    """The fitted law. *worst* is the largest relative distance of a point from it."""

    base: float  # the size to which speed-ups are relative
    rate: float  # r, samples a second of that size
    lost: float  # a
    worst: float
    points: int

    @property
    def parallel(self) -> float | None:
        """The share of the work that is parallel, or None where *lost* is no share."""
        return 1 - self.lost if 0 <= self.lost <= 1 else None

    def compute_throughput(self, size: float) -> float | None:
        """Return the samples per second at *size*, or None if the law gives no positive number."""
        n = size / self.base
        below = 1 + self.lost * (n - 1)
        return n * self.rate / below if below > 0 else None


class Asked(NamedTuple):
    """Options of a report: the size to compare with, the price of a node, and the number of samples of a job."""

    base: float | None = None
    price_per_node_hour: float | None = None
    samples: float | None = None


class Row(NamedTuple):
    """One size of a report; None means unknown. *expected* is the throughput by the law."""

    size: float
    throughput: float | None
    speedup: float | None
    efficiency: float | None
    expected: float | None
    cost_per_million: float | None
    hours: float | None
    cost: float | None
    why: str
    note: str


class Scaled(NamedTuple):
    """A series with its report; the rows use the law for *hours* and *cost* where nothing was measured."""

    series: Series
    base: float | None
    fit: Fit | None
    rows: tuple[Row, ...]
    asked: Asked


def make_report(series: Series, asked: Asked) -> Scaled:
    """Return the report of *series*, compared with the size in *asked* or with the smallest that has a throughput."""
    known = [p for p in sorted(series.points, key=lambda p: p.size) if p.throughput]
    base = next((p for p in known if asked.base in (None, p.size)), None)
    law = fit(known, base.size) if base is not None else None
    ordered = sorted(series.points, key=lambda p: p.size)
    rows = tuple(_make_row(series, point, base, law, asked) for point in ordered)
    return Scaled(series, base.size if base is not None else None, law, rows, asked)


def fit(points: Sequence[Point], base: float) -> Fit | None:
    """Return the law fitted to *points*, in units of the size *base*, or None if there are fewer than two sizes.

    1/efficiency is a straight line in n - 1: n/T = 1/r + a/r (n - 1). The fit uses relative distances, so that small
    sizes weigh as much as large ones. It passes through both points if there are only two.
    """
    spots = [(p.size / base - 1, p.size / base / p.throughput) for p in points if p.throughput]
    if len({x for x, _ in spots}) < 2:
        return None
    # The weights turn absolute distances into relative ones.
    weights = [1 / y**2 for _, y in spots]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, spots, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, spots, strict=True)) / total
    over = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, spots, strict=True))
    under = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, spots, strict=True))
    slope = over / under
    start = mean_y - slope * mean_x
    if start <= 0:
        return None
    law = Fit(base, 1 / start, slope / start, 0.0, len(spots))
    return law._replace(worst=max(_compute_distance(law, p) for p in points if p.throughput))


def _compute_distance(law: Fit, point: Point) -> float:
    expected, measured = law.compute_throughput(point.size), point.throughput
    assert measured, "BUG: a point without a number has no distance"
    return abs(expected / measured - 1) if expected is not None else float("inf")


def _make_row(
    series: Series, point: Point, base: Point | None, law: Fit | None, asked: Asked
) -> Row:
    measured, expected = (
        point.throughput,
        law.compute_throughput(point.size) if law is not None else None,
    )
    best = measured or expected
    a_second = _compute_usd_per_second(series, point.size, asked)
    hours = asked.samples / best / HOUR_S if asked.samples and best else None
    speedup = measured / base.throughput if measured and base and base.throughput else None
    return Row(
        size=point.size,
        throughput=measured,
        speedup=speedup,
        efficiency=speedup * base.size / point.size if speedup and base else None,
        expected=expected,
        cost_per_million=a_second / measured * 1e6 if a_second is not None and measured else None,
        hours=hours,
        cost=a_second * HOUR_S * hours if a_second is not None and hours is not None else None,
        why=point.why,
        note=point.note,
    )


def _compute_usd_per_second(series: Series, size: float, asked: Asked) -> float | None:
    if asked.price_per_node_hour is None:
        return None
    return asked.price_per_node_hour * size / series.per_node / HOUR_S


def write_report(report: Scaled) -> dict[str, Any]:
    """Return a report in the form of `--json`; `read_series` reads it as a series."""
    law = report.fit
    return {
        "name": report.series.name,
        "unit": report.series.unit,
        "per_node": report.series.per_node,
        "source": report.series.source,
        "baseline": {"size": report.base, **report.series.baseline._asdict()},
        "asked": report.asked._asdict(),
        "fit": None if law is None else {**law._asdict(), "parallel": law.parallel},
        "points": [row._asdict() for row in report.rows],
    }


def read_series(value: Mapping[str, Any]) -> Series:
    """Return the series in *value*. Raises ValueError, KeyError or TypeError if it is not a report."""
    baseline = value.get("baseline", {})
    return Series(
        name=str(value["name"]),
        unit=str(value["unit"]),
        points=tuple(_point(point) for point in value["points"]),
        baseline=Baseline(**{k: baseline[k] for k in Baseline._fields if k in baseline}),
        per_node=_parse_positive(value.get("per_node", 1)),
        source=str(value.get("source", "")),
    )


def _point(value: Mapping[str, Any]) -> Point:
    throughput = value.get("throughput")
    return Point(
        size=_parse_positive(value["size"]),
        throughput=None if throughput is None else _parse_positive(throughput),
        why=str(value.get("why", "")),
        note=str(value.get("note", "")),
    )


def _parse_positive(value: Any) -> float:
    number = float(value)
    if not is_sensible(number):
        raise ValueError(f"{value} is not a number above 0")
    return number


def is_sensible(number: float) -> bool:
    """Return whether *number* is in the range of measured numbers; nan is not."""
    return LEAST <= number <= MOST
