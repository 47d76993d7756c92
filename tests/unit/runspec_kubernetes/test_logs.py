"""The logs of pods: whatever nodes rotate and delete, a reader gets each byte once, from the node or from the store."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_agent.base.record_formats import LOG_MARK
from runspec_jobs.provider import RemoteError
from runspec_kubernetes import logs
from runspec_kubernetes.attempts import Pod
from runspec_kubernetes.errors import Refused
from runspec_kubernetes.logs import Logs, Position
from runspec_kubernetes.timing import DEFAULT

RUN = "train-7k2m9q"
BEGAN_S = 1_795_600_800  # 2026-11-25T10:00:00Z


class Store(dict[str, bytes]):
    """A store in memory."""

    def size(self, key: str) -> int | None:
        return len(self[key]) if key in self else None

    def part(self, key: str, start: int, end: int | None) -> bytes | None:
        return self[key][start:end] if key in self else None

    def names(self, prefix: str) -> list[str]:
        return [key.removeprefix(prefix) for key in sorted(self) if key.startswith(prefix)]


class Node:
    """What a kubelet and the agent do with the output of one attempt.

    Records are what the runtime has written to the newest file: a time in nanoseconds, and a part of a line.
    https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/kubelet/kuberuntime/logs/logs.go
    """

    def __init__(self, key: str, store: Store | None, mark_bytes: int = 100) -> None:
        self.key, self.store, self.mark_bytes = key, store, mark_bytes
        self.log, self.now_ns = b"", BEGAN_S * 10**9
        self.records: list[tuple[int, bytes]] = []
        self.phase, self.gone, self.says = "Running", False, b""
        self.marked = 0
        if store is not None:
            self._write(LOG_MARK.format(0).encode())

    def prints(self, text: bytes, after_ns: int = 1_000_003) -> None:
        self.now_ns += after_ns
        self.log += text
        self._write(text)
        new = len(self.log) - self.marked
        if self.store is not None and text.endswith(b"\n") and new >= self.mark_bytes:
            self._write(LOG_MARK.format(len(self.log)).encode())
            self.marked = len(self.log)

    def _write(self, text: bytes) -> None:
        for line in text.splitlines(keepends=True):
            self.now_ns += 7
            self.records.append((self.now_ns, line))

    def rotates(self) -> None:
        self.records = []

    def saves(self) -> None:
        assert self.store is not None
        self.store[self.key] = self.log
        self.store[self.key[:-3] + "times"] = b"%d %d.5\n" % (len(self.log), self.now_ns // 10**9)

    def body(self, since_s: int) -> bytes:
        out, begins = self.says, True
        for at_ns, text in self.records:
            if at_ns >= since_s * 10**9:
                out += _stamp(at_ns) + b" " + text if begins else text
                begins = text.endswith(b"\n")
        return out


def _stamp(at_ns: int) -> bytes:
    second, rest = divmod(at_ns - BEGAN_S * 10**9, 10**9)
    return b"2026-11-25T10:%02d:%02d.%09dZ" % (*divmod(second, 60), rest)


class Cluster:
    """The pods of one index; it answers as `Runs` and its session do."""

    def __init__(self, store: Store | None = None) -> None:
        self.now_s = 0.0
        self.store, self.timing = store, DEFAULT
        self.nodes: list[Node] = []
        self.session, self.clock = self, SimpleNamespace(monotonic=lambda: self.now_s)
        self.requests: list[int] = []  # the bytes of each answer
        self.fails: Exception | None = None

    def begins(self) -> Node:
        self.nodes.append(Node(f"runs/{RUN}/logs/0/0/{len(self.nodes) + 1}.txt", self.store))
        return self.nodes[-1]

    def record(self, run: str) -> dict[str, Any]:
        return {"nodes": 1, "count": 1}

    def pods(self, run: str) -> dict[int, list[Pod]]:
        known = [
            Pod(str(number), 0, number, {"status": {"phase": node.phase}})
            for number, node in enumerate(self.nodes, 1)
            if not node.gone
        ]
        return {0: known} if known else {}

    def path(self, kind: str, name: str) -> str:
        return name

    def opened(self, path: str, query: dict[str, Any], action: str) -> Any:
        if self.fails is not None:
            raise self.fails
        node = self.nodes[int(path.partition("/")[0]) - 1]
        if node.gone:
            raise Refused("the pod is gone", code=404)
        begin = int(logs.seconds_of(query["sinceTime"])) if "sinceTime" in query else 0
        body = node.body(begin)
        self.requests.append(len(body))
        blocks = [body[at : at + 50] for at in range(0, len(body), 50)]
        return SimpleNamespace(stream=lambda size: iter(blocks), close=lambda: None)


def reader(cluster: Cluster) -> Logs:
    return Logs(cluster)  # type: ignore[arg-type] # it has what a stream needs


def read(
    cluster: Cluster, position: str | None = None, of: Logs | None = None
) -> tuple[bytes, str | None]:
    """Return what a reader gets until there is no more at the moment, and its position."""
    found = b""
    while streams := (of or reader(cluster)).streams(RUN):
        chunk = streams[0].read(position)
        found, position = found + chunk.data, chunk.position
        if not chunk.data:
            break
    return found, position


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let chunks be small, so that the tests have many."""
    monkeypatch.setattr(logs, "CHUNK_BYTES", 64)


