"""Copies the outputs of a run to this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.errors import Conflict, RemoteError, UsageError
from runspec_jobs.provider import OutputFile, Progress, SupportsOutputs
from runspec_jobs.provider.saved_outputs import newest
from runspec_jobs.state import atomic_io, written_files

CHUNK_BYTES = 1 << 20
NO_SAVE = "nothing has been saved yet"
ATTEMPTS = 5  # to copy a save, while the job goes on and replaces it


def fetch(
    client: SupportsOutputs,
    run: str,
    output: str | None,
    save: int | None,
    target: Path,
    move: Progress,
    *,
    force: bool = False,
) -> dict[Path, OutputFile]:
    """Copy the files of one save of each output, which a later save may replace meanwhile; return them by path.

    Raises Conflict if files of the user would be replaced, unless *force* is true.
    """
    files = _chosen(client, run, output, save)
    brought: dict[Path, OutputFile] = {}
    try:
        for _ in range(ATTEMPTS):
            try:
                _demand_free(files, target, brought, run, force=force)
                _bring(files, target, brought, move)
                break
            except (RemoteError, Conflict, FileNotFoundError):
                again = _chosen(client, run, output, save)
                if [f.key for f in again] == [f.key for f in files]:
                    raise
                files = again
        else:
            raise Conflict(
                f"{run} replaces its saves faster than they can be copied",
                "fetch them when the run has ended",
            )
        wanted = {place(target, file, files): file for file in files}
        for path in brought.keys() - wanted.keys():
            path.unlink(missing_ok=True)
    finally:
        written_files.note(target, "fetch", run, brought)
    return wanted


def _demand_free(
    files: Sequence[OutputFile],
    target: Path,
    brought: Mapping[Path, OutputFile],
    run: str,
    *,
    force: bool,
) -> None:
    """Raise Conflict if *files* would replace others than those that this or an earlier fetch of *run* has brought."""
    wanted = {place(target, file, files): file.sha256 for file in files}
    new = {path: sha256 for path, sha256 in wanted.items() if path not in brought}
    written_files.demand_free(new, "fetch", run, force=force, way_out="fetch to another folder")


def _chosen(
    client: SupportsOutputs, run: str, output: str | None, save: int | None
) -> list[OutputFile]:
    """Return the files of an output and a save. Raises UsageError if there is no such output or save."""
    every = list(client.outputs(run))
    files = [file for file in every if output in (None, file.output)]
    if output is not None and not files:
        known = {file.output for file in every}
        saved = f"outputs with a save: {', '.join(sorted(known))}" if known else NO_SAVE
        raise UsageError(
            f"{run} has no save of an output '{output}'", did_you_mean(output, known) or saved
        )
    if save is None:
        return newest(files)
    if not (found := [file for file in files if file.save == save]):
        there = ", ".join(str(number) for number in sorted({file.save for file in files}))
        hint = f"saves that exist: {there}" if there else NO_SAVE
        raise UsageError(f"{run} has no save number {save}", hint)
    return found


def _bring(
    files: Sequence[OutputFile], target: Path, brought: dict[Path, OutputFile], move: Progress
) -> None:
    """Copy *files* to *target*, except those that *brought* says are there, and add them to *brought*."""
    done, whole = 0, sum(file.bytes for file in files)
    for file in files:
        path = place(target, file, files)
        known = brought.get(path)
        if known is None or not file.sha256 or known.sha256 != file.sha256:
            _copy(file, path, move, done, whole)
            brought[path] = file
        done += file.bytes
        move(done, whole)


def place(target: Path, file: OutputFile, files: Sequence[OutputFile]) -> Path:
    """Return the path for *file* in *target*.

    Raises RemoteError if its name leads out of *target*, and Conflict if a symbolic link in *target* does.
    """
    parts = PurePosixPath(file.path).parts
    if not parts or ".." in parts or PurePosixPath(file.path).is_absolute():
        raise RemoteError(
            f"the saved path '{file.path}' leads out of {target}", "the save is damaged"
        )
    folder = target
    if any(other.task for other in files):
        folder /= f"task-{file.task}"
    if file.rank:
        folder /= f"node-{file.rank}"
    path = folder.joinpath(file.output, *parts)
    if not path.parent.resolve().is_relative_to(target.resolve()):
        what = f"{path.parent} leads out of {target} through a symbolic link"
        raise Conflict(what, "remove the link, or fetch to another folder")
    return path


def _demand_place(path: Path) -> None:
    """Raise Conflict if a file is where *path* needs a folder, or a folder is at *path*."""
    wrong = next((one for one in path.parents if one.exists() and not one.is_dir()), None)
    if wrong is not None:
        what = f"{wrong} is a file, where a folder is needed for {path.name}"
        raise Conflict(what, "move it away, or fetch to another folder")
    if path.is_dir() and not path.is_symlink():
        what = f"{path} is a folder, where a file of that name is to be written"
        raise Conflict(what, "move it away, or fetch to another folder")


def _copy(file: OutputFile, path: Path, move: Progress, done: int, whole: int) -> None:
    """Copy *file* to *path* atomically. Raises RemoteError if its content is not what was saved."""
    digest = hashlib.sha256()
    _demand_place(path)
    with atomic_io.translate_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with file.open() as source, atomic_io.replaced(path) as copy:
            while data := source.read(CHUNK_BYTES):
                copy.write(data)
                digest.update(data)
                done += len(data)
                move(done, whole)
            if file.sha256 and digest.hexdigest() != file.sha256:
                raise RemoteError(
                    f"{file.output}/{file.path} does not have the SHA-256 of its save"
                )
