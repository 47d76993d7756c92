"""Where each provider is tried by the contract: one world each, by the provider's name."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from runspec_aws import timing as aws_timing
from runspec_aws.client import AwsClient
from runspec_aws.emulator import SETTINGS
from runspec_azure.batch import emulator, timing as batch_timing
from runspec_azure.batch.client import AzureClient
from runspec_batchai import timing as batchai_timing
from runspec_emulators.aws.region import Objects, Region
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.batch_ai import BatchAI
from runspec_jobs.load import registry
from runspec_jobs.provider import Client, Facts, Response, Spec
from runspec_jobs.testing import EXAMPLES, Strike, World
from runspec_jobs.testing.world import SECRET
from runspec_local.client import LocalClient
from tests.contract.kubernetes import kubernetes
from tests.contract.service_faults import OURS, STRIKES, changing, silent
from tests.contract.slurm import parallelcluster, slurm
from tests.support.requirements import need

Harness = Callable[[Path, pytest.MonkeyPatch], World]


@dataclass
class LocalWorld(World):
    """Processes of this machine."""

    clients: list[LocalClient] = field(default_factory=list)

    def connect(self, facts: Facts) -> Client:
        found = super().connect(facts)
        assert isinstance(found, LocalClient)
        self.clients.append(found)
        return found

    def faults(self) -> Mapping[str, Strike]:
        return {"the supervisor answers late": self.answers_late}

    def answers_late(self, send: Callable[[], Response]) -> Response:
        """The supervisor starts, and whoever asked for it has stopped listening."""
        with pytest.MonkeyPatch.context() as patch:
            for client in self.clients:
                patch.setattr(client, "timing", replace(client.timing, ready_s=0.0))
            return send()

    def plain(self, client: Client, run: str) -> Mapping[str, bytes]:
        top = self._outputs(run)
        found = {path.relative_to(top).as_posix(): path for path in top.rglob("*")}
        return {k: p.read_bytes() for k, p in found.items() if p.is_file() and OURS not in k}

    def discard(self, client: Client, run: str, keys: Collection[str]) -> None:
        for key in keys:
            (self._outputs(run) / key).unlink()

    def changes(self, run: str) -> Sequence[str]:
        """Give the requests that are files beside those of the supervisor, and what is there for all runs."""
        folder = self.folder / "runspec" / "local"
        own = [path for name in ("cancel", "stop") for path in (folder / "runs" / run).glob(name)]
        shared = [path for path in folder.rglob("*") if "runs" not in path.parts]
        return sorted(map(str, [*own, *shared]))

    def _outputs(self, run: str) -> Path:
        return self.folder / "runspec" / "local" / "runs" / run / "outputs"


def local(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Processes of this machine, below *folder*."""
    monkeypatch.setenv("RUNSPEC_HOME", str(folder / "runspec"))
    return LocalWorld(
        registry.load("local"),
        folder,
        options={"engine": "process", "grace": "1s"},
    )


class AwsWorld(World):
    """AWS Batch as the rehearsal has it: a region for each test, and one S3 for all."""

    objects: ClassVar[Objects | None] = None
    region: ClassVar[Region | None] = None
    patch: ClassVar[pytest.MonkeyPatch]
    strikes: Sequence[str] = STRIKES

    def connect(self, facts: Facts) -> Client:
        rehearsed(self.folder)
        return super().connect(facts)

    def faults(self) -> Mapping[str, Strike]:
        return {kind: partial(struck, kind) for kind in self.strikes}

    def outage(self) -> AbstractContextManager[None]:
        return silent(lambda: AwsWorld.region)

    def changes(self, run: str) -> Sequence[str]:
        assert AwsWorld.region is not None
        return changing(AwsWorld.region)

    def plain(self, client: Client, run: str) -> Mapping[str, bytes]:
        assert isinstance(client, AwsClient)
        names = client.files.names("runs", run, "outputs", "")
        keys = [name for name in names if OURS not in name]
        return {key: client.files.read("runs", run, "outputs", key) or b"" for key in keys}

    def discard(self, client: Client, run: str, keys: Collection[str]) -> None:
        assert isinstance(client, AwsClient)
        for key in keys:
            client.files.remove(client.files.key("runs", run, "outputs", key))

    def sharing(self) -> Spec:
        """Give a job with two compute environments, a placement group and a launch template."""
        cluster = {"capacity": "spot-then-on-demand", "placement": "close", "disk": "40GiB"}
        return self.spec(**EXAMPLES["mounts"], cluster=cluster)


