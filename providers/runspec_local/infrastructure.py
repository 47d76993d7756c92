"""What a run needs before it begins: an environment of Python packages, an image, and logins of registries."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import string
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from runspec_agent.base import file_lock
from runspec_images.engine_login import EngineOptions, write_login
from runspec_images.image_build import make_build_line, run_engine
from runspec_jobs.provider import RemoteError
from runspec_local.session.uv import Told, Uv
from runspec_local.supervisor import process

MARK = ".complete"


def complete(target: Path) -> bool:
    """Return whether *target* was built completely and its interpreter still exists."""
    try:
        marked = (target / MARK).read_text() == target.name
    except FileNotFoundError:
        return False
    return marked and (target / "bin" / "python").exists()


def build_environment(
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
    tell = progress or (lambda line: None)
    with _in_words(target), _locked(target, tell) as lock:
        if complete(target):
            return
        _remove(target)
        with Uv(target, log or Path(f"{target}.log"), tell, lock) as uv:
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
        built_with = ("--build-constraints", str(limits)) if build_constraints else ()
        uv.run("pip", "install", *into, "-r", str(wanted), *built_with)


@contextlib.contextmanager
def _in_words(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        hint = "set RUNSPEC_HOME to a writable folder with enough space"
        raise RemoteError(f"cannot build the environment at {target}: {reason}", hint) from exc


@contextlib.contextmanager
def _locked(target: Path, tell: Told) -> Iterator[int]:
    """Hold the lock of *target*, which uv inherits: it is released when both processes have ended."""
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(f"{target}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not file_lock.take(lock, wait=False):
            tell("Waiting for another build of the same environment")
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


# Build an image with requirements on top of another image, named by a hash of its content.


BUILD = """\
FROM {base}
COPY requirements.txt build-constraints.txt /.runspec-build/
ENV PIP_CONSTRAINT=
RUN PIP_CONSTRAINT=/.runspec-build/build-constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \\
    PIP_ROOT_USER_ACTION=ignore PIP_BREAK_SYSTEM_PACKAGES=1 \\
    python3 -m pip install --no-cache-dir -r /.runspec-build/requirements.txt
"""


def build_image(
    name: str,
    image: str,
    base: str,
    requirements: Sequence[str],
    build_constraints: Sequence[str],
    folder: Path,
    tell: Callable[[str], None],
) -> None:
    """Build *image* from *base* and *requirements* with the engine *name*; *folder* is for its files.

    Raise RemoteError with the engine's last line of output.
    """
    assert not set(base) & set(string.whitespace), "BUG: a spec's image has no white space"
    context = folder / image.rpartition(":")[2]
    shutil.rmtree(context, ignore_errors=True)
    context.mkdir(parents=True)
    (context / "Containerfile").write_text(BUILD.format(base=base))
    (context / "requirements.txt").write_text("".join(f"{line}\n" for line in requirements))
    limits = "".join(f"{line}\n" for line in build_constraints)
    (context / "build-constraints.txt").write_text(limits)
    more = ("--network", "host")
    said = run_engine(make_build_line(name, image, context, "Containerfile", more), tell)
    shutil.rmtree(context, ignore_errors=True)
    if said is not None:
        message = f"cannot add the requirements to {base}: {said}"
        raise RemoteError(
            message, "the image needs python3 with pip and access to the package index"
        )


def build_context(
    name: str, image: str, context: Path, file: str | None, tell: Callable[[str], None]
) -> None:
    """Build *image* from the folder *context* with the engine *name*, which gives it its name when it is complete.

    Raise RemoteError with the engine's last line of output. The ignore file of the context is in the folder, and the
    engine reads it again.
    """
    line = make_build_line(name, image, context, file)
    said = run_engine(line, tell)
    if said is not None:
        recipe = line[-2].rpartition("/")[2]
        raise RemoteError(f"cannot build the image: {said}", f"see {recipe}, and repeat apply")


# The login at a private registry while an image is pulled: a file for the engine, which only its owner can read.
#
# The file is in a folder that is named after this process and is deleted after the pull. What a killed process left
# is deleted by the next pull.


BEGIN = "login-"


@contextlib.contextmanager
def login_options(
    root: Path, engine: str, login: Mapping[str, str] | None
) -> Iterator[EngineOptions]:
    """Yield the options by which *engine* reads *login*, which has its password, from a file below *root*."""
    _remove_left(root)
    if login is None:
        yield EngineOptions()
        return
    begin = f"{BEGIN}{os.getpid()}-{process.start_ticks(os.getpid())}-"
    with tempfile.TemporaryDirectory(prefix=begin, dir=root) as folder:
        yield write_login(engine, Path(folder), login)


def _remove_left(root: Path) -> None:
    """Delete the folders of processes that were killed."""
    for folder in root.glob(f"{BEGIN}*"):
        pid, _, ticks = folder.name.removeprefix(BEGIN).rpartition("-")[0].partition("-")
        if pid.isdecimal() and str(process.start_ticks(int(pid))) != ticks:
            shutil.rmtree(folder, ignore_errors=True)
