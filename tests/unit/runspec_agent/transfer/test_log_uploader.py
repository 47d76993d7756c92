"""What a try has said outlives its machine, and the next try's log does not take its place."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from runspec_agent.base.job_env import Failure
from runspec_agent.job.agent import Agent
from runspec_agent.store import base as module
from runspec_agent.store.base import Bucket
from runspec_agent.transfer import log_uploader
from runspec_agent.transfer.log_uploader import Log
from tests.support.agent.breakable_stores import Way

pytestmark = pytest.mark.process


@pytest.fixture
def said(tmp_path: Path) -> Path:
    path = tmp_path / "stdout.txt"
    path.write_text("one\n")
    return path


@pytest.mark.parametrize("given", ["the file", "its folder"])
def test_the_end_of_a_log_is_kept(bucket: Bucket, said: Path, given: str) -> None:
    """The last line too, with or without its end."""
    found = Log(bucket, str(said if given == "the file" else said.parent), "a/1.txt")
    found.once()
    with said.open("a") as stream:
        stream.write("last")

    found.finish()

    assert bucket.get("a/1.txt") == b"one\nlast"


def test_an_unchanged_log_is_not_uploaded_again(bucket: Bucket, way: Way, said: Path) -> None:
    found = Log(bucket, str(said), "a/1.txt")

    found.once()
    found.finish()

    assert way.count("PUT") == 1


def test_a_log_is_kept_while_it_grows(
    bucket: Bucket, said: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine may go without a word."""
    monkeypatch.setattr(log_uploader, "EVERY_S", 0.01)
    found = Log(bucket, str(said), "a/1.txt")
    kept: list[bytes] = []
    real = bucket.put_file

    def put_file(*how: object) -> None:
        real(*how)  # type: ignore[arg-type] # as it came
        kept.append(bucket.get("a/1.txt") or b"")
        found.over.set()

    monkeypatch.setattr(bucket, "put_file", put_file)

    found.start()
    found.join(20)

    assert kept == [b"one\n"]


def test_lines_printed_during_an_upload_are_in_the_next_one(
    bucket: Bucket, said: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that grows is no file that changed under us."""
    monkeypatch.setattr(module, "BLOCK", 1)
    found = Log(bucket, str(said), "a/1.txt")
    real = bucket.put_file

    def put_file(*how: object) -> None:
        with said.open("a") as stream:
            stream.write("two\n")
        real(*how)  # type: ignore[arg-type] # as it came

    monkeypatch.setattr(bucket, "put_file", put_file)

    found.once()

    assert bucket.get("a/1.txt") == b"one\n"


def test_a_log_that_cannot_be_kept_is_a_failure(bucket: Bucket, way: Way, said: Path) -> None:
    way.breaks("403", "PUT", times=100)

    with pytest.raises(Failure, match=r"the store refuses a/1.txt: 403"):
        Log(bucket, str(said), "a/1.txt").finish()


def test_a_message_of_the_agent_does_not_end_the_upload_of_a_log(
    bucket: Bucket, said: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says something long before the end: what is printed after that is kept while it grows, too."""
    monkeypatch.setattr(log_uploader, "EVERY_S", 0.01)
    agent = Agent.__new__(Agent)
    agent.log = Log(bucket, str(said), "a/1.txt")
    agent.log.start()

    agent.say("a machine may be taken away")
    said.write_text("one\ntwo\n")

    until = time.monotonic() + 20
    while bucket.get("a/1.txt") != b"one\ntwo\n":
        assert time.monotonic() < until, "it is not kept"
        time.sleep(0.01)
    agent.keep()
    agent.log.join(20)
    assert not agent.log.is_alive()
