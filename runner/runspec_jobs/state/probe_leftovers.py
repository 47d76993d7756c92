"""The resources that probes made and did not delete yet: each is noted in the file of its session before it is made."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs import record_formats
from runspec_jobs.errors import Conflict, NoAnswer, RemoteError, RunspecError
from runspec_jobs.provider import Client, Facts, Provider, Request
from runspec_jobs.provider.paths import find_home
from runspec_jobs.state import atomic_io

FORMAT = "runspec.probes/v1"
CLEAN_S = 900.0  # for all resources of a session: deleting a pool or a queue takes minutes
PAUSE_S = 2.0


class Left(NamedTuple):
    """A resource that a probe has made, or was about to make."""

    what: str
    by_hand: str
    remove: tuple[Request, ...]


class Session:
    """The resources of one session of probes. *options* are those of the account that has them."""

    def __init__(self, path: Path, options: Any, made: list[Left]) -> None:
        self.path, self.options, self.made = path, options, made

    @classmethod
    def begin(cls, provider: str, name: str, options: Any) -> Self:
        folder = find_file(provider)
        with atomic_io.translate_os_errors(folder):
            atomic_io.make_folder(folder)
        session = cls(folder / f"{name}.json", options, [])
        session._write()
        return session

    @classmethod
    def read(cls, path: Path) -> Self:
        content = json.loads(path.read_bytes())
        record_formats.check(content, FORMAT, str(path))
        made = [
            Left(
                fields["what"],
                fields["by_hand"],
                tuple(Request(**call) for call in fields["remove"]),
            )
            for fields in content["made"]
        ]
        return cls(path, content["options"], made)

    @property
    def name(self) -> str:
        return self.path.stem

    def note(self, left: Left) -> None:
        """Write *left* to disk; call this before the resource is made."""
        self.made.append(left)
        self._write()

    def clean(self, client: Client, tell: Callable[[str], None]) -> None:
        """Delete all noted resources, the newest first; those that cannot be deleted stay in `made` and on disk."""
        end = time.monotonic() + CLEAN_S
        # The newest first, because it may use older ones, as a job uses a queue.
        for left in reversed(self.made.copy()):
            why = _remove(client, left, end)
            if why is None:
                self.made.remove(left)
                self._write()
            else:
                tell(f"{left.what} still exists: {why}")
        if not self.made:
            with atomic_io.translate_os_errors(self.path):
                self.path.unlink(missing_ok=True)

    def _write(self) -> None:
        made = [
            {
                "what": leftover.what,
                "by_hand": leftover.by_hand,
                "remove": [call._asdict() for call in leftover.remove],
            }
            for leftover in self.made
        ]
        with atomic_io.translate_os_errors(self.path):
            content = {
                **record_formats.make_format_keys(FORMAT),
                "options": self.options,
                "made": made,
            }
            atomic_io.write(self.path, json.dumps(content).encode())


def _remove(client: Client, left: Left, end: float) -> str | None:
    """Delete *left*, and retry while it is in use; return why it cannot be deleted, or None if it is deleted."""
    for request in left.remove:
        while True:
            try:
                client.call(request)
                break
            except (Conflict, NoAnswer, RemoteError) as exc:
                # A conflict mostly means that the resource is still in use by one that is being deleted.
                passes = not isinstance(exc, RemoteError) or exc.transient
                if not passes or time.monotonic() > end:
                    return exc.message
            except RunspecError as exc:
                return exc.message
            time.sleep(PAUSE_S)
    return None


def find_file(provider: str) -> Path:
    return find_home() / "probes" / provider


def list_sessions(provider: str) -> list[Session]:
    """Return the sessions whose resources were not all deleted, the oldest first."""
    files = sorted(find_file(provider).glob("probe-*.json"), key=lambda path: path.stat().st_mtime)
    return [Session.read(path) for path in files]


def clean(session: Session, provider: Provider, tell: Callable[[str], None]) -> None:
    """Delete the resources of a session that was killed, in the account in which they were made."""
    # Those of the session: the profile may name another account by now.
    options = provider.options_model.model_validate(session.options)
    session.clean(provider.connect(Facts(options)), tell)


@contextlib.contextmanager
def lock_probes(provider: str) -> Iterator[bool]:
    """Hold the lock of *provider*'s probes and yield True, or yield False if another session holds it."""
    folder = find_file(provider)
    with atomic_io.translate_os_errors(folder):
        atomic_io.make_folder(folder)
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, atomic_io.PRIVATE_FILE)
    try:
        yield atomic_io.lock(fd, folder / "lock", wait=False)
    finally:
        os.close(fd)
