"""The records of runs on this machine: a folder for each, with which a run can be continued after any crash."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs import record_formats
from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.document import reader
from runspec_jobs.errors import Damaged, RunspecError, UsageError
from runspec_jobs.plan import model
from runspec_jobs.provider import (
    Facts,
    Options,
    Provider,
    Resume,
    SavedOutput,
    Source,
    Spec,
    paths,
)
from runspec_jobs.regex import regex
from runspec_jobs.spec import validate
from runspec_jobs.state import atomic_io, journal
from runspec_jobs.state_folder import find_runs_folder as find_runs_folder, find_ttl_folder

TOKEN = "[0-9a-z]{6}"
RUN = regex(rf"[a-z][a-z0-9-]*-{TOKEN}")
FACTS, SEQUENCE = "runspec.facts/v1", "runspec.sequence/v1"
# The errors of reading a file that is damaged.
NOT_OURS = (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError, reader.YamlError)
SUGGESTED = 3  # the most names in one hint
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o and u, which are easily mistaken


@dataclass(frozen=True)
class Record:
    """The folder of one run: `job.yaml`, `plan.json`, `facts.json`, `journal.jsonl`, `lock`."""

    folder: Path

    @property
    def run(self) -> str:
        return self.folder.name

    @property
    def name(self) -> str:
        """The name of the spec."""
        return self.run[:-7]

    @property
    def plan(self) -> model.Plan:
        with self._read("plan.json") as data:
            content = json.loads(data)
            record_formats.check(content, model.FORMAT, str(self.folder / "plan.json"))
            return model.read_plan(content)

    @property
    def job(self) -> bytes:
        """The text of the spec as it was applied."""
        with self._read("job.yaml") as data:
            return data

    @property
    def spec(self) -> Spec:
        """The spec as it was applied."""
        with self._read("job.yaml") as data:
            spec, problems = validate.parse_recorded(reader.read(data))
        if spec is None:
            message = f"{self.folder / 'job.yaml'}: this version of runspec refuses it: {problems[0].what}"
            raise Damaged(message, "use the version of runspec that started this run")
        return spec

    def read_facts(self, provider: Provider) -> Facts:
        """Return the facts that the plan was made from."""
        with self._read("facts.json") as data:
            content = json.loads(data)
            record_formats.check(content, FACTS, str(self.folder / "facts.json"))
            return Facts(
                options=self._read_options(provider, content),
                sources={name: Source(**source) for name, source in content["sources"].items()},
                requirements=tuple(content["requirements"]),
                survey=content["survey"],
                outputs={
                    name: SavedOutput(**output)
                    for name, output in content.get("outputs", {}).items()
                },
                resume=_read_resume(content),
            )

    def _read_options(self, provider: Provider, content: Mapping[str, Any]) -> Any:
        """Return the options that the run was planned with. Raises Damaged if this version does not accept them."""
        try:
            return provider.options_model.model_validate(content["options"])
        except ValidationError as exc:
            wrong = exc.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, wrong["loc"]))
            by = f"runspec {content['runspec']}" if "runspec" in content else "the version"
            raise Damaged(
                f"{self.folder / 'facts.json'}: this version of runspec refuses {where}: {wrong['msg'].lower()}",
                f"use {by} that started this run",
            ) from exc

    @property
    def machines(self) -> Mapping[str, Any]:
        """The catalogue and the machines that the run was planned with; empty if they are not on record."""
        with self._read("facts.json") as data:
            return dict(json.loads(data).get("machines", {}))

    @property
    def sources(self) -> Mapping[str, Source]:
        """The folders of this machine that the run was planned with, by the name of the mount."""
        with self._read("facts.json") as data:
            return {name: Source(**fields) for name, fields in json.loads(data)["sources"].items()}

    @property
    def resume(self) -> Resume | None:
        """The run whose saves this one began with, and which they are; None if it began without any."""
        with self._read("facts.json") as data:
            return _read_resume(json.loads(data))

    @property
    def base(self) -> Path:
        """The folder to which relative paths in the spec refer."""
        with self._read("facts.json") as data:
            return Path(json.loads(data)["base"])

    def read_memory(self) -> journal.RunState:
        """Return the state of the run from its journal. Raises Damaged if the journal cannot be read."""
        return journal.read(self.folder)

    @contextlib.contextmanager
    def _read(self, name: str) -> Iterator[bytes]:
        """Yield the content of a file; raise Damaged if it cannot be read, or the caller cannot parse it."""
        try:
            yield journal.read_content(self.folder / name)
        except NOT_OURS as exc:
            raise Damaged(
                f"{self.folder / name}: it is damaged", journal.hint(self.folder)
            ) from exc

    @contextlib.contextmanager
    def open_journal(
        self, waiting: atomic_io.Waiting = atomic_io.ignore_waiting
    ) -> Iterator[journal.Journal]:
        """Hold the run's lock, and yield its journal; *waiting* is called if another process holds the lock.

        Raises Damaged, and leaves the journal as it is, if it cannot be read.
        """
        path = self.folder / "lock"
        if path.exists() and not path.is_file():
            raise Damaged(f"{path}: it is no file", journal.hint(self.folder))
        with atomic_io.hold_lock(path, f"another runspec at work on {self.run}", waiting):
            journal.read(self.folder)  # a journal without its beginning is not continued
            opened = journal.Journal(self.folder)
            try:
                yield opened
            finally:
                opened.close()

    def note(self, write: Callable[[journal.Journal], None]) -> None:
        """Call *write* with the journal if it can be written now; nothing is raised if it cannot.

        A process that is at work on the run writes the same later. A full disk does not keep anybody from following a
        run; what notes its end fails with the reason.
        """

        def note_busy(message: str) -> None:
            raise RunspecError(message)

        with contextlib.suppress(RunspecError), self.open_journal(note_busy) as opened:
            write(opened)


@contextlib.contextmanager
def lock_name(name: str, waiting: atomic_io.Waiting = atomic_io.ignore_waiting) -> Iterator[None]:
    """Hold the lock of a name, so that two applies of it do not both decide that a run is needed."""
    folder = paths.find_home() / "names"
    with atomic_io.translate_os_errors(folder):
        atomic_io.make_folder(folder)
    with atomic_io.hold_lock(folder / f"{name}.lock", f"another apply of '{name}'", waiting):
        yield


@contextlib.contextmanager
def lock_site(waiting: atomic_io.Waiting, *, shared: bool) -> Iterator[None]:
    """Hold the lock of shared resources: shared to make or find them, or exclusive to delete them."""
    folder = paths.find_home()
    with atomic_io.translate_os_errors(folder):
        atomic_io.make_folder(folder)
    message = "a destroy --shared" if shared else "an apply, or another destroy --shared"
    with atomic_io.hold_lock(folder / "site.lock", message, waiting, shared=shared):
        yield


class Lifetime(NamedTuple):
    """How many seconds a run stays after its end, and when that was noticed first, in seconds since 1970.

    *noted_at* is when this was written, and *failed* whether the run could not be destroyed then.
    """

    run: str
    ttl_s: int
    ended_at: float | None
    failed: bool
    noted_at: float


def note_ttl(run: str, ttl_s: int, ended_at: float | None = None, *, failed: bool = False) -> None:
    """Write the lifetime of a run to disk; another machine that adopts the run does not have it."""
    folder = find_ttl_folder()
    known = {"ttl_s": ttl_s, "ended_at": ended_at, "failed": failed}
    with atomic_io.translate_os_errors(folder):
        atomic_io.make_folder(folder)
        atomic_io.write(folder / run, format_json(known))


def find_ttl(run: str) -> int | None:
    """Return how many seconds *run* stays after its end; None if this machine does not destroy it by itself."""
    return next((life.ttl_s for life in list_lifetimes() if life.run == run), None)


def forget_ttl(run: str) -> None:
    with atomic_io.translate_os_errors(find_ttl_folder()):
        (find_ttl_folder() / run).unlink(missing_ok=True)


def list_lifetimes() -> list[Lifetime]:
    """Return the runs of this machine that have a lifetime; a file that cannot be read is skipped."""
    found = []
    folder = find_ttl_folder()
    for path in sorted(folder.glob("[a-z]*")) if folder.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, KeyError):
            known = json.loads(path.read_bytes())
            values = (known["ttl_s"], known["ended_at"], known["failed"])
            found.append(Lifetime(path.name, *values, path.stat().st_mtime))
    return found


def make_token() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(6))


def create(
    text: bytes,
    plan: model.Plan,
    facts: Facts,
    base: Path,
    name: str,
    profile: Path | None = None,
    machines: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Record:
    """Write the complete record of a run to disk, before any request is made for it.

    *profile* is the file that the options come from, *machines* what `machines.spent.write_rates` returned, and
    *about* what `RunState.about` describes. The caller holds the lock of the name.
    """
    with _create_folder(text, plan, facts, base, name, profile, machines) as started:
        more = {} if about is None else {"about": dict(about)}
        started.add("born", **_get_birth(plan), number=_take_next_number(), **more)
    return Record(find_runs_folder() / plan.run)


def adopt(
    text: bytes,
    plan: model.Plan,
    facts: Facts,
    base: Path,
    name: str,
    profile: Path | None,
    born: float,
    events: Iterable[Mapping[str, Any]],
    machines: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Record:
    """Write the record of a run to disk that another machine started, at *born* in seconds since 1970.

    *events* are written to its journal; *about* is as for `create`. The caller holds the lock of the name.
    """
    with _create_folder(text, plan, facts, base, name, profile, machines) as started:
        more = {"about": dict(about)} if about else {}
        started.add("born", **_get_birth(plan), number=_find_number_at(born), at=born, **more)
        for event in events:
            started.add(**event)
    return Record(find_runs_folder() / plan.run)


@contextlib.contextmanager
def _create_folder(
    text: bytes,
    plan: model.Plan,
    facts: Facts,
    base: Path,
    name: str,
    profile: Path | None,
    machines: Mapping[str, Any] | None = None,
) -> Iterator[journal.Journal]:
    """Yield the journal of a new record, which is renamed to its final name when it is complete."""
    runs = find_runs_folder()
    # A name that no run has, so that nobody takes an incomplete record for one.
    fresh = runs / f".new-{name}"
    with atomic_io.translate_os_errors(fresh):
        atomic_io.make_folder(runs)
        # Left by an apply of this name that was killed; the lock of the name is held, so nobody uses it.
        shutil.rmtree(fresh, ignore_errors=True)
        os.mkdir(fresh, atomic_io.PRIVATE_FOLDER)
        atomic_io.write(fresh / "job.yaml", text)
        atomic_io.write(
            fresh / "plan.json",
            format_json(
                {**model.write_plan(plan), **record_formats.make_format_keys(model.FORMAT)}
            ),
        )
        known = write_facts(facts, base, profile, machines)
        atomic_io.write(fresh / "facts.json", format_json(known))
        started = journal.Journal(fresh)
        yield started
        started.close()
        # The entries of the folder have to be on disk before its final name is.
        atomic_io.sync_folder(fresh)
        # From here on the run exists: everything before it can be repeated.
        os.rename(fresh, runs / plan.run)
        atomic_io.sync_folder(runs)


def _get_birth(plan: model.Plan) -> dict[str, Any]:
    return {
        "run": plan.run,
        "digest": plan.digest,
        **record_formats.make_format_keys(journal.FORMAT),
    }


def _take_next_number() -> int:
    """Return the next number of a run on this machine, which orders runs even if the clock is set back."""
    path = paths.find_home() / "sequence"
    with atomic_io.hold_lock(path, "another apply"):
        content = path.read_bytes()
        # A newer version may write its format here; continuing it with this one could give a number twice.
        if content.startswith(b"runspec."):
            its = content.split(b"\n", 1)[0].decode("ascii", "replace")
            raise record_formats.make_newer_error(str(path), its, SEQUENCE)
        if match := re.fullmatch(rb"(\d{19})\n", content):
            number = int(match[1]) + 1
        else:
            number = max((memory.number for memory in _list_readable()), default=0) + 1
        atomic_io.overwrite(path, b"%019d\n" % number)
    return number


def _find_number_at(born: float) -> int:
    """Return the number of the last run of this machine before *born*, so that the adopted run is sorted after it."""
    return max((memory.number for memory in _list_readable() if memory.born <= born), default=0)


def _list_readable() -> list[journal.RunState]:
    return [memory for _, memory in list_all_states() if isinstance(memory, journal.RunState)]


def write_facts(
    facts: Facts, base: Path, profile: Path | None, machines: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    return {
        **record_formats.make_format_keys(FACTS),
        "base": str(base),
        "profile": profile and str(profile),
        "options": _write_options(facts.options),
        "sources": {name: source.fields for name, source in facts.sources.items()},
        "requirements": list(facts.requirements),
        "survey": facts.survey,
        **({"machines": machines} if machines is not None else {}),
        **(
            {"outputs": {name: output._asdict() for name, output in facts.outputs.items()}}
            if facts.outputs
            else {}
        ),
        **({"resume": facts.resume._asdict()} if facts.resume is not None else {}),
    }


def _read_resume(content: Mapping[str, Any]) -> Resume | None:
    return Resume(**content["resume"]) if content.get("resume") else None


def _write_options(options: Options) -> Mapping[str, Any]:
    """Return the options without those that are null by default and were not set.

    An earlier version of runspec may not know such an option, or demand a value for it.
    """
    fields = type(options).model_fields
    settings = options.model_dump(mode="json").items()
    return {k: v for k, v in settings if v is not None or fields[k].default is not None}


def format_json(value: Any) -> bytes:
    """Return *value* as JSON; bytes of paths that are not UTF-8 become escapes, which JSON reads as they were."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return text.encode(errors="backslashreplace") + b"\n"