def struck(kind: str, send: Callable[[], Response]) -> Response:
    """Have the service's next call that makes something go wrong by *kind*."""
    assert AwsWorld.region is not None
    fault = {"service": "batch", "operation": "*", "nth": None, "times": 1, "kind": kind}
    makes = ("SubmitJob", "RegisterJobDefinition", "CreateComputeEnvironment", "CreateJobQueue")
    AwsWorld.region.control("PUT", "faults", [{**fault, "operation": name} for name in makes])
    try:
        return send()
    finally:
        AwsWorld.region.control("DELETE", "faults")


def aws_batch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AwsWorld:
    """A rehearsed region, its jobs as processes of this machine; there from the first connect on."""
    if AwsWorld.region is not None:
        AwsWorld.region.close()
        AwsWorld.region = None
    AwsWorld.patch = monkeypatch
    return AwsWorld(
        registry.load("aws-batch"),
        folder,
        options={**AWS, "prefix": folder.name},
        secret=f"aws-sm:{SECRET_ARN}",
        blank_lines=False,  # docker's awslogs driver, and so CloudWatch, has no empty events
    )


def aws_batch_signed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The same for jobs without a role, by signed URLs."""
    found = aws_batch(folder, monkeypatch)
    found.options = {**found.options, "files": "signed", "job_role": None}
    found.refuses = {"nodes"}
    found.strikes = STRIKES[:1]  # the calls are the same but for one; each strike takes a minute
    return found


def rehearsed(folder: Path) -> None:
    """Start what is not there yet, and lead the SDK to it."""
    if AwsWorld.objects is None:
        AwsWorld.objects = Objects(folder.parent / "aws")
        AwsWorld.objects.make_bucket(AWS["bucket"], AWS["region"])
        atexit.register(AwsWorld.objects.close)
    if AwsWorld.region is None:
        AwsWorld.region = Region(
            folder,
            AWS["region"],
            AwsWorld.objects,
            terminate_grace_s=2.0,
            secrets={SECRET_ARN: os.environ[SECRET]},
        )
        atexit.register(AwsWorld.region.close)
    for name, value in AwsWorld.region.env.items():
        AwsWorld.patch.setenv(name, value)
    quick = aws_timing.Timing(settle_s=0.5, quiet_s=0.1)
    AwsWorld.patch.setattr(aws_timing, "DEFAULT", quick)


class AzureWorld(World):
    """Azure Batch as the rehearsal has it: an account for each test, and one store for all."""

    blobs: ClassVar[Blobs | None] = None
    account: ClassVar[AzureBatch | None] = None

    @staticmethod
    def up() -> AzureBatch:
        assert AzureWorld.account is not None
        return AzureWorld.account

    def plain(self, client: Client, run: str) -> Mapping[str, bytes]:
        assert isinstance(client, AzureClient)
        base = client.blobs.key("runs", run, "outputs", "")
        names = client.blobs.names(base)
        keys = [name for name in names if OURS not in name]
        return {key: client.blobs.read(base + key) or b"" for key in keys}

    def discard(self, client: Client, run: str, keys: Collection[str]) -> None:
        assert isinstance(client, AzureClient)
        for key in keys:
            client.blobs.remove([client.blobs.key("runs", run, "outputs", key)])

    def changes(self, run: str) -> Sequence[str]:
        return changing(AzureWorld.up())

    def faults(self) -> Mapping[str, Strike]:
        return {kind: partial(struck_azure, kind) for kind in STRIKES}

    def outage(self) -> AbstractContextManager[None]:
        return silent(lambda: AzureWorld.account)


def struck_azure(kind: str, send: Callable[[], Response]) -> Response:
    """Have the service's next call that makes something go wrong by *kind*."""
    makes = ("Pool_Add", "Pool_EnableAutoScale", "Job_Add", "Job_Patch", "Task_AddCollection")
    fault = {"nth": 1, "times": 1, "kind": kind}
    AzureWorld.up().control("PUT", "faults", [{**fault, "operation": name} for name in makes])
    try:
        return send()
    finally:
        AzureWorld.up().control("DELETE", "faults")


