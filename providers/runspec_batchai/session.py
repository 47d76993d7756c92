"""Open the SDKs of Batch AI and of resource groups, and send each request of a plan with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from azure.core.pipeline import PipelineRequest
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.mgmt.batchai import BatchAI
from azure.mgmt.resource.resources import ResourceManagementClient

from runspec_azure.discover import Usage
from runspec_azure.errors import Hints, status_of, translated
from runspec_azure.session import clouds, transport
from runspec_azure.session.clouds import Cloud
from runspec_azure.session.responses import collected, elements
from runspec_azure.session.transport import TokenHosts
from runspec_batchai.options import BatchAiOptions
from runspec_batchai.resources import known
from runspec_jobs.provider import NoAnswer, RemoteError, Request, Unavailable, UsageError

if TYPE_CHECKING:
    from runspec_azure.discover import Sku

RENEWED_S = 300.0  # a token that is valid for less time is renewed
RETRIES = 6  # of requests that only read
HINTS = Hints(
    "log in again (az login); then repeat the command, which continues",
    "run `runspec doctor azure-batch-ai` to see which requests are refused, or log in again",
)


class Bearer(SansIOHTTPPolicy[Any, Any]):
    """A policy that adds a token to every request; the SDK's own policy refuses http, also on loopback."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.token: Any = None

    @cached_property
    def _login(self) -> Any:
        from runspec_azure.session import transport

        return transport.find_login(self._cloud)

    def on_request(self, request: PipelineRequest[Any]) -> None:
        if self.token is None or self.token.expires_on - time.time() < RENEWED_S:
            self.token = self._login.get_token(self._cloud.manager_scope)
        request.http_request.headers["Authorization"] = f"Bearer {self.token.token}"


class Arm:
    """The clients of one subscription. Raises Unavailable for the public endpoint, which was shut down."""

    def __init__(self, options: BatchAiOptions, retries: int = RETRIES) -> None:
        url = options.arm_url or clouds.of(options).manager_url
        if clouds.of_url(url) is not None:
            what = (
                "Azure Batch AI was retired on 31 March 2019, and its public endpoint was shut down: "
                "provider: azure-batch runs the same spec"
            )
            raise Unavailable(
                what, "or set arm_url to an endpoint that implements the API of Batch AI"
            )
        if not clouds.is_confidential(url):
            raise UsageError(f"arm_url: {options.arm_url} is not encrypted", "write https://...")
        if not options.subscription:
            raise UsageError(
                "the profile has no `subscription`",
                "set the id that `az account show --query id` prints",
            )
        self.options = options
        self._retries = retries
        self.bearer = Bearer(clouds.of(options))

    @cached_property
    def maker(self) -> Any:
        """Return the client that does not retry: after a lost reply, a retry would hide what the first request made."""
        return self._opened(BatchAI, 0)

    @cached_property
    def looker(self) -> Any:
        return self._opened(BatchAI, self._retries)

    @cached_property
    def groups(self) -> Any:
        return self._manager.resource_groups

    @cached_property
    def _manager(self) -> Any:
        return self._opened(ResourceManagementClient, 0)

    def _opened(self, kind: Any, retries: int) -> Any:
        nobody: Any = object()  # the policy adds the token
        cloud = clouds.of(self.options)
        return kind(
            nobody,
            self.options.subscription,
            base_url=self.options.arm_url or cloud.manager_url,
            authentication_policy=self.bearer,
            per_retry_policies=[TokenHosts(self.options)],
            # The end of a long operation is found by `look`, so the SDK need not poll for it.
            polling_interval=0,
            retry_policy=transport.BoundedRetries(retry_total=retries, retry_backoff_factor=0.2),
            transport=transport.opened(connection_timeout=10, read_timeout=60),
        )

    def send(self, request: Request) -> None:
        """Send a request that makes, changes or deletes something, once, without waiting for its end."""
        path, body = request.params["path"], request.params.get("body")
        with translated(request.operation, HINTS):
            SENT[request.operation](self, path, body)

    def look(self, operation: str, path: Mapping[str, str]) -> Any:
        """Return the resource at *path*, or None if it does not exist."""
        try:
            with translated(operation, HINTS):
                resource = GOT[operation](self, path)
        except RemoteError as exc:
            if status_of(exc) == 404:
                return None
            raise
        # The SDK makes a model of whatever JSON comes, also of half of it.
        if resource is None or getattr(resource, "name", None) is None:
            raise NoAnswer(f"{operation}: the reply was cut off")
        return resource

    def listed(self, what: str, pages: Callable[[], Any]) -> list[Any]:
        """Return all items of a list; none if the parent resource does not exist."""
        try:
            with translated(what, HINTS):
                return collected(what, pages)
        except RemoteError as exc:
            if status_of(exc) == 404:
                return []
            raise

    def skus(self) -> Mapping[str, Sku] | None:
        """Return the VM sizes that Batch AI had and the region offers; None if the endpoint does not list VM sizes.

        The list is from another service, and an endpoint may have only the API of Batch AI.
        """
        from azure.mgmt.compute import ComputeManagementClient

        from runspec_azure.discover import listed_skus

        try:
            with translated("list VM sizes", HINTS):
                compute = self._opened(ComputeManagementClient, self._retries)
                region = self.options.location or ""
                return listed_skus(compute, region, known)
        except RemoteError as exc:
            if status_of(exc) in (400, 404):
                return None
            raise

    def usages(self) -> dict[str, Usage]:
        """Return the current values and limits by the names of the usages."""
        with translated("Usages_List", HINTS):
            where = self.options.location or ""
            ask = self.looker.usages.list
            usages = collected("Usages_List", lambda: ask(where, cls=elements))
        return {
            usage.name.value: Usage(usage.current_value, usage.limit)
            for usage in usages
            if usage.name and None not in (usage.current_value, usage.limit)
        }

    def clusters(self, path: Path) -> list[Any]:
        """Return the clusters of the workspace at *path*."""
        ask = self.looker.clusters.list_by_workspace
        return self.listed("Clusters_ListByWorkspace", lambda: ask(*place(path), cls=elements))

    def experiments(self, path: Path) -> list[Any]:
        ask = self.looker.experiments.list_by_workspace
        return self.listed("Experiments_ListByWorkspace", lambda: ask(*place(path), cls=elements))

    def file_servers(self, path: Path) -> list[Any]:
        ask = self.looker.file_servers.list_by_workspace
        return self.listed("FileServers_ListByWorkspace", lambda: ask(*place(path), cls=elements))

    def jobs(self, path: Path) -> list[Any]:
        """Return the jobs of the experiment at *path*."""
        ask = self.looker.jobs.list_by_experiment
        where = place(path, "experiment")
        return self.listed("Jobs_ListByExperiment", lambda: ask(*where, cls=elements))

    def resources(self, group: str) -> list[Any]:
        """Return the resources of all services in a resource group."""
        ask = self._manager.resources.list_by_resource_group
        return self.listed("Resources_ListByResourceGroup", lambda: ask(group, cls=elements))


