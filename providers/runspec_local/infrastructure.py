"""What a run needs before it begins: an environment of Python packages, an image, and logins of registries."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import string
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runspec_agent.base import file_lock
from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import RemoteError
from runspec_jobs.provider.job_manifest import RECIPES
from runspec_jobs.provider.registry_login import docker_auth
from runspec_local.session import container_engine
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
# How pip reaches an index depends on this machine; the build gets these settings, and the image does not keep them.
PASSED = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


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
    line = [name, "build", "--network", "host", "--tag", image]
    for variable in PASSED:
        if variable in os.environ:
            line += ["--build-arg", variable]
    line += ["--file", str(context / "Containerfile"), str(context)]
    said = _run(line, tell)
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
    recipe = file or next(each for each in RECIPES if (context / each).is_file())
    line = [name, "build", "--tag", image]
    for variable in PASSED:
        if variable in os.environ:
            line += ["--build-arg", variable]
    said = _run([*line, "--file", str(context / recipe), str(context)], tell)
    if said is not None:
        raise RemoteError(f"cannot build the image: {said}", f"see {recipe}, and repeat apply")


def _run(line: Sequence[str], tell: Callable[[str], None]) -> str | None:
    """Run *line* and pass its output to *tell*; return the last line of output if it fails, else None."""
    lines = []
    with subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=container_engine.AWAY,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None, "BUG: it is a pipe"
        for text in process.stdout:
            lines.append(text.rstrip())
            tell(lines[-1])
    return container_engine.last_line("\n".join(lines)) if process.returncode else None


# The login at a private registry while an image is pulled: a file for the engine, which only its owner can read.
#
# The file is in a folder that is named after this process and is deleted after the pull. What a killed process left
# is deleted by the next pull.


BEGIN = "login-"


class EngineOptions(NamedTuple):
    """Options of an engine, *before* and *after* the command."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


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
        file = Path(folder, "config.json")  # docker's name
        content = docker_auth(login)
        if engine == "docker":
            content |= _context(Path(folder))
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as text:
            json.dump(content, text)
        if engine == "docker":
            yield EngineOptions(before=("--config", folder))
        else:
            yield EngineOptions(after=("--authfile", str(file)))


def _context(folder: Path) -> dict[str, Any]:
    """Link docker's contexts into *folder*, and return the setting that names the one in use.

    A context says where the daemon is: https://docs.docker.com/engine/manage-resources/contexts/
    """
    own = Path(os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker"))
    try:
        name = json.loads((own / "config.json").read_text())["currentContext"]
    except (OSError, ValueError, LookupError, TypeError):
        # Without a file of docker's, its default context is in use.
        return {}
    (folder / "contexts").symlink_to(own / "contexts")
    return {"currentContext": name}


def _remove_left(root: Path) -> None:
    """Delete the folders of processes that were killed."""
    for folder in root.glob(f"{BEGIN}*"):
        pid, _, ticks = folder.name.removeprefix(BEGIN).rpartition("-")[0].partition("-")
        if pid.isdecimal() and str(process.start_ticks(int(pid))) != ticks:
            shutil.rmtree(folder, ignore_errors=True)
