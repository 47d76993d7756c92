"""The records of runs on this machine: one folder each, enough to take a run up after any crash."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspec import check, disk, home, journal, plan, yamlio
from runspec.errors import Bug, UsageError
from runspec.problems import did_you_mean
from runspec.provider import Facts, Provider, Source, Spec

TOKEN = "[0-9a-z]{6}"
RUN = re.compile(rf"[a-z][a-z0-9-]*-{TOKEN}")
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: read aloud without doubt


@dataclass(frozen=True)
class Record:
    """The folder of one run: `job.yaml`, `plan.json`, `facts.json`, `journal.jsonl`, `lock`."""

    folder: Path

    @property
    def run(self) -> str:
        return self.folder.name

    @property
    def name(self) -> str:
        """The name of the spec it is a run of."""
        return self.run[:-7]

    @property
    def plan(self) -> plan.Plan:
        return plan.from_json(json.loads((self.folder / "plan.json").read_bytes()))

    @property
    def job(self) -> bytes:
        """The text of the spec, as it was applied."""
        return (self.folder / "job.yaml").read_bytes()

    @property
    def spec(self) -> Spec:
        """The spec, as it was applied."""
        found, _ = check.spec(yamlio.read(self.job))
        assert found is not None, "BUG: a spec on record was checked"
        return found

    def facts(self, provider: Provider) -> Facts:
        """Give what the plan was made from; bundles and requirements are in the plan itself."""
        found = json.loads((self.folder / "facts.json").read_bytes())
        return Facts(
            options=provider.options_model.model_validate(found["options"]),
            sources={name: Source(**source) for name, source in found["sources"].items()},
            requirements=tuple(found["requirements"]),
            survey=found["survey"],
        )

    @property
    def base(self) -> Path:
        """The folder that the spec's relative paths start from."""
        return Path(json.loads((self.folder / "facts.json").read_bytes())["base"])

    def memory(self) -> journal.Memory:
        return journal.read(self.folder)

    @contextlib.contextmanager
    def opened(self, waiting: disk.Waiting = disk.silent) -> Iterator[journal.Journal]:
        """Hold the run's lock and its journal; *waiting* is told when another process holds them."""
        with disk.locked(self.folder / "lock", f"another runspec at work on {self.run}", waiting):
            opened = journal.Journal(self.folder)
            try:
                yield opened
            finally:
                opened.close()


def runs_folder() -> Path:
    return home.home() / "runs"


@contextlib.contextmanager
def name_lock(name: str, waiting: disk.Waiting = disk.silent) -> Iterator[None]:
    """Keep two applies of one name apart while they decide whether a run is needed."""
    folder = home.home() / "names"
    with disk.told(folder):
        disk.make_folder(folder)
    with disk.locked(folder / f"{name}.lock", f"another apply of '{name}'", waiting):
        yield


@contextlib.contextmanager
def site_lock(waiting: disk.Waiting, *, shared: bool) -> Iterator[None]:
    """Keep whoever takes away what runs share apart from all who make or find it."""
    folder = home.home()
    with disk.told(folder):
        disk.make_folder(folder)
    what = "a destroy --site" if shared else "an apply, or another destroy --site"
    with disk.locked(folder / "site.lock", what, waiting, shared=shared):
        yield


def new_token() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(6))


def create(text: bytes, made: plan.Plan, facts: Facts, base: Path, name: str) -> Record:
    """Put the record of a run on the disk, whole, before any call is made for it.

    Hold the name's lock.
    """
    runs = runs_folder()
    record, fresh = Record(runs / made.run), runs / f".new-{name}"
    with disk.told(fresh):
        disk.make_folder(runs)
        shutil.rmtree(fresh, ignore_errors=True)
        os.mkdir(fresh, disk.PRIVATE_FOLDER)
        disk.write(fresh / "job.yaml", text)
        disk.write(fresh / "plan.json", _json(plan.to_json(made)))
        disk.write(fresh / "facts.json", _json(_facts_json(facts, base)))
        started = journal.Journal(fresh)
        started.add("born", run=made.run, digest=made.digest)
        started.close()
        disk.sync_folder(fresh)
        os.rename(fresh, record.folder)
        disk.sync_folder(runs)
    return record


def _facts_json(facts: Facts, base: Path) -> Mapping[str, Any]:
    return {
        "base": str(base),
        "options": facts.options.model_dump(mode="json"),
        "sources": {name: source._asdict() for name, source in facts.sources.items()},
        "requirements": list(facts.requirements),
        "survey": facts.survey,
    }


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"


def all_runs() -> list[Record]:
    """Give every record, the oldest first; damaged ones before all."""
    return sorted(_records(RUN), key=lambda record: (_born(record), record.run))


def _records(pattern: re.Pattern[str]) -> list[Record]:
    runs = runs_folder()
    if not runs.is_dir():
        return []
    return [Record(f) for f in runs.iterdir() if pattern.fullmatch(f.name)]


def _born(record: Record) -> float:
    try:
        return record.memory().born
    except Bug:
        return 0.0


def of_name(name: str) -> list[Record]:
    """Give the records of runs of the spec called *name* that are not destroyed, oldest first."""
    return [r for r in _named(name) if not r.memory().deleted]


def _named(name: str) -> list[Record]:
    found = _records(re.compile(rf"{re.escape(name)}-{TOKEN}"))
    return sorted(found, key=lambda record: (_born(record), record.run))


def find(run: str) -> Record:
    """Give the record of *run*, or of the newest run of the spec of that name.

    Raises UsageError when there is none.
    """
    exact = _records(re.compile(re.escape(run)))
    if exact and RUN.fullmatch(run):
        return exact[0]
    named = _named(run)
    if found := [r for r in named if not r.memory().deleted] or named:
        return found[-1]
    records = _records(RUN)
    if sizes := sorted(
        {r.name for r in records if re.fullmatch(rf"{re.escape(run)}-n\d+", r.name)}
    ):
        raise UsageError(f"'{run}' is a run for each size", f"name one: {', '.join(sizes)}")
    known = [*(r.run for r in records), *(r.name for r in records)]
    hint = did_you_mean(run, known) or ("see runspec list" if known else "nothing was applied yet")
    raise UsageError(f"there is no run '{run}'", hint)


def find_kept(run: str) -> Record:
    """Give the record of *run* as `find` does; also raises UsageError when it was destroyed."""
    found = find(run)
    if found.memory().deleted:
        raise UsageError(f"{found.run} was destroyed: nothing of it is left", "see runspec list")
    return found
