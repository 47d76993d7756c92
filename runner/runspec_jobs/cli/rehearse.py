"""`runspec rehearse`: carries out the plan of a cloud job against emulators on this machine."""

from __future__ import annotations

from pathlib import Path

from runspec_jobs.api.emulation import emulated
from runspec_jobs.api.lifecycle import runs
from runspec_jobs.cli import apply, cancel, fetch, output, status


def rehearse(
    file: Path,
    engine: str | None,
    keep_in: Path | None,
    *,
    smoke: bool,
    output_format: str,
    as_json: bool,
) -> int:
    """Apply, fetch and destroy a job against emulators; return the exit code of the apply."""
    with emulated(file, engine=engine, folder=keep_in, on_event=output.tell_event) as folder:
        applied = apply.ApplyOptions(
            file,
            new=True,
            smoke=smoke,
            output_format=output_format,
            as_json=as_json,
            rehearsed=True,
        )
        code = apply.apply(applied)
        made = [one.id for one in runs()]
        if keep_in is not None:
            _keep(made[-1], folder, as_json=as_json)
        for run in reversed(made):  # the job's, and that of its smoke test
            cancel.destroy(run, site=False, as_json=as_json)
        cancel.destroy(None, site=True, as_json=as_json)
    return code


def _keep(run: str, folder: Path, *, as_json: bool) -> None:
    """Copy the outputs and the logs of the job, because the emulators delete their own."""
    fetch.fetch(run, folder / "outputs", None, None, as_json=as_json)
    saved = folder / "logs"
    saved.mkdir(exist_ok=True)
    status.logs(status.LogsOptions(run, save=saved, as_json=as_json))
