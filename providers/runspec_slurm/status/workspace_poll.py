"""Polling of a run's files in the workspace, by one command and not too often."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore

# Argument: the run. Prints small files whole, the names of the others, and the sizes of logs: wc opens each log, so
# that an NFS client asks for its present size.
LOOK = f"""\
cd "runs/$1" 2>/dev/null && [ -f record.json ] || exit {NOTHING}
for f in claim job last claim.* job.*; do
[ ! -f "$f" ] || printf '%s %s\\n' "$f" "$(cat "$f")"
done
[ -z "$(find claim claim.* -mmin -1 2>/dev/null)" ] || echo fresh
find ends failures stop released failed -type f 2>/dev/null
[ ! -d logs ] || find logs -type f -name '*.txt' -exec wc -c {{}} +
exit 0
"""
# Argument: the run. Standard input: names of files. Prints each line after the name of its file.
NOTES = f"""\
cd "runs/$1" 2>/dev/null || exit {NOTHING}
while IFS= read -r f; do [ ! -f "$f" ] || printf '%s\\n' "$f"; done | xargs grep '' /dev/null
exit 0
"""
END = re.compile(r"ends/(\d+)/(\d+)/(\d+|batch)(?:\.(\d+))?")  # with the code in a full workspace
FAILURE = re.compile(r"failures/(\d+)-(\d+)/(\d+)-(\d+)")
LOG = re.compile(r"\s*(\d+) logs/(\d+)-(\d+)\.txt")
OWNED = re.compile(r"(claim|job)(?:\.(\d+))? (.*)")
STOP = re.compile(r"(stop|released|failed)/(\d+)")
BATCH = -1  # the rank of the batch script in exit records

Note = Mapping[str, Any]
AGAIN: Note = {"again": True}
WHY_FULL = "the workspace was full, so that its exit record has no more than the code"


class AttemptKey(NamedTuple):
    """The attempt of a node, or of the batch script of a task, that an exit record is about."""

    task: int
    number: int
    rank: int


class Seen(NamedTuple):
    """The files of a run. By array: *jobs* has the job that owns it, *claims* the one that may begin now."""

    claims: Mapping[int, str] = {}
    jobs: Mapping[int, str] = {}
    last: Mapping[str, Any] | None = None  # the final status, once it has been determined
    ends: frozenset[AttemptKey] = frozenset()
    codes: Mapping[AttemptKey, int] = {}  # exit codes of failures that another attempt followed
    logs: Mapping[tuple[int, int], int] = {}  # sizes by task and rank
    fresh: bool = False  # whether the run was claimed less than a minute ago
    stops: frozenset[int] = frozenset()  # tasks with a stop request
    released: frozenset[int] = (
        frozenset()
    )  # tasks that are nodes of an elastic job and were released
    short: Mapping[AttemptKey, Note] = {}  # exit records in the names of files
    failed: frozenset[int] = (
        frozenset()
    )  # tasks that have failed for good, if `max_failed` counts them

    @property
    def claim(self) -> str:
        """Return the claim of the first array, or of the only job."""
        return self.claims.get(0, "")

    def holder(self, array: int = 0) -> str | None:
        """Return the job that owns *array* of the run, or None."""
        claim = self.claims.get(array, "")
        return self.jobs.get(array) or (claim if claim.isdigit() else None)


class WorkspacePoller:
    """Polls the files of runs. A recent result is reused."""

    def __init__(self, store: WorkspaceStore) -> None:
        self.store = store
        self._seen: dict[str, tuple[float, Seen | None]] = {}
        self._notes: dict[str, dict[AttemptKey, Note]] = {}

    def forget(self, run: str) -> None:
        self._seen.pop(run, None)

    def seen(self, run: str) -> Seen | None:
        """Return the files of *run*; None if it has no record, or no longer."""
        good_until, seen = self._seen.get(run, (-math.inf, None))
        if self.store.clock.monotonic() >= good_until:
            began = self.store.clock.monotonic()
            text = self._text(run)
            seen = None if text is None else read(text)
            took = self.store.clock.monotonic() - began
            timing = self.store.timing
            rest = max(self.store.way.look_s, min(took * timing.look_share, timing.look_cap_s))
            self._seen[run] = (self.store.clock.monotonic() + rest, seen)
        return seen

    def notes(self, run: str, wanted: Iterable[AttemptKey]) -> Mapping[AttemptKey, Note]:
        """Return the exit records of attempts. A record that is marked as preliminary is read again."""
        known = self._notes.setdefault(run, {})
        if new := sorted(key for key in set(wanted) if known.get(key, AGAIN).get("again")):
            known.update(noted(self._noted(run, [_name(key) for key in new])))
        seen = self._seen.get(run, (0.0, None))[1]
        return {**(seen.short if seen is not None else {}), **known}

    def _text(self, run: str) -> str | None:
        if there := self.store.nearby(lambda near: near.look(run)):
            return there[0]
        output = self.store.look(f"look at {run}", LOOK, run)
        return None if output is None else output.decode(errors="replace")

    def _noted(self, run: str, names: Sequence[str]) -> str:
        if there := self.store.nearby(lambda near: near.notes(run, names)):
            return there[0]
        content = ["".join(f"{name}\n" for name in names).encode()]
        output = self.store.look(f"read the ends of {run}", NOTES, run, content=content)
        return (output or b"").decode(errors="replace")


def read(text: str) -> Seen:
    """Return what the files of a run say, from the output of LOOK."""
    owned: dict[str, dict[int, str]] = {"claim": {}, "job": {}}
    ends, codes, logs = set[AttemptKey](), dict[AttemptKey, int](), dict[tuple[int, int], int]()
    away: dict[str, set[int]] = {"stop": set(), "released": set(), "failed": set()}
    short = dict[AttemptKey, Note]()
    last: dict[str, Any] | None = None
    for line in text.splitlines():
        if match := END.fullmatch(line):
            ends.add(_attempt_key(match))
            if match[4]:
                short[_attempt_key(match)] = {"code": int(match[4]), "why": WHY_FULL}
        elif match := FAILURE.fullmatch(line):
            task, rank, number, code = map(int, match.groups())
            codes[AttemptKey(task, number, rank)] = code
        elif match := STOP.fullmatch(line):
            away[match[1]].add(int(match[2]))
        elif match := LOG.fullmatch(line):
            logs[int(match[2]), int(match[3])] = int(match[1])
        elif match := OWNED.fullmatch(line):
            owned[match[1]].setdefault(int(match[2] or 0), match[3])
        elif line.startswith("last "):
            last = last or _json(line.removeprefix("last "))
    fresh = "fresh" in text.splitlines()
    return Seen(
        owned["claim"],
        owned["job"],
        last,
        frozenset(ends),
        codes,
        logs,
        fresh,
        frozenset(away["stop"]),
        frozenset(away["released"]),
        short,
        frozenset(away["failed"]),
    )


def noted(text: str) -> Iterator[tuple[AttemptKey, Note]]:
    """Yield exit records from the output of NOTES, without those that are cut off, which are read again later."""
    for line in text.splitlines():
        name, _, said = line.partition(":")
        match, value = END.fullmatch(name), _json(said)
        if match is not None and value is not None:
            yield _attempt_key(match), value


def _attempt_key(match: re.Match[str]) -> AttemptKey:
    return AttemptKey(int(match[1]), int(match[2]), BATCH if match[3] == "batch" else int(match[3]))


def _name(key: AttemptKey) -> str:
    return f"ends/{key.task}/{key.number}/{'batch' if key.rank == BATCH else key.rank}"


def _json(text: str) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError):
        document = json.loads(text)
        if isinstance(document, dict):
            return document
    return None
