"""What lies about in the workspace and belongs to no run that anybody knows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from runspec.provider import Litter, Request
from runspec_slurm import states
from runspec_slurm.queue import Queue
from runspec_slurm.shelf import NOTHING, Shelf

# What was begun to be put and never got its name, a day ago or longer: it may still be going on before that.
UNFINISHED = f"""\
[ -d "$1" ] || exit {NOTHING}
find "$1" -type f -name '.rs-*.part' -mtime +0
exit 0
"""


class Collector:
    """Looks through one workspace, and the jobs of this user."""

    def __init__(self, shelf: Shelf, queue: Queue) -> None:
        self.shelf, self.queue = shelf, queue

    def litter(self, runs: Collection[str], made: Collection[str]) -> Iterator[Litter]:
        """Give all that is neither of *runs* nor one of the names in *made*, in the order to remove it."""
        alone = list(self._runs(runs))
        yield from alone
        needed = any(run.alive for run in alone)  # by a job that nobody knows
        yield from (found._replace(alive=found.alive or needed) for found in self._shared(made))

    def _runs(self, runs: Collection[str]) -> Iterator[Litter]:
        forgotten = sorted(set(self.shelf.folders("runs")) - set(runs))
        living = self._living(forgotten) if forgotten else set()
        for run in forgotten:
            alive = run in living
            cancel = (Request("slurm", "scancel", {"name": run}),) if alive else ()
            remove = (*cancel, _remove("remove_run", run=run))
            yield Litter(f"run {run}{', whose job is alive' if alive else ''}", remove, run, alive)

    def _living(self, forgotten: Sequence[str]) -> set[str]:
        """Give the runs that have a job: by its name or, where it has another now, by who has the run."""
        alive = [row for row in self.queue.all() if states.alive(row.state)]
        living = {row.name for row in alive}
        others = {row.job for row in alive if row.name not in forgotten}
        claims = {run: self.shelf.read("runs", run, "claim") or b"" for run in forgotten if others}
        return living | {run for run, claim in claims.items() if claim.decode() in others}

    def _shared(self, made: Collection[str]) -> Iterator[Litter]:
        for kind in ("blobs", "inside"):
            for found in self.shelf.listing(kind):
                if found.key not in made and not found.key.endswith(".part"):
                    what = f"upload {found.key} ({found.size:,} bytes)"
                    yield Litter(what, (_remove("remove", key=found.key),))
            for key in self._unfinished(kind):
                yield Litter(f"unfinished upload {key}", (_remove("remove", key=key),))
        for name in self.shelf.folders("trash"):
            what = f"what is left of {name.rpartition('.')[0]}"
            yield Litter(what, (_remove("remove_tree", key=f"trash/{name}"),))

    def _unfinished(self, kind: str) -> list[str]:
        found = self.shelf.look(f"list {kind}", UNFINISHED, kind)
        return (found or b"").decode(errors="surrogateescape").splitlines()


def _remove(operation: str, **params: Any) -> Request:
    return Request("folder", operation, params)
