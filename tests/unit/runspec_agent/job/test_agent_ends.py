"""How a node ends whose own program is not what ends the job: another node, a full store, or an elastic job."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_agent.base.failure import STOPPED, NoSpace
from runspec_agent.base.process import Signals
from runspec_agent.elastic import node
from runspec_agent.job.agent import Agent
from runspec_agent.store.folder import FolderBucket

RECORD: dict[str, Any] = {
    "run": "r",
    "nodes": 2,
    "slots": 1,
    "launch": "none",
    "attempts": 1,
    "ends": True,
    "sweep": [],
    "mounts": [],
    "outputs": [],
    "requirements": [],
    "build_constraints": [],
}
ENDS = "runs/r/ends/0/1/"


class FullBucket(FolderBucket):
    """A store that has no room for failures."""

    def put(self, key: str, content: bytes) -> None:
        if "/failures/" in key:
            raise NoSpace("the store is full")
        super().put(key, content)


class Succeeds(Agent):
    """The agent of a node whose program succeeds."""

    def _run(self, words: list[str], signals: Signals) -> int:
        self.ended_with = 0
        return 0


SIGNALS: Any = SimpleNamespace(stopping=False, wait=lambda seconds: [])


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def make_agent(folder: Path, kind: type[Agent], bucket: type[FolderBucket], **record: Any) -> Agent:
    env = {"RUNSPEC_RUN": "r", "RUNSPEC_JOB": "j", "RUNSPEC_ATTEMPT": "1", "RUNSPEC_INDEX": "0"}
    env["RUNSPEC_HOST"] = "h"
    store = bucket({"RUNSPEC_STORE": f"file://{folder}/store"})
    return kind(store, env, None, {**RECORD, **record})


def test_the_failure_of_another_node_is_the_end_of_the_job_also_in_a_full_store(
    tmp_path: Path,
) -> None:
    """The first node has succeeded, and its exit code is what the service sees of the job."""
    agent = make_agent(tmp_path, Succeeds, FullBucket, shape="nodes")
    agent.bucket.put("runs/r/gang/0/1/ended-1", b"3")

    with pytest.raises(NoSpace):
        agent.run([], SIGNALS)

    assert agent.in_full_store() == 3


class ElasticNode:
    """A node that has taken part in an elastic job as a test says."""

    code, leaving, timed_out = 124, False, False

    def __init__(self, agent: Agent, argv: list[str], signals: object) -> None:
        self.agent = agent

    def run(self) -> int:
        return self.code


def end_elastic(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: type[ElasticNode]
) -> tuple[int, list[str]]:
    """Return the exit code of a node of this kind, and the records of its end."""
    monkeypatch.setattr(node, "Elastic", kind)
    bounds = {"min": 1, "max": 2}
    agent = make_agent(folder, Agent, FolderBucket, shape="array", elastic=bounds)
    code = agent.note(agent.run([], SIGNALS), None)
    return code, [found.key[len(ENDS) :] for found in agent.bucket.listing(ENDS)]


@pytest.mark.parametrize(("timed_out", "cause"), [(True, "timeout"), (False, "program")])
def test_a_program_of_an_elastic_job_may_end_with_the_code_of_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timed_out: bool, cause: str
) -> None:
    """The record of its end says which of the two it was."""
    kind = type("Node", (ElasticNode,), {"timed_out": timed_out})

    assert end_elastic(tmp_path, monkeypatch, kind) == (124, [f"0-124-{cause}"])


def test_an_elastic_node_learns_at_once_that_it_was_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends as released, so that no service starts it again."""
    seen: list[bool] = []

    class Released(ElasticNode):
        code, leaving = STOPPED, True

        def run(self) -> int:
            seen.append(self.agent.is_released())
            self.agent.bucket.put("runs/r/released/0", b"")
            seen.append(self.agent.is_released())
            return self.code

    ended = end_elastic(tmp_path, monkeypatch, Released)

    assert seen == [False, True]
    assert ended == (0, [f"0-{STOPPED}-released"])
