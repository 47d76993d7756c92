"""A job's own Python environment, built by uv: found or made, never half-made."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Self

from runspec.provider import RemoteError, Unavailable, UsageError

Told = Callable[[str], None]

MARK = ".complete"
RUNS_S = 30.0  # an interpreter that does not start in this time does not work
STOP_S = 10.0  # from asking uv to stop to ending it
MAX_LINES = 2_000  # of uv's last words that are looked at
MAX_MESSAGE = 400

NUMBER = r"[0-9]+(?:\.[0-9]+){0,2}"
CLAUSE = re.compile(rf"\s*(==|!=|<=|>=|~=|<|>)\s*({NUMBER})(\.\*)?\s*")
EXAMPLES = ("3.14", "3.13", "3.12", "3.11", "3.10", "3.9", "3.8")
ASK = (
    "import platform, sys;"
    "print(getattr(sys, '_base_executable', None) or sys.executable);"
    "print(platform.python_version())"
)

# What uv is given of the caller's environment: how to reach an index, where to keep things, what
# compilers of source packages look for. Nothing that changes which versions are picked.
KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TMPDIR|TEMP|TMP|NETRC|SSH_AUTH_SOCK|GIT_\w+|XDG_\w+_HOME"
    r"|SSL_\w+|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|(?i:https?|all|no|ftp)_PROXY|(?i:https?|all|no)_proxy"
    r"|CC|CXX|FC|CPP|AR|LD|CFLAGS|CXXFLAGS|CPPFLAGS|FFLAGS|LDFLAGS|MAKEFLAGS|PKG_CONFIG_PATH"
    r"|LIBRARY_PATH|LD_LIBRARY_PATH|CPATH|CMAKE_\w+|CUDA_\w+|MPICC|MPI_HOME|CARGO_HOME|RUSTUP_HOME"
    r"|UV_(?:DEFAULT_INDEX|INDEX\w*|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|OFFLINE|KEYRING_PROVIDER"
    r"|CACHE_DIR|NO_CACHE|LINK_MODE|INSECURE_HOST|NATIVE_TLS|SYSTEM_CERTS|HTTP_\w+|REQUEST_TIMEOUT"
    r"|CONCURRENT_\w+|PYTHON_INSTALL_DIR|CREDENTIALS_DIR|COMPILE_BYTECODE)"
)


# --- what it is called ---


def environment_key(
    requirements: Sequence[str],
    build_constraints: Sequence[str],
    python: str | None,
    interpreter: str,
) -> str:
    """Give the name of the environment that is built of these: equal needs share one.

    *python* is the specifier asked for, *interpreter* the full version that was found for it.
    """
    made_of = {
        "format": "runspec.environment/v1",
        "requirements": _normal(requirements),
        "build_constraints": _normal(build_constraints),
        "python": "".join((python or "").split()),
        "interpreter": interpreter,
    }
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:20]


def _normal(lines: Sequence[str]) -> list[str]:
    bare = (" ".join(re.sub(r"(?:^|\s)#.*", "", line).split()) for line in lines)
    return [line for line in bare if line]


# --- what builds it ---


def find_uv() -> str:
    """Give the path of uv: the one installed with runspec, else the first on PATH."""
    try:
        import uv

        return uv.find_uv_bin()
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise Unavailable("uv is not installed here", "pip install 'runspec-jobs[local]'")
    return found


def fits(version: str, specifier: str) -> bool:
    """Say whether a Python of *version* is one that *specifier* asks for.

    Raises UsageError for what is no specifier. The rules, as far as releases go:
    https://packaging.python.org/en/latest/specifications/version-specifiers/

    >>> fits("3.11.7", ">=3.9,<3.12"), fits("3.11.7", "3.11"), fits("3.12.0", "~=3.11")
    (True, True, True)
    """
    bare = re.fullmatch(rf"\s*({NUMBER})\s*", specifier)
    wanted = f"=={bare[1]}.*" if bare else specifier
    clauses = [CLAUSE.fullmatch(clause) for clause in wanted.split(",")]
    if not all(clauses):
        what = f"'{specifier}' does not say which Python versions"
        raise UsageError(what, "write it as '>=3.9,<3.12' or '3.11'")
    return all(_holds(_release(version), *clause.groups()) for clause in clauses if clause)


def _release(version: str) -> tuple[int, ...]:
    numbers = [int(n) for n in re.findall(r"\d+", version)[:3]]
    return (*numbers, 0, 0)[:3]


def _holds(version: tuple[int, ...], operator: str, number: str, star: str | None) -> bool:
    asked, given = _release(number), number.count(".") + 1
    if star or operator == "~=":
        same = given if star else given - 1
        inside = version[:same] == asked[:same] and (bool(star) or version >= asked)
        return not inside if operator == "!=" else inside
    return {
        "==": version == asked,
        "!=": version != asked,
        "<": version < asked,
        "<=": version <= asked,
        ">": version > asked,
        ">=": version >= asked,
    }[operator]


def find_python(uv: str, specifier: str | None, interpreter: str | None = None) -> tuple[str, str]:
    """Give the path and the full version of a Python that fits *specifier* and really runs.

    *interpreter* is the only one looked at where it is given. Else the one that runspec runs on
    is taken where it fits, and then the newest. Nothing is downloaded. Raises UsageError for what
    is no specifier, and Unavailable when none fits.
    """
    wanted = ">=3" if specifier is None else specifier
    if interpreter is not None:
        return _named(interpreter, wanted)
    own = getattr(sys, "_base_executable", "") or sys.executable
    if fits(platform.python_version(), wanted):
        return own, platform.python_version()
    installed = _installed(uv)
    fitting = [path for path, version in installed if fits(version, wanted)]
    for path in fitting:
        if (found := _asked(path)) is not None:
            return found
    others = {version for path, version in installed if path not in fitting}
    raise _none_fits(wanted, others | {platform.python_version()})


def _named(interpreter: str, wanted: str) -> tuple[str, str]:
    found = _asked(str(Path(interpreter).expanduser()))
    if found is None:
        raise Unavailable(f"'{interpreter}' is no Python that runs")
    if not fits(found[1], wanted):
        hint = "name another, or change container.python"
        raise Unavailable(f"'{interpreter}' is Python {found[1]}, which is not '{wanted}'", hint)
    return found


def _none_fits(wanted: str, there: Iterable[str]) -> Unavailable:
    found = ", ".join(sorted(there, key=_release))
    named = re.findall(NUMBER, wanted)
    example = next((n for n in (*EXAMPLES, *named) if fits(n, wanted)), named[0])
    return Unavailable(
        f"no Python that fits '{wanted}' here; found {found}",
        f"install one, for example: uv python install {example}",
    )


def _installed(uv: str) -> list[tuple[str, str]]:
    """Give paths and versions of the interpreters uv sees, newest first."""
    command = [uv, "python", "list", "--only-installed", "--offline", "--no-config"]
    environment = uv_environment(os.environ)
    environment["PATH"] = search_path(environment.get("PATH", os.defpath))
    done = subprocess.run(
        [*command, "--output-format", "json"], capture_output=True, env=environment, check=False
    )
    try:
        listed = json.loads(done.stdout)
    except ValueError as exc:
        raise Unavailable(f"uv does not list interpreters: {_last(done.stderr.decode())}") from exc
    found = {
        entry["path"]: entry["version"]
        for entry in listed
        if entry["path"] and (entry["implementation"], entry["variant"]) == ("cpython", "default")
    }
    return sorted(found.items(), key=lambda one: _release(one[1]), reverse=True)


def search_path(path: str) -> str:
    """Give *path* with the shims of pyenv replaced by all that they stand for.

    A shim is slow, and refuses every version that is not chosen by some file at the moment.
    """
    folders: list[str] = []
    for folder in path.split(os.pathsep):
        versions = Path(folder).parent / "versions"
        if Path(folder).name == "shims" and versions.is_dir():
            folders += sorted(str(real) for real in versions.glob("*/bin"))
        else:
            folders.append(folder)
    return os.pathsep.join(folders)


def _asked(path: str) -> tuple[str, str] | None:
    """Give where the interpreter at *path* really lies, and its version; None if it fails."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", ASK],
            capture_output=True,
            cwd="/",  # a .python-version file would choose for a shim
            text=True,
            timeout=RUNS_S,
            check=True,
        )
        where, version = done.stdout.splitlines()
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return where, version


