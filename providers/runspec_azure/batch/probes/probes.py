"""The probes of this provider: each finds out whether a belief of docs/unverified.md holds in a real account."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runspec_azure.batch.client import AzureClient
from runspec_azure.batch.options import BatchOptions
from runspec_azure.batch.probes import jobs, store
from runspec_jobs.provider import Observation, Probe, ProbeContext

CENT = 0.0001  # some requests: https://azure.microsoft.com/pricing/details/storage/blobs/
MACHINE = 0.10  # the smallest machine that fits, for half an hour

OnBench = Callable[[AzureClient, ProbeContext, jobs.Bench], Observation]


def probes(options: BatchOptions) -> Sequence[Probe]:
    return (*_of_store(), *_of_jobs(options))


def _of_store() -> Sequence[Probe]:
    of = store
    return (
        Probe(
            "azure-1",
            "Blob storage puts a blob only where none is, for one of several",
            2,
            CENT,
            of.put_where_none_is,
        ),
        Probe(
            "azure-2",
            "A signature of the container lets one of two claim",
            2,
            CENT,
            of.claim_by_signature,
        ),
        Probe(
            "azure-3",
            "Blob storage puts a blob only where it is unchanged",
            2,
            CENT,
            of.put_where_it_is_unchanged,
        ),
        Probe("azure-4", "A signature to read does not let write", 2, CENT, of.read_alone),
        Probe("azure-5", "A signature gives a part of a blob", 2, CENT, of.ranges),
        Probe(
            "azure-6", "Blob storage lists a blob right after its write", 5, CENT, of.listed_at_once
        ),
        Probe("azure-9", "Blocks make no blob before their list", 2, CENT, of.blocks_are_no_blob),
    )


def _of_jobs(options: BatchOptions) -> Sequence[Probe]:
    bench = jobs.Bench(options)

    def on(run: OnBench) -> Callable[[AzureClient, ProbeContext], Observation]:
        return lambda client, context: run(client, context, bench)

    of = jobs
    return (
        Probe(
            "azure-20", "Azure Batch evaluates all our formulas", 30, 0, on(of.formulas_are_taken)
        ),
        Probe(
            "azure-21",
            "Two formulas in a row: the second is refused by a code",
            60,
            0,
            on(of.enabled_twice),
        ),
        Probe(
            "azure-22",
            "A collection names each task that was there already",
            5,
            0,
            on(of.collection_names_each),
        ),
        Probe(
            "azure-23",
            "Task_Terminate ends a task that waits, and no other",
            60,
            0,
            on(of.waiting_task_ends),
        ),
        Probe(
            "azure-24",
            "A job ends with the last of its tasks",
            180,
            0,
            on(of.job_ends_with_its_tasks),
        ),
        Probe(
            "azure-25",
            "What a running task prints can be read in parts",
            900,
            MACHINE,
            on(of.live_file),
        ),
        Probe(
            "azure-26",
            "A part beyond the end of a file is refused, or empty",
            5,
            0,
            on(of.beyond_the_end),
            "azure-25",
        ),
        Probe(
            "azure-27",
            "Task_Terminate fails a task that runs, and keeps its files",
            120,
            0,
            on(of.told_to_end),
            "azure-25",
        ),
    )
