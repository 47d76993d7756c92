"""`runspec import` and `runspec plan --export`: read and write files of other tools."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from runspec_jobs.cli import output
from runspec_jobs.errors import OK, Conflict, Unavailable, UsageError
from runspec_jobs.load import registry
from runspec_jobs.plan.model import Plan
from runspec_jobs.provider import ForeignFile, Provider, SupportsExport, SupportsImport, paths
from runspec_jobs.state import atomic_io


def export(provider: Provider, made: Plan, folder: Path, *, as_json: bool) -> None:
    """Write *made* to *folder* as files for the own tool of its service."""
    if not isinstance(provider, SupportsExport):
        what = f"'{provider.name}' cannot export plans: its service has no tool that reads files"
        raise Unavailable(what, "runspec plan --json prints every request")
    found = provider.export(made.steps)
    written = write(folder, found.files, over=True)
    if as_json:
        output.out_json({"files": written, "notes": list(found.notes)})
        return
    for note in found.notes:
        output.tell(note)
    for name in written:
        output.out(name)


def import_(file: Path, cluster: Path | None, name: str, to: Path | None, *, as_json: bool) -> int:
    """Convert *file* with the provider called *name*; write spec and profile to the folder *to*, or print them."""
    provider = registry.load(name)
    if not isinstance(provider, SupportsImport):
        raise Unavailable(f"'{name}' cannot import files of other tools")
    job = read(file)
    found = provider.imports(job, None if cluster is None else read(cluster))
    files = {"job.yaml": found.spec, paths.PROFILE: found.profile}
    written = [] if to is None else write(to, files, over=False)
    if as_json:
        result = {"spec": found.spec, "profile": found.profile, "notes": list(found.notes)}
        output.out_json({**result, "files": written})
        return OK
    for note in found.notes:
        output.tell(note)
    if written:
        output.tell(f"wrote {' and '.join(written)}; now run: runspec plan {written[0]}")
        return OK
    output.tell("no files were written; --to FOLDER writes the spec and the profile")
    profile = "".join(f"# {line}\n" for line in found.profile.splitlines())
    output.out(f"{found.spec}\n# {paths.PROFILE}:\n{profile}".rstrip("\n"))
    return OK


def read(path: Path) -> ForeignFile:
    """Return the file at *path*. Raises UsageError if it cannot be read."""
    try:
        return ForeignFile(str(path), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(f"cannot read {path}: {reason[:1].lower()}{reason[1:]}") from exc


def write(folder: Path, files: Mapping[str, str], *, over: bool) -> list[str]:
    """Write *files* to *folder* and return their paths. Raises Conflict if one exists, unless *over* is true."""
    there = [str(folder / name) for name in files if os.path.lexists(folder / name)]
    if there and not over:
        raise Conflict(f"{there[0]} already exists", "write to another folder: --to FOLDER")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with atomic_io.replaced(folder / name) as file:
                file.write(text.encode())
    except OSError as exc:
        raise UsageError(
            f"cannot write into {folder}: {(exc.strerror or str(exc)).lower()}"
        ) from exc
    return [str(folder / name) for name in files]
