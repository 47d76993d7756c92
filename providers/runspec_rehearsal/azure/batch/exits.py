"""What a job is to do when a task ends, and whether others may go on. ExitConditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runspec_rehearsal.azure.batch.commands import Ended

if TYPE_CHECKING:
    from runspec_rehearsal.azure.batch.tasks import Task


def exit_options(given: dict[str, Any], end: Ended) -> dict[str, Any]:
    """Give the exit options that an end meets."""
    code = end.exit_code
    if code is None:
        return dict(given.get("preProcessingError", given.get("default", {})))
    if end.failure and end.failure["code"].startswith("FileUpload"):
        return dict(given.get("fileUploadError", given.get("default", {})))
    for one in given.get("exitCodes", ()):
        if one["code"] == code:
            return dict(one["exitOptions"])
    for one in given.get("exitCodeRanges", ()):
        if one["start"] <= code <= one["end"]:
            return dict(one["exitOptions"])
    return dict(given.get("default", {}))


def satisfied(task: Task) -> bool:
    """Say whether tasks that depend on it may run.

    "dependencyAction: [...] The default is satisfy for exit code 0, and block for all other".
    """
    if task.info.get("result") == "success":
        return True
    end = Ended(task.info.get("exitCode"), task.info.get("failureInfo"))
    action = exit_options(task.body.get("exitConditions", {}), end).get("dependencyAction", "block")
    return bool(action == "satisfy")
