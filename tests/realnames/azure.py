"""Azure behind its own names: Azurite for Blob, stand-ins for Batch, the login, a vault, a machine's metadata."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_batch.nodes import metadata
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.azure_services.entra import Cloud, Entra
from runspec_emulators.azure_services.identity import MACHINE, Identity
from runspec_emulators.azure_services.vault import Vault
from runspec_emulators.batch_ai import BatchAI
from runspec_emulators.frame.handler import Reply, said
from runspec_emulators.frame.processes import inherited
from runspec_emulators.frame.server import Endpoint
from tests.realnames.front import Backend, Route
from tests.support import certificates

SERVICES = "tests.realnames.azure:Azure"
ACCOUNT, STORAGE, CONTAINER, VAULT = "rehearsal", "jobstore", "rehearsal", "keys"
# The public endpoint of Batch AI is gone, so one of a company's own speaks its API. Its files lie on Azure Files.
BATCHAI, FILES = "batchai.company.example", f"{STORAGE}.file.core.windows.net"
CLIENT = "11111111-2222-3333-4444-555555555555"
SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
IDENTITY = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rehearsal/providers/"
    "Microsoft.ManagedIdentity/userAssignedIdentities/jobs"
)


class Hosts(NamedTuple):
    """https://learn.microsoft.com/azure/azure-government/compare-azure-government-global-azure

    https://learn.microsoft.com/azure/china/resources-developer-guide
    """

    batch: str
    blob: str
    manager: str
    login: str
    vault: str


HOSTS: Mapping[Cloud, Hosts] = {
    "public": Hosts(
        f"{ACCOUNT}.westeurope.batch.azure.com",
        f"{STORAGE}.blob.core.windows.net",
        "management.azure.com",
        "login.microsoftonline.com",
        f"{VAULT}.vault.azure.net",
    ),
    "usgovernment": Hosts(
        f"{ACCOUNT}.usgovvirginia.batch.usgovcloudapi.net",
        f"{STORAGE}.blob.core.usgovcloudapi.net",
        "management.usgovcloudapi.net",
        "login.microsoftonline.us",
        f"{VAULT}.vault.usgovcloudapi.net",
    ),
    "china": Hosts(
        f"{ACCOUNT}.chinanorth3.batch.chinacloudapi.cn",
        f"{STORAGE}.blob.core.chinacloudapi.cn",
        "management.chinacloudapi.cn",
        "login.partner.microsoftonline.cn",
        f"{VAULT}.vault.azure.cn",
    ),
}


class Azure:
    """One cloud. *own* are further hosts, of a company's own, that lead to "batch", "blobs" or "batchai"."""

    def __init__(self, folder: Path, cloud: Cloud, own: Mapping[str, str] = {}) -> None:
        self.hosts, self.own = HOSTS[cloud], dict(own)
        self.secret = secrets.token_urlsafe(30)
        self._certificate = certificates.made(folder)
        self.blobs = Blobs(folder / "blobs", STORAGE, self._certificate)
        self.blobs.make_container(CONTAINER)
        self.identity = Identity()
        self.login = Entra(self.hosts.login, self.identity, {CLIENT: self.secret}, cloud)
        self.vault = Vault(
            {"hf": "the value of a secret"},
            self.identity.tokens,
            [IDENTITY],
            self._certificate,
            cloud,
            (self.hosts.vault,),
        )
        machine = {**inherited(), "RUNSPEC_BELOW": "."}
        self.batch = AzureBatch(
            folder / "batch",
            ACCOUNT,
            identity=self.identity,
            machine_env=machine,
            url=f"https://{self.hosts.batch}",
            cloud=cloud,
            link_local=True,
            hosts=(self.hosts.batch, self.hosts.manager, *self.own),
        )
        self.metadata = Metadata(self.batch, self.identity)
        self.batchai = BatchAI(
            folder / "batchai",
            logins=self.identity.tokens,
            machine_env=machine,
            url=f"https://{BATCHAI}",
            files_url=f"https://{FILES}",
            blob_url=f"https://{self.hosts.blob}",
            accounts={STORAGE: self.blobs.key},
            hosts=(BATCHAI, FILES, *self.own),
        )

    def routes(self) -> Iterable[Route]:
        batch = Backend(_port(self.batch.url))
        blobs = Backend(self.blobs.port, "", self._certificate.authority)
        yield Route(f"{self.hosts.batch}/*", batch)
        yield Route(f"{self.hosts.manager}/*", batch)
        yield Route(f"{self.hosts.blob}/*", blobs)
        yield Route(f"{self.hosts.login}/*", Backend(self.login.port))
        vault = Backend(_port(self.vault.url), "", self._certificate.authority)
        yield Route(f"{self.hosts.vault}/*", vault)
        yield Route("169.254.169.254/*", Backend(self.metadata.port))
        kinds = {"batch": batch, "blobs": blobs, "batchai": Backend(_port(self.batchai.url))}
        for host, kind in self.own.items():
            yield Route(f"{host}/*", kinds[kind])

    def credentials(self) -> Mapping[str, str]:
        """Return what a program has that logs in by a secret, as azure-identity reads it, and the accounts' keys."""
        return {
            "AZURE_TENANT_ID": self.login.tenant,
            "AZURE_CLIENT_ID": CLIENT,
            "AZURE_CLIENT_SECRET": self.secret,
            "BATCH_KEY": self.batch.key,
            "STORAGE_KEY": self.blobs.key,
        }

    def control(self, method: str, what: str, value: Any = None) -> Any:
        """Tell the stand-in something: see `runspec_emulators.azure_batch.admin`."""
        return self.batch.control(method, what, value)

    def close(self) -> None:
        for one in (
            self.batchai,
            self.metadata,
            self.batch,
            self.vault,
            self.login,
            self.identity,
            self.blobs,
        ):
            one.close()


def _port(url: str) -> int:
    return urlsplit(url).port or 0


class Metadata(Endpoint):
    """What a machine is told at 169.254.169.254. One that asks for an identity by its id is a node, which has it.

    Here all machines are one, so the node is the one that has a task; whoever names no identity is the client.
    https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service
    """

    def __init__(self, batch: AzureBatch, identity: Identity) -> None:
        self._batch, self._identity = batch, identity
        self._client = urlsplit(next(iter(identity.machine(["client"]).values()))).path
        super().__init__()

    def reply(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        parts = urlsplit(target)
        named = "msi_res_id" in parse_qs(parts.query)
        if parts.path == MACHINE and not named:
            status, value = self._identity.answer(self._client + target, headers)
            return said(status, value, {"Content-Type": "application/json"})
        world = self._batch.world
        with world.lock:
            nodes = [n for p in world.pools.values() for n in p.nodes.values() if n.attempts]
        at = f"{metadata.PATH}{nodes[0].token if nodes else 'none'}{target}"
        status, kind, text = metadata.answer(world, method, at, headers)
        return Reply(status, text, {"Content-Type": kind})
