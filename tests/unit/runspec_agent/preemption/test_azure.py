"""The notice of a machine of Azure is seen, if it is this machine's and it is one that can be taken away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from runspec_agent.preemption.azure import EVENTS, ScheduledEventsWatcher
from tests.support.agent.metadata_services import AzureMachine
from tests.support.wait import until

pytestmark = pytest.mark.process


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureMachine]:
    monkeypatch.setattr(ScheduledEventsWatcher, "every_s", 0.01)
    with AzureMachine() as found:
        yield found


def event(kind: str, *machines: str, when: str = "Sun, 22 Nov 2026 00:30:00 GMT") -> dict[str, Any]:
    return {"EventType": kind, "Resources": list(machines), "NotBefore": when}


def begun(machine: AzureMachine, **env: str) -> ScheduledEventsWatcher:
    """Give one that has asked, and been told of nothing."""
    watch = ScheduledEventsWatcher({**machine.env(), **env})
    watch.start()
    until(lambda: machine.calls.count(("GET", EVENTS)) > 2)
    assert watch.notice is None
    return watch


def test_notices_are_polled_as_often_as_azure_recommends() -> None:
    assert ScheduledEventsWatcher.every_s == 1.0


@pytest.mark.parametrize("kind", ["Preempt", "Terminate"])
def test_a_notice_is_seen_when_it_comes(machine: AzureMachine, kind: str) -> None:
    watch = begun(machine)

    machine.tells(event(kind, "another_0", "VMSS_3"))

    watch.join(20)
    assert watch.notice == "Sun, 22 Nov 2026 00:30:00 GMT"


def test_a_notice_without_a_time_is_a_notice(machine: AzureMachine) -> None:
    watch = begun(machine)

    machine.tells(event("Preempt", "vmss_3", when=""))

    watch.join(20)
    assert watch.notice == "once"


@pytest.mark.parametrize(
    "other",
    [
        event("Preempt", "vmss_30"),  # all machines of a scale set hear of it
        event("Freeze", "vmss_3"),
        event("Reboot", "vmss_3"),
        {"EventType": "Preempt"},
        "text",
    ],
)
def test_events_about_other_machines_are_ignored(machine: AzureMachine, other: Any) -> None:
    watch = begun(machine)

    machine.tells(other)
    before = len(machine.calls)
    until(lambda: len(machine.calls) > before + 3)

    assert watch.notice is None
    machine.tells(event("Preempt", "vmss_3"))
    watch.join(20)
    assert watch.notice is not None


@pytest.mark.parametrize("text", ["", "[]", "{}", "<html>"])
def test_an_answer_that_is_none_is_asked_for_again(machine: AzureMachine, text: str) -> None:
    watch = begun(machine)
    machine.text = text
    before = len(machine.calls)
    until(lambda: len(machine.calls) > before + 3)

    machine.tells(event("Preempt", "vmss_3"))

    watch.join(20)
    assert watch.notice is not None


def test_a_machine_that_is_not_spot_is_not_asked(machine: AzureMachine) -> None:
    machine.tells(event("Preempt", "vmss_3"))
    watch = ScheduledEventsWatcher({**machine.env(), "AZ_BATCH_NODE_IS_DEDICATED": "true"})

    watch.start()

    watch.join(20)
    assert (watch.is_alive(), watch.notice, machine.calls) == (False, None, [])


def test_where_nobody_answers_nobody_is_asked_for_ever(
    machine: AzureMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScheduledEventsWatcher, "every_s", 0.0)
    machine.refuses = [410] * 1000
    watch = ScheduledEventsWatcher(machine.env())

    watch.start()

    watch.join(20)
    assert (watch.notice, len(machine.calls)) == (None, ScheduledEventsWatcher.misses)


def test_a_machine_says_whether_it_is_still_to_be_taken_away(machine: AzureMachine) -> None:
    watch = begun(machine)
    machine.tells(event("Preempt", "vmss_3"))
    watch.join(20)

    assert watch.still()
    machine.text = json.dumps({"DocumentIncarnation": 3, "Events": []})
    assert not watch.still()
    machine.refuses = [503]
    with pytest.raises(OSError, match="503"):
        watch.still()
