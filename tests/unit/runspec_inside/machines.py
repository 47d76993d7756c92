"""A machine that answers for its metadata what a test wants."""

from __future__ import annotations

import http.server
import json
import threading
from types import TracebackType
from typing import Any, Self

TOKEN = "t0ken"
NOTICE = json.dumps({"action": "terminate", "time": "2026-11-21T20:22:00Z"})


class Machine:
    """`ends` is what instance-action says; `refuses` is answered instead, so often."""

    def __init__(self) -> None:
        self.ends: str | None = None
        self.refuses: list[int] = []
        self.asked: list[tuple[str, str]] = []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def env(self) -> dict[str, str]:
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{self.url}/"}

    def answer(self, method: str, path: str, headers: Any) -> tuple[int, str]:
        self.asked.append((method, path))
        if self.refuses:
            return self.refuses.pop(0), ""
        if (method, path) == ("PUT", "/latest/api/token"):
            given = int(headers["X-aws-ec2-metadata-token-ttl-seconds"])
            return (200, TOKEN) if 1 <= given <= 21_600 else (400, "")
        if headers["X-aws-ec2-metadata-token"] != TOKEN:
            return 401, ""
        if path != "/latest/meta-data/spot/instance-action" or self.ends is None:
            return 404, ""
        return 200, self.ends

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(machine: Machine) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def _any(self) -> None:
            status, text = machine.answer(self.command, self.path, self.headers)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_PUT = _any  # noqa: N815 - names of http.server

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on stderr."""

    return Handler


class AzureMachine(Machine):
    """One of Azure: `text` is its document of scheduled events.

    https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
    """

    name = "vmss_3"

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.tells()

    def tells(self, *events: Any) -> None:
        self.text = json.dumps({"DocumentIncarnation": 1 + len(events), "Events": list(events)})

    def env(self) -> dict[str, str]:
        return {"AZURE_POD_IDENTITY_AUTHORITY_HOST": self.url}

    def answer(self, method: str, path: str, headers: Any) -> tuple[int, str]:
        self.asked.append((method, path))
        if headers["Metadata"] != "true" or "api-version=" not in path:
            return 400, ""
        if self.refuses:
            return self.refuses.pop(0), ""
        if path.startswith("/metadata/instance/compute/name?") and "format=text" in path:
            return 200, self.name
        return (200, self.text) if path.startswith("/metadata/scheduledevents?") else (404, "")
