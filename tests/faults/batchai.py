"""A rehearsed subscription of Azure Batch AI for each case, and what the service itself knows of the jobs in it."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from runspec_batchai.emulator import KEY, SUBSCRIPTION
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.batch_ai import BatchAI
from tests.faults.azure import Stored
from tests.faults.cloud import New, new_cloud

SPEC = """\
apiVersion: runspec/v1
name: {name}
provider: azure-batch-ai
mounts: [{{name: src, source: ./src, target: /job/src}}]
outputs: [{{name: out, path: /job/out}}]
env: {{TRUTH: {truth}}}
secrets: {{TOKEN: token}}
{more}
run: |
  words=$(cat "${{mounts.src}}/one" "${{mounts.src}}/two")
  rank=${{OMPI_COMM_WORLD_RANK:-0}}
  echo "$RUNSPEC_RUN $RUNSPEC_TASK.$rank $RUNSPEC_ATTEMPT $words" >> "$TRUTH"
  echo done > "${{outputs.out}}/done"
  {last}
"""
WORKSPACE = "/workspaces/runspec"
JOB = f"{WORKSPACE}/experiments/runspec/jobs/*"
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass
class BatchAiCloud(Stored):
    """A world whose job runs in a rehearsed subscription, where *mpi* is the folder of an MPI."""

    mpi: Path | None = None

    provider: ClassVar[str] = "azure-batch-ai"
    text: ClassVar[str] = SPEC
    sent_once: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "PUT arm /resourcegroups/runspec": ("call ResourceGroups_CreateOrUpdate",),
        f"PUT arm {WORKSPACE}": ("call Workspaces_Create",),
        f"PUT arm {WORKSPACE}/clusters/*": ("call Clusters_Create",),
        f"PUT arm {WORKSPACE}/experiments/runspec": ("call Experiments_Create",),
        f"PUT arm {JOB}": ("call Jobs_Create",),
        f"POST arm {JOB}/terminate": ("cancel",),
        f"DELETE arm {JOB}": ("call Jobs_Delete",),
        f"DELETE arm {WORKSPACE}/experiments/runspec": ("call Experiments_Delete",),
        f"DELETE arm {WORKSPACE}/clusters/*": ("call Clusters_Delete",),
        f"DELETE arm {WORKSPACE}": ("call Workspaces_Delete",),
        "DELETE arm /resourcegroups/runspec": ("call ResourceGroups_Delete",),
    }

    def open(self) -> None:
        super().open()
        machine = {"PATH": f"{self.mpi / 'bin'}:{os.environ['PATH']}", **ROOT} if self.mpi else {}
        self.stand = BatchAI(
            self.folder / "stand",
            blob_url=self.store.url.replace(self.store.account, "{account}"),
            accounts={self.store.account: self.store.key},
            machine_env=machine,
            list_lag_s=self.lag_s,
        )

    def settings(self) -> Mapping[str, Any]:
        return {
            "subscription": SUBSCRIPTION,
            "arm_url": self.stand.url,
            "location": "eastus",
            "storage_account": self.store.account,
            "blob_url": self.store.url,
            "container": self.container,
            "prefix": "ours",
            "file_share": "logs",
            "ssh_public_key": "ssh-ed25519 AAAA",
            "secrets": {"storage-key": f"env:{KEY}", "token": "env:CANARY"},
        }

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self.stand.env, KEY: self.store.key}

    def jobs(self) -> list[dict[str, Any]]:
        """Give every job there is, as the service itself knows it."""
        found: list[dict[str, Any]] = self.stand.control("GET", "jobs")
        return found

    def submitted(self) -> list[str]:
        return [job["name"] for job in self.jobs()]

    def submits(self) -> int:
        return sum(c["operation"] == "Jobs_Create" for c in self.stand.control("GET", "calls"))

    def begun(self) -> set[str]:
        """A sweep is a job for each task; theirs are the names of its run."""
        return {job["name"][: len("faults-a1b2c3")] for job in self.jobs() if job["runs"]}

    def alive(self) -> list[str]:
        return [job["name"] for job in self.jobs() if job["state"] not in ("succeeded", "failed")]

    def times(self, request: str) -> int:
        """A sweep is cancelled as a whole, and each of its jobs is terminated."""
        many = request.endswith("/terminate") and "sweep" in self.shape.spec
        return self.shape.containers if many else 1

    def left(self) -> Iterator[str]:
        yield from (f"blob {name}" for name in self.names())
        world = self.stand.world
        with world.lock:
            yield from (f"job {job.name} {job.state}" for job in world.jobs())
            yield from (f"cluster {cluster.name}" for cluster in world.clusters())
            yield from (f"workspace {workspace.name}" for workspace in world.workspaces())
            yield from (f"group {group.name}" for group in world.groups.values())

    def close(self) -> None:
        self.stand.close()
        super().close()


@functools.cache
def batchai(blobs: Blobs, mpi: Path | None = None) -> New:
    """Give what makes a world of its own over one Blob service for all."""
    return partial(new_cloud, BatchAiCloud, blobs=blobs, mpi=mpi)
