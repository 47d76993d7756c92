"""What nodes used, as `runspec_agent.usage` wrote it to the workspace."""

from __future__ import annotations

from collections.abc import Sequence

from runspec_jobs.provider import Usage, read_usage
from runspec_slurm.store.batch_fetch import BatchFetch
from runspec_slurm.store.workspace import WorkspaceStore


def usage(store: WorkspaceStore, run: str, most: int | None) -> Usage:
    """Return the usage of the nodes of *run*: with two commands, or a third for each record that has just changed."""
    base = f"runs/{run}/usage/"
    entries = {entry.key: entry for entry in store.listing(base.rstrip("/"))}

    def read(names: Sequence[str]) -> list[bytes | None]:
        keys = [base + name for name in names]
        ahead = BatchFetch(store, [entries[key] for key in keys])
        return [_either(ahead.take(key), store, key) for key in keys]

    return read_usage((key[len(base) :] for key in entries), read, most)


def _either(content: bytes | None, store: WorkspaceStore, key: str) -> bytes | None:
    return store.read(key) if content is None else content
