"""Checks of file systems, each rule with its source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from runspec_jobs.provider import Problem, Spec
from runspec_parallelcluster.naming import at
from runspec_parallelcluster.options import ParallelClusterOptions, Storage

# https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html (StorageCapacity)
SMALLEST_GIB, STEP_GIB = 1200, 2400
# https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html
THROUGHPUT = (125, 250, 500, 1000)
# https://docs.aws.amazon.com/parallelcluster/latest/ug/SharedStorage-v3.html
MOST_NEW, MOST_THERE = 1, 20
NAME = re.compile(r"[A-Za-z0-9+=._:/@-]{1,30}")
RESERVED = frozenset(
    "/bin /boot /dev /etc /lib /lib64 /media /mnt /opt /opt/parallelcluster /opt/parallelcluster/shared "
    "/opt/parallelcluster/shared_login_nodes /opt/slurm /opt/intel /proc /root /run /sbin /srv /sys /tmp /usr "
    "/var".split()
)


def problems(spec: Spec, options: ParallelClusterOptions) -> Iterator[Problem]:
    yield from _number(spec, options)
    for name, storage in options.storage.items():
        where = at(spec, "storage", name)
        if not NAME.fullmatch(name) or name == "default":
            hint = "use 30 characters at most, and not 'default'"
            yield Problem(
                where, f"ParallelCluster does not allow a file system called '{name}'", hint
            )
        if storage.mount in RESERVED:
            what = f"'{storage.mount}' belongs to the system"
            yield Problem(
                at(spec, "storage", name, "mount"), what, "use another folder, such as /workspace"
            )
        if not storage.file_system:
            yield from _new(spec, name, storage)
    for (one, first), (other, second) in combinations(options.storage.items(), 2):
        yield from _apart(spec, one, first.mount, other, second.mount)


def _number(spec: Spec, options: ParallelClusterOptions) -> Iterator[Problem]:
    new = [name for name, storage in options.storage.items() if not storage.file_system]
    there = len(options.storage) - len(new)
    if len(new) > MOST_NEW:
        what = f"{len(new)} new file systems, but a cluster makes {MOST_NEW} at most"
        hint = f"make '{new[1]}' by yourself, and set file_system: fs-..."
        yield Problem(at(spec, "storage"), what, hint)
    if there > MOST_THERE:
        what = f"{there} file systems, but a cluster mounts {MOST_THERE} at most"
        yield Problem(at(spec, "storage"), what, "remove some")


def _new(spec: Spec, name: str, storage: Storage) -> Iterator[Problem]:
    size = storage.size_gib
    if size != SMALLEST_GIB and size % STEP_GIB:
        near = SMALLEST_GIB if size < SMALLEST_GIB else -(-size // STEP_GIB) * STEP_GIB
        what = (
            f"{size:,} GiB, but FSx for Lustre has {SMALLEST_GIB:,} or a multiple of {STEP_GIB:,}"
        )
        yield Problem(at(spec, "storage", name, "size_gib"), what, f"set size_gib: {near}")
    where = at(spec, "storage", name, "throughput")
    if storage.kind == "scratch" and storage.throughput is not None:
        what = "only a persistent file system has a throughput"
        yield Problem(where, what, "set kind: persistent, or remove throughput")
    if storage.kind == "persistent" and storage.throughput not in THROUGHPUT:
        shown = "no throughput" if storage.throughput is None else f"{storage.throughput} MB/s/TiB"
        what = f"'{name}': {shown}, but a persistent file system has one of {', '.join(map(str, THROUGHPUT))}"
        yield Problem(where, what, f"set throughput: {THROUGHPUT[0]}")


def _apart(spec: Spec, one: str, first: str, other: str, second: str) -> Iterator[Problem]:
    where = at(spec, "storage", other, "mount")
    if first == second:
        what = f"'{one}' and '{other}' are both mounted at {first}"
        yield Problem(where, what, "use two different folders")
    elif first.startswith(f"{second}/") or second.startswith(f"{first}/"):
        what = f"of '{one}' at {first} and '{other}' at {second}, one is inside the other"
        yield Problem(where, what, "use folders that do not contain each other")
