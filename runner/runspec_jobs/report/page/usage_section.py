"""The section of a run's page on what it used of its machines. All functions are pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from runspec_jobs.machines.usage import NodeUsage, UsagePoint
from runspec_jobs.report import usage
from runspec_jobs.report.numbers import format_seconds, format_size
from runspec_jobs.report.page.axis import Axis
from runspec_jobs.report.page.frame import draw_table, list_facts, note
from runspec_jobs.report.page.svg import Line, Spot, draw_plot
from runspec_jobs.report.tables import Table
from runspec_jobs.report.usage import GIB, Used

FEW = 5  # nodes or GPUs that have a line of their own
ROWS = 100  # nodes in the table


def draw_usage(used: Used | None) -> Iterator[str]:
    """Yield the section; nothing for a run that has not started, or was too short."""
    if used is None or not (used.nodes or used.why):
        return
    yield "<h2>Usage</h2>"
    yield list_facts(usage.list_facts(used))
    if not used.nodes:
        return
    # Memory, because a job that runs out of it fails, while one that runs out of CPUs is slow.
    nodes = sorted(sorted(used.nodes, key=_find_most_memory, reverse=True)[:FEW])
    yield '<div class="plots">'
    for drawn in _draw_plots(used, nodes):
        yield f"<div>{drawn}</div>"
    yield "</div>"
    if len(nodes) < len(used.nodes):
        yield note(
            f"{len(nodes)} of {len(used.nodes):,} nodes are drawn: those that used the most memory"
        )
    if len(used.nodes) > 1:
        rows = draw_table(_make_table(used.nodes[:ROWS]))
        yield f"<details><summary>The usage of each node</summary>{rows}</details>"


def _find_most_memory(node: NodeUsage) -> int:
    return max((point.memory_bytes for point in node.points), default=0)


def _draw_plots(used: Used, nodes: Sequence[NodeUsage]) -> Iterator[str]:
    asked = used.asked
    yield _draw_plot("CPUs in use", "CPUs", nodes, lambda p: p.cpus, asked.cpus)
    memory = None if asked.memory_bytes is None else asked.memory_bytes / GIB
    yield _draw_plot("Memory in use", "GiB", nodes, lambda p: p.memory_bytes / GIB, memory)
    if any(node.disk_bytes for node in nodes):
        grown = [_since_start(node) for node in nodes]
        yield _draw_plot("Disk of the job", "GiB", grown, lambda p: p.disk_bytes / GIB, None)
    if any(node.gpu_bytes for node in nodes):
        yield _draw_gpus("GPUs busy", "%", nodes, lambda gpu: gpu[0])
        yield _draw_gpus("Memory of GPUs in use", "GiB", nodes, lambda gpu: gpu[1] / GIB)


def _since_start(node: NodeUsage) -> NodeUsage:
    """Return *node* with the disk that was filled since its first sample: what was there before is not the job's."""
    first = node.points[0].disk_bytes if node.points else 0
    points = tuple(p._replace(disk_bytes=max(0, p.disk_bytes - first)) for p in node.points)
    return node._replace(points=points)


def _draw_plot(
    title: str,
    unit: str,
    nodes: Sequence[NodeUsage],
    value: Callable[[UsagePoint], float],
    asked: float | None,
) -> str:
    """Return a plot of a value of each node over the time since it began, with what was *asked* for."""
    named = {
        _label_node(node, nodes): tuple((p.at_s, value(p)) for p in node.points)
        for node in nodes
        if node.points
    }
    return _draw_lines(title, unit, named, asked)


def _draw_gpus(
    title: str,
    unit: str,
    nodes: Sequence[NodeUsage],
    value: Callable[[tuple[float, int]], float],
) -> str:
    """Return a plot of each GPU of the only node, or of the mean of the GPUs of each node."""
    if len(nodes) > 1:
        return _draw_plot(
            title, unit, nodes, lambda p: _compute_mean([value(gpu) for gpu in p.gpus]), None
        )
    (node,) = nodes
    named = {
        f"GPU {number}": tuple(
            (p.at_s, value(p.gpus[number])) for p in node.points if number < len(p.gpus)
        )
        for number in range(len(node.gpu_bytes))
    }
    return _draw_lines(title, unit, named, None)


def _compute_mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _draw_lines(
    title: str, unit: str, named: dict[str, tuple[Spot, ...]], asked: float | None
) -> str:
    most = max((y for spots in named.values() for _, y in spots), default=0.0)
    last = max((x for spots in named.values() for x, _ in spots), default=0.0)
    across = Axis("time since the node began", 0.0, last or 1.0, unit="s")
    up = Axis(unit, 0.0, max(most, asked or 0.0) * 1.05 or 1.0)
    lines = []
    for number, (name, spots) in enumerate(named.items()):
        look = f"line{number}" if len(named) <= FEW else "many"
        lines.append(Line(name if len(named) <= FEW else "each GPU", spots, look, told=(name,)))
    if asked is not None:
        lines.append(Line("asked for", ((0.0, asked), (across.high, asked)), "ideal"))
    description = f"{title}: at most {most:.3g} {unit}"
    return draw_plot(title, across, up, lines, description)


def _label_node(node: NodeUsage, nodes: Sequence[NodeUsage]) -> str:
    if len({node.task for node in nodes}) == 1:
        return f"node {node.rank}"
    if all(node.rank == 0 for node in nodes):
        return f"task {node.task}"
    return f"task {node.task} node {node.rank}"


def _make_table(nodes: Sequence[NodeUsage]) -> Table:
    rows = []
    for node in nodes:
        disk = usage.compute_own_disk(node)
        cells = (node.task, node.rank, node.most_cpus, round(usage.compute_mean_cpus(node), 2))
        used = (format_size(_find_most_memory(node)), format_size(disk))
        busy = round(usage.compute_mean_busy(node), 1) if node.gpu_bytes else None
        rows.append((*cells, *used, busy, format_seconds(usage.get_sampled_seconds(node))))
    titles = ("task", "node", "most CPUs", "mean CPUs", "memory", "disk", "GPUs busy %", "sampled")
    return Table(titles, tuple(rows))
