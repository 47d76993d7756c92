"""What a run used of what it asked for, and what to ask for instead. All functions are pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.machines.usage import NodeUsage
from runspec_jobs.report.numbers import format_seconds, format_size

GIB, STEP = 1 << 30, 256 << 20  # memory below FINE is rounded to a STEP
FINE = 2 * GIB
SPARE = 1.25  # of memory and disk, beyond the most that was used
LESS = 1.5  # asked by advice, whose quotient is at least that
FULL = 0.95  # of the memory, from which more should be asked for
LONG_S = 60.0  # a shorter job may not have done what later ones do
OWN_DISK = (0.8, 1.3)  # of the disk asked for: another size belongs to more than the job
IDLE = 0.05  # of a GPU's memory, which its driver may use


class Asked(NamedTuple):
    """What a spec asks for on each node; None means that it does not say."""

    cpus: int | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    gpus: int | None = None


class Used(NamedTuple):
    """What the nodes of a run used. *total* counts all that were sampled; *why* says why there are none."""

    asked: Asked
    nodes: Sequence[NodeUsage] = ()
    total: int = 0
    why: str = ""


class Advice(NamedTuple):
    """A field of `cluster`, what was asked for and used, and the value to write instead; None to remove the field."""

    field: str
    asked: int
    used: float
    write: str | None
    text: str


def format_lines(used: Used | None) -> Iterator[str]:
    """Yield what was used as lines of text; none if nothing is known and nothing was to be expected."""
    if used is None:
        return
    if not used.nodes:
        if used.why:
            yield f"used: {used.why}"
        return
    yield f"used: {', '.join(f'{name} {text}' for name, text in _list_machine_facts(used))}{_describe_nodes(used)}"
    if gpus := describe_gpus(used):
        yield f"GPUs: {gpus}"
    for advice in give_advice(used):
        yield advice.text


def list_facts(used: Used) -> Iterator[tuple[str, str]]:
    """Yield what was used as pairs of a name and a text."""
    if not used.nodes:
        yield "sampled", used.why
        return
    yield from _list_machine_facts(used)
    if gpus := describe_gpus(used):
        yield "GPUs", gpus
    every = format_seconds(max(get_sampled_seconds(node) for node in used.nodes))
    yield "sampled", f"for {every} at most{_describe_nodes(used)}"
    for advice in give_advice(used):
        yield "advice", advice.text


def _describe_nodes(used: Used) -> str:
    if used.total > len(used.nodes):
        return f" (of the first {len(used.nodes)} of {used.total:,} nodes)"
    return f" (the most of {used.total:,} nodes)" if used.total > 1 else ""


def _list_machine_facts(used: Used) -> Iterator[tuple[str, str]]:
    nodes = used.nodes
    # The node that used the most decides what to ask for, because all nodes are equal.
    mean = max(compute_mean_cpus(node) for node in nodes)
    cpus = max(node.cpus for node in nodes)
    most = max(node.most_cpus for node in nodes)
    yield "CPUs" if cpus > 1 else "CPU", f"{most:.2g} of {cpus} (mean {mean:.2g})"
    yield "memory", _format_share(find_most_memory(used), max(node.memory_bytes for node in nodes))
    if disk := max(node.disk_bytes for node in nodes):
        grown = max(compute_own_disk(node) for node in nodes)
        yield "disk", f"{format_size(grown)} more than at the start, of {format_size(disk)}"


def _format_share(part: int, whole: int) -> str:
    return f"{format_size(part)} of {format_size(whole)}"


def describe_gpus(used: Used) -> str:
    """Return what the GPUs did; why they were not sampled if the spec asks for some; else an empty text."""
    nodes = [node for node in used.nodes if _has_sampled_gpus(node)]
    if not nodes:
        reasons = [node.no_gpus for node in used.nodes if node.no_gpus]
        return f"not sampled: {reasons[0]}" if used.asked.gpus and reasons else ""
    busy = max(compute_mean_busy(node) for node in nodes)
    memory = max(gpu[1] for node in nodes for point in node.points for gpu in point.gpus)
    each = max(count for node in nodes for count in node.gpu_bytes)
    return f"busy {busy:.0f} % of the time, memory {_format_share(memory, each)}"


# Figures


def get_sampled_seconds(node: NodeUsage) -> float:
    return node.points[-1].at_s if node.points else 0.0


def compute_mean_cpus(node: NodeUsage) -> float:
    # A sample stands for the time since the one before it.
    begins = (0.0, *(point.at_s for point in node.points))
    spans = [(p.cpus, p.at_s - b) for p, b in zip(node.points, begins, strict=False)]
    whole = sum(span for _, span in spans)
    return sum(cpus * span for cpus, span in spans) / whole if whole > 0 else 0.0


def _has_sampled_gpus(node: NodeUsage) -> bool:
    return any(point.gpus for point in node.points)


def compute_mean_busy(node: NodeUsage) -> float:
    """Return the mean of all GPUs of a node, in percent."""
    percents = [gpu[0] for point in node.points for gpu in point.gpus]
    return sum(percents) / len(percents) if percents else 0.0


def find_most_memory(used: Used) -> int:
    return max((point.memory_bytes for node in used.nodes for point in node.points), default=0)


def find_most_disk(used: Used) -> int:
    return max((point.disk_bytes for node in used.nodes for point in node.points), default=0)


def compute_own_disk(node: NodeUsage) -> int:
    """Return by how many bytes the disk of a node was fuller than at its first sample: the rest is not the job's."""
    first = node.points[0].disk_bytes if node.points else 0
    return max((point.disk_bytes - first for point in node.points), default=0)


