"""The probes of this provider: each checks one assumption of docs/unverified.md in a real account."""

from __future__ import annotations

from collections.abc import Sequence

from runspec_azure.batch.options import BatchOptions
from runspec_azure.batch.probes import jobs, store
from runspec_jobs.provider.probe import BenchProbe, Probe

CENT = 0.0001  # USD, for some requests: https://azure.microsoft.com/pricing/details/storage/blobs/
MACHINE = 0.10  # USD, for half an hour of the smallest machine that is large enough


OF_STORE = (
    Probe(
        "azure-1",
        "Of several conditional writes to a new blob, one succeeds",
        2,
        CENT,
        store.put_where_none_is,
    ),
    Probe(
        "azure-2",
        "With a signature of the container, one of two claims succeeds",
        2,
        CENT,
        store.claim_by_signature,
    ),
    Probe(
        "azure-3",
        "Blob storage replaces a blob only if its ETag is unchanged",
        2,
        CENT,
        store.put_where_it_is_unchanged,
    ),
    Probe("azure-4", "A signature to read does not permit writes", 2, CENT, store.read_alone),
    Probe("azure-5", "A range of a blob can be read with a signature", 2, CENT, store.ranges),
    Probe(
        "azure-6", "Blob storage lists a blob right after its write", 5, CENT, store.listed_at_once
    ),
    Probe(
        "azure-9",
        "Blocks are no blob before their block list is written",
        2,
        CENT,
        store.blocks_are_no_blob,
    ),
)
OF_JOBS = (
    BenchProbe(
        "azure-20", "Azure Batch evaluates all formulas of runspec", 30, 0, jobs.formulas_are_taken
    ),
    BenchProbe(
        "azure-21",
        "The second of two formulas in a row is refused with a known code",
        60,
        0,
        jobs.enabled_twice,
    ),
    BenchProbe(
        "azure-22",
        "The answer for a collection names each task that already existed",
        5,
        0,
        jobs.collection_names_each,
    ),
    BenchProbe(
        "azure-23",
        "Task_Terminate ends a waiting task, and no other",
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
        "The output of a running task can be read in ranges",
        900,
        MACHINE,
        jobs.live_file,
    ),
    BenchProbe(
        "azure-26",
        "A range beyond the end of a file is refused or empty",
        5,
        0,
        jobs.beyond_the_end,
        "azure-25",
    ),
    BenchProbe(
        "azure-27",
        "Task_Terminate makes a running task fail, and its files remain",
        120,
        0,
        jobs.told_to_end,
        "azure-25",
    ),
)


def probes(options: BatchOptions) -> Sequence[Probe]:
    bench = jobs.Bench(options)
    return (*OF_STORE, *(probe.on(bench) for probe in OF_JOBS))
