"""How a node is, by what AWS Batch says of its job and what its agent has recorded."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_aws.job import EVALUATE
from runspec_aws.status.nodes import CANCELLED, Place, look, may_have_left, node, of_gang, places
from runspec_jobs.provider import NodeStatus, State
from runspec_jobs.provider.node_ends import NodeEnds, exited

EXITED = "Essential container in task exited"
PLACE = Place(0, 0, "j")


def attempt(code: int | None, *, over: bool = True) -> dict[str, Any]:
    container = {} if code is None else {"exitCode": code}
    times = {"startedAt": 1000, **({"stoppedAt": 5000} if over else {})}
    return {"container": container, "statusReason": EXITED, **times}


def job(status: str, *attempts: dict[str, Any]) -> dict[str, Any]:
    found = {"jobId": "j", "status": status, "attempts": list(attempts), "statusReason": EXITED}
    return {**found, "retryStrategy": {"evaluateOnExit": list(EVALUATE)}}


def shown(found: dict[str, Any], *names: str, alone: bool = True, **record: Any) -> NodeStatus:
    ends = NodeEnds({"ends": True, "timeout_s": 6, **record}, lambda: names, lambda _: [])
    look(ends, {"j": found}, [PLACE])
    return node(PLACE, found, lambda _: None, ends, alone=alone)


def test_children_of_an_array_are_the_nodes_of_one_task_after_the_other() -> None:
    record = {"shape": "array", "nodes": 2, "sweep": [["n", ["a", "b", "c"]]]}

    found = [(place.task, place.rank, place.job) for place in places("j", record)]

    assert found == [(n // 2, n % 2, f"j:{n}") for n in range(6)]


def test_a_recorded_success_counts() -> None:
    found = shown(job("SUCCEEDED", attempt(0)), "0/1/0-0-program")

    assert (found.state, found.exit_code, found.reason) == (State.SUCCEEDED, 0, "")


def test_attempts_have_the_time_of_their_setup() -> None:
    names = ("0/1/0-3-setup", "0/1/0-setup-5", "0/2/0-0-program", "0/2/0-setup-12")

    found = shown(job("SUCCEEDED", attempt(3), attempt(0)), *names)

    assert [one.setup_s for one in found.attempts] == [5, 12]


@pytest.mark.parametrize("names", [(), ("1/1/0-0-program",), ("0/1/1-0-program",), ("0/1/batch",)])
def test_a_success_without_a_record_is_a_failure_with_the_likeliest_reason(
    names: tuple[str, ...],
) -> None:
    """The image's ENTRYPOINT has swallowed the command, and nothing ran."""
    found = shown(job("SUCCEEDED", attempt(0)), *names)

    assert (found.state, found.exit_code) == (State.FAILED, None)
    assert "ENTRYPOINT did not pass the command on" in found.reason
    assert (found.attempts[0].exit_code, found.attempts[0].reason) == (None, found.reason)


def test_a_failure_hidden_by_an_entrypoint_counts() -> None:
    found = shown(job("SUCCEEDED", attempt(0)), "0/1/0-3-program")

    assert (found.state, found.exit_code) == (State.FAILED, 3)
    assert found.reason.startswith("exited with code 3 (AWS Batch reports success")


def test_a_run_of_an_older_version_is_read_as_before() -> None:
    found = shown(job("SUCCEEDED", attempt(0)), ends=None)

    assert (found.state, found.exit_code) == (State.SUCCEEDED, 0)


def test_the_main_node_alone_proves_the_success_of_a_gang() -> None:
    """The service ends the other nodes with it."""
    assert shown(job("SUCCEEDED", attempt(0)), alone=False).state is State.SUCCEEDED


@pytest.mark.parametrize("code", [2, 75, 77, 120, 124, 137, 143])
def test_a_programs_own_code_is_its_own(code: int) -> None:
    """The service sees another one, where it acts upon the program's."""
    found = shown(job("FAILED", attempt(1)), f"0/1/0-{code}-program")

    assert (found.exit_code, found.reason) == (code, exited(code))
    assert not found.attempts[0].reclaimed


@pytest.mark.parametrize("code", [None, 0, 137])
def test_a_failure_after_a_recorded_success_has_the_code_of_the_service(code: int | None) -> None:
    """The machine or the container failed between the record and its end: a failure has no exit code 0."""
    found = shown(job("FAILED", attempt(code)), "0/1/0-0-program")

    assert (found.state, found.exit_code) == (State.FAILED, code or None)
    assert found.reason


