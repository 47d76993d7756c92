"""What the nodes of an elastic job keep in the workspace: how it has ended, and what their changes have cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_jobs.provider import MembershipChange, Status, changes_of, elastic_end, elastic_status
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore

MOST = 10_000  # changes of a run: the last ones
# run, how many; the line of each record goes out behind its file's name
CHANGES = f"""\
cd "runs/$1/elastic" 2>/dev/null || exit {NOTHING}
find ./*/changes -name '[0-9]*' -type f 2>/dev/null | sort | tail -n "$2" | xargs grep '' /dev/null
exit 0
"""
LINE = re.compile(rb"\./(\d+)/changes/\d+:(.*)")


def over(store: WorkspaceStore, run: str, record: Mapping[str, Any], ended: Status) -> Status:
    """Return how the run has ended: as *ended* says, unless its nodes know better."""
    count = record["count"] // (record["elastic"]["max"] if record.get("elastic") else 1)
    found = elastic_end(record, count, lambda path: store.read("runs", run, *path.split("/")))
    return ended if found is None else elastic_status(found, ended.nodes)


def changes(store: WorkspaceStore, run: str) -> list[MembershipChange]:
    """Return the changes of an elastic job by one command, or by none where the workspace is here."""
    if there := store.nearby(lambda near: near.changes(run, MOST)):
        text = there[0]
    else:
        text = store.look(f"read the changes of {run}", CHANGES, run, str(MOST)) or b""
    return changes_of(_records(text))


def _records(text: bytes) -> Iterator[tuple[int, bytes]]:
    for line in text.splitlines():
        if match := LINE.fullmatch(line):
            yield int(match[1]), match[2]
