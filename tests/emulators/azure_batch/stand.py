"""An emulator with a client, a pool and a job: what every test of it begins with."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from azure.batch import BatchClient
from azure.core.credentials import AccessToken, AzureNamedKeyCredential
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import SansIOHTTPPolicy

from runspec_emulators.azure_batch import AzureBatch
from tests.support.http_server import ReceivedRequest, Reply, Server
from tests.support.wait import until as until

ACCOUNT = "rehearsal"
QUICK: dict[str, Any] = {
    "node_s": 0.0,
    "boot_s": 0.0,
    "resize_s": 0.0,
    "delete_s": 0.0,
    "autoscale_s": 0.05,
    "sample_s": 0.02,
    "wake_s": 0.0,
}
MACHINE = {
    "imageReference": {"publisher": "microsoft-dsvm", "offer": "ubuntu-hpc", "sku": "2204"},
    "nodeAgentSKUId": "batch.node.ubuntu 22.04",
}


class Said(SansIOHTTPPolicy[Any, Any]):
    """Sends a bearer token over plain HTTP, which the SDK's own policy will not."""

    def __init__(self, token: str) -> None:
        self._token = token

    def on_request(self, request: Any) -> None:
        request.http_request.headers["Authorization"] = f"Bearer {self._token}"


class Token:
    """A credential that gives the token it was made of."""

    def __init__(self, token: str) -> None:
        self._token = token

    def get_token(self, *_scopes: str, **_more: Any) -> AccessToken:
        return AccessToken(self._token, int(time.time()) + 3600)


class Stand:
    """A server and its client, which does not try again by itself."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.server = AzureBatch(folder, ACCOUNT, **{**QUICK, **settings})
        self.client: Any = self.with_key(self.server.key)

    def with_key(self, key: str, account: str = ACCOUNT) -> Any:
        credential = AzureNamedKeyCredential(account, key)
        return BatchClient(endpoint=self.server.url, credential=credential, retry_total=0)

    def with_token(self, token: str) -> Any:
        return BatchClient(
            endpoint=self.server.url,
            credential=Token(token),
            authentication_policy=Said(token),
            retry_total=0,
        )

    def set(self, **settings: Any) -> None:
        self.server.control("PUT", "settings", settings)

    def faults(self, *faults: dict[str, Any]) -> None:
        self.server.control("PUT", "faults", list(faults))

    def pool(self, name: str = "pool", **more: Any) -> None:
        body: dict[str, Any] = {
            "id": name,
            "vmSize": "STANDARD_D2S_V3",
            "virtualMachineConfiguration": MACHINE,
        }
        if not more.get("enableAutoScale"):
            body["targetDedicatedNodes"] = 1
        self.client.create_pool({**body, **more})

    def job(self, name: str = "job", pool: str = "pool", **more: Any) -> None:
        self.client.create_job({"id": name, "poolInfo": {"poolId": pool}, **more})

    def ready(self, **more: Any) -> Stand:
        self.pool(**more)
        self.job()
        return self

    def run(self, line: str, name: str = "task", **more: Any) -> str:
        self.client.create_task("job", {"id": name, "commandLine": line, **more})
        return name

    def sh(self, script: str, name: str = "task", **more: Any) -> str:
        """Add a task that runs a script, in which there is no single quote."""
        return self.run(f"/bin/sh -c '{script}'", name, **more)

    def task(self, name: str = "task") -> Any:
        return self.client.get_task("job", name).as_dict()

    def reach(self, name: str, *states: str) -> Any:
        until(lambda: self.task(name)["state"] in states)
        return self.task(name)

    def end(self, name: str = "task") -> Any:
        return self.reach(name, "completed")

    def text(self, name: str = "task", file: str = "stdout.txt") -> str:
        return b"".join(self.client.download_task_file("job", name, file)).decode()

    def wrote(self, text: str, name: str = "task", file: str = "stdout.txt") -> None:
        """Wait until a task has written something."""

        def seen() -> bool:
            try:
                return text in self.text(name, file)
            except HttpResponseError:
                return False

        until(seen)

    def nodes(self, pool: str = "pool") -> list[Any]:
        return [n.as_dict() for n in self.client.list_nodes(pool)]

    def idle(self, count: int, pool: str = "pool") -> list[Any]:
        """Wait until so many nodes are idle, and the pool is steady."""
        until(lambda: [n["state"] for n in self.nodes(pool)] == ["idle"] * count)
        return self.nodes(pool)

    def truth(self, name: str = "task") -> Any:
        (found,) = [t for t in self.server.control("GET", "tasks") if t["id"] == name]
        return found

    def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        query: str = "api-version=2025-06-01",
    ) -> tuple[int, Any]:
        """Ask without the SDK, with a good token, and give the status and the JSON."""
        token = self.server.control("POST", "token")["access_token"]
        given = {"Authorization": f"Bearer {token}", **(headers or {})}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            given.setdefault("Content-Type", "application/json; odata=minimalmetadata")
        request = urllib.request.Request(
            f"{self.server.url}{path}?{query}", data, given, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, json.loads(exc.read() or b"null")


def code(error: Any) -> str:
    """Return the code of an error that the SDK raised."""
    return str(error.value.error.code if hasattr(error.value.error, "code") else error.value.error)


class Store(Server):
    """A few containers with the signature `sig=good`, as far as resource and output files need it."""

    def __init__(self) -> None:
        super().__init__(self._answered)
        self.blobs: dict[str, bytes] = {}
        self.start()

    def _answered(self, request: ReceivedRequest) -> Reply:
        status, body = self.answer(request.method, request.target, request.body)
        return Reply(status, {}, body)

    def answer(self, method: str, target: str, data: bytes) -> tuple[int, bytes]:
        split = urlsplit(target)
        query = {k: v[0] for k, v in parse_qs(split.query).items()}
        if query.get("sig") != "good":
            return 403, b""
        name = split.path.removeprefix("/")
        if not name.startswith("container"):
            return 404, b""
        if method == "PUT":
            self.blobs[name] = data
            return 201, b""
        if query.get("comp") == "list":
            return 200, self.listed(query)
        return (200, self.blobs[name]) if name in self.blobs else (404, b"")

    def listed(self, query: Mapping[str, str]) -> bytes:
        """Return pages of one name each."""
        names = sorted(n.removeprefix("container/") for n in self.blobs)
        names = [n for n in names if n.startswith(query.get("prefix", ""))]
        first = int(query.get("marker", 0))
        more = str(first + 1) if first + 1 < len(names) else ""
        found = "".join(f"<Blob><Name>{n}</Name></Blob>" for n in names[first : first + 1])
        text = f"<EnumerationResults><Blobs>{found}</Blobs><NextMarker>{more}</NextMarker></EnumerationResults>"
        return b"\xef\xbb\xbf" + text.encode()

    def blob(self, name: str, sig: str = "good") -> str:
        return f"{self.url}/container/{name}?sig={sig}"

    def container(self, name: str = "container", sig: str = "good") -> str:
        return f"{self.url}/{name}?sig={sig}"
