"""Replaces functions with side effects while a provider plans, to prove that planning is pure."""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial, wraps
from importlib import import_module
from typing import Any

import pytest

# The functions that are replaced, by what they access. References to them that a provider's own modules imported are
# replaced as well.
WAYS_OUT = {
    "the clock": "time.time time.time_ns time.monotonic time.monotonic_ns time.perf_counter "
    "time.perf_counter_ns time.process_time time.localtime time.gmtime time.ctime time.asctime "
    "time.strftime time.sleep",
    "dice": "os.urandom os.getrandom random.random random.randint random.randrange random.choice "
    "random.choices random.sample random.shuffle random.uniform random.getrandbits "
    "random.randbytes secrets.token_hex secrets.token_bytes secrets.token_urlsafe secrets.choice "
    "secrets.randbelow secrets.randbits uuid.uuid1 uuid.uuid4 uuid.getnode",
    "the disk": "builtins.open io.open os.open os.stat os.lstat os.listdir os.scandir os.access "
    "os.readlink os.getcwd os.mkdir os.rename os.replace os.unlink os.statvfs tempfile.mkdtemp "
    "tempfile.mkstemp",
    "the machine": "os.getpid os.getuid os.getlogin os.uname os.cpu_count os.sched_getaffinity "
    "socket.gethostname socket.getfqdn platform.node platform.uname getpass.getuser",
    "the network": "socket.socket.__init__ socket.create_connection socket.getaddrinfo "
    "socket.gethostbyname",
    "other programs": "subprocess.Popen.__init__ os.system os.fork os.posix_spawn os.execv",
}


class Touched(AssertionError):
    """A provider used something outside of its arguments while it checked or planned."""


@contextlib.contextmanager
def seal(package: str) -> Iterator[list[str]]:
    """Replace the functions for this thread; yield the list of those that are called, even if the error is caught.

    *package* is the import name of the provider. Let it plan once before, because modules that it imports while
    planning are read from disk.
    """
    touched: list[str] = []
    refuse = partial(_refuse, touched, threading.get_ident())
    with pytest.MonkeyPatch.context() as patch:
        walled = _build_wall(patch, refuse)
        # `from time import time` has made a reference of its own, which patching `time` does not reach.
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").partition(".")[0] == package:
                for name, value in list(vars(module).items()):
                    if (guard := walled.get(id(value))) is not None:
                        patch.setattr(module, name, guard)
        yield touched


def _build_wall(patch: pytest.MonkeyPatch, refuse: Callable[..., Any]) -> dict[int, Any]:
    """Replace the functions; return each replacement by the identity of the original."""
    walled: dict[int, Any] = {}
    for outside, names in WAYS_OUT.items():
        for name in names.split():
            owner, attribute = _find_owner(name)
            original = getattr(owner, attribute, None)
            if original is not None:
                walled[id(original)] = guard = refuse(original, f"{outside}: {name}")
                patch.setattr(owner, attribute, guard)
    environment = type(os.environ)
    # `get`, `in` and `items` all end in these two.
    for attribute in ("__getitem__", "__iter__"):
        original = getattr(environment, attribute)
        patch.setattr(environment, attribute, refuse(original, "the environment: os.environ"))
    for kind, ways in (
        (datetime.datetime, ("now", "utcnow", "today")),
        (datetime.date, ("today",)),
    ):
        name = f"the clock: datetime.{kind.__name__}"
        guards: dict[str, Any] = {
            method: classmethod(refuse(getattr(kind, method), f"{name}.{method}"))
            for method in ways
        }
        # The classes of datetime are written in C and cannot be changed, so a subclass takes their place.
        walled[id(kind)] = stopped = type(kind.__name__, (kind,), guards)
        patch.setattr(datetime, kind.__name__, stopped)
    return walled


def _find_owner(name: str) -> tuple[Any, str]:
    module, *inner, attribute = name.split(".")
    owner: Any = import_module(module)
    for part in inner:
        owner = getattr(owner, part)
    return owner, attribute


def _refuse(touched: list[str], thread: int, original: Callable[..., Any], name: str) -> Any:
    @wraps(original)
    def guard(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return original(*args, **kwargs)
        touched.append(name)
        raise Touched(f"the provider used {name} while it checked or planned")

    return guard
