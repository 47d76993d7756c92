"""Notes about behaviour of Azure Batch that may surprise, but is not a mistake of the spec."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_azure.batch.decision import WITHOUT_BLOBFUSE, Decision
from runspec_jobs.provider import Problem, Spec


def notes(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield the notes about a job whose profile is complete."""
    if not decision.options.pool:
        yield from _machines(decision)
        yield from _blobfuse(decision, spec)
        yield from _own_image(decision)


def _machines(decision: Decision) -> Iterator[Problem]:
    if not decision.connected:
        return
    # The note on requirements: https://learn.microsoft.com/azure/batch/batch-mpi
    # See docs/unverified.md, azure-33.
    message = (
        "Azure Batch may not release the machines of a pool with inter-node communication by itself: check "
        "its nodes when the job has ended, and delete the pool with runspec destroy --shared"
    )
    yield Problem(("cluster", "nodes"), message, severity="note")
    max_nodes, most = decision.options.max_nodes, decision.most_connected
    if max_nodes > most:
        message = (
            f"max_nodes: {max_nodes:,}, but a pool with inter-node communication has {most} at most"
        )
        yield Problem(("cluster", "nodes"), message, severity="note")


def _blobfuse(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """https://learn.microsoft.com/azure/batch/virtual-file-mount#supported-configurations"""
    options = decision.options
    names = [key for key in decision.shared if options.shared.get(key, "").startswith("blob:")]
    at = {m.place.partition("/")[0]: i for i, m in enumerate(spec.mounts) if m.scheme == "shared"}
    for key in names:
        if WITHOUT_BLOBFUSE in options.image:
            message = (
                f"blobfuse, which mounts '{key}', is not supported on Ubuntu 22.04: set image: "
                "microsoft-dsvm:ubuntu-hpc:2404:latest and node_agent: batch.node.ubuntu 24.04, or "
                "use store://"
            )
            yield Problem(("mounts", at[key], "source"), message, severity="note")
    if len(names) > 1:
        # https://github.com/Azure/Batch/issues/190
        message = "Azure Batch sometimes does not mount the second of two blobfuse file systems: use store://"
        yield Problem(("mounts", at[names[1]], "source"), message, severity="note")


def _own_image(decision: Decision) -> Iterator[Problem]:
    """https://learn.microsoft.com/azure/batch/batch-docker-container-workloads#custom-images-for-linux"""
    if decision.image and decision.options.image.startswith("/"):
        message = "machines with a custom image can run containers only if it has a container runtime (moby)"
        yield Problem(("container", "image"), message, severity="note")
