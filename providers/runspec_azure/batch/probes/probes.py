"""The probes of this provider: each finds out whether a belief of docs/unverified.md holds in a real account."""

from __future__ import annotations

from collections.abc import Sequence

from runspec_azure.batch.options import BatchOptions
from runspec_azure.batch.probes import jobs, store
from runspec_jobs.provider import BenchProbe, Probe

CENT = 0.0001  # some requests: https://azure.microsoft.com/pricing/details/storage/blobs/
MACHINE = 0.10  # the smallest machine that fits, for half an hour


OF_STORE = (
    Probe(
        "azure-1",
        "Blob storage puts a blob only where none is, for one of several",
        2,
        CENT,
        store.put_where_none_is,
    ),
    Probe(
        "azure-2",
        "A signature of the container lets one of two claim",
        2,
        CENT,
        store.claim_by_signature,
    ),
    Probe(
        "azure-3",
        "Blob storage puts a blob only where it is unchanged",
        2,
        CENT,
        store.put_where_it_is_unchanged,
    ),
    Probe("azure-4", "A signature to read does not let write", 2, CENT, store.read_alone),
    Probe("azure-5", "A signature gives a part of a blob", 2, CENT, store.ranges),
    Probe(
        "azure-6", "Blob storage lists a blob right after its write", 5, CENT, store.listed_at_once
    ),
    Probe("azure-9", "Blocks make no blob before their list", 2, CENT, store.blocks_are_no_blob),
)
OF_JOBS = (
    BenchProbe(
        "azure-20", "Azure Batch evaluates all our formulas", 30, 0, jobs.formulas_are_taken
    ),
    BenchProbe(
        "azure-21",
        "Two formulas in a row: the second is refused by a code",
        60,
        0,
        jobs.enabled_twice,
    ),
    BenchProbe(
        "azure-22",
        "A collection names each task that was there already",
        5,
        0,
        jobs.collection_names_each,
    ),
    BenchProbe(
        "azure-23",
        "Task_Terminate ends a task that waits, and no other",
        60,
        0,
        jobs.waiting_task_ends,
    ),
    BenchProbe(
        "azure-24",
        "A job ends with the last of its tasks",
        180,
        0,
        jobs.job_ends_with_its_tasks,
    ),
    BenchProbe(
        "azure-25",
        "What a running task prints can be read in parts",
        900,
        MACHINE,
        jobs.live_file,
    ),
    BenchProbe(
        "azure-26",
        "A part beyond the end of a file is refused, or empty",
        5,
        0,
        jobs.beyond_the_end,
        "azure-25",
    ),
    BenchProbe(
        "azure-27",
        "Task_Terminate fails a task that runs, and keeps its files",
        120,
        0,
        jobs.told_to_end,
        "azure-25",
    ),
)


def probes(options: BatchOptions) -> Sequence[Probe]:
    bench = jobs.Bench(options)
    return (*OF_STORE, *(probe.on(bench) for probe in OF_JOBS))