def test_a_timeout_is_told_with_its_seconds() -> None:
    found = shown(
        job("FAILED", attempt(75), attempt(124)), "0/1/0-124-timeout", "0/2/0-124-timeout"
    )

    assert (found.exit_code, found.reason) == (124, "timeout: not done after 6 s")
    assert [one.exit_code for one in found.attempts] == [124, 124]


def test_a_notice_is_no_failure() -> None:
    found = shown(
        job("SUCCEEDED", attempt(143), attempt(0)), "0/1/0-143-reclaimed", "0/2/0-0-program"
    )

    assert [(one.reclaimed, one.exit_code) for one in found.attempts] == [(True, 143), (False, 0)]


def test_an_attempt_that_has_not_stopped_is_not_over() -> None:
    """The service may list the one that runs."""
    found = shown(job("RUNNING", attempt(75), attempt(None, over=False)), "0/1/0-3-program")

    assert (found.state, found.attempt, len(found.attempts)) == (State.RUNNING, 2, 1)


def test_a_failure_without_a_record_says_that_the_agent_did_not_end_by_itself() -> None:
    """An ENTRYPOINT may fail before it starts anything."""
    found = shown(job("FAILED", attempt(127)))

    assert (found.state, found.exit_code) == (State.FAILED, 127)
    assert found.reason.startswith(
        "exited with code 127 (command not found); the agent recorded no end"
    )


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "timeout: not done after 6 s; AWS Batch ended it at its own limit of 146 s"),
        (("0/1/0-143-stopped",), "timeout: not done after 6 s; AWS Batch ended it"),
        (("0/1/0-3-program",), "exited with code 3 (Job attempt duration exceeded timeout)"),
    ],
)
def test_an_attempt_that_the_service_ended_at_its_limit_is_a_timeout(
    names: tuple[str, ...], said: str
) -> None:
    late = "Job attempt duration exceeded timeout"
    ended = job("FAILED", {**attempt(137), "statusReason": late})

    found = shown(
        {**ended, "statusReason": late, "timeout": {"attemptDurationSeconds": 146}}, *names
    )

    assert found.reason.startswith(said)
    assert found.attempts[0].reason == found.reason


@pytest.mark.parametrize(
    ("names", "left"),
    [((), True), (("0/1/0-143-stopped",), True), (("0/1/0-143-program",), False)],
)
def test_only_a_program_that_ends_with_143_has_not_left(names: tuple[str, ...], left: bool) -> None:
    """An agent that finds a request to stop leaves with 143, before AWS Batch has a reason for the end."""
    ends = NodeEnds({"ends": True, "timeout_s": 6}, lambda: names, lambda _: [])

    look(ends, {"j": job("FAILED", attempt(143))}, [PLACE])
    assert may_have_left(shown(job("FAILED", attempt(143)), *names), ends) is left


def test_a_program_that_used_too_much_memory_is_told_so_though_its_agent_recorded_the_end() -> None:
    """The agent sees SIGKILL alone."""
    ended = attempt(137)
    ended["container"]["reason"] = "OutOfMemoryError: Container killed due to memory usage"

    found = shown(job("FAILED", ended), "0/1/0-137-program")

    assert found.exit_code == 137
    assert found.reason.startswith("the container used more than its memory: raise cluster.memory")


def test_a_cancelled_node_has_the_code_that_its_agent_recorded() -> None:
    """Its program may have had another one, after it was told to end."""
    cancelled = {**job("FAILED", attempt(1)), "statusReason": CANCELLED}

    found = shown(cancelled, "0/1/0-143-stopped")

    assert (found.state, found.exit_code) == (State.CANCELLED, 143)


@pytest.mark.parametrize(
    ("cause", "state"), [("143-stopped", State.CANCELLED), ("3-program", State.FAILED)]
)
def test_all_nodes_of_a_cancelled_gang_are_cancelled_but_those_that_had_failed(
    cause: str, state: State
) -> None:
    names = ["0/1/0-143-stopped", f"0/1/1-{cause}"]
    ends = NodeEnds({"ends": True}, lambda: names, lambda _: [])
    main = {**job("FAILED", attempt(143)), "statusReason": CANCELLED}
    of = {"j#0": main, "j#1": job("FAILED", attempt(143))}
    places = [Place(0, rank, f"j#{rank}") for rank in range(2)]
    look(ends, of, places)

    nodes = tuple(node(at, of[at.job], lambda _: None, ends, alone=False) for at in places)

    assert [one.state for one in of_gang(nodes, ends)] == [State.CANCELLED, state]
