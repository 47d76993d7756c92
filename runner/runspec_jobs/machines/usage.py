"""What the nodes of a run used of their machines, as `runspec_agent.usage` writes it: `usage/TASK/ATTEMPT/RANK`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.record_formats import check

FORMAT = "runspec.usage/v1"
MIB = 1 << 20


class UsagePoint(NamedTuple):
    """The time from the point before until *at_s*: means of processors and GPUs, and the most of memory and disk.

    *gpus* has a pair for each GPU: the percentage of the time in which it worked, and the bytes of its memory in use.
    """

    at_s: float
    cpus: float
    memory_bytes: int
    disk_bytes: int
    gpus: tuple[tuple[float, int], ...]


class NodeUsage(NamedTuple):
    """What one node used, and what it has.

    *of* is "container", or "processes" if the processes of the job are counted one by one. *disk_bytes* is the size of
    the file system with the job's folder, or 0. *no_gpus* says why *gpu_bytes* is empty. *most_cpus* is the most of any
    sample, of which *points* may have only means.
    """

    task: int
    attempt: int
    rank: int
    host: str
    of: str
    began_s: float
    cpus: int
    memory_bytes: int
    disk_bytes: int
    gpu_bytes: tuple[int, ...]
    no_gpus: str
    most_cpus: float
    points: tuple[UsagePoint, ...]


class Usage(NamedTuple):
    """The newest records of nodes, ordered by task and rank; *total* counts the nodes that have one."""

    nodes: tuple[NodeUsage, ...] = ()
    total: int = 0


def read_usage(
    names: Iterable[str], read: Callable[[Sequence[str]], Sequence[bytes | None]], most: int | None
) -> Usage:
    """Return the usage of *most* nodes or all, whose records have *names* below `usage/`.

    *read* returns the content of records. A record that is damaged, or of which only a part is there, is left out.
    Raises Newer if a newer version wrote one.
    """
    newest: dict[tuple[int, int], tuple[int, str]] = {}
    for name in names:
        parts = name.split("/")
        if len(parts) == 3 and all(word.isdecimal() for word in parts):
            task, attempt, rank = map(int, parts)
            # What an earlier attempt used says less: it may have failed at its beginning.
            newest[task, rank] = max(newest.get((task, rank), (-1, "")), (attempt, name))
    chosen = sorted(newest)[:most]
    # One call, so that a store can read the records in parallel.
    contents = read([newest[key][1] for key in chosen]) if chosen else []
    nodes = [
        node
        for key, content in zip(chosen, contents, strict=True)
        if content is not None
        and (node := _parse_node(key, newest[key][0], content, newest[key][1])) is not None
    ]
    return Usage(tuple(nodes), len(newest))


def _parse_node(key: tuple[int, int], attempt: int, content: bytes, name: str) -> NodeUsage | None:
    try:
        head, *rows = [json.loads(line) for line in content.decode().splitlines()]
        check(head, FORMAT, f"usage/{name}")
        gpu_bytes = tuple(int(count) for count in head.get("gpus", ()))
        points = tuple(_point(row, len(gpu_bytes)) for row in rows)
        return NodeUsage(
            key[0],
            attempt,
            key[1],
            str(head.get("node", "")),
            str(head["of"]),
            float(head["began_s"]),
            int(head["cpus"]),
            int(head["memory_bytes"]),
            int(head["disk_bytes"]),
            gpu_bytes,
            str(head.get("no_gpus", "")),
            max([float(head.get("most_cpus", 0)), *(point.cpus for point in points)]),
            points,
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        # A later version may write it in another way, and a status works without it.
        return None


def _point(row: Sequence[Any], gpus_known: int) -> UsagePoint:
    """Return the point of a row, whose memory and disk are in MiB, with the GPUs whose memory is known."""
    at_s, cpus, memory, disk, *gpus = (float(value) for value in row)
    pairs = tuple(
        (percent, round(used * MIB)) for percent, used in zip(gpus[::2], gpus[1::2], strict=True)
    )
    return UsagePoint(at_s, cpus, round(memory * MIB), round(disk * MIB), pairs[:gpus_known])
