"""Find orphans: objects with the labels of runspec, and files in the store, that no local record mentions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from runspec_jobs.provider import Orphan, Request
from runspec_kubernetes import lookup
from runspec_kubernetes.errors import Refused
from runspec_kubernetes.naming import MANAGED, RUN_LABEL, collection, delete
from runspec_kubernetes.session import Session
from runspec_kubernetes.status import state_of
from runspec_kubernetes.store_layout import RECORD, name_cluster
from runspec_objects.store import Store

KINDS = ("jobs", "services", "secrets", "configmaps")  # in the order to delete them
SELECTOR = ",".join(f"{key}={value}" for key, value in MANAGED.items())


class OrphanFinder:
    """Finds orphans in one namespace and store."""

    def __init__(self, session: Session, store: Store | None) -> None:
        self.session, self.store = session, store

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterator[Orphan]:
        """Yield what belongs neither to *runs* nor to the names in *made*, in the order of deletion."""
        options = self.session.options
        there = {kind: list(self._listed(kind)) for kind in KINDS}
        alone: dict[str, list[Request]] = {}
        alive: set[str] = set()
        for kind, objects in there.items():
            for entry in objects:
                run = entry["metadata"]["labels"].get(RUN_LABEL)
                if run and run not in runs:
                    request = delete(options, kind, entry["metadata"]["name"], run)
                    alone.setdefault(run, []).append(request)
                    if kind == "jobs" and not state_of(entry, {}).terminal:
                        alive.add(run)
        stored = self._list_stored() - {*runs}
        elsewhere = {run for run in stored - alone.keys() if self._is_elsewhere(run)}
        for run in stored - elsewhere:
            files = Request("store", "remove", {"prefix": f"runs/{run}/"})
            alone.setdefault(run, []).append(files)
        for run, remove in sorted(alone.items()):
            what = f"run {run}{', whose Job is alive' if run in alive else ''}"
            yield Orphan(what, tuple(remove), run, run in alive)
        needed = bool(alive)  # by a Job without a local record
        for entry in there["configmaps"]:
            name, marks = entry["metadata"]["name"], entry["metadata"]["labels"]
            if RUN_LABEL not in marks and name not in made:
                request = delete(options, "configmaps", name)
                yield Orphan(f"ConfigMap {name}", (request,), alive=needed)
        for blob in () if self.store is None else self.store.listing("blobs/"):
            if blob.key not in made:
                request = Request("store", "remove", {"key": blob.key})
                what = f"upload {blob.key} ({blob.size:,} bytes)"
                yield Orphan(what, (request,), alive=needed or bool(elsewhere))

    def _list_stored(self) -> set[str]:
        """Return the runs that have files in the store."""
        names = () if self.store is None else self.store.names("runs/")
        return {name.partition("/")[0] for name in names}

    def _is_elsewhere(self, run: str) -> bool:
        """Return whether the record of *run* names another namespace or context, where its Job may be alive."""
        assert self.store is not None, "BUG: only a store has files of other namespaces"
        try:
            record = json.loads(self.store.read(f"runs/{run}/{RECORD}") or b"{}")
        except ValueError:
            return False
        ours = name_cluster(self.session.options)
        return isinstance(record, dict) and record.get("cluster", ours) != ours

    def _listed(self, kind: str) -> Iterator[dict[str, Any]]:
        """Yield our objects of a kind. Who may not list one has made none: `runspec policy` permits both."""
        path = collection(self.session.options.namespace, kind)
        try:
            for entry in self.session.listed(path, labelSelector=SELECTOR):
                if not lookup.is_leaving(entry):
                    yield entry
        except Refused as exc:
            if exc.code != 403 or kind not in ("secrets", "services"):
                raise
