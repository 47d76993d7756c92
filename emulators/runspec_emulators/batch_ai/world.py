"""The state of the service."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable

from runspec_emulators.azure_services.entra import AUDIENCES
from runspec_emulators.azure_services.identity import Tokens
from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.responses import Operations
from runspec_emulators.batch_ai.errors import missing
from runspec_emulators.batch_ai.model import Cluster, Experiment, Group, Job, Node, Workspace
from runspec_emulators.batch_ai.settings import Settings
from runspec_emulators.batch_ai.storage.blob_mirror import Mirror
from runspec_emulators.batch_ai.storage.signed_links import Links
from runspec_emulators.frame.errors import ServiceError
from runspec_emulators.frame.server import Addresses
from runspec_emulators.frame.timers import Timers


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
        """Return a bearer token and the time at which it expires, in seconds since 1970."""
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
        workspace = self.group(request).workspaces.get(name.lower())
        if workspace is None:
            raise missing("workspace", name)
        return workspace

    def experiment(self, request: Request) -> Experiment:
        name = request.path["experimentName"]
        experiment = self.workspace(request).experiments.get(name.lower())
        if experiment is None:
            raise missing("experiment", name)
        return experiment

    def workspaces(self) -> list[Workspace]:
        return [w for group in self.groups.values() for w in group.workspaces.values()]

    def clusters(self) -> list[Cluster]:
        return [c for workspace in self.workspaces() for c in workspace.clusters.values()]

    def jobs(self) -> list[Job]:
        return [job for workspace in self.workspaces() for job in workspace.jobs]

    def nodes(self) -> list[Node]:
        return [node for cluster in self.clusters() for node in cluster.nodes]
