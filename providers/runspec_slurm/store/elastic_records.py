"""Records of an elastic job in the workspace: its end, and its membership changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_jobs.provider import MembershipChange, Status, changes_of, elastic_end, elastic_status
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore

MOST = 10_000  # changes of a run that are read, counted from the last one
# Arguments: the run, and how many changes. Prints the line of each record after the name of its file.
CHANGES = f"""\
cd "runs/$1/elastic" 2>/dev/null || exit {NOTHING}
find ./*/changes -name '[0-9]*' -type f 2>/dev/null | sort | tail -n "$2" | xargs grep '' /dev/null
exit 0
"""
LINE = re.compile(rb"\./(\d+)/changes/\d+:(.*)")


def over(store: WorkspaceStore, run: str, record: Mapping[str, Any], ended: Status) -> Status:
    """Return the final status of the run: the one that its nodes recorded, or else *ended*."""
    found = end(store, run, record)
    return ended if found is None else elastic_status(found, ended.nodes)


def end(store: WorkspaceStore, run: str, record: Mapping[str, Any]) -> tuple[int, str] | None:
    """Return the exit code and the reason of an elastic job that is over, or None."""
    count = record["count"] // (record["elastic"]["max"] if record.get("elastic") else 1)
    return elastic_end(record, count, lambda path: store.read("runs", run, *path.split("/")))


def changes(store: WorkspaceStore, run: str) -> list[MembershipChange]:
    """Return the membership changes of an elastic job, with one command or, for a local workspace, none."""
    if there := store.nearby(lambda near: near.changes(run, MOST)):
        text = there[0]
    else:
        text = store.look(f"read the changes of {run}", CHANGES, run, str(MOST)) or b""
    return changes_of(_records(text))


def _records(text: bytes) -> Iterator[tuple[int, bytes]]:
    for line in text.splitlines():
        if match := LINE.fullmatch(line):
            yield int(match[1]), match[2]
