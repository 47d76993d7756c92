"""Build a job's own Python environment with uv, completely or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from runspec_agent.base import file_lock
from runspec_jobs.provider import RemoteError
from runspec_local.session.uv import Told, Uv

MARK = ".complete"


def complete(target: Path) -> bool:
    """Return whether *target* was built completely and its interpreter still exists."""
    try:
        marked = (target / MARK).read_text() == target.name
    except FileNotFoundError:
        return False
    return marked and (target / "bin" / "python").exists()


def build(
    target: Path,
    requirements: Sequence[str],
    build_constraints: Sequence[str],
    python_path: str,
    progress: Told | None = None,
    log: Path | None = None,
) -> None:
    """Build the environment *target* with *requirements* unless it exists.

    *target* is named for its key and never moves. If several processes build it, one does and the others wait.
    *progress* is called with each line of uv's output; all of it is also in *log*, which defaults to `TARGET.log`.
    Raise RemoteError with uv's reason; an incomplete environment is removed then, or by the next build if this
    process was killed.
    """
    told = progress or (lambda line: None)
    with _in_words(target), _locked(target, told) as lock:
        if complete(target):
            return
        _remove(target)
        with Uv(target, log or Path(f"{target}.log"), told, lock) as uv:
            try:
                _fill(uv, target, requirements, build_constraints, python_path)
            except RemoteError:
                _remove(target)
                raise
        _mark(target)


def _fill(
    uv: Uv,
    target: Path,
    requirements: Sequence[str],
    build_constraints: Sequence[str],
    python_path: str,
) -> None:
    uv.run("venv", "--quiet", "--no-project", "--python", python_path, str(target))
    wanted, limits = target / "requirements.txt", target / "build-constraints.txt"
    wanted.write_text("".join(f"{line}\n" for line in requirements))
    limits.write_text("".join(f"{line}\n" for line in build_constraints))
    if requirements:
        # No --compile-bytecode: for Chainer it takes 7 s of CPU time, and a first start without it only 2 s more.
        into = ("--python", str(target / "bin" / "python"))
        uv.run("pip", "install", *into, "-r", str(wanted), "--build-constraints", str(limits))


@contextlib.contextmanager
def _in_words(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        hint = "set RUNSPEC_HOME to a writable folder with enough space"
        raise RemoteError(f"cannot build the environment at {target}: {reason}", hint) from exc


@contextlib.contextmanager
def _locked(target: Path, told: Told) -> Iterator[int]:
    """Hold the lock of *target*, which uv inherits: it is released when both processes have ended."""
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(f"{target}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not file_lock.take(lock, wait=False):
            told("Waiting for another build of the same environment")
            file_lock.take(lock)
        yield lock
    finally:
        os.close(lock)


def _remove(target: Path) -> None:
    """Remove *target*, its completion mark first, so that an incomplete environment is never used."""
    (target / MARK).unlink(missing_ok=True)
    if target.exists():
        shutil.rmtree(target)


def _mark(target: Path) -> None:
    """Mark *target* as complete, after everything that uv wrote has reached the disk."""
    folder = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _flush(folder)
        fresh = target / f"{MARK}.new"
        fresh.write_text(target.name)
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(fresh, target / MARK)
        os.fsync(folder)
    finally:
        os.close(folder)


def _flush(fd: int) -> None:
    """Flush the file system of *fd*: uv syncs no file, and syncing each file would be slow."""
    if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
