"""The actions of a job when a task ends, and whether dependent tasks may start. ExitConditions."""

from __future__ import annotations

from typing import Any

from runspec_emulators.azure_batch.model import Task
from runspec_emulators.azure_batch.processes.commands import Ended


def exit_options(given: dict[str, Any], end: Ended) -> dict[str, Any]:
    """Return the exit options that an end meets.

    fileUploadError: "If the Task exited with an exit code that was specified via exitCodes or
    exitCodeRanges, and then encountered a file upload error, then the action specified by the exit
    code takes precedence." default: "with a pre-processing error if the preProcessingError property
    is not present, or with a file upload error if the fileUploadError property is not present."
    """
    code = end.exit_code
    if code is None:
        return dict(given.get("preProcessingError", given.get("default", {})))
    for mapping in given.get("exitCodes", ()):
        if mapping["code"] == code:
            return dict(mapping["exitOptions"])
    for mapping in given.get("exitCodeRanges", ()):
        if mapping["start"] <= code <= mapping["end"]:
            return dict(mapping["exitOptions"])
    if end.failure and end.failure["code"].startswith("FileUpload"):
        return dict(given.get("fileUploadError", given.get("default", {})))
    return dict(given.get("default", {}))


def acts(given: dict[str, Any]) -> bool:
    """Return whether exit conditions ask for something to be done with the job."""
    among = [
        mapping["exitOptions"]
        for k in ("exitCodes", "exitCodeRanges")
        for mapping in given.get(k, ())
    ]
    among += [given[k] for k in ("preProcessingError", "fileUploadError", "default") if k in given]
    return any("jobAction" in options for options in among)


def satisfied(task: Task) -> bool:
    """Return whether tasks that depend on it may run.

    "dependencyAction: [...] The default is satisfy for exit code 0, and block for all other".
    """
    if task.info.get("result") == "success":
        return True
    end = Ended(task.info.get("exitCode"), task.info.get("failureInfo"))
    action = exit_options(task.body.get("exitConditions", {}), end).get("dependencyAction", "block")
    return bool(action == "satisfy")
