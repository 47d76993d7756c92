"""Reads and writes the files of other tools."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api.jobs import Job, plan
from runspec_jobs.errors import Conflict, Unavailable, UsageError
from runspec_jobs.load import registry
from runspec_jobs.provider import SupportsExport, SupportsImport, paths
from runspec_jobs.provider.types import ForeignFile, Imported as Imported
from runspec_jobs.state import atomic_io

PROFILE = paths.PROFILE


class Exported(NamedTuple):
    """The files that were written, and notes on what they leave out."""

    files: Sequence[str]
    notes: Sequence[str]


def export(job: Job, folder: Path) -> Exported:
    """Write the plan of *job* to *folder* as files for the own tool of its service, over those that are there.

    Raises Unavailable if the provider has no such tool.
    """
    provider = job.inputs.provider
    if not isinstance(provider, SupportsExport):
        message = f"'{provider.name}' cannot export plans: its service has no tool that reads files"
        raise Unavailable(message, "runspec plan --json prints every request")
    exported = provider.export(plan(job).steps)
    return Exported(write_files(folder, exported.files, over=True), tuple(exported.notes))


def import_job(file: Path, cluster: Path | None, provider: str | None = None) -> Imported:
    """Convert *file*, a job of another tool, with the file of its *cluster* if there is one, to a spec and a profile.

    Without *provider*, the provider that can read the files does it. Raises Unavailable if the provider reads no such
    files, or none is installed that does, and UsageError if a file cannot be read, or several providers can read it.
    """
    importers = _list_importers() if provider is None else {provider: _load_importer(provider)}
    job, machines = _read(file), None if cluster is None else _read(cluster)
    if len(importers) == 1:
        return next(iter(importers.values())).imports(job, machines)
    imported: dict[str, Imported] = {}
    for name, importer in importers.items():
        # This provider cannot read the file; another one may.
        with contextlib.suppress(UsageError):
            imported[name] = importer.imports(job, machines)
    if len(imported) == 1:
        return next(iter(imported.values()))
    message = f"{'several providers' if imported else 'no provider'} can read {file}"
    raise UsageError(message, f"name the provider: --provider {' or '.join(imported or importers)}")


def _list_importers() -> dict[str, SupportsImport]:
    """Return the installed providers that read files of other tools. Raises Unavailable if there are none."""
    importers = {}
    for name in registry.list_installed():
        with contextlib.suppress(Unavailable):
            importers[name] = _load_importer(name)
    if not importers:
        raise Unavailable("no installed provider can import files of other tools")
    return importers


def _load_importer(name: str) -> SupportsImport:
    provider = registry.load(name)
    if not isinstance(provider, SupportsImport):
        raise Unavailable(f"'{name}' cannot import files of other tools")
    return provider


def write_imported(imported: Imported, folder: Path) -> list[str]:
    """Write spec and profile to *folder*, and return their paths. Raises Conflict if one exists."""
    return write_files(folder, {"job.yaml": imported.spec, PROFILE: imported.profile}, over=False)


def _read(path: Path) -> ForeignFile:
    """Return the file at *path*. Raises UsageError if it cannot be read."""
    try:
        return ForeignFile(str(path), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"cannot read {path}: {reason[:1].lower()}{reason[1:]}") from exc


def write_files(folder: Path, files: Mapping[str, str], *, over: bool) -> list[str]:
    """Write *files* to *folder* and return their paths. Raises Conflict if one exists, unless *over* is true."""
    there = [str(folder / name) for name in files if os.path.lexists(folder / name)]
    if there and not over:
        raise Conflict(f"{there[0]} already exists", "write to another folder: --to FOLDER")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with atomic_io.replace_atomically(folder / name) as file:
                file.write(text.encode())
    except OSError as exc:
        raise UsageError(
            f"cannot write into {folder}: {(exc.strerror or str(exc)).lower()}"
        ) from exc
    return [str(folder / name) for name in files]
