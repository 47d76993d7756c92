"""A rehearsed account of Azure Batch for each case, and what the service itself knows of the tasks in it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from azure.storage.blob import ContainerClient

from runspec_azure.batch import emulator
from runspec_emulators.azure_batch import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.azure_services.identity import Identity
from tests.faults.cloud import Cloud, New, new_cloud

SPEC = """\
apiVersion: runspec/v1
name: {name}
provider: azure-batch
mounts: [{{name: src, source: ./src, target: /job/src}}]
outputs: [{{name: out, path: /job/out}}]
env: {{TRUTH: {truth}}}
secrets: {{TOKEN: token}}
{more}
run: |
  words=$(cat "${{mounts.src}}/one" "${{mounts.src}}/two")
  echo "$RUNSPEC_RUN $RUNSPEC_TASK.$RUNSPEC_RANK $RUNSPEC_ATTEMPT $words" >> "$TRUTH"
  echo done > "${{outputs.out}}/done"
  {last}
"""
MACHINE = {"RUNSPEC_BELOW": "."}


@dataclass
class Stored(Cloud):
    """A world whose files are in a container of its own, of one Blob service for all."""

    blobs: Blobs | None = None

    sdk: ClassVar[str] = "azure"

    @property
    def store(self) -> Blobs:
        assert self.blobs is not None
        return self.blobs

    @property
    def container(self) -> str:
        """Names of containers have no capitals and no '_', as the folder's may have."""
        return f"faults-{self.folder.name.encode().hex()[-32:]}"

    def open(self) -> None:
        self.store.make_container(self.container)

    def names(self) -> Iterator[str]:
        """Give the blobs of this world."""
        with ContainerClient(self.store.url, self.container, self.store.key) as container:
            yield from container.list_blob_names()

    def close(self) -> None:
        super().close()
        with ContainerClient(self.store.url, self.container, self.store.key) as container:
            container.delete_container()

    def hidden(self) -> Iterator[tuple[str, bytes]]:
        yield from super().hidden()
        yield "the key of the storage", self.store.key.encode()
        yield "a signature", b"sig="


@dataclass
class AzureCloud(Stored):
    """A world whose job runs in a rehearsed account."""

    provider: ClassVar[str] = "azure-batch"
    text: ClassVar[str] = SPEC
    sent_once: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "POST batch /pools": ("call Pool_Add",),
        "POST batch /pools/*/enableautoscale": ("call Pool_EnableAutoScale",),
        "POST batch /jobs": ("call Job_Add",),
        "POST batch /jobs/*/addtaskcollection": ("call Task_AddCollection",),
        "PATCH batch /jobs/*": ("call Job_Patch",),
        "POST batch /jobs/*/terminate": ("cancel",),
        "DELETE batch /jobs/*": ("call Job_Delete",),
        "DELETE batch /pools/*": ("call Pool_Delete",),
    }

    def open(self) -> None:
        super().open()
        self.account = self.open_account()

    def open_account(
        self, identity: Identity | None = None, machine: Mapping[str, str] = MACHINE
    ) -> AzureBatch:
        return AzureBatch(
            self.folder / "account",
            emulator.ACCOUNT,
            identity=identity,
            machine_env=machine,
            list_lag_s=self.lag_s,
            second_s=0.01,  # a pool grows with its tasks within seconds
        )

    def settings(self) -> Mapping[str, Any]:
        ways = emulator.ways(self.account.url, self.store.url, self.store.account)
        own = {"container": self.container, "prefix": "ours"}
        return {**ways, **own, "secrets": {"token": "env:CANARY"}}

    def environment(self) -> dict[str, str]:
        keys = {emulator.BATCH_KEY: self.account.key, emulator.STORAGE_KEY: self.store.key}
        return {**super().environment(), **keys}

    def hidden(self) -> Iterator[tuple[str, bytes]]:
        yield from super().hidden()
        yield "the key of the account", self.account.key.encode()

    def tasks(self) -> list[dict[str, Any]]:
        """Give every task there is, as the service itself knows it."""
        found: list[dict[str, Any]] = self.account.control("GET", "tasks")
        return found

    def submitted(self) -> list[str]:
        with self.account.world.lock:
            return [job.id for job in self.account.world.jobs.values()]

    def submits(self) -> int:
        return sum(c["operation"] == "Job_Add" for c in self.account.control("GET", "calls"))

    def begun(self) -> set[str]:
        return {task["jobId"] for task in self.tasks() if task["starts"]}

    def alive(self) -> list[str]:
        return [task["id"] for task in self.tasks() if task["state"] != "completed"]

    def left(self) -> Iterator[str]:
        yield from (f"blob {name}" for name in self.names())
        world = self.account.world
        with world.lock:
            yield from (f"job {job.id} {job.state}" for job in world.jobs.values())
            yield from (f"pool {pool.id} {pool.state}" for pool in world.pools.values())

    def close(self) -> None:
        self.account.close()
        super().close()


@functools.cache
def azure(blobs: Blobs) -> New:
    """Give what makes a world of its own over one Blob service for all."""
    return partial(new_cloud, AzureCloud, blobs=blobs)
