"""The figure of elastic jobs: how long many nodes take to meet through a store, and what they ask of it."""

from __future__ import annotations

from collections.abc import Iterator

from bench.rows import Bench, Row
from bench.simulated import Meeting
from runspec_agent.base import limits
from runspec_agent.elastic.policy import Timing

LATENCY_S = 0.05  # the time of each request, until its answer is here
SIZES = (16, 64, 256)
SEEDS = 5


def meeting(_: Bench) -> Iterator[Row]:
    """Have nodes that start at the same moment meet in simulated time, by the code that real ones run."""
    few: tuple[float, float] | None = None
    for nodes in SIZES:
        found = sorted(_met(nodes, seed) for seed in range(SEEDS))
        seconds, requests = found[SEEDS // 2]
        per_node = requests / nodes
        if few is None:
            few = seconds, per_node
        beside = f"{SIZES[0]} nodes"
        yield Row(f"{nodes} nodes meet", seconds, "s", beside, few[0], at_most=nodes / SIZES[0])
        yield Row(f"{nodes} nodes meet, requests a node", per_node, "", beside, few[1], at_most=1.0)
        yield Row(f"{nodes} nodes meet, requests", requests, "")


def _met(nodes: int, seed: int) -> tuple[float, int]:
    """Return the seconds until all nodes may run their programs, and the number of requests until then."""
    met = Meeting(
        nodes, Timing.of(limits.ELASTIC_BEAT_S, limits.SIMULATED_GRACE_S), LATENCY_S, seed
    )
    if not met.run(300.0):
        raise RuntimeError(f"{nodes} nodes have not met")
    return met.now, met.requests