def list_all() -> list[Record]:
    """Return all records, the damaged ones first, then the oldest first."""
    return [record for record, _ in list_all_states()]


def list_all_states() -> list[tuple[Record, journal.RunState | Damaged]]:
    """Return all records in the order of `list_all`, each with the state in its journal, or the error of reading it."""
    return sorted(
        ((record, _read_state(record)) for record in _list_records(RUN)),
        key=lambda pair: _order(*pair),
    )


def _list_records(pattern: re.Pattern[str]) -> list[Record]:
    runs = find_runs_folder()
    try:
        names = os.listdir(runs)
    except FileNotFoundError:
        return []
    except NotADirectoryError as exc:
        message = f"{runs if runs.exists() else paths.find_home()} is no folder, so it has no records of runs"
        raise UsageError(message, "set RUNSPEC_HOME to a folder, or unset it") from exc
    except OSError as exc:
        raise atomic_io.make_error(exc, runs, "read") from exc
    return [Record(runs / name) for name in names if pattern.fullmatch(name)]


def _read_state(record: Record) -> journal.RunState | Damaged:
    try:
        return record.read_memory()
    except Damaged as exc:
        return exc


def _order(record: Record, memory: journal.RunState | Damaged) -> tuple[int, float, str]:
    """Return the sort key of a record: its number, or its time of start if it is older than numbers."""
    if isinstance(memory, Damaged):
        return 0, 0.0, record.run
    return memory.number, memory.born, record.run


