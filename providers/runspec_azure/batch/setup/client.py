"""The client of a setup at the Azure Resource Manager: it deletes only what bears its mark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from azure.storage.blob import ContainerClient

from runspec_azure.batch import timing
from runspec_azure.batch.setup import undo_check
from runspec_azure.batch.setup.manager import Manager
from runspec_azure.batch.setup.options import BatchSetup
from runspec_azure.batch.setup.steps import BATCH, MARK, STORAGE, Names
from runspec_azure.batch.setup.undo_check import LEAVING, read_state
from runspec_azure.errors import code_of, translated
from runspec_azure.session import clouds, transport
from runspec_azure.timing import CLOCK
from runspec_jobs.provider import Conflict, NoAnswer, RemoteError, Request, Response, Step

# An identity that was made just now may be unknown to the service of roles for a while.
# https://learn.microsoft.com/azure/role-based-access-control/troubleshooting#symptom---assigning-a-role-to-a-new-principal-sometimes-fails
NOT_YET = frozenset({"PrincipalNotFound"})
THERE = frozenset({"RoleAssignmentExists"})
ASSIGNMENT = "/Microsoft.Authorization/roleAssignments/"
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
                undo_check.refuse(self._list_pools())
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
        properties = resource.get("properties") or {}
        if path == self.names.identity:
            if not properties.get("principalId"):
                raise NoAnswer("the identity has no principalId yet")
            return {"principalId": properties["principalId"]}
        if path == self.names.batch:
            cloud, name = clouds.of(self.options), path.rpartition("/")[2]
            usual = f"{name}.{self.names.location}.{cloud.batch}"
            return {"url": f"https://{properties.get('accountEndpoint') or usual}"}
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
        state = read_state(resource)
        return None if state in LEAVING else resource

    def settled(self, step: Step) -> bool:
        state = read_state(self.manager.get(step.do.params["path"], step.do.params["version"]))
        if state in ("Failed", "Canceled"):
            raise RemoteError(f"{step.title}: its state is {state}", "see it in the portal")
        return state in (None, "Succeeded")

    def _undo(self, path: str, version: str) -> Response:
        if not self._is_ours(path, version):
            return {}  # it is gone, or somebody else has made it since
        undo_check.refuse([*self._list_pools(), *self._list_left(path, version, ())])
        self._delete(path, version)
        return {}

    def check_undo(
        self, requests: Sequence[Request], together: Collection[str], *, with_data: bool
    ) -> Sequence[Conflict]:
        where = [(request.params["path"], request.params["version"]) for request in requests]
        marks = {path: self._read_marks(path, version) for path, version in where}
        ours = [(path, version) for path, version in where if self.setup in marks[path]]
        # What was deleted and made again by a later setup is deleted before, if that one is undone as well.
        known = [path for path, of in marks.items() if not of.isdisjoint(together)]
        leaving = [path for path, _ in ours if not (with_data and path == self.names.container)]
        conflicts = [*self._list_pools()]
        if self.names.identity in dict(ours):
            conflicts += undo_check.list_users(self.manager, self.names)
        for path, version in ours:
            if path in leaving:
                conflicts += self._list_left(path, version, known)
        return conflicts

    def _list_pools(self) -> list[Conflict]:
        """Runs of other machines need the account, its storage, the identity and the roles if it has pools."""
        batch = self.names.batch
        return undo_check.list_pools(self.manager, batch) if self._is_ours(batch, BATCH) else []

    def _list_left(self, path: str, version: str, known: Sequence[str]) -> list[Conflict]:
        """Return what would be deleted with the resource at *path*, besides *known* paths."""
        if path == self.names.container and self._has_blobs():
            name = self.names.container_name
            return [Conflict(f"the container {name} has blobs, and stays", WITH_DATA)]
        return undo_check.list_left(self.manager, self.names, (path, version), known)

    def _is_ours(self, path: str, version: str) -> bool:
        return self.setup in self._read_marks(path, version)

    def _read_marks(self, path: str, version: str) -> set[str]:
        """Return the setup that has made a resource; an empty set if none has, or if it is gone."""
        resource = self._get(path, version)
        if resource is None:
            return set()
        if ASSIGNMENT in path:  # it has no tags; its name is that of this role of this identity
            return {self.setup}
        metadata = (resource.get("properties") or {}).get("metadata") or {}
        marks = {**metadata, **(resource.get("tags") or {})}
        return {marks[key] for key in (MARK, MARK.replace("-", "_")) if marks.get(key)}

    def _has_blobs(self) -> bool:
        """The key is asked for: the roles of the setup may be gone by now."""
        _, answer = self.manager.send("POST", f"{self.names.storage}/listKeys", STORAGE)
        account, name = self.names.storage_name, self.names.container_name
        url = self.options.blob_url or clouds.of(self.options).blob_url(account)
        keys = [key["value"] for key in answer.get("keys") or () if key.get("value")]
        if not keys:
            raise NoAnswer(f"POST listKeys of {account}: the reply has no key")
        key = {"account_name": account, "account_key": keys[0]}
        opened = transport.opened(connection_timeout=10, read_timeout=60)
        with (
            translated(f"list {name}"),
            ContainerClient(url, name, key, transport=opened, permit_redirects=False) as client,
        ):
            return next(iter(client.list_blobs(results_per_page=1)), None) is not None

    def _delete(self, path: str, version: str) -> None:
        """Delete a resource, and wait until it is gone: what is above it can be deleted only then."""
        self.manager.send("DELETE", path, version)
        pause_s, end = self.timing.first_pause_s, CLOCK.monotonic() + self.timing.gone_s
        while self.manager.get(path, version) is not None:
            if CLOCK.monotonic() > end:
                raise NoAnswer(f"{path}: not deleted after {self.timing.gone_s:.0f} s")
            CLOCK.sleep(pause_s)
            pause_s = min(self.timing.longest_pause_s, pause_s * 1.5)
