"""Notes about behaviour of Azure Batch that may surprise, but is not a mistake of the spec."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_azure.batch.infrastructure import autoscale, pool
from runspec_azure.batch.options import BatchOptions
from runspec_jobs.provider import Facts, Problem, Spec

WITHOUT_BLOBFUSE = ":ubuntu-hpc:2204:"


def notes(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield the notes about a job whose profile is complete."""
    options: BatchOptions = facts.options
    if not options.pool:
        yield from _machines(spec, facts)
        yield from _blobfuse(spec, options)
        yield from _own_image(spec, options)


def _machines(spec: Spec, facts: Facts) -> Iterator[Problem]:
    if spec.cluster.nodes.max == 1:
        return
    # The note on requirements: https://learn.microsoft.com/azure/batch/batch-mpi
    # See docs/unverified.md, azure-33.
    what = (
        "Azure Batch may not release the machines of a pool with inter-node communication by itself: check "
        "its nodes when the job has ended, and delete the pool with runspec destroy --shared"
    )
    yield Problem(("cluster", "nodes"), what, severity="note")
    options: BatchOptions = facts.options
    if options.max_nodes > autoscale.together(facts):
        what = (
            f"max_nodes: {options.max_nodes:,}, but a pool with inter-node communication has "
            f"{autoscale.together(facts)} at most"
        )
        yield Problem(("cluster", "nodes"), what, severity="note")


def _blobfuse(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """https://learn.microsoft.com/azure/batch/virtual-file-mount#supported-configurations"""
    names = [key for key in pool.shared(spec) if options.shared.get(key, "").startswith("blob:")]
    at = {m.place.partition("/")[0]: i for i, m in enumerate(spec.mounts) if m.scheme == "shared"}
    for key in names:
        if WITHOUT_BLOBFUSE in options.image:
            what = (
                f"blobfuse, which mounts '{key}', is not supported on Ubuntu 22.04: set image: "
                "microsoft-dsvm:ubuntu-hpc:2404:latest and node_agent: batch.node.ubuntu 24.04, or "
                "use store://"
            )
            yield Problem(("mounts", at[key], "source"), what, severity="note")
    if len(names) > 1:
        # https://github.com/Azure/Batch/issues/190
        what = "Azure Batch sometimes does not mount the second of two blobfuse file systems: use store://"
        yield Problem(("mounts", at[names[1]], "source"), what, severity="note")


def _own_image(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """https://learn.microsoft.com/azure/batch/batch-docker-container-workloads#custom-images-for-linux"""
    if pool.image(spec) and options.image.startswith("/"):
        what = "machines with a custom image can run containers only if it has a container runtime (moby)"
        yield Problem(("container", "image"), what, severity="note")
