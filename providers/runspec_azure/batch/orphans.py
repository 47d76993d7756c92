"""Find orphans at Azure Batch: resources that runspec made and that no local record mentions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from runspec_azure.naming import batch, blob
from runspec_azure.session.clients import Session
from runspec_azure.store.blobs import Blobs
from runspec_jobs.provider import Orphan, Request

OURS = "runspec"  # the name of the metadata of resources that runspec made


class OrphanFinder:
    """Finds orphans in one account and container."""

    def __init__(self, session: Session, blobs: Blobs) -> None:
        self.session, self.blobs = session, blobs

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterator[Orphan]:
        """Yield everything that belongs neither to *runs* nor to the names in *made*, in the order of deletion."""
        jobs = {
            found["id"]: found
            for found in self.session.pages("Job_List", query={"$select": "id,state,metadata"})
            if _mark(found) == found["id"] and found["state"] != "deleting"
        }
        base = self.blobs.key("runs", "")
        here = set(self.blobs.folders(base))
        alone = list(self._runs(sorted((here | set(jobs)) - set(runs)), jobs, base))
        yield from alone
        needed = any(run.alive for run in alone)  # by a job without a local record
        yield from (found._replace(alive=found.alive or needed) for found in self._shared(made))

    def _runs(self, forgotten: list[str], jobs: Mapping[str, Any], base: str) -> Iterator[Orphan]:
        for run in forgotten:
            alive = run in jobs and jobs[run]["state"] != "completed"
            where = {"container": self.blobs.options.container, "prefix": f"{base}{run}/"}
            delete = (batch("Job_Delete", {"jobId": run}),) if run in jobs else ()
            remove = (*delete, Request("runspec", "empty_prefix", where))
            yield Orphan(f"run {run}{', whose job is alive' if alive else ''}", remove, run, alive)

    def _shared(self, made: Collection[str]) -> Iterator[Orphan]:
        for pool in self.session.pages("Pool_List", query={"$select": "id,state,metadata"}):
            name = pool["id"]
            if _mark(pool) == "pool" and pool["state"] != "deleting" and name not in made:
                yield Orphan(f"pool {name}", (batch("Pool_Delete", {"poolId": name}),))
        container = self.blobs.options.container
        for kind in ("blobs", "inside"):
            for found in self.blobs.listing(self.blobs.key(kind, "")):
                if found.key not in made:
                    remove = blob("Blob_Delete", container, found.key)
                    yield Orphan(f"upload {found.key} ({found.size:,} bytes)", (remove,))


def _mark(thing: Mapping[str, Any]) -> str:
    """Return the value of runspec's metadata of *thing*; a resource of others may have a similar name."""
    known = {one.get("name"): str(one.get("value", "")) for one in thing.get("metadata", ())}
    return known.get(OURS, "")
