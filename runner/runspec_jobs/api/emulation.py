"""Points this process at emulators of a service, so that a job is carried out on this machine as it would be there."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from runspec_agent.base import file_lock
from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.api.events import Events, OnEvent
from runspec_jobs.api.specs import InvalidSpec, SourceFile
from runspec_jobs.document.nodes import format_flow
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.errors import Unavailable, UsageError
from runspec_jobs.load import chain_file, inputs, profile, registry, source
from runspec_jobs.load.overrides import Overrides, apply_overrides, override_job
from runspec_jobs.provider import Provider, Spec, SupportsEmulatedContainers, SupportsEmulation
from runspec_jobs.provider.types import Emulation
from runspec_jobs.state import atomic_io, written_files

NONE = Overrides()
PREFIX, LOCK = "runspec-rehearsal-", "lock"


@contextlib.contextmanager
def emulated(
    file: Path,
    *,
    engine: str | None = None,
    folder: Path | None = None,
    containers: Mapping[str, Path] | None = None,
    overrides: Overrides = NONE,
    on_event: OnEvent | None = None,
) -> Iterator[Path]:
    """Start the emulators for the job in *file*, and yield the folder for their files: *folder*, or a temporary one.

    Until the exit, which ends the emulators, this process has an environment, a profile and records of runs of its
    own, so that every other function of this package works on the emulators. *engine* is the container engine to use.
    *containers* are folders whose files are put into containers of the emulators' store, by their names. *overrides*
    change the spec, as those of `load` do.
    Raises Unavailable if the provider has no emulator, and UsageError if the spec has `scaling` or the job no such
    container.
    """
    reporter = Events(on_event)
    wanted = [_asked(text, spec, file) for text, spec in _read(file, overrides)]
    by_provider = {job.provider.name: job for job in reversed(wanted)}  # the first job of each
    with (
        contextlib.ExitStack() as stages,
        make_work_folder(folder, reporter.note) as at,
    ):
        started: dict[str, tuple[Emulation, str | None]] = {}
        for name, job in by_provider.items():
            if not isinstance(job.provider, SupportsEmulation):
                if len(by_provider) > 1:
                    continue  # a provider whose jobs run on this machine needs no emulator
                what = f"there is no emulator of '{name}'"
                raise Unavailable(what, "run the job with runspec apply")
            own = at if len(by_provider) == 1 else at / name
            own.mkdir(mode=0o700, exist_ok=True)
            settings = profile.select_pool(job.settings, job.pool)
            started[name] = (
                stages.enter_context(job.provider.rehearse(settings, own, engine)),
                job.pool,
            )
        stages.enter_context(_inside(started, at, reporter))
        for container, source_folder in (containers or {}).items():
            name = next(iter(started))
            _fill(by_provider[name].provider, started[name][0], container, source_folder)
        yield at


class _Asked(NamedTuple):
    """The provider of a job, and its settings in the profile."""

    provider: Provider
    settings: Mapping[str, Any]
    pool: str | None


def _asked(text: SourceFile, spec: Spec, file: Path) -> _Asked:
    """Return the provider of a job; raise an error before any emulator is started, with lines of the user's files."""
    if spec.scaling is not None:
        message = "rehearse runs one job, and a spec with `scaling` describes several"
        raise UsageError(message, "remove scaling, and set cluster.nodes")
    provider = registry.load(spec.provider)
    in_use = inputs.read_profile_in_use(file if file.is_dir() else file.parent)
    options, wrong = inputs.read_settings(text, in_use, spec, provider)
    if options is None:
        raise InvalidSpec(*wrong)
    return _Asked(provider, in_use.get_settings(provider.name), spec.cluster.pool)


def _fill(provider: Provider, stage: Emulation, name: str, folder: Path) -> None:
    if not isinstance(provider, SupportsEmulatedContainers):
        message = f"{provider.name} has no containers that a rehearsal can fill"
        raise UsageError(message, "remove --container, and mount the folder in the spec")
    provider.fill(stage, name, folder)