def test_the_node_and_the_store_have_the_same_bytes() -> None:
    """A reader that begins at the node goes on in the store when the pod is gone, at the same byte."""
    cluster = Cluster(Store())
    node = cluster.begins()
    for number in range(30):
        node.prints(b"line %d\r\n" % number)
    node.prints(b"no end")
    of_node, position = read(cluster)
    node.prints(b" of it\n\xff")
    node.saves()
    node.gone = True

    rest, _ = read(cluster, position)
    of_store, _ = read(cluster)

    assert of_node == node.log[: len(of_node)]
    assert of_node.endswith(b"no end")
    assert of_node + rest == of_store == node.log


def test_a_log_that_the_node_has_rotated_is_read_from_the_store_first() -> None:
    """And on from the node, which has what the store does not have yet."""
    cluster = Cluster(Store())
    node = cluster.begins()
    for number in range(40):
        node.prints(b"old %d\n" % number)
    node.saves()
    node.rotates()
    for number in range(40):
        node.prints(b"new %d\n" % number)

    first, position = read(cluster)
    node.saves()
    rest, position = read(cluster, position)
    node.prints(b"newest\n")
    last, _ = read(cluster, position)

    assert first == node.log[: len(first)]
    assert first + rest + last == node.log
    assert last == b"newest\n"


@pytest.mark.parametrize("with_store", [True, False])
@pytest.mark.parametrize("seed", range(150))
def test_nothing_is_lost_or_doubled(seed: int, with_store: bool) -> None:
    """Whatever is printed, rotated, saved and deleted in between; the reader is now and then another machine."""
    dice = random.Random(seed)
    cluster = Cluster(Store() if with_store else None)
    found, position, of = b"", None, reader(cluster)
    for number in range(dice.choice([1, 1, 2, 3])):
        node = cluster.begins()
        for _ in range(dice.randrange(40)):
            for _ in range(dice.randrange(12)):
                text = dice.choice(
                    [b"y\n", b"\n", b"part", b"step %d\n" % number, b"z" * 300 + b"\n"]
                )
                node.prints(text, dice.choice([0, 1_000, 10**8, 2 * 10**9]))
            if with_store and dice.random() < 0.2:
                node.saves()
            if with_store and dice.random() < 0.1:
                node.rotates()
            if dice.random() < 0.4:
                of = reader(cluster) if dice.random() < 0.3 else of
                more, position = read(cluster, position, of)
                found += more
        if with_store:
            node.saves()
            node.gone = dice.random() < 0.5
        node.phase = "Failed"
        cluster.now_s += 60

    more, _ = read(cluster, position)

    assert found + more == b"".join(node.log for node in cluster.nodes)


