"""Runs and uploads in the workspace that no record on this machine mentions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from runspec_jobs.provider import Orphan, Request
from runspec_slurm.naming import run_of
from runspec_slurm.queue import Queue
from runspec_slurm.status import states
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore, part_name

# Unfinished uploads, older than a day: a younger one may still be in progress.
UNFINISHED = f"""\
[ -d "$1" ] || exit {NOTHING}
find "$1" -type f -name '.rs-*.part' -mtime +0
exit 0
"""
# Argument: the name of a temporary file. Prints the time by the clock of the file server, when the folder of each run
# last changed, and each claim.
RUNS = f"""\
[ -d runs ] || exit {NOTHING}
{{ printf "" >"$1" && stat -c '%Y now' -- "$1"; }} 2>/dev/null || date '+%s now'
rm -f -- "$1"
find runs -mindepth 1 -maxdepth 1 -type d -exec stat -c '%Y %n' {{}} +
find runs -mindepth 2 -maxdepth 2 -type f \\( -name claim -o -name 'claim.*' \\) -exec grep '' /dev/null {{}} +
exit 0
"""
AGE = re.compile(r"(\d+) (?:runs/)?(\S+)")
CLAIM = re.compile(r"runs/([^/]+)/claim(?:\.\d+)?:(.*)")
DAY_S = 86_400
COMING = "has no job yet, but changed within the last 24 h: another machine may be about to submit its job"


KEPT = ".kept"  # see `runspec_agent.job.bytecode_cache`


class OrphanFinder:
    """Finds orphans in one workspace and among the jobs of this user."""

    def __init__(self, store: WorkspaceStore, queue: Queue) -> None:
        self.store, self.queue = store, queue

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterator[Orphan]:
        """Yield everything that neither belongs to *runs* nor is listed in *made*, in the order to remove it."""
        alone = list(self._runs(runs))
        yield from alone
        needed = any(run.alive for run in alone)  # such a job may read any upload
        yield from (found._replace(alive=found.alive or needed) for found in self._shared(made))

    def _runs(self, runs: Collection[str]) -> Iterator[Orphan]:
        """Yield the runs without a record. If one has no job, an apply on another machine may submit it at any moment.

        Each attempt to submit changes the folder of the run, so a recent change counts as alive.
        """
        there = self._there()
        forgotten = sorted(set(there) - set(runs))
        living = self._living(there, forgotten) if forgotten else set()
        for run in forgotten:
            claims, age_s = there[run]
            coming = not claims and age_s < DAY_S and run not in living
            alive = coming or run in living
            cancel = (Request("slurm", "scancel", {"name": run}),) if alive else ()
            remove = (*cancel, _remove("remove_run", run=run))
            how = f" {COMING}" if coming else ", whose job is alive" if alive else ""
            yield Orphan(f"run {run}{how}", remove, run, alive)

    def _there(self) -> dict[str, tuple[set[str], int]]:
        """Return for each run the claims of its arrays, and the seconds since its folder last changed."""
        found = self.store.look("list runs", RUNS, part_name()) or b""
        lines = found.decode(errors="replace").splitlines()
        changed = {m[2]: int(m[1]) for m in map(AGE.fullmatch, lines) if m}
        claims: dict[str, set[str]] = {}
        for match in filter(None, map(CLAIM.fullmatch, lines)):
            claims.setdefault(match[1], set()).add(match[2])
        now = changed.pop("now", 0)
        return {run: (claims.get(run, set()), now - then) for run, then in changed.items()}

    def _living(
        self, there: Mapping[str, tuple[set[str], int]], forgotten: Collection[str]
    ) -> set[str]:
        """Return the runs that have a job, by the name of the job, or by the claim if the job was renamed."""
        alive = [row for row in self.queue.all() if states.alive(row.state)]
        names = {run_of(row.name) for row in alive}
        others = {row.job for row in alive if run_of(row.name) not in forgotten}
        return names | {run for run in forgotten if there[run][0] & others}

    def _shared(self, made: Collection[str]) -> Iterator[Orphan]:
        for kind in ("blobs", "inside"):
            there = self.store.listing(kind)
            keys = {found.key for found in there}
            for found in there:
                goes_along = found.key != whose(found.key) and whose(found.key) in keys
                if whose(found.key) not in made and not goes_along and not _is_part(found.key):
                    what = f"upload {found.key} ({found.size:,} bytes)"
                    yield Orphan(what, (_remove("remove", key=found.key),))
            for key in self._unfinished(kind):
                yield Orphan(f"unfinished upload {key}", (_remove("remove", key=key),))
        for name in self.store.folders("environments"):
            key = f"environments/{name}"
            if not any(found.startswith(f"{key}/") for found in made):
                yield Orphan(f"environment {key}", (_remove("remove_tree", key=key),))
        for name in self.store.folders("trash"):
            what = f"what is left of the removed {name.rpartition('.')[0]}"
            yield Orphan(what, (_remove("remove_tree", key=f"trash/{name}"),))

    def _unfinished(self, kind: str) -> list[str]:
        found = self.store.look(f"list {kind}", UNFINISHED, kind)
        return (found or b"").decode(errors="surrogateescape").splitlines()


def whose(key: str) -> str:
    """Return the upload that *key* belongs to, which is *key* itself except for compiled modules of the agent.

    >>> whose("inside/ab.cpython-311-3495.kept"), whose("blobs/ab.tar")
    ('inside/ab.pyz', 'blobs/ab.tar')
    """
    return f"{key.partition('.')[0]}.pyz" if key.endswith(KEPT) else key


def _is_part(key: str) -> bool:
    return key.endswith(".part")


def _remove(operation: str, **params: Any) -> Request:
    return Request("folder", operation, params)
