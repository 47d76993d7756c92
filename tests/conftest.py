"""The walls around every test: no network beyond this machine, no home, no settings of anybody."""

from __future__ import annotations

import functools
import gc
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import botocore.session
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings

from runspec_emulators.azure_services.blob import package
from tests.support import json_documents, process_guard
from tests.support.dealing_order import dealt

# Real builds share the real cache, or every test would fetch the world again.
REAL_CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
CACHES = {
    name: os.environ.get(name) or str(Path(REAL_CACHE) / tool)
    for name, tool in {"UV_CACHE_DIR": "uv", "PIP_CACHE_DIR": "pip"}.items()
}
AZURITE = package()

XDG = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_RUNTIME_DIR": ".run",
}
FORGOTTEN = (
    "RUNSPEC_PROFILE",
    "RUNSPEC_DEBUG",
    "COLORTERM",
    "FORCE_COLOR",
    "CLICOLOR_FORCE",
    "PYTHONDONTWRITEBYTECODE",
)


# How long an example takes says how busy the machine is. Property tests of the default run stay small.
settings.register_profile("runspec", deadline=None)
settings.load_profile("runspec")
# For a run that decides about a change: what it draws is what it drew before the change.
settings.register_profile("steady", deadline=None, derandomize=True)

# Every test has a session of its own, and each read the same megabytes of models anew: read once, like
# a program that has one session. A test that sets AWS_DATA_PATH has other models.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)


def pytest_configure() -> None:
    hear()
    process_guard.install()
    json_documents.install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    process_guard.begin(item)
    try:
        return (yield)
    finally:
        process_guard.end()


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    process_guard.mark(item)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Look for examples only in modules that have some: one in eight, and to look takes a fifth of the collection."""
    collectors = yield
    if file_path.suffix != ".py" or b">>> " in file_path.read_bytes():
        return collectors
    return [found for found in collectors if not isinstance(found, DoctestModule)]


def pytest_xdist_auto_num_workers() -> int:
    """Two tests for each processor: half of them wait for something."""
    return 2 * len(os.sched_getaffinity(0))


@pytest.hookimpl(trylast=True)  # when it is known which tests are slow, and which are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        items[:] = dealt(items, workers)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Look for no garbage among 15,000 tests that stay: that takes a quarter of the time of the collection."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.enable()
    gc.collect()
    gc.freeze()


def hear() -> None:
    """Have what the tests start hear Ctrl-C though they run in the background of a shell, or under nohup.

    What is ignored stays so in every program that is started; a handler does not. signal(7)
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


class NetworkTouched(RuntimeError):
    """A test tried to leave this machine."""


@pytest.fixture(autouse=True)
def _own_world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test an empty home and the same terminal everywhere."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("RUNSPEC_HOME", str(home / "runspec"))
    for name, place in XDG.items():
        monkeypatch.setenv(name, str(home / place))
    for name in FORGOTTEN:
        monkeypatch.delenv(name, raising=False)
    for name in [n for n in os.environ if n.startswith(("AWS_", "AZURE_", "SLURM_", "SBATCH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # this machine may have a role
    for name, place in CACHES.items():
        monkeypatch.setenv(name, place)
    if AZURITE is not None:
        monkeypatch.setenv("RUNSPEC_AZURITE", str(AZURITE))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "40")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("TZ", "UTC")
    # The commands of the environment under test come first, activated or not.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop what this process sends beyond loopback; what child processes do is not seen here."""
    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, _guarded(getattr(socket.socket, name)))
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not _here(host):
            _refuse(host)
        return real(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def _guarded(real: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: socket.socket, *args: Any) -> Any:
        address = args[-1]
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _here(address[0]):
            _refuse(address)
        return real(self, *args)

    return guarded


def _here(host: Any) -> bool:
    if isinstance(host, bytes):
        host = host.decode()
    if host in (None, "", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified or _own(str(address))


@functools.cache
def _own(address: str) -> bool:
    """Say whether it is this machine's, as a node may have it that is named by it: only such can be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _refuse(address: Any) -> NoReturn:
    raise NetworkTouched(f"a test must not leave this machine: {address}")
