"""Output files: what a task left, taken to containers when its process has ended."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from runspec_emulators.azure_batch.model import Attempt
from runspec_emulators.azure_batch.processes import commands, transfers
from runspec_emulators.azure_batch.processes.commands import Ended
from runspec_emulators.azure_batch.processes.transfers import TransferError

CONDITIONS = {"tasksuccess": (True,), "taskfailure": (False,), "taskcompletion": (True, False)}


def taken(attempt: Attempt, end: Ended) -> Ended:
    """Upload output files of the primary; give how the task ends with that.

    "tasksuccess: [...] only after the Task process exits with an exit code of 0", "taskfailure:
    [...] nonzero exit code", "taskcompletion: [...] no matter what the exit code was". A task whose
    process never ran uploads nothing. "If uploading your output files [...] fails, the task moves to
    the Completed state and the failure information is set."
    https://learn.microsoft.com/en-us/azure/batch/batch-task-output-files
    """
    if end.exit_code is None:
        return end
    folder = attempt.folder(attempt.nodes[0])
    for output in attempt.task.body.get("outputFiles", ()):
        condition = output["uploadOptions"]["uploadCondition"]
        if (end.exit_code == 0) in CONDITIONS[condition]:
            try:
                take(folder, output, attempt.nodes[0].login)
            except TransferError as exc:
                return Ended(end.exit_code, commands.failure(exc.code, exc.message, **exc.details))
    return end


def take(folder: Path, output: dict[str, Any], machine: Mapping[str, str]) -> None:
    """Upload what matches one pattern.

    path: "If filePattern does not contain wildcards, then path is the name of the blob to which to
    upload that file. If filePattern contains one or more wildcards, then path is the name of the
    blob virtual directory (which is prepended to each blob name)". A pattern that matches nothing
    is no error. OutputFileBlobContainerDestination.
    """
    destination = output["destination"]["container"]
    pattern, path = output["filePattern"], destination.get("path", "")
    wild = any(letter in pattern for letter in "*?[")
    headers = transfers.bearer(destination, machine, "FileUploadAccessDenied")
    for file in matching(folder / "wd", pattern):
        name = blob_name(file, folder / "wd", pattern)
        if path:
            name = f"{path.rstrip('/')}/{name}" if wild else path
        transfers.upload(transfers.inside(destination["containerUrl"], name), file, headers)


def matching(wd: Path, pattern: str) -> list[Path]:
    """Return the files that match. "** [...] matches any directory"; others stay in one directory."""
    paths = glob.glob(str(wd / pattern), recursive=True, include_hidden=True)
    return sorted(Path(f) for f in paths if Path(f).is_file())


def blob_name(file: Path, wd: Path, pattern: str) -> str:
    """ "relative to the pattern": the part before the first wildcard's directory is left out."""
    parts = PurePosixPath(pattern).parts
    fixed = []
    for part in parts[:-1]:
        if any(letter in part for letter in "*?["):
            break
        fixed.append(part)
    base = wd.joinpath(*fixed)
    return str(PurePosixPath(Path(file).relative_to(base)))
