"""What the workspace says of a run: one command for all of it, and not more often than that is worth."""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from runspec_slurm import timing
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore

# run; small files are told whole, and of the others their names, and the sizes of logs: wc opens each, so that an
# NFS client asks how long it is by now.
LOOK = f"""\
cd "runs/$1" 2>/dev/null && [ -f record.json ] || exit {NOTHING}
for n in claim job last; do
[ ! -f "$n" ] || printf '%s %s\\n' "$n" "$(cat "$n")"
done
[ -z "$(find claim -mmin -1 2>/dev/null)" ] || echo fresh
find ends failures stop -type f 2>/dev/null
[ ! -d logs ] || find logs -type f -name '*.txt' -exec wc -c {{}} +
exit 0
"""
# run; names come in, and each line goes out behind its file's name
NOTES = f"""\
cd "runs/$1" 2>/dev/null || exit {NOTHING}
xargs grep '' /dev/null
exit 0
"""
END = re.compile(r"ends/(\d+)/(\d+)/(\d+|batch)")
FAILURE = re.compile(r"failures/(\d+)-(\d+)/(\d+)-(\d+)")
LOG = re.compile(r"\s*(\d+) logs/(\d+)-(\d+)\.txt")
STOP = re.compile(r"stop/(\d+)")
BATCH = -1  # the rank of what is said of the batch script

Note = Mapping[str, Any]
AGAIN: Note = {"again": True}


class Try(NamedTuple):
    """Which try of which node, or of the batch script of a task."""

    task: int
    number: int
    rank: int


class Seen(NamedTuple):
    """What there is of a run. *job* is the one that has it, *claim* who may begin now."""

    claim: str = ""
    job: str = ""
    last: Mapping[str, Any] | None = None  # how it ended, once somebody has seen it
    ends: frozenset[Try] = frozenset()
    codes: Mapping[Try, int] = {}  # of failures after which it was tried again
    logs: Mapping[tuple[int, int], int] = {}  # their sizes by task and rank
    fresh: bool = False  # it was claimed less than a minute ago
    stops: frozenset[int] = frozenset()  # tasks that are to end, or not to begin

    @property
    def holder(self) -> str | None:
        """Return the job that has the run, where one has."""
        return self.job or (self.claim if self.claim.isdigit() else None)


class WorkspacePoller:
    """Looks at runs. What was seen just now is not asked again."""

    def __init__(self, shelf: WorkspaceStore) -> None:
        self.shelf = shelf
        self._seen: dict[str, tuple[float, Seen | None]] = {}
        self._notes: dict[str, dict[Try, Note]] = {}

    def forget(self, run: str) -> None:
        self._seen.pop(run, None)

    def seen(self, run: str) -> Seen | None:
        """Return what there is of *run*; None when it has no record (any more)."""
        good_until, found = self._seen.get(run, (-math.inf, None))
        if time.monotonic() >= good_until:
            began = time.monotonic()
            text = self._text(run)
            found = None if text is None else read(text)
            took = time.monotonic() - began
            rest = max(self.shelf.way.look_s, min(took * timing.LOOK_SHARE, timing.LOOK_CAP_S))
            self._seen[run] = (time.monotonic() + rest, found)
        return found

    def notes(self, run: str, wanted: Iterable[Try]) -> Mapping[Try, Note]:
        """Return what was noted at the ends of tries. What says that it is not the last word is read again."""
        known = self._notes.setdefault(run, {})
        if new := sorted(one for one in set(wanted) if known.get(one, AGAIN).get("again")):
            known.update(noted(self._noted(run, [_name(one) for one in new])))
        return known

    def _text(self, run: str) -> str | None:
        if there := self.shelf.nearby(lambda near: near.look(run)):
            return there[0]
        found = self.shelf.look(f"look at {run}", LOOK, run)
        return None if found is None else found.decode(errors="replace")

    def _noted(self, run: str, names: Sequence[str]) -> str:
        if there := self.shelf.nearby(lambda near: near.notes(run, names)):
            return there[0]
        content = ["".join(f"{name}\n" for name in names).encode()]
        found = self.shelf.look(f"read the ends of {run}", NOTES, run, content=content)
        return (found or b"").decode(errors="replace")


def read(text: str) -> Seen:
    """Read what LOOK tells."""
    words = dict[str, str]()
    ends, codes, logs = set[Try](), dict[Try, int](), dict[tuple[int, int], int]()
    stops = set[int]()
    for line in text.splitlines():
        if match := END.fullmatch(line):
            ends.add(_try(match))
        elif match := FAILURE.fullmatch(line):
            task, rank, number, code = map(int, match.groups())
            codes[Try(task, number, rank)] = code
        elif match := STOP.fullmatch(line):
            stops.add(int(match[1]))
        elif match := LOG.fullmatch(line):
            logs[int(match[2]), int(match[3])] = int(match[1])
        elif line.startswith(("claim ", "job ", "last ")):
            name, _, value = line.partition(" ")
            words.setdefault(name, value)
    last = _json(words.get("last", ""))
    claim, job = words.get("claim", ""), words.get("job", "")
    fresh = "fresh" in text.splitlines()
    return Seen(claim, job, last, frozenset(ends), codes, logs, fresh, frozenset(stops))


def noted(text: str) -> Iterator[tuple[Try, Note]]:
    """Read notes, each behind the name of its file; one that is cut off is read again."""
    for line in text.splitlines():
        name, _, said = line.partition(":")
        match, value = END.fullmatch(name), _json(said)
        if match is not None and value is not None:
            yield _try(match), value


def _try(match: re.Match[str]) -> Try:
    return Try(int(match[1]), int(match[2]), BATCH if match[3] == "batch" else int(match[3]))


def _name(one: Try) -> str:
    return f"ends/{one.task}/{one.number}/{'batch' if one.rank == BATCH else one.rank}"


def _json(text: str) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    return None