def _list_busy_gpus(node: NodeUsage) -> set[int]:
    return {
        number
        for point in node.points
        for number, (percent, memory) in enumerate(point.gpus)
        if percent > 0 or memory > IDLE * node.gpu_bytes[number]
    }


# Advice


def give_advice(used: Used) -> list[Advice]:
    """Return what to ask for instead, if a node was sampled for at least a minute."""
    if max(map(get_sampled_seconds, used.nodes), default=0.0) < LONG_S:
        return []
    return [*_advise_memory(used), *_advise_cpus(used), *_advise_disk(used), *_advise_gpus(used)]


def _advise_memory(used: Used) -> Iterator[Advice]:
    asked, most = used.asked.memory_bytes, find_most_memory(used)
    if not asked or not most:
        return
    # Room for a run with other data: less memory than that ends a job, and a little more costs little.
    need = round_size(most * SPARE)
    if need * LESS <= asked or most > FULL * asked:
        write = format_spec_size(need)
        text = f"asked {format_size(asked)} of memory, used {format_size(most)} at most: write memory: {write}"
        yield Advice("memory", asked, most, write, text)


def _advise_cpus(used: Used) -> Iterator[Advice]:
    asked, most = used.asked.cpus, max(node.most_cpus for node in used.nodes)
    need = max(1, math.ceil(most * 1.1))
    if asked and need * LESS <= asked:
        text = f"asked {asked} CPUs, used {most:.2g} at most: write cpus: {need}"
        yield Advice("cpus", asked, round(most, 2), str(need), text)


def _advise_disk(used: Used) -> Iterator[Advice]:
    asked, most = used.asked.disk_bytes, find_most_disk(used)
    # A machine has other disks than the one that was asked for, which say nothing about the spec.
    low, high = OWN_DISK
    is_own_disk = asked and all(
        low * asked <= node.disk_bytes <= high * asked for node in used.nodes
    )
    need = round_size(most * SPARE)
    if asked and is_own_disk and (need * LESS <= asked or most > FULL * asked):
        write = format_spec_size(need)
        text = f"asked {format_size(asked)} of disk, used {format_size(most)} at most: write disk: {write}"
        yield Advice("disk", asked, most, write, text)


def _advise_gpus(used: Used) -> Iterator[Advice]:
    asked, most = used.asked.gpus, max(len(_list_busy_gpus(node)) for node in used.nodes)
    # A node without samples may have used all of its GPUs.
    if not asked or most >= asked or not all(map(_has_sampled_gpus, used.nodes)):
        return
    message = f"used {most}: write gpus: {most}" if most else "used none: remove gpus"
    yield Advice("gpus", asked, most, str(most) if most else None, f"asked {asked} GPUs, {message}")


def round_size(count: float) -> int:
    """Return bytes rounded up to whole GiB, or less to quarters of one.

    >>> round_size(11.25 * GIB) // GIB, round_size(300 << 20) // (1 << 20)
    (12, 512)
    """
    step = GIB if count > FINE else STEP
    return max(1, math.ceil(count / step)) * step


def format_spec_size(count: int) -> str:
    """Return bytes as a spec has them.

    >>> format_spec_size(12 * GIB), format_spec_size(768 << 20)
    ('12GiB', '768MiB')
    """
    return f"{count // GIB}GiB" if count % GIB == 0 else f"{count >> 20}MiB"


# JSON


def write_usage(used: Used | None) -> dict[str, Any] | None:
    """Return what was used as JSON, or None if there is nothing to say."""
    if used is None:
        return None
    return {
        "sampled": used.total,
        "why": used.why,
        "nodes": [_write_node(node) for node in used.nodes],
        "advice": [advice._asdict() for advice in give_advice(used)],
    }


def _write_node(node: NodeUsage) -> Mapping[str, Any]:
    memory = max((point.memory_bytes for point in node.points), default=0)
    disk = max((point.disk_bytes for point in node.points), default=0)
    gpus = [_write_gpu(node, number) for number in range(len(node.gpu_bytes))]
    return {
        "task": node.task,
        "rank": node.rank,
        "attempt": node.attempt,
        "of": node.of,
        "sampled_s": get_sampled_seconds(node),
        "cpus": {
            "has": node.cpus,
            "most": node.most_cpus,
            "mean": round(compute_mean_cpus(node), 3),
        },
        "memory_bytes": {"has": node.memory_bytes, "most": memory},
        "disk_bytes": {"has": node.disk_bytes, "most": disk},
        "gpus": gpus,
        "no_gpus": node.no_gpus,
    }


def _write_gpu(node: NodeUsage, number: int) -> Mapping[str, Any]:
    samples = [point.gpus[number] for point in node.points if number < len(point.gpus)]
    percents = [percent for percent, _ in samples]
    return {
        "mean_percent": round(sum(percents) / len(percents), 1) if percents else 0.0,
        "has_bytes": node.gpu_bytes[number],
        "most_bytes": max((memory for _, memory in samples), default=0),
    }
