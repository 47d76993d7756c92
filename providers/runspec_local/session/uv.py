"""Run uv for builds, with a filtered environment, and explain its errors."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Self

from runspec_jobs.provider import RemoteError, Unavailable

Told = Callable[[str], None]

STOP_S = 10.0  # between asking uv to stop and killing it
MAX_LINES = 2_000  # of uv's last output that are searched for reasons
MAX_MESSAGE = 400

# What uv gets of the caller's environment: access to an index, paths of caches, and what compilers of source packages
# need. No variable that changes which versions are chosen.
KEPT = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TMPDIR|TEMP|TMP|NETRC|SSH_AUTH_SOCK|GIT_\w+|XDG_\w+_HOME"
    r"|SSL_\w+|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|(?i:https?|all|no|ftp)_PROXY|(?i:https?|all|no)_proxy"
    r"|CC|CXX|FC|CPP|AR|LD|CFLAGS|CXXFLAGS|CPPFLAGS|FFLAGS|LDFLAGS|MAKEFLAGS|PKG_CONFIG_PATH"
    r"|LIBRARY_PATH|LD_LIBRARY_PATH|CPATH|CMAKE_\w+|CUDA_\w+|MPICC|MPI_HOME|CARGO_HOME|RUSTUP_HOME"
    r"|UV_(?:DEFAULT_INDEX|INDEX\w*|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|OFFLINE|KEYRING_PROVIDER"
    r"|CACHE_DIR|NO_CACHE|LINK_MODE|INSECURE_HOST|NATIVE_TLS|SYSTEM_CERTS|HTTP_\w+|REQUEST_TIMEOUT"
    r"|CONCURRENT_\w+|PYTHON_INSTALL_DIR|CREDENTIALS_DIR|COMPILE_BYTECODE)"
)

# Bundles of certificates that a system trusts: of Debian, Fedora, SUSE and Alpine.
BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
TRUSTING = ("UV_SYSTEM_CERTS", "UV_NATIVE_TLS", "SSL_CERT_FILE", "SSL_CERT_DIR")


def find_uv() -> str:
    """Return the path of uv: the one installed with runspec, else the first on PATH."""
    try:
        import uv

        return uv.find_uv_bin()
    except (ImportError, FileNotFoundError):
        program = shutil.which("uv")
    if program is None:
        raise Unavailable("uv is not installed here", "pip install 'runspec-jobs[local]'")
    return program


def uv_environment(caller: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that uv gets: those of *caller* that it needs, and which certificates to trust.

    Without one of `TRUSTING`, uv trusts a list of its own, which lacks the authority of a company's proxy that this
    machine trusts: https://docs.astral.sh/uv/concepts/authentication/certificates
    """
    kept = {name: value for name, value in caller.items() if KEPT.fullmatch(name)}
    if not any(kept.get(name) for name in TRUSTING) and any(map(os.path.exists, BUNDLES)):
        kept["UV_SYSTEM_CERTS"] = "1"
    return kept


class Uv:
    """Runs uv for one environment; its output is passed on, kept in *log*, and searched for errors."""

    def __init__(self, target: Path, log: Path, tell: Told, lock: int) -> None:
        self.path, self.folder, self.told, self.lock = find_uv(), target.parent, tell, lock
        self.log = log
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(fd, "w", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def run(self, *argv: str) -> None:
        """Run one command to its end. Raise RemoteError with uv's reason if it fails."""
        general = ("--no-config", "--no-python-downloads", "--color", "never")
        process = subprocess.Popen(
            [self.path, *argv, *general],
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
        assert process.stdout is not None, "BUG: it is a pipe"
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
    """Stop *process* and the processes it started, if it has not ended: SIGTERM first, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # the group has ended since `poll`
                os.killpg(process.pid, number)
            # Still running: SIGKILL follows, and cannot be ignored.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)


def last_said(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason")


# --- uv's error messages ---

BEGIN = re.compile(r"error:|\s*×")
ITEM = re.compile(r"(?:error:|×|[├╰]─▶|cause:|Caused by:)\s*(.*)")
SECTION = re.compile(r"\[std(?:err|out)\]")
NETWORK = re.compile(
    r"Request failed after|error sending request|tcp connect error|dns error|operation timed out"
    r"|server error \(5|429 Too Many"
)
TOO_NEW = "set container.python to the versions they work with, such as '>=3.9,<3.12'{which}"
INDEX = "uv does not read pip's settings: set UV_DEFAULT_INDEX to use another index"
HINTS = {
    r"does not satisfy Python|Python (?:ABI|version|implementation) tag|[Rr]equires.[Pp]ython"
    r"|No module named '(?:distutils|imp|asynchat|asyncore)'": TOO_NEW,
    r"No module named '(?:pkg_resources|setuptools)'|has no attribute 'ImpImporter'": (
        "old packages need old tools to be built: set container.build_constraints: "
        "['setuptools<74'], or set an older container.python{which}"
    ),
    r"No space left|Disk quota": "free some space, or set RUNSPEC_HOME to a folder on another disk",
    r"network was disabled": "UV_OFFLINE is set: unset it",
    r"was not found in the package registry": "check the spelling of its name. " + INDEX,
    NETWORK.pattern: "check that the package index can be reached. " + INDEX,
    r"Failed to build": "the package may need a compiler, a library or an older container.python{which}",
}


def failure(said: Sequence[str], log: Path) -> RemoteError:
    """Return the error for uv's last output *said*: its reason in one line, and a hint."""
    text = "\n".join(said)
    which = re.search(r"Using Python (\d[\w.]*)", text)
    hint = next((hint for pattern, hint in HINTS.items() if re.search(pattern, text)), "")
    hint = hint.replace("{which}", f" (this is Python {which[1]})" if which else "")
    way_out = f"{hint}; uv's whole output: {log}" if hint else f"uv's whole output: {log}"
    message = f"cannot build the environment: {_reason(said)}"
    short = message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"
    return RemoteError(short, way_out, transient=bool(NETWORK.search(text)))


def _reason(said: Sequence[str]) -> str:
    """Return uv's heading with its first and last cause, without those between."""
    starts = [n for n, line in enumerate(said) if BEGIN.match(line)]
    items: list[str] = []
    for line in said[starts[-1] :] if starts else [last_said("\n".join(said))]:
        text = line.strip()
        if SECTION.fullmatch(text) or text.startswith("hint:"):
            break
        if item := ITEM.match(text):
            items.append(item[1])
        elif text:
            items[-1:] = [" ".join([*items[-1:], text])]
    items = [item.rstrip(".:").replace("`", "'") for item in (*items, *_printed(said)) if item]
    return ": ".join(dict.fromkeys([*items[:2], *items[-1:]]))


def _printed(said: Sequence[str]) -> list[str]:
    """Return the last line that the build of a package printed: the last line of a traceback is its error."""
    sections = [n for n, line in enumerate(said) if SECTION.fullmatch(line.strip())]
    if not sections:
        return []
    printed = takewhile(lambda line: not line.strip().startswith("hint:"), said[sections[-1] + 1 :])
    return [last_said("\n".join(printed))]
