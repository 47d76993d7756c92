"""Reads and writes the files of other tools."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api.jobs import Job, plan
from runspec_jobs.errors import Conflict, OtherFormat, Unavailable, UsageError
from runspec_jobs.load import registry, source
from runspec_jobs.provider import SupportsExport, paths
from runspec_jobs.provider.importing.protocols import SupportsImport
from runspec_jobs.provider.types import ForeignFile, Imported as Imported
from runspec_jobs.state import atomic_io

PROFILE = paths.PROFILE
LARGEST = 1 << 20  # bytes of a file that is imported


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


def import_job(file: Path, second: Path | None, provider: str | None = None) -> Imported:
    """Convert *file*, a job of another tool, with a *second* file of the job if there is one, to a spec and a profile.

    The importer that knows the format by the content does it: of *provider*, or of all. A format of no provider
    becomes a spec for *provider*. Raises Unavailable if *provider* reads no such files, or none is installed that
    does, and UsageError if a file cannot be read, or several importers can read it.
    """
    job, beside = _read(file), None if second is None else _read(second)
    importers = _list_importers(provider)
    formats = registry.load_importers() if second is None else {}
    imported: dict[str, Imported] = {}
    broken: dict[str, UsageError] = {}
    tries: list[tuple[str, Callable[[], Imported]]] = [
        *((name, partial(importer.imports, job, beside)) for name, importer in importers.items()),
        *((name, partial(one.imports, job, provider)) for name, one in formats.items()),
    ]
    for name, attempt in tries:
        try:
            imported[name] = attempt()
        except OtherFormat:  # each importer looks at the content; one of them may know it
            continue
        except UsageError as exc:
            broken.setdefault(str(exc), exc)
    if len(imported) == 1:
        return next(iter(imported.values()))
    if not imported and len(broken) == 1:
        raise next(iter(broken.values()))
    names = [*importers, *formats]
    if imported:
        how = f"name the provider: --provider {' or '.join(imported)}"
        raise UsageError(f"several importers can read {file}", how)
    hint = f"runspec import reads {registry.describe_imports()}"
    if provider is not None and provider not in importers:
        raise Unavailable(f"'{provider}' cannot import files of other tools", hint)
    if not names:
        raise Unavailable("no installed provider can import files of other tools")
    raise UsageError(f"{file} is no job file that import reads", hint)


def _list_importers(provider: str | None) -> dict[str, SupportsImport]:
    """Return the providers, all that are installed or *provider* alone, that read files of other tools."""
    importers: dict[str, SupportsImport] = {}
    for name in registry.list_installed() if provider is None else [provider]:
        with contextlib.nullcontext() if provider else contextlib.suppress(Unavailable):
            loaded = registry.load(name)
            if isinstance(loaded, SupportsImport):
                importers[name] = loaded
    return importers


def write_imported(imported: Imported, folder: Path) -> list[str]:
    """Write spec and profile to *folder*, and return their paths. Raises Conflict if one exists."""
    files = {**imported.files, "job.yaml": imported.spec, PROFILE: imported.profile}
    return write_files(folder, files, over=False)


def _read(path: Path) -> ForeignFile:
    """Return the file at *path*. Raises UsageError if it cannot be read."""
    try:
        data = source.read_head(path, LARGEST + 1)
        if len(data) > LARGEST:
            raise UsageError(f"cannot read {path}: it is larger than 1 MiB")
        return ForeignFile(str(path), data.decode("utf-8"))
    except (
        OSError,
        ValueError,
    ) as exc:  # ValueError is for a path with NUL, and for other text than UTF-8
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
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            with atomic_io.replace_atomically(folder / name) as file:
                file.write(text.encode())
    except OSError as exc:
        raise UsageError(
            f"cannot write into {folder}: {(exc.strerror or str(exc)).lower()}"
        ) from exc
    return [str(folder / name) for name in files]
