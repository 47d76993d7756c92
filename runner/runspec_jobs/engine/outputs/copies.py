"""Copies outputs of runs into the state folder, for jobs that save to another store."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from runspec_jobs.engine.outputs import layout
from runspec_jobs.errors import UsageError
from runspec_jobs.provider import OutputFile, Progress, Spec, SupportsOutputs, paths
from runspec_jobs.provider.saved_outputs import select_newest
from runspec_jobs.spec.needs import RunOutput
from runspec_jobs.state import atomic_io

UNFINISHED = ".new-"


def copy_output(
    client: SupportsOutputs, run: str, spec: Spec, output: RunOutput, move: Progress
) -> Path:
    """Return a folder of this machine with the newest saves of *output*, laid out as a mount of it.

    The folder is named by the run and its content. An interrupted copy is continued: files that are there are not read
    again. Raises UsageError if nothing was saved, and the errors of the store.
    """
    files = chosen(client, run, output)
    shape = layout.make_layout(spec)
    if output.task is not None:
        shape = shape._replace(several_tasks=False)
    target = _folder() / f"{run}-{content_digest(files)}"
    with atomic_io.translate_os_errors(target):
        atomic_io.make_folder(_folder())
    with atomic_io.hold_lock(_folder() / f"{target.name}.lock", f"another copy of {run}"):
        if not target.is_dir():
            _bring(files, target.with_name(UNFINISHED + target.name), shape, move)
            # The name says that the content is complete, so the folder gets it last.
            os.rename(target.with_name(UNFINISHED + target.name), target)
    return target


def remove(folder: Path) -> None:
    """Delete a folder that `copy_output` has returned; its content is in the store of the job that reads it."""
    for at, _, _ in os.walk(folder):
        # A job may have saved folders in which nobody can write, and whose files nobody can then delete.
        os.chmod(at, stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_name(f"{folder.name}.lock").unlink(missing_ok=True)


def remove_all(run: str) -> None:
    """Delete the copies of outputs of a run that are left, also unfinished ones: no job was started with them."""
    named = f"{run}-{'[0-9a-f]' * 64}"  # and not a run whose name begins so
    for folder in (*_folder().glob(UNFINISHED + named), *_folder().glob(named)):
        remove(folder)
    for lock in _folder().glob(f"{named}.lock"):
        lock.unlink(missing_ok=True)


def _folder() -> Path:
    return paths.find_home() / "copies"


def chosen(client: SupportsOutputs, run: str, output: RunOutput) -> list[OutputFile]:
    """Return what the newest saves of *output* contain. Raises UsageError if nothing was saved."""
    files = [
        file
        for file in select_newest(client.outputs(run))
        if file.output == output.output and output.task in (None, file.task)
    ]
    if not files:
        of_task = "" if output.task is None else f" of task {output.task}"
        raise UsageError(f"{run} has saved nothing in its output '{output.output}'{of_task}")
    return files


def content_digest(files: Sequence[OutputFile]) -> str:
    """Return the SHA-256 of what *files* are, without their times: equal for equal content of equal layout."""
    entries = sorted(
        # A tar of signed URLs has no digests; the key of its object is unique to a save.
        [f.task, f.rank, f.path, f.kind, f.sha256 or f.key, f.target, f.mode]
        for f in files
    )
    return hashlib.sha256(json.dumps(entries).encode(errors="backslashreplace")).hexdigest()


def _bring(files: Sequence[OutputFile], target: Path, shape: layout.Layout, move: Progress) -> None:
    done, whole = 0, sum(file.bytes for file in files if not file.target)

    def copied(count: int) -> None:
        nonlocal done
        done += count
        move(done, whole)

    target.mkdir(mode=0o700, exist_ok=True)
    placed = [(layout.choose_path(target, file._replace(output=""), shape), file) for file in files]
    for path, file in placed:
        if file.kind == "file" and not file.target:
            if _is_whole(path, file):
                copied(file.bytes)
            else:
                layout.put_file(file, target, path, UNFINISHED, copied)
    for path, file in placed:
        if file.kind in ("file", "link") and file.target:
            layout.put_link(file, target, path, UNFINISHED)
    layout.put_folders([entry for entry in placed if entry[1].kind == "folder"], target)


def _is_whole(path: Path, file: OutputFile) -> bool:
    """Return whether *file* was copied by an earlier attempt: a file gets its name when it is complete."""
    return path.is_file() and not path.is_symlink() and path.stat().st_size == file.bytes
