"""Folders of the local store: each is written atomically, never changed, and can be deleted."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from runspec_agent.base import file_lock, limits
from runspec_jobs.provider import Bundle, Progress
from runspec_local.supervisor.durable import sync

CHUNK_BYTES = 1 << 20
PRIVATE = 0o700
CLOSED = 0o555  # no entry can be added or removed


def is_whole(path: Path) -> bool:
    """Return whether *path* exists; a folder gets this name only when it is complete."""
    return path.is_dir()


def put(bundle: Bundle, path: Path, progress: Progress) -> None:
    """Copy *bundle* to a temporary folder beside *path*, flush it to the disk, and rename it to *path*.

    If two processes do so at once, both copies are equal, and one is kept.
    """
    path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    _sweep(path)
    with _fresh(path) as fresh:
        try:
            _fill(fresh, bundle, progress)
            _close_folders(fresh)
        except BaseException:  # also KeyboardInterrupt: remove the unfinished folder, raise
            _take_away(fresh, ignore_errors=True)
            raise
        swap_name(fresh, path)


def _sweep(path: Path) -> None:
    """Remove temporary folders for *path* of processes that have died: their locks are free."""
    for left in path.parent.glob(f".new-{path.name}-*"):
        # The lock is held: its process is alive.
        with contextlib.suppress(OSError), _locked(left, fcntl.LOCK_NB):
            _take_away(left, ignore_errors=True)


@contextlib.contextmanager
def _fresh(path: Path) -> Iterator[Path]:
    """Yield a new folder beside *path*, locked, so that no other process removes it as abandoned."""
    while True:
        fresh = path.with_name(f".new-{path.name}-{uuid.uuid4().hex[:8]}")
        fresh.mkdir(mode=0o755)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(_locked(fresh))
            except FileNotFoundError:
                # Another process took the unlocked folder for abandoned: make another one.
                continue
            except OSError as exc:
                if exc.errno not in file_lock.NO_LOCKS:
                    raise  # where folders cannot be locked, no other process can lock and remove it either
            if fresh.exists():  # the folder was not removed before it was locked
                yield fresh
                return


@contextlib.contextmanager
def _locked(folder: Path, how: int = 0) -> Iterator[None]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(fd)


def _fill(fresh: Path, bundle: Bundle, progress: Progress) -> None:
    done, whole = 0, sum(file.bytes for file in bundle.files)
    for file in bundle.files:
        target = fresh / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o555 if file.executable else 0o444
        with bundle.open(file) as source, open(target, "xb") as copy:
            while data := source.read(CHUNK_BYTES):
                copy.write(data)
                done += len(data)
                progress(done, whole)
            os.fchmod(copy.fileno(), mode)
            copy.flush()
            os.utime(copy.fileno(), (max(file.mtime_s, limits.OLDEST_MTIME_S),) * 2)
            os.fsync(copy.fileno())


def _close_folders(top: Path) -> None:
    """Flush the names in *top*, and in all folders below it, and make them read-only."""
    for folder, _, _ in os.walk(top):
        os.chmod(folder, CLOSED)
        sync(Path(folder))


def _take_away(top: Path, ignore_errors: bool = False) -> None:
    """Remove *top*, also if its modes forbid it."""
    with contextlib.suppress(OSError):  # rmtree reports it if it matters
        os.chmod(top, PRIVATE)
        for at, folders, _ in os.walk(top):
            for name in folders:
                _open_folder(os.path.join(at, name))
    shutil.rmtree(top, ignore_errors=ignore_errors)


def _open_folder(path: str) -> None:
    """Allow the owner to remove what is in the folder. Links are not followed."""
    if not os.path.islink(path):
        os.chmod(path, PRIVATE)


def swap_name(fresh: Path, path: Path) -> None:
    try:
        os.rename(fresh, path)
    except OSError:
        if not path.is_dir():
            raise
        _take_away(fresh)  # another process has written the same content there
    sync(path.parent)


def remove(path: Path) -> None:
    """Remove *path* if it exists, by renaming it first so that no process finds an incomplete folder.

    Temporary folders for *path* of processes that have died are removed, too.
    """
    _sweep(path)
    gone = path.with_name(f".gone-{path.name}")
    for name in (gone, path):
        if name is path:
            try:
                os.rename(path, gone)
            except FileNotFoundError:
                return
        if gone.exists():
            _take_away(gone)
            sync(path.parent)
