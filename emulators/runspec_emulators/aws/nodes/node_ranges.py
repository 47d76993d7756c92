"""Node ranges of multi-node parallel jobs: `0:3`, `4:`, `:2`, `5`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from runspec_emulators.aws.errors import refused

MAX_GROUPS = 5  # user guide, "Multi-node parallel jobs", node groups
MAX_NODES = 1000  # the same


class Range(NamedTuple):
    """Nodes from *first* to *last*; *last* is None where the upper boundary is open."""

    first: int
    last: int | None

    def holds(self, index: int, nodes: int) -> bool:
        last = nodes - 1 if self.last is None else self.last
        return self.first <= index <= last


def parse(text: str) -> Range:
    """Read one range. RegisterJobDefinition, NodeRangeProperty.targetNodes.

    >>> parse("0:3"), parse(":2"), parse("4:"), parse("5")
    (Range(first=0, last=3), Range(first=0, last=2), Range(first=4, last=None), Range(first=5, last=5))
    """
    first, colon, last = text.partition(":")
    parts = (first, last) if colon else (first, first)
    if not all(part.isdecimal() or (colon and not part) for part in parts):
        raise refused(f"Invalid node range: {text}")
    return Range(int(parts[0] or 0), int(parts[1]) if parts[1] else None)


def check(properties: Mapping[str, Any]) -> None:
    """Refuse node properties whose ranges leave a node out, or that are too many."""
    nodes, main = properties["numNodes"], properties["mainNode"]
    groups = [parse(group["targetNodes"]) for group in properties["nodeRangeProperties"]]
    if not 1 <= nodes <= MAX_NODES:
        raise refused(f"numNodes must be between 1 and {MAX_NODES}: {nodes}")
    if not 0 <= main < nodes:  # "must be fewer than the number of nodes"
        raise refused(f"mainNode {main} must be less than numNodes {nodes}")
    if len(groups) > MAX_GROUPS:
        raise refused(f"a job has at most {MAX_GROUPS} node groups: {len(groups)}")
    # "Your accumulative node ranges must account for all nodes (0:n)."
    missing = [i for i in range(nodes) if not any(g.holds(i, nodes) for g in groups)]
    if missing:
        raise refused(f"the node ranges leave out nodes {missing}")
    beyond = [g for g in groups if (g.last if g.last is not None else g.first) >= nodes]
    if beyond:
        raise refused(f"node ranges go beyond the last node: {beyond}")


def count(properties: Mapping[str, Any], override: int | None) -> int:
    """Return how many nodes a job gets. SubmitJob, NodeOverrides.numNodes states the conditions."""
    if override is None:
        return int(properties["numNodes"])
    groups = [parse(group["targetNodes"]) for group in properties["nodeRangeProperties"]]
    if not any(group.last is None for group in groups):
        raise refused("numNodes can be overridden only where a node range has no upper boundary")
    if any(group.first >= override for group in groups):
        raise refused(f"a node range begins at or after the last of {override} nodes")
    if properties["mainNode"] >= override:
        raise refused(f"mainNode {properties['mainNode']} is not among {override} nodes")
    return override


def group_of(groups: Sequence[Mapping[str, Any]], index: int, nodes: int) -> Mapping[str, Any]:
    """Return the properties of one node.

    "You can nest node ranges (for example, 0:10 and 4:5). In this case, the 4:5 range properties
    override the 0:10 properties." So the narrowest range that holds the node counts.
    """

    def width(group: Mapping[str, Any]) -> int:
        width = parse(group["targetNodes"])
        return (nodes - 1 if width.last is None else width.last) - width.first

    return min((g for g in groups if parse(g["targetNodes"]).holds(index, nodes)), key=width)
