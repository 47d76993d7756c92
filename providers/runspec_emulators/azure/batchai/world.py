"""All that the stand-in holds, and the table of what it can do."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable

from runspec_emulators.aws.world import Addresses
from runspec_emulators.azure.audiences import AUDIENCES
from runspec_emulators.azure.batchai import clusters, files, jobs, resources, rules, setup, usages
from runspec_emulators.azure.batchai.answers import Answer, Operations
from runspec_emulators.azure.batchai.blobs import Mirror
from runspec_emulators.azure.batchai.errors import ServiceError, missing
from runspec_emulators.azure.batchai.links import Links
from runspec_emulators.azure.batchai.model import Cluster, Group, Job, Node, Workspace
from runspec_emulators.azure.batchai.processes import end_marked
from runspec_emulators.azure.batchai.rules import Request
from runspec_emulators.azure.batchai.settings import Settings
from runspec_emulators.azure.identity import Tokens
from runspec_emulators.timers import Timers

CLOSE_S = 15.0  # how long `close` waits for the processes that it has killed


class World:
    """The state of the service. `lock` guards all of it."""

    def __init__(self, settings: Settings, url: str, logins: Tokens | None = None) -> None:
        self.settings = settings
        self.logins = logins
        self.url = url
        self.lock = threading.RLock()
        self.timers = Timers(self.lock)
        self.addresses = Addresses()
        self.groups: dict[str, Group] = {}
        self.operations = Operations(url, settings.subscription)
        self.links = Links(settings.files_url or url)
        self.mirror = Mirror()
        self.tokens: dict[str, float] = {}
        self.identity = secrets.token_hex(16)
        self.closed = False
        self._numbers = itertools.count(1)

    def next_number(self) -> int:
        return next(self._numbers)

    def new_token(self) -> tuple[str, float]:
        """Give a bearer token and the time at which it expires, in seconds since 1970."""
        token, end = secrets.token_urlsafe(32), time.time() + self.settings.token_s
        self.tokens[token] = end
        return token, end

    def authenticate(self, header: str | None) -> None:
        """Raise ServiceError unless *header* bears a token that was given here, and is still good.

        Codes: https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting
        """
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            message = "Authentication failed. The 'Authorization' header is missing."
            raise ServiceError(401, "AuthenticationFailed", message)
        names = AUDIENCES["public"].managers
        logins = self.logins
        if logins is not None and any(logins.good(token, name) for name in names):
            return
        if token in self.settings.tokens:
            return
        end = self.tokens.get(token)
        if end is None:
            raise ServiceError(401, "InvalidAuthenticationToken", "The access token is invalid.")
        if end < time.time():
            raise ServiceError(401, "ExpiredAuthenticationToken", "The access token expired.")

    def answer(self, request: Request) -> Answer:
        """Do what a request asks for; raise ServiceError where the service would refuse."""
        rules.check(request)
        subscription = request.path.get("subscriptionId", self.settings.subscription)
        if subscription.lower() != self.settings.subscription.lower():
            message = f"The subscription '{subscription}' could not be found."
            raise ServiceError(404, "SubscriptionNotFound", message)
        with self.lock:
            return OPERATIONS[request.operation](self, request)

    def after(self, delay_s: float, what: Callable[[], None]) -> None:
        """Have *what* called later, with the lock held."""
        self.timers.after(delay_s, what)

    # What requests name

    def group(self, request: Request) -> Group:
        name = request.path["resourceGroupName"]
        if name.lower() not in self.groups:
            message = f"Resource group '{name}' could not be found."
            raise ServiceError(404, "ResourceGroupNotFound", message)
        return self.groups[name.lower()]

    def workspace(self, request: Request) -> Workspace:
        name = request.path["workspaceName"]
        found = self.group(request).workspaces.get(name.lower())
        if found is None:
            raise missing("workspace", name)
        return found

    def workspaces(self) -> list[Workspace]:
        return [w for group in self.groups.values() for w in group.workspaces.values()]

    def clusters(self) -> list[Cluster]:
        return [c for workspace in self.workspaces() for c in workspace.clusters.values()]

    def jobs(self) -> list[Job]:
        return [job for workspace in self.workspaces() for job in workspace.jobs]

    def nodes(self) -> list[Node]:
        return [node for cluster in self.clusters() for node in cluster.nodes]

    def close(self) -> None:
        """End every process of every job, and nothing happens any more."""
        self.timers.close()
        with self.lock:
            self.closed = True
            runs = [job.run for job in self.jobs() if job.run]
            setups = [setup.mark(node) for node in self.nodes() if node.state == "preparing"]
        for mark in setups:
            end_marked(mark)
        for run in runs:
            run.stop("closed", grace_s=0.0)
        end = time.monotonic() + CLOSE_S
        for run in runs:
            run.join(max(0.0, end - time.monotonic()))


Operation = Callable[[World, Request], Answer]

OPERATIONS: dict[str, Operation] = {
    "Operations_List": resources.operations_listed,
    "ResourceGroups_CheckExistence": resources.group_exists,
    "ResourceGroups_CreateOrUpdate": resources.create_group,
    "ResourceGroups_Delete": resources.delete_group,
    "ResourceGroups_Get": resources.get_group,
    "ResourceGroups_List": resources.list_groups,
    "Resources_ListByResourceGroup": resources.list_resources,
    "Workspaces_Create": resources.create_workspace,
    "Workspaces_Update": resources.update_workspace,
    "Workspaces_Delete": resources.delete_workspace,
    "Workspaces_Get": resources.get_workspace,
    "Workspaces_List": resources.list_workspaces,
    "Workspaces_ListByResourceGroup": resources.list_workspaces_of_group,
    "Experiments_Create": resources.create_experiment,
    "Experiments_Delete": resources.delete_experiment,
    "Experiments_Get": resources.get_experiment,
    "Experiments_ListByWorkspace": resources.list_experiments,
    "FileServers_Create": resources.create_file_server,
    "FileServers_Delete": resources.delete_file_server,
    "FileServers_Get": resources.get_file_server,
    "FileServers_ListByWorkspace": resources.list_file_servers,
    "Clusters_Create": clusters.create,
    "Clusters_Update": clusters.update,
    "Clusters_Delete": clusters.delete,
    "Clusters_Get": clusters.get,
    "Clusters_ListByWorkspace": clusters.listed,
    "Clusters_ListRemoteLoginInformation": clusters.logins,
    "Jobs_Create": jobs.create,
    "Jobs_Delete": jobs.delete,
    "Jobs_Get": jobs.get,
    "Jobs_ListByExperiment": jobs.listed,
    "Jobs_ListOutputFiles": files.listed,
    "Jobs_ListRemoteLoginInformation": jobs.logins,
    "Jobs_Terminate": jobs.terminate,
    "Usages_List": usages.listed,
}
