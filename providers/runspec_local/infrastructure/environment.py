"""A job's own Python environment, built by uv: whole or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from runspec_jobs.provider import RemoteError
from runspec_local.session.uv import Told, Uv

MARK = ".complete"


def complete(target: Path) -> bool:
    """Say whether *target* was built to the end, and its interpreter is still there."""
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
    """Make *target* the environment of *requirements*; content when it is there.

    *target* is named for its key and never moves. Of several at once, one builds and the rest
    wait for it. *progress* is told what uv says, line by line; all of it is in *log*, which is
    `TARGET.log` unless given. Raises RemoteError with uv's reason; what was half-built is gone
    then, or, if this process was killed, when it is built again.
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
        # No --compile-bytecode: 7 s of CPU for Chainer's, where a first start costs 2 s more.
        into = ("--python", str(target / "bin" / "python"))
        uv.run("pip", "install", *into, "-r", str(wanted), "--build-constraints", str(limits))


@contextlib.contextmanager
def _in_words(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        hint = "set RUNSPEC_HOME to a folder that can be written and has room"
        raise RemoteError(f"cannot build the environment at {target}: {reason}", hint) from exc


@contextlib.contextmanager
def _locked(target: Path, told: Told) -> Iterator[int]:
    """Hold the lock of *target*. uv gets it, too: it is free when both have ended."""
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(f"{target}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told("Waiting for another build of the same environment")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _remove(target: Path) -> None:
    """Take *target* away, its mark first, so that no half of it passes for whole."""
    (target / MARK).unlink(missing_ok=True)
    if target.exists():
        shutil.rmtree(target)


def _mark(target: Path) -> None:
    """Mark *target* as complete, once all that uv wrote is on the disk."""
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
    """Put the file system of *fd* on the disk: uv syncs nothing, and a file at a time is slow."""
    if ctypes.CDLL(None, use_errno=True).syncfs(fd) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
