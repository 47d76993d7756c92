"""Whose log it is that a stream of Azure Batch gives, of a task on many nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from runspec_azure.batch.logs import Logs
from runspec_azure.batch.status import Tasks
from runspec_azure.batch.timing import Timing
from runspec_azure.timing import CLOCK, Clock
from runspec_jobs.provider import RemoteError
from runspec_jobs.provider.streams.log_streams import Chunk

RUN = "n-abc123"
PRINTED = {"tvm-a": b"of a\n", "tvm-b": b"of b\n", "tvm-c": b"of c\n"}


class Service:
    """A task on three nodes, of which the service lists b and c as its subtasks 1 and 2."""

    def __init__(self, state: str = "running", number: int | None = 1, **info: Any) -> None:
        self.state, self.info = state, info
        self.number = number  # of the try that the first node has opened
        self.asked = 0

    def look(self, operation: str, path: Mapping[str, str], query: Any = None) -> Any:
        if operation == "Task_Get":
            return self.pages("Task_List")[0]
        nodes = [{"poolId": "p", "nodeId": f"tvm-{n}", "taskRootDirectory": "t"} for n in "bc"]
        return {"value": [{"id": n, "nodeInfo": one} for n, one in enumerate(nodes, 1)]}

    def pages(self, operation: str, path: Any = None, query: Any = None) -> list[Any]:
        return [{"id": "task-00000", "state": self.state, "executionInfo": self.info}]

    def head(self, operation: str, path: Mapping[str, str]) -> Mapping[str, str]:
        return {"Content-Length": str(len(self._file(path)))}

    def part(self, operation: Any, path: Any = None, start: Any = 0, end: int = 0) -> Any:
        return self._file(path)[start:end]

    def _file(self, path: Mapping[str, str]) -> bytes:
        return PRINTED[path.get("nodeId", "tvm-a")]

    def read(self, key: str) -> bytes | None:
        if key.endswith("/record.json"):
            return json.dumps({"nodes": 3, "count": 1, "pool": "p"}).encode()
        assert key == f"runs/{RUN}/nodes/0/open"
        self.asked += 1
        told = {"number": self.number, "machines": ["tvm-a", "tvm-c", "tvm-b"]}
        return None if self.number is None else json.dumps(told).encode()

    def key(self, *parts: str) -> str:
        return "/".join(parts)

    def size(self, key: str) -> None:
        """Nothing was kept."""


def streams(service: Service, poll_s: float = 2.0, clock: Clock = CLOCK) -> list[Any]:
    tasks = Tasks(service, service, Timing(poll_s=poll_s), clock)  # type: ignore[arg-type] # what it asks of both
    logs = Logs(service, service, tasks)  # type: ignore[arg-type]
    return list(logs.streams(RUN))


def test_a_rank_is_the_machine_that_says_so_and_no_number_of_the_services() -> None:
    found = [stream.read(None).data for stream in streams(Service())]

    assert found == [b"of a\n", b"of c\n", b"of b\n"]


def test_the_machines_of_ranks_are_requested_once_for_an_attempt() -> None:
    service = Service()
    (_, second, _) = streams(service)
    chunk = second.read(None)

    assert second.read(chunk.position).data == b""
    assert service.asked == 1


class Counted(Service):
    """Counts the requests for logs."""

    requests = 0

    def head(self, operation: str, path: Mapping[str, str]) -> Mapping[str, str]:
        self.requests += 1
        return super().head(operation, path)


def test_a_log_without_news_is_not_asked_for_again_before_its_time() -> None:
    service = Counted()
    (first, *_) = streams(service, poll_s=600.0)
    position = first.read(None).position
    first.read(position)
    asked = service.requests

    assert first.read(position) == Chunk(b"", position)
    assert service.requests == asked > 1


@pytest.mark.parametrize("number", [None, 1])
def test_no_log_is_shown_before_the_machine_of_its_rank_is_known(
    number: int | None,
) -> None:
    """In the second try the list of the first may be there still."""
    service = Service("running", number, retryCount=0 if number is None else 1)
    (_, second, _) = streams(service, poll_s=0.0)
    position = f"{1 if number is None else 2}:0"

    assert second.read(position).data == b""

    service.number = 1 if number is None else 2
    assert second.read(position).data == b"of c\n"


def test_output_before_the_ranks_are_known_is_shown_at_the_end() -> None:
    """Such as why a coordination command could not begin."""
    found = [stream.read(None).data for stream in streams(Service("completed", None))]

    assert found == [b"of a\n", b"of b\n", b"of c\n"]


class Kept(Service):
    """The logs and indexes of two attempts of the first node, of which the second has ended."""

    def __init__(self, state: str, files: Mapping[str, bytes]) -> None:
        info = {"retryCount": 1, "endTime": "2026-11-24T12:00:30.5Z"}
        super().__init__(state, 2, **(info if state == "completed" else {"retryCount": 1}))
        self.blobs = {f"runs/{RUN}/logs/0/0/{name}": files[name] for name in files}
        self.on_node = dict[str, bytes]()

    def head(self, operation: str, path: Mapping[str, str]) -> Mapping[str, str]:
        if path["filePath"] not in self.on_node:
            raise RemoteError("no such file") from Refused(404)
        return {"Content-Length": str(len(self.on_node[path["filePath"]]))}

    def size(self, key: str) -> Any:
        return len(self.blobs[key]) if key in self.blobs else None

    def part(self, operation: Any, path: Any = None, start: Any = 0, end: int = 0) -> Any:
        if isinstance(path, Mapping):
            return self.on_node[path["filePath"]][start:end]
        return self.blobs[operation][path:start]


class Refused(Exception):
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


def test_each_attempt_has_an_index_in_the_store_after_its_node_was_released() -> None:
    """What the second has printed last has the time at which its task ended."""
    first_attempt = {"1.txt": b"a\nb\n", "1.times": b"2 10.0\n4 11.0\n"}
    service = Kept("completed", {**first_attempt, "2.txt": b"c\nd\n", "2.times": b"2 20.0\n"})
    first, *_ = streams(service)

    found = first.timed(None)
    again = first.timed(found.chunk.position)

    assert (found.chunk.data, found.times) == (b"a\nb\n", [(2, 10.0), (4, 11.0)])
    assert again.chunk.data == b"c\nd\n"
    assert again.times == [(2, 20.0), (4, 1795521630.5)]
    assert first.timed(again.chunk.position).chunk == Chunk(b"", "2:4")


def test_lines_without_a_time_yet_are_held_back() -> None:
    service = Kept("running", {})
    service.on_node = {"stdout.txt": b"a\nb\n", "wd/stdout.times": b"2 10.0\n4 "}
    clock = [0.0]
    first = streams(service, clock=Clock(lambda: clock[0]))[0]

    held = first.timed("2:0")
    service.on_node["stdout.txt"] = b""
    assert first.timed(held.chunk.position).chunk == Chunk(b"", "2:2", more=True)
    clock[0] = 1.5
    service.on_node["wd/stdout.times"] += b"11.0\n"
    noted = first.timed("2:2")

    assert (held.chunk, held.times) == (Chunk(b"a\n", "2:2", more=True), [(2, 10.0)])
    assert (noted.chunk, noted.times) == (Chunk(b"b\n", "2:4"), [(2, 11.0)])


def test_a_log_without_an_index_is_shown_after_a_while() -> None:
    service = Kept("running", {})
    service.on_node = {"stdout.txt": b"a\n"}
    clock = [0.0]
    first = streams(service, clock=Clock(lambda: clock[0]))[0]

    assert first.timed("2:0").chunk == Chunk(b"", "2:0", more=True)
    clock[0] = 6.0

    assert first.timed("2:0") == (Chunk(b"a\n", "2:2"), [])
