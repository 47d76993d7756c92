"""The records of `runspec setup` on this machine: a folder for each, with which a setup is continued and undone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspec_jobs import record_formats
from runspec_jobs.errors import Damaged
from runspec_jobs.plan import model
from runspec_jobs.provider import Request, Response, paths
from runspec_jobs.state import atomic_io, journal
from runspec_jobs.state.run_record import TOKEN, format_json

FORMAT = "runspec.setup-record/v1"


@dataclass(frozen=True)
class SetupRecord:
    """The folder of one setup: `plan.json`, `setup.json`, `journal.jsonl`, `lock`, and `profile.json` in the end."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def plan(self) -> model.Plan:
        return model.read_plan(self._read("plan.json", model.FORMAT))

    @property
    def about(self) -> Mapping[str, Any]:
        """The `place`, and the `options`, `survey`, `settings` and `data` that the steps were planned with."""
        about: Mapping[str, Any] = self._read("setup.json", FORMAT)
        return about

    @property
    def data(self) -> Mapping[str, Request]:
        """The requests that delete what users have stored, by the id of a step."""
        return {step: Request(**request) for step, request in self.about["data"].items()}

    def read_memory(self) -> journal.RunState:
        return journal.read(self.folder)

    @contextlib.contextmanager
    def open_journal(self) -> Iterator[journal.Journal]:
        """Yield the journal. The caller holds the lock of setups."""
        self.read_memory()  # a journal without its beginning is not continued
        opened = journal.Journal(self.folder)
        try:
            yield opened
        finally:
            opened.close()

    def note_profile(self, path: Path, digest: str) -> None:
        """Record that the setup has written the file *path*, which then had *digest*."""
        content = {"path": str(path), "digest": digest, **record_formats.make_format_keys(FORMAT)}
        with atomic_io.translate_os_errors(self.folder):
            atomic_io.write(self.folder / "profile.json", format_json(content))

    def read_profile(self) -> tuple[Path, str] | None:
        """Return the profile that the setup has written, and the digest that it had then."""
        if not (self.folder / "profile.json").exists():
            return None
        content = self._read("profile.json", FORMAT)
        return Path(content["path"]), content["digest"]

    def _read(self, name: str, form: str) -> Any:
        path = self.folder / name
        try:
            content = json.loads(journal.read_content(path))
        except ValueError as exc:
            hint = f"restore the file, or move {self.folder} elsewhere: runspec then no longer knows this setup"
            raise Damaged(f"{path}: it is damaged", hint) from exc
        record_formats.check(content, form, str(path))
        return content


def _find_folder() -> Path:
    return paths.find_home() / "setups"


@contextlib.contextmanager
def lock(waiting: atomic_io.Waiting = atomic_io.ignore_waiting) -> Iterator[None]:
    """Hold the lock of all setups of this machine."""
    folder = _find_folder()
    with atomic_io.translate_os_errors(folder):
        atomic_io.make_folder(folder)
    with atomic_io.hold_lock(folder / "lock", "another runspec setup", waiting):
        yield


def create(plan: model.Plan, about: Mapping[str, Any]) -> SetupRecord:
    """Write the complete record of a setup to disk, before any request is made. The caller holds the lock."""
    setups = _find_folder()
    fresh = setups / ".new"
    with atomic_io.translate_os_errors(fresh):
        shutil.rmtree(fresh, ignore_errors=True)  # left by a process that was killed
        os.mkdir(fresh, atomic_io.PRIVATE_FOLDER)
        planned = {**model.write_plan(plan), **record_formats.make_format_keys(model.FORMAT)}
        atomic_io.write(fresh / "plan.json", format_json(planned))
        known = {**about, **record_formats.make_format_keys(FORMAT)}
        atomic_io.write(fresh / "setup.json", format_json(known))
        started = journal.Journal(fresh)
        number = 1 + max((record.read_memory().number for record in list_all()), default=0)
        keys = record_formats.make_format_keys(journal.FORMAT)
        started.add("born", run=plan.run, digest=plan.digest, number=number, **keys)
        started.close()
        atomic_io.sync_folder(fresh)
        os.rename(fresh, setups / plan.run)
        atomic_io.sync_folder(setups)
    return SetupRecord(setups / plan.run)


def list_all() -> list[SetupRecord]:
    """Return the records of all setups, oldest first. Raises Damaged if one cannot be read."""
    folder = _find_folder()
    names = os.listdir(folder) if folder.is_dir() else []
    records = [SetupRecord(folder / name) for name in names if re.fullmatch(rf".+-{TOKEN}", name)]
    return sorted(records, key=lambda record: record.read_memory().number)


def list_kept(provider: str) -> list[SetupRecord]:
    """Return the records of setups of *provider* that are not undone, oldest first."""
    return [
        record
        for record in list_all()
        if record.plan.provider == provider and not record.read_memory().deleted
    ]


def fill_settings(settings: Any, answers: Mapping[str, Response]) -> Any:
    """Return *settings* with the answers of steps in the place of their marks."""
    return fill_request(Request("", "", settings), answers).params


def fill_request(request: Request, answers: Mapping[str, Response]) -> Request:
    """Return *request* with the answers of steps in the place of their marks."""
    known = {model.REF: model.resolve_answers(request, answers)}
    return request._replace(params=model.fill(request.params, known))
