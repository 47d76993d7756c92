"""One run of one spec, which the engine makes and destroys."""

from __future__ import annotations

import contextlib
import copy
import os
import string
import time
from collections.abc import Callable, Iterator

from runspec_jobs.engine import adopt, apply
from runspec_jobs.errors import RemoteError, UnknownOutcome
from runspec_jobs.load.profile import Profile
from runspec_jobs.plan import model
from runspec_jobs.provider import (
    Client,
    Facts,
    Progress,
    Response,
    Scope,
    Spec,
    Status,
    SupportsAdoption,
    SupportsLogs,
)
from runspec_jobs.provider.streams.log_streams import Chunk, Stream
from runspec_jobs.state import atomic_io
from runspec_jobs.state.journal import Journal
from runspec_jobs.testing.faults import LightsOut
from runspec_jobs.testing.world import World

PAUSE_S = 0.05
DIGITS = string.digits + string.ascii_lowercase  # see record.TOKEN
AGAIN = 5  # the most times that a command is repeated until it succeeds


def token(number: int) -> str:
    """Return the token of a run that no other process uses, because tests on one machine may see each other's jobs."""
    # Three digits of base 36 hold 46,656 process ids; larger ones wrap around.
    return f"{_write_number(os.getpid())}{_write_number(number)}"


def _write_number(number: int) -> str:
    """Write *number* in three of the digits of a token.

    >>> _write_number(1), _write_number(46_655), _write_number(46_656)
    ('001', 'zzz', '000')
    """
    return "".join(DIGITS[number // 36**digit % 36] for digit in (2, 1, 0))


class Quiet:
    """A progress reporter that prints nothing."""

    def step(self, title: str) -> None:
        pass

    def progress(self, title: str) -> Progress:
        return lambda done, whole: None


class Trial:
    """A run of *spec* in *world*; *wrap* wraps the client that makes it."""

    def __init__(
        self,
        world: World,
        spec: Spec,
        token: str,
        wrap: Callable[[Client], Client] = lambda client: client,
    ) -> None:
        facts = self.facts = world.facts(spec)
        self.world, self.spec = world, spec
        self.plan = model.make_plan(world.provider, spec, token, facts)
        self.client = world.connect(facts)
        self.hands = apply.ApplyContext(
            wrap(self.client), Quiet(), world.bundles(spec), sleep=lambda s: time.sleep(min(s, 0.1))
        )
        self.folder = world.folder / "journals" / self.plan.run
        atomic_io.make_folder(self.folder)

    @property
    def run(self) -> str:
        return self.plan.run

    def keep(self, text: bytes) -> None:
        """Write the state of the run, whose spec is *text*, to the store when the run is made."""
        state = adopt.format_state(text, self.plan, self.facts, time.time())
        self.hands = self.hands._replace(state=state)

    def adopted(self) -> Trial:
        """Adopt the run on another machine, whose state folder is that of this process, with the same settings.

        Raises the errors of `runspec adopt`.
        """
        options, provider = self.facts.options, self.world.provider
        store = self.world.connect(Facts(options))
        assert isinstance(store, SupportsAdoption), "this client does not support adoption"
        content = store.kept_state(self.run)
        assert content is not None, "the store has no state of this run"
        in_use = Profile(providers={provider.name: options.model_dump(mode="json")})
        adopted = adopt.convert_state(adopt.read(content, self.run), provider, in_use)
        # Everything else is that of the first machine: the world, the spec and the clock.
        other = copy.copy(self)
        other.plan, other.client = adopted.plan, self.world.connect(adopted.facts)
        other.hands = self.hands._replace(client=other.client, bundles={}, state=None)
        other.folder = adopt.put_on_record(adopted, self.world.folder, None).folder
        with other.journal() as journal:
            adopt.look(other.plan, journal, other.client)
        return other

    def make(self) -> None:
        with self.journal() as journal:
            apply.make(self.plan, journal, self.hands)

    def cancel(self) -> Status:
        """Cancel the run, and wait until it has ended."""
        with self.journal() as journal:
            return apply.cancel(self.plan, journal, self.hands)

    def destroy_run(self) -> None:
        """Destroy the run, but not the resources that it shares with others."""
        with self.journal() as journal:
            apply.destroy(self.plan, journal, self.hands)

    def destroy(self) -> None:
        """Destroy the run and then the resources that it shares with others."""
        self.destroy_run()
        with self.journal() as journal:
            site = [step for step in self.plan.steps if step.scope is Scope.SITE]
            apply.undo(site, journal, self.hands)

    def answers(self) -> dict[str, Response]:
        """Return the answer of every step that was made, from the journal."""
        with self.journal() as journal:
            return dict(journal.memory.answers)

    def find_all(self) -> dict[str, Response | None]:
        """Return what `find` returns for every step."""
        return {step.id: self.client.find(step) for step in self.plan.steps}

    def left(self) -> list[str]:
        """Return the ids of the steps that have an undo and are still found."""
        existing = self.find_all()
        return [s.id for s in self.plan.steps if s.undo and existing[s.id] is not None]

    def wait(self) -> Status:
        """Wait until the run has ended, and return its status."""
        return self.until(lambda status: status.state.terminal)

    def until(self, there: Callable[[Status], bool]) -> Status:
        """Wait until *there* accepts the status of the run, and return it."""
        end = time.monotonic() + self.world.limit_s
        while not there(status := self.client.state(self.run)):
            assert time.monotonic() < end, f"{status} after {self.world.limit_s:g} s"
            time.sleep(PAUSE_S)
        return status

    def log(self, task: int = 0, rank: int = 0) -> bytes:
        """Return the log of one node so far."""
        assert isinstance(self.client, SupportsLogs), "this client reads no logs"
        for stream in self.client.streams(self.run):
            if (stream.task, stream.rank) == (task, rank):
                return b"".join(chunk.data for chunk in read_chunks(stream))
        return b""

    @contextlib.contextmanager
    def journal(self) -> Iterator[Journal]:
        journal = Journal(self.folder)
        try:
            yield journal
        finally:
            journal.close()


def read_chunks(stream: Stream) -> Iterator[Chunk]:
    """Yield the chunks of *stream* so far, or all of them if its run has ended."""
    position: str | None = None
    while (chunk := stream.read(position)).data or chunk.more:
        if chunk.data:
            yield chunk
        else:
            time.sleep(PAUSE_S)
        position = chunk.position


def persist(command: Callable[[], None]) -> int:
    """Repeat *command* until it succeeds, as a user would; return the number of calls."""
    for times in range(1, AGAIN + 1):
        try:
            command()
        except (UnknownOutcome, RemoteError, LightsOut):
            if times == AGAIN:
                raise
        else:
            return times
    raise AssertionError("BUG: the last attempt neither succeeded nor raised")
