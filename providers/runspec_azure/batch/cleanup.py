"""End what a run does not need any more, stop tasks, and find resources that no record names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from runspec_azure import store_layout
from runspec_azure.batch.infrastructure import run_secrets
from runspec_azure.batch.status import Tasks, number_of
from runspec_azure.naming import batch, blob
from runspec_azure.session.clients import Session
from runspec_azure.store import Blobs
from runspec_jobs.provider import Orphan, Request


class Reconciler:
    """Ends tasks, each once."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self._ended: set[tuple[str, str]] = set()

    def reconcile(self, run: str) -> Sequence[str]:
        """Terminate the tasks of an elastic job that is over which still wait: machines would start for them."""
        record = self.tasks.record(run)
        if record is None or not record.get("elastic"):
            return ()
        tasks = self.tasks.all(run)
        if self.tasks.elastic_end(run, record, tasks) is None:
            return ()
        waiting = [
            t["id"] for t in tasks if t["state"] == "active" and (run, t["id"]) not in self._ended
        ]
        for name in waiting:
            self.tasks.terminate(run, name)
            self._ended.add((run, name))
        count = f"{len(waiting)} {'task' if len(waiting) == 1 else 'tasks'}"
        why = "that waited for machines, because the elastic job is over"
        return [f"terminated {count} {why}"] if waiting else ()


# Stop single tasks of a sweep, by a request in the store that agents read when they start and while they run.
#
# It is undocumented which signal a program gets when the service terminates its task (see docs/unverified.md,
# azure-27), and how a waiting task ends (azure-23). So the agent of a running task stops the program, with its
# grace period, and saves its outputs.


WAITING = frozenset({"active", "preparing"})


class Stops:
    """Stops tasks, which have the numbers of the service's tasks."""

    def __init__(self, blobs: Blobs, tasks: Tasks) -> None:
        self.blobs, self.tasks = blobs, tasks
        self._since: dict[tuple[str, int], float] = {}

    def stop(self, run: str, record: Mapping[str, Any], numbers: Collection[int]) -> None:
        """Stop the tasks *numbers*; terminate those that wait, that have no agent, or whose agent does not react."""
        for number in sorted(numbers):
            if (run, number) not in self._since:
                self.blobs.put_new(self.blobs.key("runs", run, "stop", str(number)), b"")
                self._since[run, number] = self.tasks.clock.monotonic()
                self.tasks.forget()
        for task in self.tasks.all(run):
            number, state = number_of(task), task["state"]
            if number not in numbers or state == "completed":
                continue
            late = (
                self.tasks.clock.monotonic() - self._since[run, number]
                > self.tasks.timing.listens_s
            )
            if state in WAITING or late or "stop_s" not in record:
                self.tasks.terminate(run, task["id"])


# Find orphans at Azure Batch: resources that runspec made and that no local record mentions.


OURS = "runspec"  # the name of the metadata of resources that runspec made


class OrphanFinder:
    """Finds orphans in one account and container."""

    def __init__(self, session: Session, blobs: Blobs) -> None:
        self.session, self.blobs = session, blobs

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterator[Orphan]:
        """Yield everything that belongs neither to *runs* nor to the names in *made*, in the order of deletion."""
        jobs = {
            job["id"]: job
            for job in self.session.pages("Job_List", query={"$select": "id,state,metadata"})
            if _mark(job) == job["id"] and job["state"] != "deleting"
        }
        base = self.blobs.key("runs", "")
        secrets = self._list_secrets()
        here = set(self.blobs.folders(base)) | set(secrets)
        alone = list(self._runs(sorted((here | set(jobs)) - set(runs)), jobs, base, secrets))
        yield from alone
        needed = any(run.alive for run in alone)  # by a job without a local record
        yield from (orphan._replace(alive=orphan.alive or needed) for orphan in self._shared(made))

    def _list_secrets(self) -> dict[str, list[Request]]:
        """Return the deletions of the secrets of runs of this store in the vault of the profile, by the run."""
        found: dict[str, list[Request]] = {}
        if self.session.options.vault:
            where = store_layout.store(self.session.options)
            for name, tags in self.session.vault.list():
                if tags.get(run_secrets.STORE) == where and (run := tags.get(run_secrets.RUN)):
                    found.setdefault(run, []).append(run_secrets.make_deletion(name))
        return found

    def _runs(
        self,
        forgotten: list[str],
        jobs: Mapping[str, Any],
        base: str,
        secrets: Mapping[str, Sequence[Request]],
    ) -> Iterator[Orphan]:
        for run in forgotten:
            alive = run in jobs and jobs[run]["state"] != "completed"
            where = {"container": self.blobs.options.container, "prefix": f"{base}{run}/"}
            delete = (batch("Job_Delete", {"jobId": run}),) if run in jobs else ()
            remove = (*delete, *secrets.get(run, ()), Request("runspec", "empty_prefix", where))
            yield Orphan(f"run {run}{', whose job is alive' if alive else ''}", remove, run, alive)

    def _shared(self, made: Collection[str]) -> Iterator[Orphan]:
        for pool in self.session.pages("Pool_List", query={"$select": "id,state,metadata"}):
            name = pool["id"]
            if _mark(pool) == "pool" and pool["state"] != "deleting" and name not in made:
                yield Orphan(f"pool {name}", (batch("Pool_Delete", {"poolId": name}),))
        container = self.blobs.options.container
        for kind in ("blobs", "inside"):
            for entry in self.blobs.listing(self.blobs.key(kind, "")):
                if entry.key not in made:
                    remove = blob("Blob_Delete", container, entry.key)
                    yield Orphan(f"upload {entry.key} ({entry.size:,} bytes)", (remove,))


def _mark(thing: Mapping[str, Any]) -> str:
    """Return the value of runspec's metadata of *thing*; a resource of others may have a similar name."""
    known = {pair.get("name"): str(pair.get("value", "")) for pair in thing.get("metadata", ())}
    return known.get(OURS, "")
