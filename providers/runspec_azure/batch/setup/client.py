"""The client of a setup at the Azure Resource Manager: it deletes only what bears its mark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from azure.storage.blob import ContainerClient

from runspec_azure.batch import timing
from runspec_azure.batch.setup.manager import Manager
from runspec_azure.batch.setup.options import BatchSetup
from runspec_azure.batch.setup.steps import BATCH, MARK, STORAGE, Names
from runspec_azure.errors import code_of, translated
from runspec_azure.session import clouds, transport
from runspec_azure.timing import CLOCK
from runspec_jobs.provider import Conflict, NoAnswer, RemoteError, Request, Response, Step

# An identity that was made just now may be unknown to the service of roles for a while.
# https://learn.microsoft.com/azure/role-based-access-control/troubleshooting#symptom---assigning-a-role-to-a-new-principal-sometimes-fails
NOT_YET = frozenset({"PrincipalNotFound"})
THERE = frozenset({"RoleAssignmentExists"})
ASSIGNMENT = "/Microsoft.Authorization/roleAssignments/"
LEAVING = ("Deleting", "Deleted")
CONTAINERS = "blobServices/default/containers"
# A setup makes none of these, and so --with-data does not delete them.
OTHER_DATA = (
    "fileServices/default/shares",
    "queueServices/default/queues",
    "tableServices/default/tables",
)
WITH_DATA = "to delete these too, add --with-data"


def connect(options: BatchSetup, survey: Mapping[str, Any], setup: str) -> BatchSetupClient:
    return BatchSetupClient(options, survey, setup)


class BatchSetupClient:
    def __init__(self, options: BatchSetup, survey: Mapping[str, Any], setup: str) -> None:
        self.options, self.setup = options, setup
        self.names = Names(options, survey)
        self.manager = Manager(options)
        self.timing = timing.DEFAULT

    def call(self, request: Request) -> Response:
        path, version = request.params["path"], request.params["version"]
        if request.operation == "delete_data":
            if self._is_ours(path, version):
                self._refuse_pools()
                self._delete(path, version)
            return {}
        if request.operation == "delete":
            return self._undo(path, version)
        try:
            _, answer = self.manager.send("PUT", path, version, request.params["body"])
        except RemoteError as exc:
            if code_of(exc) in THERE:
                return {}
            exc.transient = exc.transient or code_of(exc) in NOT_YET
            raise
        return self._keep(path, answer or self.manager.get(path, version) or {})

    def _keep(self, path: str, resource: Mapping[str, Any]) -> Response:
        """Return what later steps and the settings need of a resource."""
        properties = resource.get("properties", {})
        if path == self.names.identity:
            if "principalId" not in properties:
                raise NoAnswer("the identity has no principalId yet")
            return {"principalId": properties["principalId"]}
        if path == self.names.batch:
            cloud, name = clouds.of(self.options), path.rpartition("/")[2]
            usual = f"{name}.{self.names.location}.{cloud.batch}"
            return {"url": f"https://{properties.get('accountEndpoint', usual)}"}
        return {}

    def find(self, step: Step) -> Response | None:
        path = step.do.params["path"]
        resource = self._get(path, step.do.params["version"])
        if resource is None:
            return None
        tags = resource.get("tags") or {}
        if ASSIGNMENT not in path and path != self.names.container and MARK not in tags:
            self._refuse_unnamed(path)
        return self._keep(path, resource)

    def _refuse_unnamed(self, path: str) -> None:
        """Raise Conflict for a resource that no setup made, unless the user has named it."""
        name = path.rpartition("/")[2]
        named = (self.options.resource_group, self.options.storage_account, self.options.account)
        if name not in named:
            hint = "choose another name for all of it: --set name=NAME"
            raise Conflict(f"{name} exists, and no runspec setup has made it", hint)

    def _get(self, path: str, version: str) -> Mapping[str, Any] | None:
        """Return a resource that exists and is not being deleted."""
        resource = self.manager.get(path, version)
        state = _read_state(resource)
        return None if state in LEAVING else resource

    def settled(self, step: Step) -> bool:
        state = _read_state(self.manager.get(step.do.params["path"], step.do.params["version"]))
        if state in ("Failed", "Canceled"):
            raise RemoteError(f"{step.title}: its state is {state}", "see it in the portal")
        return state in (None, "Succeeded")

    def _undo(self, path: str, version: str) -> Response:
        if not self._is_ours(path, version):
            return {}  # it is gone, or somebody else has made it since
        self._refuse_pools()
        if path == self.names.container:
            self._refuse_blobs()
        elif path == self.names.storage:
            hint = f"add --with-data, which deletes the container {self.names.container_name} alone"
            self._refuse_left(path, (CONTAINERS,), version, hint)
            self._refuse_left(path, OTHER_DATA, version, "delete these first")
        elif path == self.names.group:
            hint = "delete these first, or keep the group, which costs nothing"
            self._refuse_left(path, ("resources",), version, hint)
        self._delete(path, version)
        return {}

    def _is_ours(self, path: str, version: str) -> bool:
        resource = self._get(path, version)
        if resource is None:
            return False
        if ASSIGNMENT in path:  # it has no tags; its name is that of this role of this identity
            return True
        metadata = resource.get("properties", {}).get("metadata") or {}
        marks = {**metadata, **(resource.get("tags") or {})}
        return self.setup in (marks.get(MARK), marks.get(MARK.replace("-", "_")))

    def _refuse_pools(self) -> None:
        """Raise Conflict if the account has pools: runs of other machines need it, its storage, identity and roles."""
        if self._is_ours(self.names.batch, BATCH):
            self._refuse_left(self.names.batch, ("pools",), BATCH, "delete these pools first")

    def _refuse_left(self, path: str, lists: tuple[str, ...], version: str, hint: str) -> None:
        """Raise Conflict if anything is in one of *lists* of a resource: it would be deleted with it."""
        rows = [row for end in lists for row in self.manager.list(f"{path}/{end}", version)]
        names = [str(row["name"]) for row in rows if _read_state(row) not in LEAVING]
        if names:
            shown = ", ".join(names[:3])
            raise Conflict(f"{path.rpartition('/')[2]} has {shown}, and stays", hint)

    def _refuse_blobs(self) -> None:
        """Raise Conflict if the container has blobs. The key is asked for: the roles of the setup are gone by now."""
        _, answer = self.manager.send("POST", f"{self.names.storage}/listKeys", STORAGE)
        account, name = self.names.storage_name, self.names.container_name
        url = self.options.blob_url or clouds.of(self.options).blob_url(account)
        key = {"account_name": account, "account_key": answer["keys"][0]["value"]}
        opened = transport.opened(connection_timeout=10, read_timeout=60)
        with (
            translated(f"list {name}"),
            ContainerClient(url, name, key, transport=opened, permit_redirects=False) as client,
        ):
            page = next(iter(client.list_blobs(results_per_page=1)), None)
        if page is not None:
            raise Conflict(f"the container {name} has blobs, and stays", WITH_DATA)

    def _delete(self, path: str, version: str) -> None:
        """Delete a resource, and wait until it is gone: what is above it can be deleted only then."""
        self.manager.send("DELETE", path, version)
        pause_s, end = self.timing.first_pause_s, CLOCK.monotonic() + self.timing.gone_s
        while self.manager.get(path, version) is not None:
            if CLOCK.monotonic() > end:
                raise NoAnswer(f"{path}: not deleted after {self.timing.gone_s:.0f} s")
            CLOCK.sleep(pause_s)
            pause_s = min(self.timing.longest_pause_s, pause_s * 1.5)


def _read_state(resource: Mapping[str, Any] | None) -> str | None:
    state = (resource or {}).get("properties", {}).get("provisioningState")
    return None if state is None else str(state)
