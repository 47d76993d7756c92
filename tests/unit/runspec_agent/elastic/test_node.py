"""What a node's agent makes of its membership, where something goes wrong at the beginning of a generation."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runspec_agent.base import limits
from runspec_agent.base.job_env import LOST, Failure
from runspec_agent.base.process import Signals
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.elastic import node as module
from runspec_agent.elastic.node import Elastic
from runspec_agent.elastic.policy import DONE, RUNNING, Node, State, Timing
from runspec_agent.elastic.protocol import View
from runspec_agent.job.agent import Agent
from runspec_agent.store.folder import FolderBucket

ONE, TWO = Node("1", 1, "h1"), Node("2", 1, "h2")


class Member:
    """A membership that says what a test wants."""

    def __init__(self, rank: int) -> None:
        self.sees = View(1, RUNNING, rank, (ONE, TWO), "1", 0, "", False)
        self.timing = Timing.of(1.0, grace_s=30.0)
        self.error: Failure | None = None
        self.lives, self.silent = True, 0
        self.finished: list[tuple[int, int]] = []

    def view(self) -> View:
        return self.sees

    def is_alive(self) -> bool:
        return self.lives

    def committed(self) -> str:
        if self.silent:
            self.silent -= 1
            raise Failure("no answer", LOST)
        return ""

    def finish(self, generation: int, code: int) -> None:
        self.finished.append((generation, code))


class Engine:
    """A program that never runs."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.warm = None

    def start(self, turn: Any, env: object) -> None:
        self.started.append(turn.generation)

    def look(self) -> None: ...


@pytest.fixture
def node(tmp_path: Path) -> Callable[[int], Elastic]:
    """Make a node of the rank that is told, which has joined."""
    (tmp_path / "store").mkdir()
    (tmp_path / "elastic").mkdir()

    def one(rank: int) -> Elastic:
        env = {
            "RUNSPEC_HOSTFILE": str(tmp_path / "hostfile"),
            "RUNSPEC_MEMBERS": str(tmp_path / "members"),
        }
        record = {"elastic": {"min": 1, "max": 2}, "slots": 1, "launch": "none", "outputs": []}
        agent = SimpleNamespace(
            bucket=FolderBucket({"RUNSPEC_STORE": f"file://{tmp_path / 'store'}"}),
            env=env,
            record=record,
            at="runs/r/",
            place=TaskIdentity("j", 0, rank, 1),
            folder=str(tmp_path),
            tell=lambda text: None,
            notice=lambda: None,
            late=lambda: None,
        )
        signals = SimpleNamespace(wait=lambda seconds: [], stopping=False)
        found = Elastic(cast(Agent, agent), [], cast(Signals, signals))
        found.member = cast(Any, Member(rank))
        found.engine = cast(Any, Engine())
        return found

    return one


@pytest.mark.process
def test_a_store_that_is_silent_for_a_moment_costs_the_first_node_nothing(
    node: Callable[[int], Elastic],
) -> None:
    """A membership asks once, since it asks again with the next beat; here there is none."""
    first = node(0)
    member = cast(Member, first.member)
    member.silent = 2

    first.begin(member.sees)

    assert (cast(Engine, first.engine).started, member.silent) == ([1], 0)
    assert (first.env["RUNSPEC_LEADER"], first.env["RUNSPEC_NODES"]) == ("h1", "2")


def test_a_node_without_the_first_nodes_address_asks_for_a_new_generation(
    node: Callable[[int], Elastic], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trouble is the first one's: else all others would leave with it."""
    monkeypatch.setattr(limits, "ELASTIC_START_S", 0.01)
    other = node(1)
    member = cast(Member, other.member)

    other.begin(member.sees)

    assert (member.finished, cast(Engine, other.engine).started) == ([(1, LOST)], [])


def test_no_program_starts_for_a_generation_that_ended_while_files_were_restored(
    node: Callable[[int], Elastic], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To bring what was kept may take longer than the others wait."""
    other = node(1)
    member = cast(Member, other.member)
    other.bucket.put("runs/r/elastic/0/starts/1", json.dumps([1, ""]).encode())

    def restored(note: str) -> list[str]:
        member.sees = member.sees._replace(generation=2, rank=None)
        return []

    monkeypatch.setattr(other.kept, "restore", restored)  # it takes long

    other.begin(View(1, RUNNING, 1, (ONE, TWO), "1", 0, "", False))

    assert (cast(Engine, other.engine).started, other.turn) == ([], None)


@pytest.mark.parametrize(("launch", "meets"), [("mpi", True), ("torchrun", False)])
def test_nodes_of_an_mpi_generation_meet_in_a_folder_that_the_store_mirrors(
    node: Callable[[int], Elastic], launch: str, meets: bool
) -> None:
    """Other launchers need no more than the address of the first node."""
    other = node(1)
    other.record["launch"] = launch
    other.bucket.put("runs/r/elastic/0/starts/1", json.dumps([1, ""]).encode())

    other.begin(cast(Member, other.member).sees)

    assert ("RUNSPEC_MEET" in other.env) == meets
    if other.mirror is not None:
        Path(other.env["RUNSPEC_MEET"], "node-1").write_text("here")
        other.mirror.finish()
    met = other.bucket.get("runs/r/elastic/0/meet/1/node-1")
    assert met == (b"here" if meets else None)


def test_a_node_whose_membership_has_ended_by_a_mistake_goes(
    node: Callable[[int], Elastic],
) -> None:
    """It would sit there, lost to all others, until its time is over."""
    other = node(1)
    cast(Member, other.member).lives = False

    with pytest.raises(Failure, match="membership") as failure:
        other.stay()

    assert failure.value.code == LOST


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(
    ("code", "why", "timed_out"),
    [
        (124, "timeout: not done after 5 s", True),
        (124, "the program of h1 exited with 124", False),
        (0, "the program has exited with 0", False),
    ],
)
def test_each_node_knows_whether_its_job_has_reached_its_timeout(
    node: Callable[[int], Elastic], early: bool, code: int, why: str, timed_out: bool
) -> None:
    """Also those whose own time is not over, and one that starts when the job is over."""
    other = node(1)
    if early:
        cast(Member, other.member).sees = View(1, DONE, None, (ONE,), "1", code, why, False)
        ended = other.stay()
    else:
        state = State(1, 1, "1", phase=DONE, code=code, why=why)
        other.bucket.put("runs/r/elastic/0/state", state.to_bytes())
        ended = other.run()

    assert (ended, other.timed_out) == (code, timed_out)


@pytest.mark.process
def test_the_hosts_are_told_wherever_their_file_is(tmp_path: Path) -> None:
    """A name of a folder may have anything in it."""
    hosts = tmp_path / "it's $HOME" / "hosts"
    hosts.parent.mkdir()
    hosts.write_text("h1:8\n")

    script = module.discovery(str(hosts))

    done = subprocess.run(["/bin/sh"], input=script, capture_output=True, check=True)
    assert done.stdout == b"h1:8\n"