def find_damage(record: Record) -> Damaged | None:
    """Return the error from reading the journal of a run, or None if it can be read."""
    state = _read_state(record)
    return state if isinstance(state, Damaged) else None


def list_runs(name: str) -> list[Record]:
    """Return the records of runs of the spec called *name* that are not destroyed, oldest first.

    Records that cannot be read are left out.
    """
    return [r for r in list_readable(name) if not r.read_memory().deleted]


def list_readable(name: str) -> list[Record]:
    """Return the records of runs of the spec called *name*, destroyed ones too, oldest first.

    Records that cannot be read are left out.
    """
    return [r for r in _list_with_name(name) if not find_damage(r)]


def find_damaged(name: str) -> Damaged | None:
    """Return the error from the first damaged journal among the runs of the spec called *name*, or None."""
    return next(filter(None, map(find_damage, _list_with_name(name))), None)


def _list_with_name(name: str) -> list[Record]:
    records = _list_records(re.compile(rf"{re.escape(name)}-{TOKEN}"))
    return sorted(records, key=lambda record: _order(record, _read_state(record)))


def find(run: str) -> Record:
    """Return the record of *run*, or of the newest run of the spec of that name.

    Raises UsageError if there is none.
    """
    exact = _list_records(re.compile(re.escape(run)))
    if exact and RUN.fullmatch(run):
        return exact[0]
    if named := list_runs(run) or _list_with_name(run):
        return named[-1]
    records = _list_records(RUN)
    if sizes := _list_sizes(run, records):
        raise UsageError(
            f"'{run}' has a run for each size", f"name one of them: {', '.join(sizes)}"
        )
    hint = _suggest_name(run, records) or (
        "see runspec list" if records else "nothing was applied yet"
    )
    raise UsageError(f"there is no run '{run}'", hint)