def _last(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason")


def uv_environment(caller: Mapping[str, str]) -> dict[str, str]:
    """Give what uv gets to see of the environment of *caller*."""
    return {name: value for name, value in caller.items() if KEPT.fullmatch(name)}


# --- building it ---


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
        with _Uv(target, log or Path(f"{target}.log"), told, lock) as uv:
            try:
                _fill(uv, target, requirements, build_constraints, python_path)
            except RemoteError:
                _remove(target)
                raise
        _mark(target)


def _fill(
    uv: _Uv,
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


class _Uv:
    """Runs uv for one environment, with all it says told, kept in *log* and looked at."""

    def __init__(self, target: Path, log: Path, told: Told, lock: int) -> None:
        self.path, self.folder, self.told, self.lock = find_uv(), target.parent, told, lock
        self.log = log
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(fd, "w", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def run(self, *words: str) -> None:
        """Run one command to its end. Raises RemoteError with uv's reason."""
        general = ("--no-config", "--no-python-downloads", "--color", "never")
        process = subprocess.Popen(
            [self.path, *words, *general],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env=uv_environment(os.environ),
            pass_fds=(self.lock,),
            process_group=0,
        )
        try:
            said = list(self._lines(process))
        finally:
            _stop(process)
        if process.returncode != 0:
            raise failure(said, self.log)

    def _lines(self, process: subprocess.Popen[bytes]) -> Iterable[str]:
        said: deque[str] = deque(maxlen=MAX_LINES)
        assert process.stdout is not None, "BUG: it was asked for"
        with process.stdout:
            for raw in process.stdout:
                text = raw.decode(errors="replace").expandtabs()
                line = "".join(c for c in text if c.isprintable())
                self._file.write(line + "\n")
                self._file.flush()
                said.append(line)
                if line.strip():
                    self.told(line.strip())
        process.wait()
        return said


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End *process* and what it started, if it has not ended; asked first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)


# --- what uv says when it cannot ---

BEGIN = re.compile(r"error:|\s*×")
ITEM = re.compile(r"(?:error:|×|[├╰]─▶|cause:|Caused by:)\s*(.*)")
SECTION = re.compile(r"\[std(?:err|out)\]")
NETWORK = re.compile(
    r"Request failed after|error sending request|tcp connect error|dns error|operation timed out"
    r"|server error \(5|429 Too Many"
)
TOO_NEW = "set container.python to the versions they work with, such as '>=3.9,<3.12'{which}"
INDEX = "uv does not read the settings of pip: UV_DEFAULT_INDEX names another index"
HINTS = {
    r"does not satisfy Python|Python (?:ABI|version|implementation) tag|[Rr]equires.[Pp]ython"
    r"|No module named '(?:distutils|imp|asynchat|asyncore)'": TOO_NEW,
    r"No module named '(?:pkg_resources|setuptools)'|has no attribute 'ImpImporter'": (
        "old packages need old tools to be built: set container.build_constraints: "
        "['setuptools<74']; or an older container.python{which}"
    ),
    r"No space left|Disk quota": "free some space, or set RUNSPEC_HOME to a folder on another disk",
    r"network was disabled": "UV_OFFLINE is set: take it away",
    r"was not found in the package registry": "is it spelled right? " + INDEX,
    NETWORK.pattern: "is the package index within reach? " + INDEX,
    r"Failed to build": "it may lack a compiler or a library, or an older container.python{which}",
}


def failure(said: Sequence[str], log: Path) -> RemoteError:
    """Give the error for what uv *said* at its end: its reason in one line, and a way out."""
    text = "\n".join(said)
    which = re.search(r"Using Python (\d[\w.]*)", text)
    hint = next((hint for pattern, hint in HINTS.items() if re.search(pattern, text)), "")
    hint = hint.replace("{which}", f" (this is Python {which[1]})" if which else "")
    way_out = f"{hint}; all that uv said: {log}" if hint else f"all that uv said: {log}"
    what = f"cannot build the environment: {_reason(said)}"
    short = what if len(what) <= MAX_MESSAGE else what[: MAX_MESSAGE - 1] + "…"
    return RemoteError(short, way_out, transient=bool(NETWORK.search(text)))


def _reason(said: Sequence[str]) -> str:
    """Give uv's heading, its first cause and its last; the rest is the way between them."""
    starts = [n for n, line in enumerate(said) if BEGIN.match(line)]
    items: list[str] = []
    for line in said[starts[-1] :] if starts else [_last("\n".join(said))]:
        words = line.strip()
        if SECTION.fullmatch(words) or words.startswith("hint:"):
            break
        if item := ITEM.match(words):
            items.append(item[1])
        elif words:
            items[-1:] = [" ".join([*items[-1:], words])]
    items = [item.rstrip(".:").replace("`", "'") for item in (*items, *_printed(said)) if item]
    return ": ".join(dict.fromkeys([*items[:2], *items[-1:]]))


def _printed(said: Sequence[str]) -> list[str]:
    """Give the last line that a package's own build printed: a traceback ends with its error."""
    sections = [n for n, line in enumerate(said) if SECTION.fullmatch(line.strip())]
    if not sections:
        return []
    printed = takewhile(lambda line: not line.strip().startswith("hint:"), said[sections[-1] + 1 :])
    return [_last("\n".join(printed))]