def azure_batch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A rehearsed account, its tasks as processes of this machine."""
    need("azurite")
    if AzureWorld.blobs is None:
        AzureWorld.blobs = Blobs(folder.parent / "azure")
        AzureWorld.blobs.make_container("rehearsal")
        atexit.register(AzureWorld.blobs.close)
    if AzureWorld.account is not None:
        AzureWorld.account.close()
    AzureWorld.account = AzureBatch(folder, emulator.ACCOUNT, machine_env={"RUNSPEC_BELOW": "."})
    monkeypatch.setenv(emulator.BATCH_KEY, AzureWorld.account.key)
    monkeypatch.setenv(emulator.STORAGE_KEY, AzureWorld.blobs.key)
    quick = batch_timing.Timing(poll_s=0.1, fresh_s=0.1, slow_s=0.1)
    monkeypatch.setattr(batch_timing, "DEFAULT", quick)
    ways = emulator.ways(AzureWorld.account.url, AzureWorld.blobs.url, AzureWorld.blobs.account)
    return AzureWorld(
        registry.load("azure-batch"),
        folder,
        options={**emulator.SETTINGS, **ways, **SHARED, "prefix": folder.name},
    )


SHARED = {"shared": {"all": "nfs:10.0.0.4:/data"}}
SECRET_ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:token-a1b2c3"
AWS = {**SETTINGS, "region": "eu-central-1", "shared": {"all": "efs:fs-12345678"}}


class BatchAiWorld(World):
    """Batch AI as the rehearsal has it: a stand-in for each test, and one Azurite for all."""

    blobs: ClassVar[Blobs | None] = None
    stand: ClassVar[BatchAI | None] = None
    patch: ClassVar[pytest.MonkeyPatch]

    def connect(self, facts: Facts) -> Client:
        way = stand_in(self.folder)
        return super().connect(facts._replace(options=facts.options.model_copy(update=way)))

    def changes(self, run: str) -> Sequence[str]:
        assert BatchAiWorld.stand is not None
        return changing(BatchAiWorld.stand)

    def faults(self) -> Mapping[str, Strike]:
        return {kind: partial(refused_once, kind) for kind in STRIKES}

    def outage(self) -> AbstractContextManager[None]:
        return silent(lambda: BatchAiWorld.stand)


def refused_once(kind: str, send: Callable[[], Response]) -> Response:
    """Have the next call that makes something go wrong by *kind*."""
    assert BatchAiWorld.stand is not None
    makes = ("Workspaces_Create", "Clusters_Create", "Experiments_Create", "Jobs_Create")
    fault = {"service": "batchai", "nth": None, "times": 1, "kind": kind}
    BatchAiWorld.stand.control("PUT", "faults", [{**fault, "operation": name} for name in makes])
    try:
        return send()
    finally:
        BatchAiWorld.stand.control("DELETE", "faults")


def azure_batch_ai(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A rehearsed subscription; there from the first connect on."""
    need("azurite")
    if BatchAiWorld.stand is not None:
        BatchAiWorld.stand.close()
        BatchAiWorld.stand = None
    BatchAiWorld.patch = monkeypatch
    quick = batchai_timing.Timing(poll_s=0.1, fresh_s=0.1)
    monkeypatch.setattr(batchai_timing, "DEFAULT", quick)
    return BatchAiWorld(
        registry.load("azure-batch-ai"),
        folder,
        options={
            "subscription": "00000000-0000-0000-0000-000000000000",
            "location": "eastus",
            "storage_account": "rehearsal",
            "container": "jobs",
            "file_share": "logs",
            "prefix": folder.name,
            "ssh_public_key": "ssh-ed25519 AAAA",
            "shared": {"all": {"share": "all"}},
            "secrets": {"storage-key": "env:RUNSPEC_TESTING_STORAGE_KEY"},
        },
        refuses={"nodes"},
    )


def stand_in(folder: Path) -> Mapping[str, str]:
    """Start what is not there yet, lead the SDKs to it, and give the options that do."""
    if BatchAiWorld.blobs is None:
        BatchAiWorld.blobs = Blobs(folder.parent / "azurite")
        atexit.register(BatchAiWorld.blobs.close)
        BatchAiWorld.blobs.make_container("jobs")
    blobs = BatchAiWorld.blobs
    if BatchAiWorld.stand is None:
        BatchAiWorld.stand = BatchAI(
            folder / "batchai",
            blob_url=blobs.url.replace("rehearsal", "{account}"),
            accounts={"rehearsal": blobs.key},
        )
    for name, value in BatchAiWorld.stand.env.items():
        BatchAiWorld.patch.setenv(name, value)
    BatchAiWorld.patch.setenv("RUNSPEC_TESTING_STORAGE_KEY", blobs.key)
    return {"arm_url": BatchAiWorld.stand.url, "blob_url": blobs.url}


HARNESSES: dict[str, Harness] = {
    "aws-batch": aws_batch,
    "azure-batch": azure_batch,
    "azure-batch-ai": azure_batch_ai,
    "kubernetes": kubernetes,
    "local": local,
    "parallelcluster": parallelcluster,
    "slurm": slurm,
}
MORE: dict[str, Harness] = {"aws-batch-signed": aws_batch_signed}  # other ways of a provider
