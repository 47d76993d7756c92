"""`runspec rehearse`: carries out the plan of a cloud job against emulators on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runspec_jobs.cli import apply, cancel, fetch, output, status
from runspec_jobs.document.nodes import flow
from runspec_jobs.errors import Unavailable, UsageError
from runspec_jobs.load import inputs, profile, registry, source
from runspec_jobs.load.source import InvalidSpec
from runspec_jobs.provider import Emulation, Spec, SupportsEmulation
from runspec_jobs.state import atomic_io, run_record


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
    text, spec = _read(file)
    if spec.scaling is not None:
        what = "rehearse runs one job, and a spec with `scaling` describes several"
        raise UsageError(what, "remove scaling, and set cluster.nodes")
    provider = registry.load(spec.provider)
    if not isinstance(provider, SupportsEmulation):
        raise Unavailable(
            f"there is no emulator of '{provider.name}'", "run the job with runspec apply"
        )
    own = inputs.profile_in_use(file.parent)
    options, wrong = inputs.settings(text, own, spec, provider)
    if options is None:
        raise InvalidSpec(*wrong)  # before anything is started, with lines of the user's own files
    settings, pool = own.settings(provider.name), spec.cluster.pool
    with (
        rehearsal_folder(keep_in) as folder,
        provider.rehearse(profile.drawn(settings, pool), folder, engine) as stage,
        _inside(stage, provider.name, folder, pool),
    ):
        applied = apply.ApplyOptions(
            file,
            new=True,
            smoke=smoke,
            output_format=output_format,
            as_json=as_json,
            rehearsed=True,
        )
        code = apply.apply(applied)
        runs = [one.run for one in run_record.all_runs() if not one.memory().deleted]
        if keep_in is not None:
            _keep(runs[-1], folder, as_json=as_json)
        for run in reversed(runs):  # the job's, and that of its smoke test
            cancel.destroy(run, site=False, as_json=as_json)
        cancel.destroy(None, site=True, as_json=as_json)
    return code


def _keep(run: str, folder: Path, *, as_json: bool) -> None:
    """Copy the outputs and the logs of the job, because the emulators delete their own."""
    fetch.fetch(run, folder / "outputs", None, None, as_json=as_json)
    saved = folder / "logs"
    saved.mkdir(exist_ok=True)
    status.logs(status.LogsOptions(run, save=saved, as_json=as_json))


def _read(file: Path) -> tuple[source.SourceFile, Spec]:
    text = source.read_file(file)
    spec, problems = source.validated(text)
    if spec is None:
        if text.document is not None:
            text.complain(problems)
        raise InvalidSpec(text)
    return text, spec


@contextlib.contextmanager
def rehearsal_folder(keep_in: Path | None) -> Iterator[Path]:
    """Yield *keep_in*, the folder of `--folder`, or a temporary one."""
    if keep_in is not None:
        folder = keep_in.absolute()
        with atomic_io.translate_os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    output.tell("outputs and logs are deleted at the end; --folder FOLDER keeps them")
    folder = Path(tempfile.mkdtemp(prefix="runspec-rehearsal-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _inside(
    stage: Emulation, provider: str, folder: Path, pool: str | None = None
) -> Iterator[None]:
    """Point this process at the emulators, and at a state folder and a profile of their own, until the exit.

    The emulators were started with the settings of *pool* for all jobs, so that pool has no settings of its own.
    """
    path = folder / "profile.yaml"
    settings = {**stage.options, **({"pools": {pool: {}}} if pool else {})}
    path.write_text(flow({"providers": {provider: settings}}))
    path.chmod(0o600)
    output.tell(f"rehearsing on this machine, in {folder}")
    for note in stage.notes:
        output.tell(note)
    before = dict(os.environ)
    os.environ.update(stage.env)
    os.environ.update(RUNSPEC_HOME=str(folder / "home"), RUNSPEC_PROFILE=str(path))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
