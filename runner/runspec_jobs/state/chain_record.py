"""The records of chains on this machine: which file each comes from, and which runs its jobs have.

A chain is known by its name and its path, because two folders may each have a chain of one name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runspec_jobs import record_formats
from runspec_jobs.errors import Damaged, UsageError
from runspec_jobs.spec.needs import Condition
from runspec_jobs.spec.types import NAME, compiled
from runspec_jobs.state import atomic_io, origin
from runspec_jobs.state_folder import find_chains_folder

FORMAT = "runspec.chain/v1"
PLACE = 12  # the letters in the name of a record that stand for the path of its chain
APPLIED = ".applied"  # the ending of the file that every apply of the chain locks
RUN = r"^[a-z][a-z0-9-]{0,39}-[0-9a-z]{6}$"
NOT_OURS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class ChainRecord:
    """A chain that was applied: its *name* and *path*, its jobs in order with what each needs, and their runs.

    *needs* has a condition for each parent of each job, and *earlier* has the runs in whose place others have come.
    *want* is `run`, `cancel` or `destroy`, and *skipped* says why jobs were skipped in the last apply of them.
    """

    name: str
    path: Path
    needs: Mapping[str, Mapping[str, str]]
    runs: Mapping[str, str] = field(default_factory=dict)
    want: str = "run"
    earlier: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)

    def with_run(self, job: str, run: str) -> ChainRecord:
        """Return the record with the run that *job* has now."""
        before = self.runs.get(job, run)
        every = self.earlier if before == run else (*self.earlier, before)
        skipped = _drop(self.skipped, (job,))
        runs = {**self.runs, job: run}
        return replace(self, runs=runs, earlier=_unique(every, run), skipped=skipped)


def _drop(texts: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    return {key: text for key, text in texts.items() if key not in keys}


def _unique(runs: Sequence[str], but: str = "") -> tuple[str, ...]:
    return tuple(run for run in dict.fromkeys(runs) if run != but)


def _file(name: str, path: Path) -> Path:
    # A path may be too long for a name, and have letters that a file system does not take.
    digest = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:PLACE]
    return find_chains_folder() / f"{name}-{digest}.json"


@contextlib.contextmanager
def _locked(name: str, path: Path) -> Iterator[None]:
    file = _file(name, path)
    with atomic_io.translate_os_errors(file):
        atomic_io.make_folder(find_chains_folder())
    with atomic_io.hold_lock(file.with_suffix(".lock"), f"another command on the chain '{name}'"):
        yield


@contextlib.contextmanager
def hold_for_apply(name: str, path: Path, waiting: atomic_io.Waiting) -> Iterator[None]:
    """Hold what says that an apply of the chain at *path* is under way; several may be."""
    file = _file(name, path)
    with atomic_io.translate_os_errors(file):
        atomic_io.make_folder(find_chains_folder())
    holder = f"a cancel of the chain '{name}'"
    with atomic_io.hold_lock(file.with_suffix(APPLIED), holder, waiting, shared=True):
        yield


@contextlib.contextmanager
def hold_off_applies(chain: ChainRecord) -> Iterator[bool]:
    """Let every new apply of *chain* wait; yield whether none is under way."""
    file = _file(chain.name, chain.path).with_suffix(APPLIED)
    with atomic_io.translate_os_errors(file):
        fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, atomic_io.PRIVATE_FILE)
    try:
        yield atomic_io.lock(fd, file, wait=False)
    finally:
        os.close(fd)


def keep(
    name: str, path: Path, needs: Mapping[str, Mapping[str, str]], applied: Collection[str]
) -> ChainRecord:
    """Write that jobs of the chain at *path* are *applied*; the runs of all its jobs stay on record."""
    with _locked(name, path):
        before = _read(_file(name, path)) or ChainRecord(name, path, needs)
        runs = {job: run for job, run in before.runs.items() if job in needs}
        # The file may have lost a job since: its run still has to be destroyed with the chain.
        left = (run for job, run in before.runs.items() if job not in needs)
        earlier = _unique((*before.earlier, *left))
        skipped = _drop(before.skipped, applied)
        return _write(ChainRecord(name, path, needs, runs, earlier=earlier, skipped=skipped))


def note_run(chain: ChainRecord, job: str, run: str, before: str | None) -> ChainRecord:
    """Write which run the *job* of a chain has now, and return the record as it is then.

    Nothing is written if the chain is to be cancelled or destroyed, or if the run of the job is not *before* any more.
    """
    with _locked(chain.name, chain.path):
        # Read anew under the lock: another command may have noted the run of another job.
        now = _read(_file(chain.name, chain.path)) or chain
        if now.want != "run" or now.runs.get(job) not in (before, run):
            return now
        return _write(now.with_run(job, run))


def note_skip(chain: ChainRecord, job: str, why: str) -> ChainRecord:
    """Write why the *job* of a chain is skipped by an apply, and return the record as it is then."""
    with _locked(chain.name, chain.path):
        now = _read(_file(chain.name, chain.path)) or chain
        if now.want != "run" or now.runs.get(job) != chain.runs.get(job):
            return now  # another command has ended the chain, or has started the job
        return _write(replace(now, skipped={**now.skipped, job: why}))


def note_want(chain: ChainRecord, want: str) -> ChainRecord:
    """Write that a chain is to be cancelled or destroyed: no more jobs of it are started."""
    with _locked(chain.name, chain.path):
        now = _read(_file(chain.name, chain.path)) or chain
        skipped = {} if want == "destroy" else now.skipped
        return _write(replace(now, want=want, skipped=skipped))


def forget_earlier(chain: ChainRecord) -> None:
    """Write that nothing is left of those runs which are earlier ones in the record *chain*."""
    with _locked(chain.name, chain.path):
        now = _read(_file(chain.name, chain.path)) or chain
        _write(replace(now, earlier=_unique([r for r in now.earlier if r not in chain.earlier])))


def current(chain: ChainRecord) -> ChainRecord | None:
    """Return the record of a chain as it is now; None if it was deleted."""
    return _read(_file(chain.name, chain.path))


def find(name: str) -> ChainRecord | None:
    """Return the chain called *name*, or the chain whose file or folder *name* is; None if there is none.

    Chains nearest to the current folder come first. Raises UsageError if several are equally near, and Damaged if the
    record of the only one cannot be read.
    """
    every = all_chains()
    path = Path(name)
    # A plain word is always a name, even if a folder here is called the same.
    if ("/" in name or path.suffix) and path.exists():
        return next((chain for chain in every if chain.path == path.resolve()), None)
    named = [chain for chain in every if chain.name == name]
    if not named:
        _complain_of_damage(name)
        return None
    here = origin.find_current_folder()
    near = [
        (origin.Origin(_base(chain), chain.path).measure_nearness(here), chain) for chain in named
    ]
    best = min(nearness for nearness, _ in near)
    nearest = [chain for nearness, chain in near if nearness == best]
    if len(nearest) > 1:
        listed = ", ".join(str(chain.path) for chain in nearest)
        raise UsageError(f"'{name}' is the name of several chains", f"name its file: {listed}")
    return nearest[0]


def _complain_of_damage(name: str) -> None:
    """Raise Damaged if the record of a chain called *name* cannot be read: jobs of it may be alive."""
    if compiled(NAME).fullmatch(name):
        for file in find_chains_folder().glob(f"{name}-{'?' * PLACE}.json"):
            _read(file)


def _base(chain: ChainRecord) -> Path:
    return chain.path if chain.path.is_dir() else chain.path.parent


def all_chains() -> list[ChainRecord]:
    """Return all chains on record that can be read, by name."""
    try:
        files = sorted(find_chains_folder().glob("*.json"))
    except OSError:  # no chain was ever applied
        return []
    chains = []
    for file in files:
        with contextlib.suppress(Damaged):
            chains.append(_read(file))
    return [chain for chain in chains if chain is not None]


def _read(file: Path) -> ChainRecord | None:
    try:
        value = json.loads(file.read_bytes())
        record_formats.check(value, FORMAT, str(file))
        return ChainRecord(
            _matched(NAME, value["name"]),
            Path(_matched(r"[^\0]+", value["path"])),
            {
                _matched(NAME, job): {
                    _matched(NAME, of): str(Condition(how)) for of, how in needs.items()
                }
                for job, needs in value["needs"].items()
            },
            {_matched(NAME, job): _matched(RUN, run) for job, run in value["runs"].items()},
            _matched("run|cancel|destroy", value["want"]),
            tuple(_matched(RUN, run) for run in value.get("earlier", ())),
            {_matched(NAME, job): str(why) for job, why in value.get("skipped", {}).items()},
        )
    except FileNotFoundError:
        return None
    except (OSError, *NOT_OURS) as exc:
        message = f"{file}: it is damaged"
        raise Damaged(message, "remove the file, and apply the chain again") from exc


def _matched(pattern: str, text: str) -> str:
    """Return *text* of a record, which may lead to a file. Raises ValueError if it is not of the form *pattern*."""
    if compiled(pattern).fullmatch(text) is None:
        raise ValueError(text)
    return text


def _write(chain: ChainRecord) -> ChainRecord:
    value: dict[str, Any] = {
        **record_formats.make_format_keys(FORMAT),
        "name": chain.name,
        "path": str(chain.path),
        "needs": {job: dict(needs) for job, needs in chain.needs.items()},
        "runs": dict(chain.runs),
        "want": chain.want,
        "earlier": list(chain.earlier),
        "skipped": dict(chain.skipped),
    }
    file = _file(chain.name, chain.path)
    with atomic_io.translate_os_errors(file):
        atomic_io.write(file, json.dumps(value, indent=1).encode() + b"\n")
    return chain
