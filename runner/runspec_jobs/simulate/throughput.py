"""How fast a job is on how many nodes, from a few measured points."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

TINY = 1e-9


class Point(NamedTuple):
    """A measured throughput."""

    nodes: float
    samples_per_s: float

    @property
    def node_s(self) -> float:
        """Seconds of one node that a sample takes."""
        return self.nodes / self.samples_per_s


class Curve(NamedTuple):
    """Points by rising nodes, at least one.

    By Amdahl's law, T(n) = n r / (1 + a (n - 1)), what a sample takes of all nodes together, n / T(n), is a
    straight line in n. So a straight line between two points is the law that goes through both, and two points
    are a fit of it; one point alone stands for a job without any loss.
    """

    points: tuple[Point, ...]

    def samples_per_s(self, nodes: float) -> float:
        """Give the throughput on *nodes*; 0 where the points say nothing that could be true."""
        node_s = self._node_s(nodes)
        return nodes / node_s if node_s > TINY * self.points[0].node_s else 0.0

    def _node_s(self, nodes: float) -> float:
        first = self.points[0]
        if len(self.points) == 1:
            return first.node_s
        at = bisect_right(self.points, nodes, key=lambda point: point.nodes)
        at = min(max(at, 1), len(self.points) - 1)
        low, high = self.points[at - 1], self.points[at]
        slope = (high.node_s - low.node_s) / (high.nodes - low.nodes)
        if nodes > high.nodes:
            slope = max(slope, 0.0)  # nothing says that it goes on being better than without loss
        return high.node_s + slope * (nodes - high.nodes)


def amdahl(rate: float, serial: float) -> Curve:
    """Give the curve of *rate* samples/s on one node, with the part *serial* of the work on one node alone.

    >>> round(amdahl(5874, 0.01105).samples_per_s(4))
    22742
    """
    return Curve((Point(1, rate), Point(2, 2 * rate / (1 + serial))))
