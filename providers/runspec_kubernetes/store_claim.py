"""A volume claim as the store: this machine reaches it through a pod that mounts it.

The pod is that of a Job, named by its content, which Kubernetes deletes when the pod has had nothing to do for some
minutes. Its program answers the requests of `runspec_agent.transfer.store_server` over the streams of `exec`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, Protocol

import websocket
from websocket import ABNF

from runspec_jobs.provider import (
    AlreadyExists,
    Conflict,
    NoAnswer,
    RemoteError,
    Request,
    Unavailable,
    UsageError,
)
from runspec_jobs.provider.saved_outputs import MANIFEST
from runspec_jobs.provider.streams.object_streams import RangedReader
from runspec_kubernetes import job, lookup, reasons, store_layout
from runspec_kubernetes.errors import Refused
from runspec_kubernetes.naming import collection, create, delete
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.session import Session
from runspec_kubernetes.shell_stream import CHUNK_BYTES, STATUS, STDIN, STDOUT, connect
from runspec_kubernetes.status import state_of
from runspec_objects.store import Entry, Store

PART_BYTES = 8 << 20
LABEL = "job-name"  # also before 1.27, which has another one as well
SERVE = job.RUN % "serve-store"


class Wire(Protocol):
    """The streams of a program that serves the store."""

    def send(self, data: bytes) -> None: ...

    def receive(self) -> bytes:
        """Return the next bytes of its output. Raises OSError at the end."""

    def close(self) -> None: ...


class ClaimStore(Store):
    """A store in a folder of a volume claim."""

    def __init__(self, open_wire: Callable[[], Wire]) -> None:
        self._open_wire = open_wire
        self._wire: Wire | None = None
        self._lock = threading.Lock()
        self._read = bytearray()

    def __del__(self) -> None:
        self._drop()

    def size(self, key: str) -> int | None:
        size: int | None = self._ask("size", key=key)[0]["is"]
        return size

    def part(self, key: str, start: int, end: int | None) -> bytes | None:
        answer, content = self._ask("part", key=key, start=start, end=end)
        return None if answer["is"] is None else content

    def put(self, key: str, content: bytes) -> None:
        self._ask("put", content, key=key)

    def put_new(self, key: str, content: bytes) -> bool:
        return bool(self._ask("new", content, again=False, key=key)[0]["is"])

    def put_blocks(self, key: str, blocks: Iterator[bytes], count: int) -> None:
        self._ask("put", blocks, again=False, key=key, size=count)

    def remove(self, keys: Sequence[str]) -> None:
        if keys:
            self._ask("remove", keys=list(keys))

    def listing(self, prefix: str) -> Iterator[Entry]:
        content = self._ask("list", key=prefix)[1]
        return (Entry(key, size) for key, size in json.loads(content))

    def copy(self, source: str, target: str) -> None:
        self._ask("copy", source=source, key=target)

    def opened(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        if key.endswith(MANIFEST):  # it may be replaced between two requests
            return io.BytesIO(self.read_present(key, start, end))
        size = self.size(key) if end is None else end
        if size is None:
            raise Conflict(f"{key} has been deleted")
        read = partial(self.read_present, key)
        return io.BufferedReader(RangedReader(read, start, size, PART_BYTES), PART_BYTES)

    def _ask(
        self, do: str, content: bytes | Iterable[bytes] = b"", *, again: bool = True, **asked: Any
    ) -> tuple[Mapping[str, Any], bytes]:
        """Return the answer to a request, and its content; *again*: after an error, it may be sent once more."""
        blocks = (content,) if isinstance(content, bytes) else content
        head = {"do": do, "size": len(content) if isinstance(content, bytes) else 0, **asked}
        with self._lock:
            # The pod of an old connection may be gone.
            tries = 2 if again and self._wire is not None else 1
            answer, data = self._send(head, blocks, tries)
        if "error" in answer:
            raise RemoteError(f"the store refuses it: {answer['error']}")
        return answer, data

    def _send(
        self, head: Mapping[str, Any], blocks: Iterable[bytes], tries: int
    ) -> tuple[Mapping[str, Any], bytes]:
        try:
            return self._exchange(head, blocks)
        except OSError as exc:
            self._drop()
            if tries == 1:
                raise NoAnswer(f"the pod of the store: {exc}") from exc
            return self._send(head, blocks, tries - 1)
        except BaseException:  # of the blocks, or Ctrl-C: what is on the way belongs to no request
            self._drop()
            raise

    def _exchange(
        self, head: Mapping[str, Any], blocks: Iterable[bytes]
    ) -> tuple[Mapping[str, Any], bytes]:
        if self._wire is None:
            self._read.clear()
            self._wire = self._open_wire()
        self._wire.send(json.dumps(head).encode() + b"\n")
        for block in blocks:
            for at in range(0, len(block), PART_BYTES):
                self._wire.send(block[at : at + PART_BYTES])
        while (end := self._read.find(b"\n")) < 0:
            self._read += self._wire.receive()
        answer = json.loads(self._read[:end])
        del self._read[: end + 1]
        while len(self._read) < answer["size"]:
            self._read += self._wire.receive()
        data = bytes(self._read[: answer["size"]])
        del self._read[: answer["size"]]
        return answer, data

    def _drop(self) -> None:
        if self._wire is not None:
            with contextlib.suppress(OSError):
                self._wire.close()
            self._wire = None


class PodWire:
    """The streams of the program in a pod."""

    def __init__(self, connection: Any, timeout_s: float) -> None:
        self._connection, self._said = connection, b""
        connection.settimeout(timeout_s)

    def send(self, data: bytes) -> None:
        for at in range(0, len(data), CHUNK_BYTES):
            with _translated():
                self._connection.send_binary(bytes([STDIN]) + data[at : at + CHUNK_BYTES])

    def receive(self) -> bytes:
        while True:
            with _translated():
                # It answers a ping by itself, and joins the frames of a message.
                kind, frame = self._connection.recv_data_frame()
            channel, data = frame.data[:1], frame.data[1:]
            if kind == ABNF.OPCODE_CLOSE or (channel == bytes([STATUS]) and data):
                raise OSError((self._said or data).decode(errors="replace").strip()[:300])
            if channel == bytes([STDOUT]) and data:
                return bytes(data)
            self._said = (self._said + data)[-300:]

    def close(self) -> None:
        with _translated():
            self._connection.shutdown()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except websocket.WebSocketException as exc:
        raise OSError(str(exc)) from exc


def open_store(session: Session, make: Callable[[Request], object]) -> ClaimStore:
    """Return the store in the claim of the profile; its pod is made by *make* when it is needed."""

    def connected() -> Wire:
        pod = _running(session, make)
        argv = ["/bin/sh", "-c", SERVE]
        connection = connect(session.options, pod, argv, terminal=False)
        return PodWire(connection, session.timing.gone_s)

    return ClaimStore(connected)


def _pod(options: KubernetesOptions) -> dict[str, Any]:
    place = options.store or ""
    container = {
        "name": job.CONTAINER,
        "image": options.image,
        "command": ["/bin/sh", "-c", job.RUN % "serve-store --wait"],
        "env": [
            {"name": "RUNSPEC_SCRATCH", "value": job.HOME},
            *({"name": k, "value": v} for k, v in job.store_variables(options).items()),
        ],
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"memory": "256Mi"},
        },
        "volumeMounts": [
            {"name": "work", "mountPath": job.HOME},
            {"name": "agent", "mountPath": job.AGENT_AT, "readOnly": True},
            job.CLAIM_MOUNT,
        ],
    }
    volumes = [
        {"name": "work", "emptyDir": {}},
        {"name": "agent", "configMap": {"name": store_layout.agent_name()}},
        {"name": "store", "persistentVolumeClaim": {"claimName": place.removeprefix("pvc:")}},
    ]
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [container | job.confined(options)],
        "volumes": volumes,
        **job.confined_pod(options),
    }


def _running(session: Session, make: Callable[[Request], object]) -> str:
    """Return the name of the running pod of the Job, which is made if there is none."""
    options, clock = session.options, session.clock
    content = {
        "template": {"spec": _pod(options)},
        "backoffLimit": 0,
        "activeDeadlineSeconds": int(session.timing.served_s),
        "ttlSecondsAfterFinished": 0,
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    name = f"runspec-store-{digest[:12]}"
    request = create(options, "jobs", name, None, spec=content)
    end, why = clock.monotonic() + session.timing.gone_s, ""
    while clock.monotonic() < end:
        existing = session.read(lookup.path_of(request))
        if existing is None:
            _demand_claim(session)
            for step in (store_layout.agent_step(options).do, request):
                with contextlib.suppress(AlreadyExists):
                    make(step)
        else:
            lookup.refuse_foreign(existing, None)
            if state_of(existing, {}).terminal and not lookup.is_leaving(existing):
                make(
                    delete(options, "jobs", name)
                )  # the cluster would, but need not have the controller
        pods = collection(options.namespace, "pods")
        for pod in session.listed(pods, labelSelector=f"{LABEL}={name}"):
            why = reasons.waiting(pod) or why
            if "running" in reasons.container_state(pod) and not lookup.is_leaving(pod):
                return str(pod["metadata"]["name"])
        clock.sleep(session.timing.first_pause_s)
    message = f"the pod that reaches {options.store} does not start: {why or 'there is none'}"
    raise Unavailable(message, f"kubectl -n {options.namespace} describe job {name}")


def _demand_claim(session: Session) -> None:
    """Raise UsageError if the claim of the profile does not exist; a login need not have the right to look."""
    options = session.options
    name = (options.store or "").removeprefix("pvc:")
    try:
        found = session.read(f"{collection(options.namespace, 'persistentvolumeclaims')}/{name}")
    except Refused:
        return
    if found is None:
        message = f"the namespace {options.namespace} has no volume claim {name}"
        raise UsageError(message, "make it, or set another store in the profile")
