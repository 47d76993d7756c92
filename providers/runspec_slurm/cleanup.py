"""End second jobs of a run, requeue killed ones, and note in the workspace how it ended, or is unknown since when."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from runspec_jobs.provider import Orphan, RemoteError, Request
from runspec_slurm import task_stop
from runspec_slurm.lookup.jobs import Jobs
from runspec_slurm.naming import array_of, run_of, suffix
from runspec_slurm.queue import Queue
from runspec_slurm.status import states, unknown_outcomes
from runspec_slurm.status.states import Task
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore, part_name


class Reconciler:
    """Ends jobs, and writes notes to the workspace."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    def reconcile(self, run: str) -> Sequence[str]:
        seen = self.jobs.poller.seen(run)
        if seen is None or seen.last is not None:
            return ()
        doubted = [name for name in self.jobs.doubted if run_of(name) == run]
        others = [job for name in doubted for job in self._end_others(name)]
        self.jobs.status(run)  # what follows notes what this found
        again = [line for task in self.jobs.due.pop(run, ()) for line in self._requeue(run, task)]
        if again:
            self.jobs.forget(run)
            self.jobs.status(run)
        self.jobs.count_failed(run)
        self.jobs.end_held(run)
        self.jobs.unknown.mark(run)
        self.jobs.keep(run)
        count = f"{len(others)} {'job' if len(others) == 1 else 'jobs'}"
        ended = [f"cancelled {count} of the same run"] if others else []
        return [*ended, *again] or ()

    def _requeue(self, run: str, task: Task) -> list[str]:
        """Requeue a task whose batch script was killed; if Slurm refuses that, note the end of its attempt."""
        record, code = self.jobs.record(run), unknown_outcomes.code(task)
        assert task.row is not None and record is not None, "BUG: only a listed task is due"
        name = task.row.task_id(task.number) if record["count"] > 1 else task.row.job
        failure = (
            "" if record.get("elastic") else f"failures/{task.number}-0/{task.attempts}-{code}"
        )
        content = json.dumps({"code": code})
        try:
            growth = unknown_outcomes.rule(task, record).get("memory") if failure else None
            again = self.jobs.queue.requeue(run, task.row, name, failure, content, growth)
        except RemoteError as exc:
            if exc.transient:
                raise
            why = f"another attempt was due, but the job cannot be requeued: {exc.message}"
            note = json.dumps({"code": code, "why": why})
            self.jobs.store.put(
                f"runs/{run}/ends/{task.number}/{task.attempts}/batch", note.encode()
            )
            return [f"{name}: {why}"]
        return [f"requeued job {name}, whose batch script was killed"] if again else []

    def _end_others(self, name: str) -> list[str]:
        """Cancel the jobs with that *name* except the one that has its place in the run, and return them.

        If no job has claimed the place, it is claimed for the first one before, so that no other one can begin.
        """
        jobs, rows = self.jobs, self.jobs.queue.of_name(name)
        run, array = run_of(name), array_of(name)
        seen = jobs.poller.seen(run)
        ids = sorted({row.job for row in rows}, key=int)
        holder = None if seen is None else seen.holder(array)
        if holder is None and ids:
            claim = jobs.store.put_new(ids[0], "runs", run, f"claim{suffix(array)}") or ids[0]
            holder = claim if claim.isdigit() else ids[0]
            jobs.forget(run)
        others = sorted({row.job for row in task_stop.alive(rows)} - {holder})
        jobs.queue.cancel(others)
        if holder is not None:
            jobs.remember(name, holder)
        jobs.doubted.discard(name)
        return others


# Runs and uploads in the workspace that no record on this machine mentions.


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
        yield from (orphan._replace(alive=orphan.alive or needed) for orphan in self._shared(made))

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
        output = self.store.look("list runs", RUNS, part_name()) or b""
        lines = output.decode(errors="replace").splitlines()
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
            keys = {orphan.key for orphan in there}
            for orphan in there:
                goes_along = orphan.key != whose(orphan.key) and whose(orphan.key) in keys
                if whose(orphan.key) not in made and not goes_along and not _is_part(orphan.key):
                    what = f"upload {orphan.key} ({orphan.size:,} bytes)"
                    yield Orphan(what, (_remove("remove", key=orphan.key),))
            for key in self._unfinished(kind):
                yield Orphan(f"unfinished upload {key}", (_remove("remove", key=key),))
        for name in self.store.folders("environments"):
            key = f"environments/{name}"
            if not any(orphan.startswith(f"{key}/") for orphan in made):
                yield Orphan(f"environment {key}", (_remove("remove_tree", key=key),))
        for name in self.store.folders("trash"):
            what = f"what is left of the removed {name.rpartition('.')[0]}"
            yield Orphan(what, (_remove("remove_tree", key=f"trash/{name}"),))

    def _unfinished(self, kind: str) -> list[str]:
        output = self.store.look(f"list {kind}", UNFINISHED, kind)
        return (output or b"").decode(errors="surrogateescape").splitlines()


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