def has(name: str) -> bool:
    """Return whether there is a record of a run called *name*, or of a spec of that name."""
    return bool(_list_with_name(name)) or any(record.run == name for record in _list_records(RUN))


def list_sizes(name: str) -> list[str]:
    """Return the names of the runs of each size of the spec called *name*, in order."""
    return _list_sizes(name, _list_records(RUN))


def _list_sizes(name: str, records: Iterable[Record]) -> list[str]:
    of_size = re.compile(rf"{re.escape(name)}-[np]\d+")
    return sorted({record.name for record in records if of_size.fullmatch(record.name)})


def _suggest_name(typed: str, records: Sequence[Record]) -> str | None:
    """Return a hint with the specs or runs that begin with *typed*, or else with the most similar name, or None."""
    names, runs = {r.name for r in records}, {r.run for r in records}
    for known in (names, runs):
        begun = sorted(name for name in known if typed and name.startswith(typed))
        if len(begun) == 1:
            return f"did you mean '{begun[0]}'?"
        if begun:
            more = ", ..." if len(begun) > SUGGESTED else ""
            return f"did you mean one of {', '.join(begun[:SUGGESTED])}{more}?"
    return did_you_mean(typed, [*runs, *names])


def find_newest(name: str) -> Record | None:
    """Return the newest record of the spec called *name*, destroyed or not, or None."""
    records = _list_with_name(name)
    return records[-1] if records else None


def require_kept(record: Record) -> Record:
    """Return *record*. Raises UsageError if the run was destroyed."""
    if record.read_memory().deleted:
        raise UsageError(
            f"{record.run} was destroyed, and nothing is left of it", "see runspec list"
        )
    return record
