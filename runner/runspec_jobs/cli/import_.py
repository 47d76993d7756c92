"""`runspec import` and `runspec plan --export`: files of other tools."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from runspec_jobs.cli import output
from runspec_jobs.errors import OK, Conflict, Unavailable, UsageError
from runspec_jobs.load import registry
from runspec_jobs.plan.model import Plan
from runspec_jobs.provider import ForeignFile, Provider, SupportsExport, SupportsImport, paths
from runspec_jobs.state import atomic_io


def export(provider: Provider, made: Plan, folder: Path, *, as_json: bool) -> None:
    """Write *made* into *folder* as files of its service's own tool."""
    if not isinstance(provider, SupportsExport):
        what = f"there is no other tool that {provider.name} could write files for"
        raise Unavailable(what, "runspec plan --json has every request")
    found = provider.export(made.steps)
    written = write(folder, found.files, over=True)
    if as_json:
        output.out_json({"files": written, "notes": list(found.notes)})
        return
    for note in found.notes:
        output.tell(note)
    for name in written:
        output.out(name)


def import_(args: Namespace) -> int:
    provider = registry.load(args.provider)
    if not isinstance(provider, SupportsImport):
        raise Unavailable(f"{args.provider} reads no files of other tools")
    job = read(args.file)
    found = provider.imports(job, read(args.cluster) if args.cluster else None)
    files = {"job.yaml": found.spec, paths.PROFILE: found.profile}
    written = write(Path(args.to), files, over=False) if args.to else []
    if args.json:
        told = {"spec": found.spec, "profile": found.profile, "notes": list(found.notes)}
        output.out_json({**told, "files": written})
        return OK
    for note in found.notes:
        output.tell(note)
    if written:
        output.tell(f"wrote {' and '.join(written)}; next: runspec plan {written[0]}")
        return OK
    output.tell("nothing was written: --to FOLDER writes the spec and the profile")
    profile = "".join(f"# {line}\n" for line in found.profile.splitlines())
    output.out(f"{found.spec}\n# {paths.PROFILE}:\n{profile}".rstrip("\n"))
    return OK


def read(name: str) -> ForeignFile:
    """Give the file called *name*. Raises UsageError where it cannot be read."""
    try:
        return ForeignFile(name, Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "it is not text"
        raise UsageError(f"cannot read {name}: {reason.lower()}") from exc


def write(folder: Path, files: Mapping[str, str], *, over: bool) -> list[str]:
    """Write *files* into *folder*; give their paths. Unless *over*, none may be there yet."""
    there = [str(folder / name) for name in files if os.path.lexists(folder / name)]
    if there and not over:
        raise Conflict(f"{there[0]} is there already", "name another folder: --to FOLDER")
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