def place(path: Mapping[str, str], *names: str) -> tuple[str, ...]:
    keys = {
        "cluster": "clusterName",
        "experiment": "experimentName",
        "job": "jobName",
    }
    return (path["resourceGroupName"], path["workspaceName"], *(path[keys[n]] for n in names))


Path = Mapping[str, str]
ONCE: Mapping[str, Any] = {"polling": False}

SENT: Mapping[str, Callable[[Arm, Path, Any], Any]] = {
    "ResourceGroups_CreateOrUpdate": lambda arm, path, body: arm.groups.create_or_update(
        path["resourceGroupName"], body
    ),
    "ResourceGroups_Delete": lambda arm, path, _: arm.groups.begin_delete(
        path["resourceGroupName"], **ONCE
    ),
    "Workspaces_Create": lambda arm, path, body: arm.maker.workspaces.begin_create(
        *place(path), body, **ONCE
    ),
    "Workspaces_Delete": lambda arm, path, _: arm.maker.workspaces.begin_delete(
        *place(path), **ONCE
    ),
    "Clusters_Create": lambda arm, path, body: arm.maker.clusters.begin_create(
        *place(path, "cluster"), body, **ONCE
    ),
    "Clusters_Delete": lambda arm, path, _: arm.maker.clusters.begin_delete(
        *place(path, "cluster"), **ONCE
    ),
    "Experiments_Create": lambda arm, path, _: arm.maker.experiments.begin_create(
        *place(path, "experiment"), **ONCE
    ),
    "Experiments_Delete": lambda arm, path, _: arm.maker.experiments.begin_delete(
        *place(path, "experiment"), **ONCE
    ),
    "Jobs_Create": lambda arm, path, body: arm.maker.jobs.begin_create(
        *place(path, "experiment", "job"), body, **ONCE
    ),
    "Jobs_Terminate": lambda arm, path, _: arm.maker.jobs.begin_terminate(
        *place(path, "experiment", "job"), **ONCE
    ),
    "Jobs_Delete": lambda arm, path, _: arm.maker.jobs.begin_delete(
        *place(path, "experiment", "job"), **ONCE
    ),
}
GOT: Mapping[str, Callable[[Arm, Path], Any]] = {
    "ResourceGroups": lambda arm, path: arm.groups.get(path["resourceGroupName"]),
    "Workspaces": lambda arm, path: arm.looker.workspaces.get(*place(path)),
    "Clusters": lambda arm, path: arm.looker.clusters.get(*place(path, "cluster")),
    "Experiments": lambda arm, path: arm.looker.experiments.get(*place(path, "experiment")),
    "Jobs": lambda arm, path: arm.looker.jobs.get(*place(path, "experiment", "job")),
}
