"""The logs of nodes: of each attempt, from the node that runs its pod."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider.streams.log_streams import Chunk
from runspec_kubernetes.attempts import Pod
from runspec_kubernetes.errors import Refused
from runspec_kubernetes.job import CONTAINER
from runspec_kubernetes.status import Runs

CHUNK_BYTES = 1 << 20
BLOCK_BYTES = 1 << 16


class Position(NamedTuple):
    """Where a reader of one node is: the attempt, and in its log the time of the last line and how many have it.

    The API finds lines by the second alone, so that lines of that second which were read are left out by the rest.
    """

    attempt: int = 1
    time: str = ""
    lines: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return json.dumps(list(self), separators=(",", ":"))


def parse(text: str | None) -> Position:
    """Return the position that *text* says; None is the beginning."""
    return Position() if text is None else Position(*json.loads(text))


class PodStream:
    """The log of one node over all its attempts."""

    def __init__(self, runs: Runs, run: str, index: int, per_task: int) -> None:
        self.runs, self.run, self.index = runs, run, index
        self.task, self.rank = divmod(index, per_task)

    def read(self, position: str | None) -> Chunk:
        at = parse(position)
        pods = self.runs.pods(self.run).get(self.index, [])
        pod = next((pod for pod in pods if pod.attempt >= at.attempt), None)
        if pod is None:
            return Chunk(b"", str(at))
        if pod.attempt > at.attempt:
            at = Position(pod.attempt)
        data, after, ended = self._lines(pod, at)
        if data:
            return Chunk(data, str(after), more=True)
        later = next((other for other in pods if other.attempt > pod.attempt), None)
        if later is not None and ended:
            return Chunk(b"", str(Position(later.attempt)), more=True)
        return Chunk(b"", str(at), more=not ended)

    def _lines(self, pod: Pod, at: Position) -> tuple[bytes, Position, bool]:
        """Return the bytes of the log of *pod* after *at*, and whether it can get no more.

        A last line without an end is read only when the container has ended.
        """
        ended = pod.over
        query: dict[str, Any] = {"container": CONTAINER, "timestamps": "true"}
        if at.time:
            query["sinceTime"] = at.time[:19] + "Z"
        path = f"{self.runs.path('pods', pod.name)}/log"
        try:
            answer = self.runs.session.opened(path, query, f"read the log of {pod.name}")
        except Refused as exc:
            # 400: the container has not started; 404: the pod is gone.
            if exc.code in (400, 404):
                return b"", at, ended or exc.code == 404
            raise
        with answer:
            return _collect(answer, at, ended)


def _collect(answer: Any, at: Position, ended: bool) -> tuple[bytes, Position, bool]:
    """Return the new bytes of the body of *answer*, at most about CHUNK_BYTES, and the position after them."""
    data, rest, passed = bytearray(), b"", 0
    time, count, offset = at.time, at.lines, at.offset
    for block in answer.stream(BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            stamp, _, text = line.partition(b" ")
            when = stamp.decode("ascii", "replace")
            if when < at.time:
                continue
            if when == at.time and passed < at.lines:
                passed += 1
                continue
            count = count + 1 if when == time else 1
            time = when
            data += text + b"\n"
        if len(data) >= CHUNK_BYTES:
            break
    else:
        if rest and ended:
            stamp, _, text = rest.partition(b" ")
            when = stamp.decode("ascii", "replace")
            if when > at.time or (when == at.time and passed >= at.lines):
                count, time = (count + 1 if when == time else 1), when
                data += text
    return bytes(data), Position(at.attempt, time, count, offset + len(data)), ended


def streams(runs: Runs, run: str, record: Mapping[str, Any]) -> Sequence[PodStream]:
    """Return a stream for each node that has begun."""
    per_task = int(record["nodes"])
    return [PodStream(runs, run, index, per_task) for index in sorted(runs.pods(run))]