def _read(file: Path, overrides: Overrides) -> list[tuple[SourceFile, Spec]]:
    is_chain = chain_file.is_chain(file)
    texts = chain_file.read_chain(file).texts if is_chain else (source.read_file(file),)
    change = override_job if is_chain else apply_overrides
    specs = []
    for text in (change(one, overrides) for one in texts):
        spec, problems = source.validate_text(text)
        if spec is None:
            if text.document is not None:
                text.add_problems(problems)
            raise InvalidSpec(text)
        specs.append((text, spec))
    return specs


@contextlib.contextmanager
def make_work_folder(keep_in: Path | None, note: Callable[[str], None]) -> Iterator[Path]:
    """Yield *keep_in*, the folder of `--folder`, or a temporary one."""
    if keep_in is not None:
        folder = keep_in.absolute()
        with atomic_io.translate_os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        yield folder
        return
    note("outputs and logs are deleted at the end; --folder FOLDER keeps them")
    _remove_dead()
    # The name is known before the folder exists, so that no interrupt comes between the two.
    folder = Path(tempfile.gettempdir(), f"{PREFIX}{secrets.token_hex(8)}")
    try:
        folder.mkdir(mode=0o700)
        with (folder / f"{LOCK}.new").open("w") as held:
            with contextlib.suppress(OSError):  # a file system has no locks
                file_lock.take(held.fileno())
                os.rename(held.name, folder / LOCK)  # the lock is held from the beginning
            yield folder
    finally:
        remove_work_folder(folder)


def _remove_dead() -> None:
    """Remove the temporary folders of rehearsals of this user that were killed: nobody holds their locks."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), _open_below(folder, os.O_RDONLY | os.O_DIRECTORY) as at:
            # A folder of that name in /tmp may belong to anybody.
            if os.fstat(at).st_uid != os.geteuid():
                continue
            with _open_below(LOCK, os.O_RDWR | os.O_NONBLOCK, dir_fd=at) as lock:
                if file_lock.take(lock, wait=False):
                    _empty(at)
                    os.rmdir(folder)


@contextlib.contextmanager
def _open_below(path: Path | str, flags: int, dir_fd: int | None = None) -> Iterator[int]:
    """Open *path*, which is no link, below the open folder *dir_fd*.

    In a folder that all users can write to, another user may replace what a path leads to at any time.
    """
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        yield handle
    finally:
        os.close(handle)


def remove_work_folder(folder: Path) -> None:
    """Delete the folder of a rehearsal; what cannot be deleted stays."""
    with contextlib.suppress(OSError):
        with _open_below(folder, os.O_RDONLY | os.O_DIRECTORY) as at:
            _empty(at)
        os.rmdir(folder)


def _empty(folder: int) -> None:
    """Remove what is in the open *folder*, also if jobs have taken away their rights to folders in it."""
    for _, names, _, at in os.fwalk(dir_fd=folder):
        for name in names:
            with contextlib.suppress(OSError):
                if not stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                    os.chmod(name, 0o700, dir_fd=at)
    shutil.rmtree(".", ignore_errors=True, dir_fd=folder)  # "." itself cannot be removed


@contextlib.contextmanager
def _inside(
    stages: Mapping[str, tuple[Emulation, str | None]], folder: Path, reporter: Reporter
) -> Iterator[None]:
    """Point this process at the emulators, and at a state folder and a profile of their own, until the exit.

    Each emulator was started with the settings of a pool for all jobs, so that pool has no settings of its own.
    """
    path = folder / "profile.yaml"
    settings = {
        provider: {**stage.options, **({"pools": {pool: {}}} if pool else {})}
        for provider, (stage, pool) in stages.items()
    }
    atomic_io.write(path, format_flow({"providers": settings}).encode())
    reporter.note(f"rehearsing on this machine, in {folder}")
    for stage, _ in stages.values():
        for note in stage.notes:
            reporter.note(note)
    written_files.copy_records(folder / "home")
    before = dict(os.environ)
    for stage, _ in stages.values():
        os.environ.update(stage.env)
    os.environ.update(RUNSPEC_HOME=str(folder / "home"), RUNSPEC_PROFILE=str(path))
    try:
        yield
    finally:
        # Cleared first: a variable that the rehearsal added must not stay.
        os.environ.clear()
        os.environ.update(before)
