"""`runspec rehearse`: carries out the plan of a cloud job against emulators on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from runspec_jobs.api.emulation import emulated
from runspec_jobs.api.lifecycle import get, runs
from runspec_jobs.cli import apply, destroy, fetch, output, plan, status
from runspec_jobs.errors import OK, RunspecError, UsageError
from runspec_jobs.options.run_verbs import DestroyOptions, FetchOptions
from runspec_jobs.options.start_verbs import ApplyOptions, RehearseOptions
from runspec_jobs.options.watch_verbs import LogsOptions

REPEAT_S = 0.05  # after which a destructor that was interrupted has ended


def rehearse(options: RehearseOptions) -> int:
    """Apply, fetch and destroy a job against emulators; return the exit code of the apply."""
    as_json = options.as_json
    with (
        _signals_as_interrupts() as ignore_signals,
        emulated(
            options.file,
            engine=options.engine,
            folder=options.folder,
            containers=_folders(options.containers),
            overrides=plan.overrides_of(options),
            on_event=output.tell_event,
        ) as folder,
        contextlib.ExitStack() as at_end,
    ):
        at_end.callback(ignore_signals)  # the steps at the end are what a signal asks for
        applied = ApplyOptions(
            file=options.file,
            provider=options.provider,
            settings=options.settings,
            params=options.params,
            words=options.words,
            new=True,
            smoke=options.smoke,
            output_format=options.output_format,
            as_json=as_json,
            rehearsed=True,
        )
        code = apply.apply(applied)
        made = [one.id for one in runs()]
        if options.folder is not None:
            with _told(code, "its outputs and logs could not be kept"):
                _keep(made[-1], folder, as_json=as_json)
        with _told(code, "what it made could not be deleted"):
            for run in reversed(made):  # the job's, and that of its smoke test
                destroy.destroy(DestroyOptions(run=run, as_json=as_json))
            destroy.destroy(DestroyOptions(shared=True, yes=True, as_json=as_json))
    return code


@contextlib.contextmanager
def _signals_as_interrupts() -> Iterator[Callable[[], None]]:
    """Make SIGTERM and SIGHUP do what Ctrl-C does, so that nothing stays on this machine; only the first one counts.

    Yield a function after which none counts. At the exit, the signals do again what they did before.
    """
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP)}
    numbers = [n for n, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []

    def handle(action: Callable[[int, FrameType | None], None]) -> None:
        for number in numbers:
            signal.signal(number, action)

    def ignore() -> None:
        handle(lambda *_: None)

    def interrupt(_: int, frame: FrameType | None) -> None:
        ignore()
        on_interrupt = signal.getsignal(signal.SIGINT)
        if not callable(on_interrupt):  # ignored, as in the background of a script
            on_interrupt = signal.default_int_handler
        on_interrupt(signal.SIGINT, frame)

    repeated = contextlib.ExitStack()

    def repeat_lost(lost: sys.UnraisableHookArgs) -> None:
        """Send a signal again that came while a destructor ran: no exception leaves a destructor."""
        if not numbers or not issubclass(lost.exc_type, KeyboardInterrupt):
            before_lost(lost)
            return
        handle(interrupt)
        timer = threading.Timer(REPEAT_S, os.kill, (os.getpid(), numbers[0]))
        timer.daemon = True
        repeated.callback(timer.cancel)
        timer.start()

    before_lost, sys.unraisablehook = sys.unraisablehook, repeat_lost
    try:
        handle(interrupt)
        yield ignore
    finally:
        sys.unraisablehook = before_lost
        repeated.close()
        for number in numbers:
            signal.signal(number, before[number])


@contextlib.contextmanager
def _told(code: int, what: str) -> Iterator[None]:
    """Say that the exit code is that of what follows the job, if that fails."""
    try:
        yield
    except RunspecError:
        ended = "the job has succeeded" if code == OK else "the job has not succeeded"
        output.tell(f"{ended}, but the rehearsal fails: {what}")
        raise


def _folders(given: Sequence[str]) -> dict[str, Path]:
    """Return the folders of `--container`, by the name of the container."""
    folders: dict[str, Path] = {}
    for text in given:
        name, equals, folder = text.partition("=")
        if not (name and equals and folder):
            raise UsageError(f"--container: '{text}' is not NAME=FOLDER", "write scripts=./scripts")
        if not Path(folder).is_dir():
            raise UsageError(f"--container: {folder} is not a folder")
        folders[name] = Path(folder)
    return folders


def _keep(run: str, folder: Path, *, as_json: bool) -> None:
    """Copy the outputs and the logs of the job, because the emulators delete their own."""
    if get(run).record.spec.outputs:
        fetch.fetch(FetchOptions(run=run, to=folder / "outputs", as_json=as_json, force=True))
    saved = folder / "logs"
    saved.mkdir(parents=True, exist_ok=True)
    status.logs(LogsOptions(run=run, save=saved, as_json=as_json, force=True))
