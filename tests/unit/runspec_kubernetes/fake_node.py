"""A node and a store that have the logs of pods, as a kubelet and agents write them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runspec_agent.base.record_formats import LOG_MARK
from runspec_kubernetes import logs
from runspec_kubernetes.attempts import Pod
from runspec_kubernetes.errors import Refused
from runspec_kubernetes.logs import Logs
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
            self.writes(LOG_MARK.format(0).encode())

    def prints(self, text: bytes, after_ns: int = 1_000_003) -> None:
        self.now_ns += after_ns
        self.log += text
        self.writes(text)
        new = len(self.log) - self.marked
        if self.store is not None and text.endswith(b"\n") and new >= self.mark_bytes:
            self.writes(LOG_MARK.format(len(self.log)).encode())
            self.marked = len(self.log)

    def writes(self, text: bytes) -> None:
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

    def begins_again(self) -> Node:
        """Replace the newest pod by another one of the same attempt, as Kueue does."""
        self.nodes.pop().gone = True
        return self.begins()

    def record(self, run: str) -> dict[str, Any]:
        return {"nodes": 1, "count": 1}

    def pods(self, run: str) -> dict[int, list[Pod]]:
        known = [
            Pod(f"{number}/{id(node)}", 0, number, {"status": {"phase": node.phase}})
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
