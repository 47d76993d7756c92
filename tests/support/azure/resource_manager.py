"""A small Azure on loopback: what an account and its subscription answer to those who only look.

The shapes are those of https://learn.microsoft.com/rest/api/compute/resource-skus/list,
.../compute/usage/list, .../batchmanagement/batch-account/get and
.../batchservice/account/list-supported-images.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from azure.core.credentials import AccessToken
from azure.core.pipeline.policies import SansIOHTTPPolicy

SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers"
ACCOUNT_ID = f"{GROUP}/Microsoft.Batch/batchAccounts/jobs"
NO_BLOBS = '<?xml version="1.0"?><EnumerationResults><Blobs/><NextMarker/></EnumerationResults>'


class Login:
    """Whoever is logged in, on a machine where nobody is."""

    def __init__(self, **more: Any) -> None:
        self.more = more

    def get_token(self, *scopes: str, **more: Any) -> AccessToken:
        return AccessToken("a-token", int(time.time()) + 3600)


class OverHttp(SansIOHTTPPolicy[Any, Any]):
    """The SDKs send no token over http by themselves."""

    def on_request(self, request: Any) -> None:
        request.http_request.headers["Authorization"] = "Bearer a-token"


def sku(
    name: str, family: str, *, closed: str | None = None, **capabilities: str
) -> dict[str, Any]:
    restriction = {
        "type": closed,
        "values": ["westeurope"],
        "reasonCode": "NotAvailableForSubscription",
        "restrictionInfo": {"locations": ["westeurope"]},
    }
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "family": family,
        "locations": ["westeurope"],
        "locationInfo": [{"location": "westeurope", "zones": ["1", "2"]}],
        "capabilities": [{"name": k, "value": v} for k, v in capabilities.items()],
        "restrictions": [restriction] if closed else [],
    }


def usage(name: str, used: int, limit: int) -> dict[str, Any]:
    said = {"value": name, "localizedValue": name}
    return {"unit": "Count", "currentValue": used, "limit": limit, "name": said}


class Azure:
    """What the account has; a test changes what it is about. `calls` are the paths asked for."""

    def __init__(self) -> None:
        self.account: dict[str, Any] = {
            "provisioningState": "Succeeded",
            "poolAllocationMode": "UserSubscription",
        }
        self.skus = [
            sku(
                "Standard_D2ds_v5",
                "standardDDSv5Family",
                vCPUs="2",
                MemoryGB="8",
                MaxResourceVolumeMB="76800",
                LowPriorityCapable="True",
            ),
            sku(
                "Standard_HB120-16rs_v3",
                "standardHBv3Family",
                vCPUs="120",
                vCPUsAvailable="16",
                MemoryGB="456",
                MaxResourceVolumeMB="491520",
                LowPriorityCapable="False",
                RdmaEnabled="True",
            ),
            sku(
                "Standard_NC4as_T4_v3",
                "Standard NCASv3_T4 Family",
                closed="Location",
                vCPUs="4",
                MemoryGB="28",
                GPUs="1",
            ),
            sku(
                "Standard_NC24ads_A100_v4",
                "StandardNCADSA100v4Family",
                closed="Zone",
                vCPUs="24",
                MemoryGB="220",
                GPUs="1",
            ),
            {**sku("Premium_LRS", ""), "resourceType": "disks"},
        ]
        self.usages = [
            usage("cores", 10, 100),
            usage("lowPriorityCores", 0, 50),
            usage("standardDDSv5Family", 9, 10),
            usage("Standard NCASv3_T4 Family", 0, 0),
        ]
        self.images = [
            {
                "imageReference": {
                    "publisher": "microsoft-dsvm",
                    "offer": "ubuntu-hpc",
                    "sku": "2404",
                    "version": "latest",
                },
                "nodeAgentSKUId": "batch.node.ubuntu 24.04",
                "osType": "linux",
                "capabilities": ["DockerCompatible", "NvidiaTeslaDriverInstalled"],
                "verificationType": "verified",
                "batchSupportEndOfLife": "2029-06-30T00:00:00Z",
            }
        ]
        # https://learn.microsoft.com/rest/api/authorization/permissions/list-for-resource
        self.permissions: list[dict[str, Any]] = []
        self.pools: dict[str, dict[str, Any]] = {}
        self.container = True
        self.obeys = True  # conditions of writes to blobs
        self.blobs: set[str] = set()
        self.denied = "nothing"  # a path that holds it is refused
        self.calls: list[str] = []
        self.url = ""

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if self.denied in path:
            error = {"code": "AuthorizationFailed", "message": "no right to read"}
            return 403, {"error": error}
        if path == f"/subscriptions/{SUBSCRIPTION}/resources":
            one = {"id": ACCOUNT_ID, "name": "jobs", "type": "Microsoft.Batch/batchAccounts"}
            return 200, {"value": [one]}
        if path.endswith("/providers/Microsoft.Authorization/permissions"):
            return 200, {"value": self.permissions}
        if path == ACCOUNT_ID:
            return 200, {"id": ACCOUNT_ID, "location": "westeurope", "properties": self.account}
        if path.endswith("/Microsoft.Compute/skus"):
            asked = query.get("$filter") == ["location eq 'westeurope'"]
            return 200, {"value": self.skus if asked else []}
        if path.endswith("/locations/westeurope/usages"):
            return 200, {"value": self.usages}
        if path == "/supportedimages":
            return 200, {"value": self.images}
        pool = self.pools.get(path.removeprefix("/pools/"))
        if pool is not None:
            return 200, pool
        return 404, {
            "code": "PoolNotFound",
            "message": {"value": "The specified pool is not there."},
        }


def _handler(azure: Azure) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            azure.calls.append(parts.path)
            if "comp=list" in parts.query:
                status, content = (200, NO_BLOBS) if azure.container else (404, NO_CONTAINER)
                self._send(status, content.encode(), "application/xml")
                return
            status, answer = azure.answer(parts.path, parse_qs(parts.query))
            self._send(status, json.dumps(answer).encode(), "application/json")

        def do_PUT(self) -> None:
            azure.calls.append(urlsplit(self.path).path)
            self.rfile.read(int(self.headers["Content-Length"]))
            there = self.path in azure.blobs
            if azure.obeys and there and self.headers["If-None-Match"]:
                self._send(409, EXISTS, "application/xml")
            elif azure.obeys and self.headers["If-Match"]:
                self._send(412, CHANGED, "application/xml")
            else:
                azure.blobs.add(self.path)
                self._send(201, b"", "application/xml")

        def do_POST(self) -> None:
            """Delete a blob: https://learn.microsoft.com/rest/api/storageservices/blob-batch"""
            azure.calls.append(urlsplit(self.path).path)
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            (name,) = re.findall(r"DELETE (\S+) HTTP", body)
            azure.blobs.discard(name)
            self._send(202, DELETED, "multipart/mixed; boundary=b")

        def _send(self, status: int, content: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", '"0x1"')
            self.send_header("Last-Modified", "Thu, 26 Nov 2026 09:00:00 GMT")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


DELETED = (
    b"--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\n"
    b"HTTP/1.1 202 Accepted\r\nx-ms-request-id: 1\r\n\r\n--b--\r\n"
)
EXISTS = b'<?xml version="1.0"?><Error><Code>BlobAlreadyExists</Code></Error>'
CHANGED = b'<?xml version="1.0"?><Error><Code>ConditionNotMet</Code></Error>'
NO_CONTAINER = (
    '<?xml version="1.0"?><Error><Code>ContainerNotFound</Code>'
    "<Message>The specified container does not exist.</Message></Error>"
)


@contextmanager
def azure() -> Iterator[Azure]:
    """Start a small Azure, and end it."""
    made = Azure()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(made)) as server:
        made.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
