"""A machine that answers for its metadata what a test wants."""

from __future__ import annotations

import json
from typing import Any

from tests.support.http_server import ReceivedRequest, Reply, Server

TOKEN = "t0ken"
NOTICE = json.dumps({"action": "terminate", "time": "2026-11-21T20:22:00Z"})


class Machine(Server):
    """`ends` is what instance-action says; `refuses` is answered instead, so often."""

    def __init__(self) -> None:
        super().__init__(self._answered)
        self.ends: str | None = None
        self.refuses: list[int] = []

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Return the method and the path of each request that came."""
        return [(request.method, request.target) for request in self.asked]

    def _answered(self, request: ReceivedRequest) -> Reply:
        status, text = self.answer(request)
        return Reply(status, {}, text.encode())

    def env(self) -> dict[str, str]:
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{self.url}/"}

    def answer(self, request: ReceivedRequest) -> tuple[int, str]:
        headers, path = request.headers, request.target
        if self.refuses:
            return self.refuses.pop(0), ""
        if (request.method, path) == ("PUT", "/latest/api/token"):
            given = int(headers["x-aws-ec2-metadata-token-ttl-seconds"])
            return (200, TOKEN) if 1 <= given <= 21_600 else (400, "")
        if headers.get("x-aws-ec2-metadata-token") != TOKEN:
            return 401, ""
        if path != "/latest/meta-data/spot/instance-action" or self.ends is None:
            return 404, ""
        return 200, self.ends


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

    def answer(self, request: ReceivedRequest) -> tuple[int, str]:
        path = request.target
        if request.headers.get("metadata") != "true" or "api-version=" not in path:
            return 400, ""
        if self.refuses:
            return self.refuses.pop(0), ""
        if path.startswith("/metadata/instance/compute/name?") and "format=text" in path:
            return 200, self.name
        return (200, self.text) if path.startswith("/metadata/scheduledevents?") else (404, "")
