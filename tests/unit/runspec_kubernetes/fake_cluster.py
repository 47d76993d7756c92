"""Objects of a cluster in this process, in the place of the API server, and a store in memory."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO
from unittest import mock

from runspec_jobs.provider import Conflict
from runspec_kubernetes import client
from runspec_kubernetes.errors import Refused
from runspec_kubernetes.job import FAILURES, INDEX
from runspec_kubernetes.naming import MANAGED, RUN_LABEL, collection
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.session import Session
from runspec_kubernetes.timing import CLOCK, DEFAULT
from runspec_objects.store import Entry, Store

RUN = "train-7k2m9q"


class FakeCluster(Session):
    """A session whose objects are in `objects`, by path; `sent` has the requests that change something."""

    def __init__(self, options: KubernetesOptions) -> None:
        super().__init__(options, DEFAULT, CLOCK)
        self.objects: dict[str, dict[str, Any]] = {}
        self.sent: list[tuple[str, str, Any]] = []
        self.refuses: dict[str, Exception] = {}  # by a pattern of "METHOD path"
        self.forbidden: set[str] = set()  # such as "create jobs"

    def add(self, plural: str, name: str, run: str | None, **more: Any) -> dict[str, Any]:
        metadata = {
            "name": name,
            "namespace": self.options.namespace,
            "uid": f"uid-{name}",
            "labels": {**MANAGED, **({RUN_LABEL: run} if run else {})},
            **more.pop("metadata", {}),
        }
        path = f"{collection(self.options.namespace, plural)}/{name}"
        self.objects[path] = {"metadata": metadata, **more}
        return self.objects[path]

    def send(self, method: str, path: str, query: Any = None, body: Any = None, **more: Any) -> Any:
        for pattern, error in self.refuses.items():
            if re.search(pattern, f"{method} {path}"):
                raise error
        if path.endswith("/selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            names = filter(None, [asked["resource"], asked["subresource"]])
            what = f"{asked['verb']} {'/'.join(names)}"
            return {"status": {"allowed": what not in self.forbidden}}
        if method != "GET":
            self.sent.append((method, path, body))
        if method == "POST":
            made = {**body, "metadata": {"uid": "uid-new", **body.get("metadata", {})}}
            self.objects[f"{path}/{made['metadata'].get('name')}"] = made
            return made
        known = self.objects.get(path)
        if known is None:
            raise Refused(f"{path} not found", code=404)
        uid = (body or {}).get("preconditions", (body or {}).get("metadata") or {}).get("uid")
        if uid not in (None, known["metadata"].get("uid")):
            raise Conflict("the UID in the precondition differs")
        if method == "DELETE":
            del self.objects[path]
        elif method == "PATCH":
            _merge(known, json.loads(json.dumps(body)))
        return known

    def listed(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        for pattern, error in self.refuses.items():
            if re.search(pattern, f"GET {path}"):
                raise error
        chosen = dict(
            pair.split("=")
            for pair in str(query.get("labelSelector") or "").split(",")
            if "=" in pair
        )
        for at, body in list(self.objects.items()):
            marks = body["metadata"].get("labels") or {}
            if at.rpartition("/")[0] == path and chosen.items() <= marks.items():
                yield body


def _merge(known: dict[str, Any], patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        if isinstance(value, Mapping) and isinstance(known.get(key), dict):
            _merge(known[key], value)
        else:
            known[key] = value


class FakeStore(dict[str, bytes], Store):
    """A store in memory."""

    def part(self, key: str, start: int, end: int | None) -> bytes | None:
        return self[key][start:end] if key in self else None

    def put(self, key: str, content: bytes) -> None:
        self[key] = content

    def put_new(self, key: str, content: bytes) -> bool:
        if key in self:
            return False
        self[key] = content
        return True

    def remove(self, keys: Any) -> None:
        for key in keys:
            self.pop(key, None)

    def size(self, key: str) -> int | None:
        return len(self[key]) if key in self else None

    def put_blocks(self, key: str, blocks: Iterator[bytes], count: int) -> None:
        self[key] = b"".join(blocks)

    def copy(self, source: str, target: str) -> None:  # type: ignore[override]
        self[target] = self[source]

    def opened(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        return io.BytesIO(self[key][start:end])

    def listing(self, prefix: str) -> Iterator[Entry]:
        for key in sorted(self):
            if key.startswith(prefix):
                yield Entry(key, len(self[key]))


class Fakes:
    """A client of a profile with a store, its cluster, and its store."""

    def __init__(self, **record: Any) -> None:
        options = KubernetesOptions(store="s3://bucket/runspec")
        self.store = FakeStore()
        with mock.patch.object(client, "_open_store", return_value=self.store):
            self.client = client.StoreClient(options)
        self.cluster = self.client.session = self.client.runs.session = FakeCluster(options)
        fields = {"format": "runspec.run/v1", "run": RUN, "nodes": 1, "count": 4, "ends": True}
        body = {**fields, "sweep": [["lr", ["1", "2", "3", "4"]]], "shape": "array", **record}
        self.store[f"runs/{RUN}/record.json"] = json.dumps(body).encode()

    def add_job(self, count: int = 4, **spec: Any) -> dict[str, Any]:
        return self.cluster.add(
            "jobs", RUN, RUN, kind="Job", spec={"completions": count, **spec}, status={}
        )

    def add_pod(self, index: int, phase: str, attempt: int = 1) -> dict[str, Any]:
        marks = {INDEX: str(index), FAILURES: str(attempt - 1)}
        return self.cluster.add(
            "pods",
            f"{RUN}-{index}-{attempt}",
            RUN,
            metadata={"annotations": marks},
            status={"phase": phase},
        )
