"""Computes the throughput of a job on any number of nodes from a few measured points."""

from __future__ import annotations

from bisect import bisect_right

from runspec_agent.base.light_typing import NamedTuple

TINY = 1e-9


class Point(NamedTuple):
    """A measured throughput."""

    nodes: float
    samples_per_s: float

    @property
    def node_s(self) -> float:
        """The node-seconds that a sample takes."""
        return self.nodes / self.samples_per_s


class Curve(NamedTuple):
    """At least one point, ordered by number of nodes.

    By Amdahl's law, T(n) = n r / (1 + a (n - 1)), the node-seconds of a sample, n / T(n), are a straight line in n.
    So the line between two points is the law that passes through both; a single point means a job that scales without
    loss.
    """

    points: tuple[Point, ...]

    def compute_throughput(self, nodes: float) -> float:
        """Return the throughput on *nodes*, or 0 if the points give no positive throughput there."""
        node_s = self._compute_node_seconds(nodes)
        return nodes / node_s if node_s > TINY * self.points[0].node_s else 0.0

    def _compute_node_seconds(self, nodes: float) -> float:
        first = self.points[0]
        if len(self.points) == 1:
            return first.node_s
        at = bisect_right(self.points, nodes, key=lambda point: point.nodes)
        # Outside of the points, the first or the last line goes on.
        at = min(max(at, 1), len(self.points) - 1)
        low, high = self.points[at - 1], self.points[at]
        slope = (high.node_s - low.node_s) / (high.nodes - low.nodes)
        if nodes > high.nodes:
            slope = max(
                slope, 0.0
            )  # beyond the points, scaling is never assumed to be better than linear
        return high.node_s + slope * (nodes - high.nodes)


def make_amdahl(rate: float, serial: float) -> Curve:
    """Return the curve of Amdahl's law for *rate* samples/s on one node, and the part *serial* that does not scale.

    >>> round(make_amdahl(5874, 0.01105).compute_throughput(4))
    22742
    """
    return Curve((Point(1, rate), Point(2, 2 * rate / (1 + serial))))