def test_a_long_log_is_read_once() -> None:
    """Each chunk is of the same answer; a later one begins at the second of the last line."""
    cluster = Cluster()
    node, of = cluster.begins(), reader(cluster)
    for number in range(2000):
        node.prints(b"line %d\n" % number, 10**7)

    _, position = read(cluster, None, of)
    node.prints(b"more\n", 10**9)
    more, _ = read(cluster, position, of)

    assert more == b"more\n"
    assert len(cluster.requests) == 4  # each time, a last one finds nothing
    assert max(cluster.requests[1:]) < cluster.requests[0] / 15


def test_a_pod_that_has_ended_is_asked_once() -> None:
    cluster = Cluster()
    node, of = cluster.begins(), reader(cluster)
    node.prints(b"done\n")
    node.phase = "Succeeded"
    found, position = read(cluster, None, of)

    again = [read(cluster, position, of)[0] for _ in range(5)]

    assert (found, again) == (b"done\n", [b""] * 5)
    assert len(cluster.requests) == 1


def test_a_line_that_a_node_cut_is_read_on() -> None:
    """Runtimes write a long line in parts, of which the first alone has a time in an answer."""
    cluster = Cluster()
    node = cluster.begins()
    node.prints(b"x" * 1000)
    first, position = read(cluster)
    node.prints(b"y" * 1000 + b"\n", 3 * 10**9)

    rest, _ = read(cluster, position)

    assert first + rest == node.log


def test_what_a_node_says_in_the_place_of_a_log_is_no_part_of_it() -> None:
    """It answers with 200 and this text when the log of a container was deleted."""
    cluster = Cluster(Store())
    node = cluster.begins()
    node.prints(b"kept\n")
    node.saves()
    node.records, node.phase = [], "Failed"
    node.says = b"unable to retrieve container logs for containerd://1"

    assert read(cluster)[0] == b"kept\n"


def test_a_container_that_could_not_start_the_agent_has_a_log() -> None:
    """It prints no marks: the image has no Python."""
    cluster = Cluster(Store())
    node = cluster.begins()
    node.records, node.phase = [], "Failed"
    node._write(b"runspec: this image has no python3\n")

    assert read(cluster)[0] == b"runspec: this image has no python3\n"


def test_what_neither_node_nor_store_has_is_left_out() -> None:
    """The agent was killed together with its container, so that the rest of the log still is worth to be read."""
    cluster = Cluster(Store())
    node = cluster.begins()
    node.prints(b"a" * 99 + b"\n")
    node.saves()
    node.prints(b"lost\n")
    node.rotates()
    node.prints(b"b" * 99 + b"\n")
    node.prints(b"c\n")
    node.phase = "Failed"

    assert read(cluster)[0] == b"a" * 99 + b"\n" + b"b" * 99 + b"\nc\n"


def test_a_node_that_cannot_be_reached_is_an_error_unless_the_store_has_more() -> None:
    cluster = Cluster(Store())
    node = cluster.begins()
    node.prints(b"saved\n")
    node.saves()
    cluster.fails = RemoteError("no route to the node", transient=True)
    stream = reader(cluster).streams(RUN)[0]

    chunk = stream.read(None)

    assert chunk.data == b"saved\n"
    with pytest.raises(RemoteError, match="no route"):
        stream.read(chunk.position)


def test_lines_have_the_times_of_the_node_and_of_the_agent() -> None:
    """To a second; in the store, to the second at which the agent looked."""
    cluster = Cluster(Store())
    node = cluster.begins()
    node.prints(b"one\n")
    node.prints(b"two\n", 2 * 10**9)
    node.saves()
    stream = reader(cluster).streams(RUN)[0]

    of_node = stream.timed(None)
    node.gone = True
    of_store = stream.timed(None)

    assert of_node.chunk.data == of_store.chunk.data == b"one\ntwo\n"
    assert of_node.times == [(4, BEGAN_S), (8, BEGAN_S + 2)]
    assert of_store.times == [(8, BEGAN_S + 2.5)]


def test_a_position_is_the_same_on_another_machine() -> None:
    """All of a position is in its text, so a client elsewhere can go on from it."""
    cluster = Cluster()
    cluster.begins().prints(b"one\n")

    _, position = read(cluster)

    assert str(logs.parse(position)) == position
    assert logs.parse(position).offset == 4
    assert logs.parse(None) == Position()
