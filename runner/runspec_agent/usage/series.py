"""Samples of what a node uses, of which so few are kept that the record stays small however long a job runs."""

import json
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

FORMAT = "runspec.usage/v1"
MOST = 240  # points; more are joined in pairs
MIB = 1 << 20


class Point(NamedTuple):
    """The time from the point before until *at_s*: means of processors and GPUs, and the most of memory and disk."""

    at_s: float
    cpus: float
    memory_bytes: int
    disk_bytes: int
    gpus: Tuple[Tuple[float, int], ...]  # percent, bytes


class Series:
    """The points of a node, and the most of each that was ever used. *about* describes the node."""

    def __init__(self, about: Dict[str, Any]) -> None:
        self.about = about
        self.points: List[Point] = []
        self.most_cpus = 0.0

    def add(self, point: Point) -> None:
        self.points.append(point)
        self.most_cpus = max(self.most_cpus, point.cpus)
        if len(self.points) > MOST:
            self.points = joined(self.points)

    def raise_memory(self, memory_bytes: int) -> None:
        """Take the memory of a process into account that used more than was found between two samples."""
        if self.points and self.points[-1].memory_bytes < memory_bytes:
            self.points[-1] = self.points[-1]._replace(memory_bytes=memory_bytes)

    def document(self) -> bytes:
        """Return the record: a line of JSON about the node, and a line for each point, with memory in MiB."""
        head = dict(self.about, format=FORMAT, most_cpus=round(self.most_cpus, 2))
        lines = [json.dumps(head, sort_keys=True, separators=(",", ":"))]
        for point in self.points:
            gpus = [word for gpu in point.gpus for word in (round(gpu[0]), _mib(gpu[1]))]
            memory, disk = _mib(point.memory_bytes), _mib(point.disk_bytes)
            row = [round(point.at_s, 1), round(point.cpus, 2), memory, disk, *gpus]
            lines.append(json.dumps(row, separators=(",", ":")))
        return "".join(line + "\n" for line in lines).encode("ascii")


def joined(points: Sequence[Point]) -> List[Point]:
    """Return half as many points, each made of two; the last one stays alone if their number is odd.

    >>> joined([Point(1, 4.0, 9, 1, ()), Point(4, 1.0, 5, 2, ())])
    [Point(at_s=4, cpus=1.75, memory_bytes=9, disk_bytes=2, gpus=())]
    """
    merged: List[Point] = []
    begin_s = 0.0
    for first, second in zip(points[::2], points[1::2]):
        share = (first.at_s - begin_s) / max(second.at_s - begin_s, 1e-9)
        gpus = second.gpus or first.gpus  # nvidia-smi may have failed
        if len(first.gpus) == len(second.gpus):
            pairs = zip(first.gpus, second.gpus)
            gpus = tuple((_mean(a[0], b[0], share), max(a[1], b[1])) for a, b in pairs)
        merged.append(
            Point(
                second.at_s,
                _mean(first.cpus, second.cpus, share),
                max(first.memory_bytes, second.memory_bytes),
                max(first.disk_bytes, second.disk_bytes),
                gpus,
            )
        )
        begin_s = second.at_s
    return merged + list(points[len(points) // 2 * 2 :])


def _mean(first: float, second: float, share: float) -> float:
    return first * share + second * (1 - share)


def _mib(count: int) -> int:
    return -(-count // MIB)
