"""An emulator with the real SDK's client: what every test of it begins with."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from azure.core.exceptions import HttpResponseError
from azure.core.pipeline import PipelineRequest
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.mgmt.batchai import BatchAI as Client
from azure.mgmt.resource.resources import ResourceManagementClient

from runspec_emulators.batch_ai import BatchAI
from tests.support.wait import until as until

USER = {"adminUserName": "user", "adminUserSshPublicKey": "ssh-rsa AAAA"}
SHARE = {
    "accountName": "account",
    "azureFileUrl": "https://account.file.core.windows.net/logs",
    "credentials": {"accountKey": "the-key"},
    "relativeMountPath": "logs",
}
LOGS = "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs"
PLACE = ("group", "space")
EXPERIMENT = (*PLACE, "experiment")


class Bearer(SansIOHTTPPolicy[Any, Any]):
    """Puts a token into every request, which the SDK's own policy does over TLS only."""

    def __init__(self, token: str) -> None:
        self.token = token

    def on_request(self, request: PipelineRequest[Any]) -> None:
        request.http_request.headers["Authorization"] = f"Bearer {self.token}"


class Got(NamedTuple):
    """What a link answered."""

    status: int
    body: bytes
    headers: Any


class Hand:
    """An emulator, its client, and short words for what tests do."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.stand = BatchAI(folder, **settings)
        self.folder = folder
        more: dict[str, Any] = {
            "base_url": self.stand.url,
            "authentication_policy": Bearer(self.stand.token()),
            "polling_interval": 0,
            "retry_total": 0,
        }
        nobody: Any = object()  # the policy above gives the token
        self.client: Any = Client(nobody, self.stand.env["AZURE_SUBSCRIPTION_ID"], **more)
        self.resources: Any = ResourceManagementClient(
            nobody, self.stand.env["AZURE_SUBSCRIPTION_ID"], **more
        )

    def ready(self, nodes: int = 1, **more: Any) -> Hand:
        """Make a group, a workspace, an experiment, and a cluster of so many nodes."""
        self.resources.resource_groups.create_or_update("group", {"location": "eastus"})
        self.client.workspaces.begin_create(*PLACE, {"location": "eastus"}).result()
        self.client.experiments.begin_create(*EXPERIMENT).result()
        self.cluster("cluster", nodes, **more)
        return self

    def cluster(self, name: str, nodes: int = 1, **more: Any) -> Any:
        scale = {"manual": {"targetNodeCount": nodes}}
        asked = {
            "vmSize": "STANDARD_D2",
            "userAccountSettings": USER,
            "scaleSettings": scale,
            **more,
        }
        made = self.client.clusters.begin_create(*PLACE, name, {"properties": asked}).result()
        if not more:
            until(lambda: self.count(name, "idle") == nodes)
        return made

    def count(self, name: str, state: str) -> int:
        counts = self.client.clusters.get(*PLACE, name).node_state_counts
        return int(getattr(counts, f"{state}_node_count"))

    def asked(self, command: str = "true", nodes: int = 1, **more: Any) -> dict[str, Any]:
        """Return the properties of a job."""
        where = self.stand.env["AZURE_SUBSCRIPTION_ID"]
        base = f"/subscriptions/{where}/resourceGroups/group/providers/Microsoft.BatchAI"
        found = {
            "cluster": {"id": f"{base}/workspaces/space/clusters/cluster"},
            "nodeCount": nodes,
            "stdOutErrPathPrefix": LOGS,
            "mountVolumes": {"azureFileShares": [SHARE]},
            "customToolkitSettings": {"commandLine": command},
            **more,
        }
        return {name: value for name, value in found.items() if value is not None}

    def submit(self, command: str = "true", name: str = "job", **more: Any) -> Any:
        asked = {"properties": self.asked(command, **more)}
        return self.client.jobs.begin_create(*EXPERIMENT, name, asked).result()

    def job(self, name: str = "job") -> Any:
        return self.client.jobs.get(*EXPERIMENT, name)

    def over(self, name: str = "job") -> Any:
        """Return the job when it is over."""
        return until(
            lambda: (
                found
                if (found := self.job(name)).execution_state in ("succeeded", "failed")
                else None
            )
        )

    def run(self, command: str = "true", name: str = "job", **more: Any) -> Any:
        self.submit(command, name, **more)
        return self.over(name)

    def files(self, output: str = "stdouterr", name: str = "job", **more: Any) -> dict[str, Any]:
        """Return what is listed, by name."""
        options = {"outputdirectoryid": output, **more}
        options = self.client.jobs.models.JobsListOutputFilesOptions(**options)
        return {f.name: f for f in self.client.jobs.list_output_files(*EXPERIMENT, name, options)}

    def text(self, file: str = "stdout.txt", output: str = "stdouterr", name: str = "job") -> str:
        return get(self.files(output, name)[file].download_url).body.decode()

    def operations(self) -> list[str]:
        """Return what was called."""
        return [call["operation"] for call in self.stand.control("GET", "calls")]


def code(error: HttpResponseError) -> str | None:
    """Return the code that a refusal has."""
    return error.error.code if error.error else None


def get(url: str, ranged: str | None = None) -> Got:
    """Follow a link."""
    headers = {"Range": ranged} if ranged else {}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=60
        ) as answer:
            return Got(answer.status, answer.read(), answer.headers)
    except urllib.error.HTTPError as exc:
        return Got(exc.code, exc.read(), exc.headers)


def alive(pid: int) -> bool:
    """Say whether a process runs: one that is dead has no command line. proc(5)"""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def ask(hand: Hand, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Ask for *path*, below the group where it begins with /workspaces, without the SDK."""
    where = f"/subscriptions/{hand.stand.env['AZURE_SUBSCRIPTION_ID']}/resourceGroups/group"
    if path.startswith("/workspaces"):
        path = f"{where}/providers/Microsoft.BatchAI{path}"
    link = http.client.HTTPConnection(hand.stand.url.partition("//")[2], timeout=60)
    data = None if body is None else json.dumps(body)
    own = {"Content-Type": "application/json", "Authorization": f"Bearer {hand.stand.token()}"}
    link.request(method, path, data, {**own, **headers})
    answer = link.getresponse()
    text = answer.read()
    link.close()
    return answer.status, json.loads(text) if text else None
