"""The notice of a spot machine is seen, and a job has nothing to suffer from asking for it."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from runspec_agent.preemption.ec2 import Ec2PreemptionWatcher
from tests.support.agent.metadata_services import NOTICE, Machine
from tests.support.wait import until

pytestmark = pytest.mark.process

ACTION = ("GET", "/latest/meta-data/spot/instance-action")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setattr(Ec2PreemptionWatcher, "every_s", 0.01)
    with Machine() as found:
        yield found


def test_notices_are_polled_as_often_as_ec2_recommends() -> None:
    assert Ec2PreemptionWatcher.every_s == 5.0


def test_a_notice_is_seen_when_it_comes(machine: Machine) -> None:
    """With one token for all, and no question after it."""
    watch = Ec2PreemptionWatcher(machine.env())
    watch.start()
    until(lambda: machine.calls.count(ACTION) > 3)
    before = watch.notice

    machine.ends = NOTICE

    watch.join(20)
    assert (before, watch.notice) == (None, "2026-11-21T20:22:00Z")
    assert len([call for call in machine.calls if call[0] == "PUT"]) == 1


def test_a_token_that_is_good_no_more_is_replaced(machine: Machine) -> None:
    watch = Ec2PreemptionWatcher(machine.env())
    watch.start()
    until(lambda: machine.calls.count(ACTION) > 1)

    machine.refuses = [401]
    machine.ends = NOTICE

    watch.join(20)
    assert watch.notice is not None
    assert len([call for call in machine.calls if call[0] == "PUT"]) == 2


def test_a_machine_that_answered_once_is_asked_for_ever(machine: Machine) -> None:
    """However long it says nothing then."""
    watch = Ec2PreemptionWatcher(machine.env())
    watch.start()
    until(lambda: ACTION in machine.calls)

    machine.refuses = [503] * 20
    until(lambda: not machine.refuses)
    machine.ends = NOTICE

    watch.join(20)
    assert watch.notice is not None


@pytest.mark.parametrize("status", [403, 404, 500])
def test_where_no_token_is_given_nobody_is_asked_for_long(machine: Machine, status: int) -> None:
    machine.refuses = [status] * 100
    watch = Ec2PreemptionWatcher(machine.env())

    watch.start()

    watch.join(20)
    assert (watch.notice, len(machine.calls)) == (None, Ec2PreemptionWatcher.misses)


def test_a_silent_metadata_service_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is one hop too far: what is sent is never answered."""
    monkeypatch.setattr(Ec2PreemptionWatcher, "every_s", 0.01)
    monkeypatch.setattr(Ec2PreemptionWatcher, "answer_s", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        watch = Ec2PreemptionWatcher(
            {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://127.0.0.1:{port}"}
        )

        watch.start()

        watch.join(20)
    assert (watch.notice, watch.is_alive()) == (None, False)


@pytest.mark.parametrize("text", ["", "[]", "{}", "<html>", "\xff"])
def test_an_answer_without_a_notice_is_ignored(machine: Machine, text: str) -> None:
    """A proxy that answers everything with 200, say."""
    machine.ends = text
    watch = Ec2PreemptionWatcher(machine.env())

    watch.start()

    watch.join(20)
    assert (watch.notice, watch.is_alive()) == (None, False)


def test_a_job_may_say_that_there_is_nothing_to_ask(machine: Machine) -> None:
    watch = Ec2PreemptionWatcher({**machine.env(), "AWS_EC2_METADATA_DISABLED": "True"})

    watch.start()

    watch.join(20)
    assert (watch.is_alive(), machine.calls) == (False, [])


def test_an_address_that_is_none_ends_the_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ec2PreemptionWatcher, "every_s", 0.01)
    watch = Ec2PreemptionWatcher({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://[x:y"})

    watch.start()

    watch.join(20)
    assert not watch.is_alive()
