"""Copies the outputs of a run to this machine."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.engine.outputs.layout import (
    PLAIN,
    Layout,
    choose_path,
    is_link,
    put_file,
    put_folders,
    put_link,
)
from runspec_jobs.errors import Conflict, RemoteError, UsageError
from runspec_jobs.provider import OutputFile, Progress, SupportsOutputs
from runspec_jobs.provider.saved_outputs import select_newest
from runspec_jobs.state import written_files

NO_SAVE = "nothing has been saved yet"
ATTEMPTS = 5  # to copy a save, while the job goes on and replaces it


def fetch(
    client: SupportsOutputs,
    run: str,
    output: str | None,
    save: int | None,
    target: Path,
    move: Progress,
    layout: Layout = PLAIN,
    *,
    task: int | None = None,
    pattern: str | None = None,
    force: bool = False,
) -> dict[Path, OutputFile]:
    """Copy one save of each output, which a later save may replace meanwhile; return what it contains, by path.

    With *task*, only its files are copied; with *pattern*, only those that `select_matching` chooses.

    That includes folders and links, and what was lost, which is at no path on this machine. Raises Conflict if files of
    the user would be replaced, unless *force* is true.
    """
    choose = partial(_choose_files, client, run, output, save, task, pattern)
    files = choose()
    brought: dict[Path, OutputFile] = {}
    for _ in range(ATTEMPTS):
        try:
            wanted = {choose_path(target, file, layout): file for file in files}
            _demand_free(wanted, brought, run, force=force)
            _bring_recorded(files, wanted, run, target, layout, brought, move)
            break
        except (RemoteError, Conflict, FileNotFoundError):
            again = choose()
            # The save is the same, so the error is not about a save that was replaced meanwhile.
            if [f.key for f in again] == [f.key for f in files]:
                raise
            files = again
    else:
        raise Conflict(
            f"{run} replaces its saves faster than they can be copied",
            "fetch them when the run has ended",
        )
    # Files that only a save had which was replaced during the copy.
    for path in brought.keys() - wanted.keys():
        path.unlink(missing_ok=True)
    folders = [(path, file) for path, file in wanted.items() if file.kind == "folder"]
    put_folders(folders, target)
    return wanted


def _demand_free(
    wanted: Mapping[Path, OutputFile], brought: Mapping[Path, OutputFile], run: str, *, force: bool
) -> None:
    """Raise Conflict if files would replace others than those that this or an earlier fetch of *run* has brought."""
    new = {
        path: file.sha256
        for path, file in wanted.items()
        if path not in brought and file.kind in ("file", "link") and not is_link(file, path)
    }
    written_files.demand_free(new, "fetch", run, force=force, way_out="fetch to another folder")


def _expect_files(wanted: Mapping[Path, OutputFile]) -> dict[Path, tuple[int, int]]:
    """Return the sizes and times that files will have. Older saves have no times."""
    return {
        path: (file.bytes, file.mtime_ns)
        for path, file in wanted.items()
        if file.kind == "file" and not file.target and file.mtime_ns is not None
    }


def select_matching(files: Iterable[OutputFile], run: str, pattern: str) -> list[OutputFile]:
    """Return the files of *run* whose path matches *pattern*, in their output or after its name.

    In a pattern, `*` stands for any text, also for one with `/`. Raises UsageError if no file matches.
    """
    matching = [
        file
        for file in files
        if fnmatch.fnmatchcase(file.path, pattern)
        or fnmatch.fnmatchcase(f"{file.output}/{file.path}", pattern)
    ]
    if not matching:
        message = f"{run} has saved no file that matches '{pattern}'"
        raise UsageError(message, f"runspec outputs {run} lists what it has saved")
    return matching


def _choose_files(
    client: SupportsOutputs,
    run: str,
    output: str | None,
    save: int | None,
    task: int | None,
    pattern: str | None,
) -> list[OutputFile]:
    """Return the chosen files of a save. Raises UsageError if there is no such output, save or file."""
    files = _choose_save(client, run, output, save, task)
    return files if pattern is None else select_matching(files, run, pattern)


def _choose_save(
    client: SupportsOutputs, run: str, output: str | None, save: int | None, task: int | None
) -> list[OutputFile]:
    every = [file for file in client.outputs(run) if task in (None, file.task)]
    files = [file for file in every if output in (None, file.output)]
    if output is not None and not files:
        known = {file.output for file in every}
        saved = f"outputs with a save: {', '.join(sorted(known))}" if known else NO_SAVE
        raise UsageError(
            f"{run} has no save of an output '{output}'", did_you_mean(output, known) or saved
        )
    if save is None:
        return select_newest(files)
    if not (of_save := [file for file in files if file.save == save]):
        there = ", ".join(str(number) for number in sorted({file.save for file in files}))
        hint = f"saves that exist: {there}" if there else NO_SAVE
        raise UsageError(f"{run} has no save number {save}", hint)
    return of_save


def _bring_recorded(
    files: Sequence[OutputFile],
    wanted: Mapping[Path, OutputFile],
    run: str,
    target: Path,
    layout: Layout,
    brought: dict[Path, OutputFile],
    move: Progress,
) -> None:
    """Copy *files*, and record in *target* which files are those of *run*, even if copying fails midway."""
    timed = _expect_files(wanted)
    with written_files.record_writing(target, "fetch", run, timed, wanted) as begins:
        try:
            _bring(files, target, layout, brought, begins, move)
        finally:
            written_files.note(target, "fetch", run, brought)


def _bring(
    files: Sequence[OutputFile],
    target: Path,
    layout: Layout,
    brought: dict[Path, OutputFile],
    begins: str,
    move: Progress,
) -> None:
    """Copy *files* to *target*, except those that *brought* says are there, and add them to *brought*.

    Links come last: a file of an earlier save may lie where one is put.
    """
    done, whole = 0, sum(file.bytes for file in files if not file.target)

    def note_copied(count: int) -> None:
        nonlocal done
        done += count
        move(done, whole)

    for file in files:
        if file.kind != "file" or file.target:
            continue
        path = choose_path(target, file, layout)
        known = brought.get(path)
        if known is None or not file.sha256 or known.sha256 != file.sha256:
            put_file(file, target, path, begins, note_copied)
            brought[path] = file
        else:
            note_copied(file.bytes)
    for file in files:
        if file.kind in ("file", "link") and file.target:
            path = choose_path(target, file, layout)
            put_link(file, target, path, begins)
            brought[path] = file
