"""How a run is comes from the queue, from what its nodes noted, and from both where one alone would be wrong."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from runspec_jobs.provider import NodeStatus, State, Status, Unavailable
from runspec_jobs.provider.node_ends import exited
from runspec_slurm import reasons, timing
from runspec_slurm.client import SlurmClient
from runspec_slurm.options import SlurmOptions
from runspec_slurm.queue import Past, Row
from runspec_slurm.status import states, workspace_poll
from runspec_slurm.status.workspace_poll import BATCH, AttemptKey, Note
from tests.support.slurm.forgetful_queue import forgetful


def row(state: str, reason: str = "None", code: int | None = 0, restarts: int = 0) -> Row:
    return Row("7", (0,), state, reason, code, restarts, 10.0, 20.0, "node1", "/w", "a")


def ended(
    rows: Sequence[Row],
    notes: Mapping[AttemptKey, Note] | None = None,
    codes: Mapping[AttemptKey, int] | None = None,
    *,
    nodes: int = 1,
    cancelled: bool = False,
    pasts: Sequence[Past] = (),
) -> Status:
    found = states.tasks(1, rows, notes or {}, codes or {}, pasts)
    assert all(task.over for task in found)
    each = [one for task in found for one in states.nodes(task, nodes, cancelled=cancelled)]
    return states.status(each, cancelled=cancelled)


def note(code: int, **more: object) -> Note:
    return {"code": code, "began_s": 11.0, "ended_s": 19.0, **more}


def test_a_job_that_ended_well_has_succeeded() -> None:
    found = ended(
        [row("COMPLETED")], {AttemptKey(0, 1, 0): note(0), AttemptKey(0, 1, BATCH): note(0)}
    )

    assert (found.state, found.exit_code, found.reason) == (State.SUCCEEDED, 0, "")
    assert found.nodes[0].attempts[0].began_s == 11.0


def test_a_job_that_the_controller_forgot_is_told_from_its_notes() -> None:
    assert ended([], {AttemptKey(0, 1, BATCH): note(0)}).state is State.SUCCEEDED
    assert ended([], {AttemptKey(0, 1, BATCH): note(7)})[:3] == (
        State.FAILED,
        "exited with code 7",
        7,
    )


def test_tasks_that_were_cancelled_by_name_before_they_began_are_cancelled() -> None:
    """Slurm does not say which they are; one that has ended, and that Slurm has forgotten, is none of them."""
    rows = [
        row("CANCELLED")._replace(nodes="", code=None),
        row("CANCELLED", code=15)._replace(tasks=(1,)),
    ]
    notes = {AttemptKey(2, 1, BATCH): note(0)}

    tasks = states.tasks(4, rows, notes, {})
    each = [one for task in tasks for one in states.nodes(task, 1, cancelled=False)]

    assert [one.state for one in each] == [
        State.CANCELLED,
        State.CANCELLED,
        State.SUCCEEDED,
        State.CANCELLED,
    ]
    assert not any(task.silent for task in tasks)
    assert [len(one.attempts) for one in each] == [0, 1, 1, 0], "what never began is no attempt"


def test_a_job_that_left_no_word_and_is_forgotten_has_failed_and_it_is_said_why() -> None:
    assert ended([])[:3] == (State.FAILED, reasons.FORGOTTEN, None)


def test_the_accounting_is_heard_where_nobody_else_knows() -> None:
    found = ended([], pasts=[Past(0, "NODE_FAIL", 0, 1.0, 2.0), Past(0, "FAILED", 9, 3.0, 4.0)])

    assert (found.state, found.exit_code) == (State.FAILED, 9)
    assert [(a.began_s, a.ended_s) for a in found.nodes[0].attempts] == [(3.0, 4.0)]


def test_each_try_has_its_own_code_and_a_lost_machine_is_no_failure() -> None:
    notes = {AttemptKey(0, 1, BATCH): note(75, again=True), AttemptKey(0, 3, BATCH): note(0)}

    found = ended([row("COMPLETED", restarts=2)], notes, {AttemptKey(0, 1, 0): 3})

    tries = found.nodes[0].attempts
    assert [(a.number, a.exit_code, a.reclaimed) for a in tries] == [
        (1, 3, False),
        (2, None, True),
        (3, 0, False),
    ]
    assert found.state is State.SUCCEEDED
    assert found.reason == f"1 of 3 attempts ended because {reasons.PREEMPTED}"


def test_a_node_that_was_told_to_end_since_another_failed_was_not_taken_away() -> None:
    notes = {
        AttemptKey(0, 1, 0): note(75),
        AttemptKey(0, 1, 1): note(143),
        AttemptKey(0, 1, BATCH): note(75, again=True),
        AttemptKey(0, 2, BATCH): note(0),
    }

    found = ended([row("COMPLETED", restarts=1)], notes, {AttemptKey(0, 1, 0): 3}, nodes=2)

    tries = [node.attempts[0] for node in found.nodes]
    assert [(a.exit_code, a.reason, a.reclaimed) for a in tries] == [
        (3, reasons.exited(3), False),
        (143, reasons.STOPPED, False),
    ]
    assert (found.state, found.reason) == (State.SUCCEEDED, "")


@pytest.mark.parametrize("code", [75, 124, 143])
def test_a_code_that_the_program_chose_means_nothing_else(code: int) -> None:
    """The record of its failure tells it from a code of the agent."""
    told = 1 if code == 75 else code  # what the agent exits with
    notes = {AttemptKey(0, n, rank): note(told) for n in (1, 2) for rank in (0, BATCH)}
    codes = {AttemptKey(0, n, 0): code for n in (1, 2)}

    found = ended([row("FAILED", "NonZeroExitCode", code, restarts=1)], notes, codes)

    assert found[:3] == (State.FAILED, exited(code), code)
    tries = [(a.exit_code, a.reason, a.reclaimed) for a in found.nodes[0].attempts]
    assert tries == [(code, exited(code), False)] * 2


def test_a_timeout_that_another_attempt_followed_is_told_as_one() -> None:
    late = {"cause": "timeout", "own": 124, "why": "timeout: not done after 2 s"}
    notes = {
        AttemptKey(0, 1, 0): note(143, cause="stopped"),
        AttemptKey(0, 1, BATCH): note(75, **late),
        AttemptKey(0, 2, 0): note(143, cause="stopped"),
        AttemptKey(0, 2, BATCH): note(124, **late),
    }
    codes = {AttemptKey(0, 1, 0): 124, AttemptKey(0, 2, 0): 124}

    found = ended([row("FAILED", "NonZeroExitCode", 124, restarts=1)], notes, codes)

    why = "timeout: not done after 2 s"
    assert found[:3] == (State.FAILED, why, 124)
    tries = [(a.exit_code, a.reason, a.reclaimed) for a in found.nodes[0].attempts]
    assert tries == [(124, why, False)] * 2


def test_a_timeout_of_an_elastic_job_is_told_as_one() -> None:
    """The note of its node names the cause alone."""
    notes = {AttemptKey(0, 1, rank): note(124, cause="timeout") for rank in (0, BATCH)}
    (task,) = states.tasks(1, [row("FAILED", "NonZeroExitCode", 124)], notes, {})

    (found,) = states.nodes(task._replace(timeout_s=20), 1, cancelled=False)

    assert (found.exit_code, found.reason) == (124, "timeout: not done after 20 s")


def test_a_killed_node_of_an_elastic_job_had_another_attempt() -> None:
    why = "the agent of node 0 was killed by signal 9"
    notes = {AttemptKey(0, 1, BATCH): note(75, why=why), AttemptKey(0, 2, BATCH): note(0)}

    found = ended([row("COMPLETED", restarts=1)], notes)

    assert found.nodes[0].attempts[0].reason == why


def test_each_node_has_its_own_code() -> None:
    notes = {
        AttemptKey(0, 1, 0): note(0),
        AttemptKey(0, 1, 1): note(7),
        AttemptKey(0, 1, BATCH): note(7),
    }

    found = ended([row("FAILED", "NonZeroExitCode", 7)], notes, nodes=2)

    assert [node.state for node in found.nodes] == [State.SUCCEEDED, State.FAILED]
    assert (found.state, found.exit_code) == (State.FAILED, 7)


def test_a_job_that_was_cancelled_is_no_failure() -> None:
    by_us = ended([row("CANCELLED")], {AttemptKey(0, 1, BATCH): note(143)}, cancelled=True)
    by_hand = ended([row("CANCELLED")])
    left = ended([row("FAILED", code=143)], {AttemptKey(0, 1, BATCH): note(143)}, cancelled=True)

    assert (by_us.state, by_us.reason) == (State.CANCELLED, states.BY_US)
    assert by_us.nodes[0].exit_code == 143  # as on every provider
    assert (by_hand.state, by_hand.reason) == (State.CANCELLED, reasons.BY_HAND)
    assert left.state is State.CANCELLED


def test_a_job_that_ended_by_itself_before_it_was_cancelled_keeps_its_end() -> None:
    done, failed = {AttemptKey(0, 1, BATCH): note(0)}, {AttemptKey(0, 1, BATCH): note(7)}

    assert ended([row("COMPLETED")], done, cancelled=True).state is State.SUCCEEDED
    assert ended([row("FAILED", code=7)], failed, cancelled=True).exit_code == 7


def test_a_dependency_that_can_never_hold_is_a_failure_and_no_cancellation() -> None:
    found = ended([row("CANCELLED", "DependencyNeverSatisfied")])

    assert (found.state, found.exit_code) == (State.FAILED, None)
    assert found.reason.startswith(reasons.NEVER)


ENDINGS = [state for state in reasons.ENDED if state != "CANCELLED"]


@pytest.mark.parametrize("state", ENDINGS)
def test_a_job_that_slurm_ended_has_failed(state: str) -> None:
    for notes in ({}, {AttemptKey(0, 1, BATCH): note(143)}):
        found = ended([row(state)], notes)

        assert (found.state, found.reason) == (
            State.FAILED,
            f"{reasons.ENDED[state]} ({state})",
        )


@pytest.mark.parametrize("state", ENDINGS)
def test_a_recorded_exit_code_counts_though_slurm_ended_the_job(state: str) -> None:
    """As a job one of whose processes was killed for its memory, and which went on to its end."""
    found = ended([row(state, code=9)], {AttemptKey(0, 1, BATCH): note(0)})

    assert (found.state, found.exit_code, found.reason) == (
        State.SUCCEEDED,
        0,
        reasons.afterwards(state),
    )
    assert not found.nodes[0].attempts[0].reclaimed


def test_a_node_that_was_lost_before_its_end_fails_though_another_had_ended_well() -> None:
    found = ended([row("NODE_FAIL")], {AttemptKey(0, 1, 0): note(0)}, nodes=2)

    assert [node.state for node in found.nodes] == [State.SUCCEEDED, State.FAILED]
    assert found.state is State.FAILED


@pytest.mark.parametrize(
    ("timeout_s", "said"),
    [
        (
            10,
            "timeout: not done after 10 s; Slurm ended it at its own limit, since the agent had not",
        ),
        (11, "timeout: Slurm ended it at its own limit: set timeout"),
        (None, "timeout: Slurm ended it at its own limit: set timeout"),
    ],
)
def test_a_job_that_slurm_ended_at_its_limit_is_a_timeout(timeout_s: int | None, said: str) -> None:
    """Its limit may have been changed, so that it was not the timeout that was over."""
    (task,) = states.tasks(1, [row("TIMEOUT")], {}, {})

    (found,) = states.nodes(task._replace(timeout_s=timeout_s), 1, cancelled=False)

    assert found.state is State.FAILED
    assert found.reason.startswith(said) and found.reason.endswith("(TIMEOUT)")


@pytest.mark.parametrize("state", ["EXPEDITING", "A_STATE_OF_TOMORROW"])
def test_a_state_that_slurm_did_not_have_yet_is_no_end(state: str) -> None:
    """A new one came with 25.11; an end that is told too soon is kept for good."""
    (task,) = states.tasks(1, [row(state)], {}, {})

    assert not task.over
    assert not states.going([task], ()).state.terminal


def test_an_accounting_that_missed_the_end_does_not_bring_a_job_back() -> None:
    """Runaway jobs, it calls them: sacctmgr show runaway."""
    found = ended([], pasts=[Past(0, "RUNNING", 0, 10.0, None)])

    assert (found.state, found.reason) == (State.FAILED, reasons.FORGOTTEN)


def test_a_job_that_could_not_be_started_has_no_code() -> None:
    """Without a folder for its output the code is 0:53, which no program has given."""
    found = ended([row("FAILED", "JobLaunchFailure", 128 + 53)])

    assert found.exit_code is None
    assert "could not be started" in found.reason


def test_why_the_batch_script_ended_a_job_is_told() -> None:
    why = "it took longer than its timeout of 60 s"

    found = ended([row("FAILED", code=124)], {AttemptKey(0, 1, BATCH): note(124, why=why)})

    assert why in found.reason


def test_a_node_whose_time_was_over_has_the_code_and_the_cause_of_that() -> None:
    """It was told to end, and knows no more; a node that ended by itself before keeps its own code."""
    over = note(124, why="it took longer than its timeout of 3 s")
    notes = {
        AttemptKey(0, 1, 0): note(143),
        AttemptKey(0, 1, 1): note(0),
        AttemptKey(0, 1, BATCH): over,
    }

    found = ended([row("FAILED", "NonZeroExitCode", 124)], notes, nodes=2)

    assert [node.exit_code for node in found.nodes] == [124, 0]
    assert (found.exit_code, found.reason.count("timeout of 3 s")) == (124, 1)


def test_the_node_that_failed_by_itself_is_the_reason_and_not_one_that_was_told_to_end() -> None:
    why = note(7, why="node 1 has ended with 7: the others are told to end")
    notes = {
        AttemptKey(0, 1, 0): note(143),
        AttemptKey(0, 1, 1): note(7),
        AttemptKey(0, 1, BATCH): why,
    }

    found = ended([row("FAILED", "NonZeroExitCode", 7)], notes, nodes=2)

    assert [node.exit_code for node in found.nodes] == [143, 7]
    assert (found.exit_code, found.reason) == (7, "exited with code 7")


def test_a_node_that_heard_of_the_failure_of_another_one_did_not_fail_by_itself() -> None:
    """Its agent ends with the code of that node, and counts the failure."""
    notes = {
        AttemptKey(0, 1, 0): note(3, own=143, cause="peer", why="node 1 has failed"),
        AttemptKey(0, 1, 1): note(3, own=3, cause="program"),
        AttemptKey(0, 1, BATCH): note(3),
    }
    codes = {AttemptKey(0, 1, 0): 3, AttemptKey(0, 1, 1): 3}

    found = ended([row("FAILED", "NonZeroExitCode", 3)], notes, codes, nodes=2)

    said = [(node.exit_code, node.reason) for node in found.nodes]
    assert said == [(143, reasons.STOPPED), (3, "exited with code 3")]
    assert (found.exit_code, found.reason) == (3, "exited with code 3")


def test_attempts_have_the_time_of_their_setup_and_keep_it() -> None:
    """An older version reads six fields of each attempt, and ignores the rest."""
    notes = {
        AttemptKey(0, 1, 0): note(3, own=3, cause="setup", setup_s=5),
        AttemptKey(0, 1, 1): note(3, own=143, cause="peer"),
        AttemptKey(0, 1, BATCH): note(3),
    }

    found = ended([row("FAILED", "NonZeroExitCode", 3)], notes, {}, nodes=2)

    assert [node.attempts[0].setup_s for node in found.nodes] == [5, None]
    kept = states.to_json(found)
    assert states.from_json(kept).nodes == found.nodes
    assert [len(node[-1][0]) for node in kept["nodes"]] == [6, 6]


def test_a_job_that_is_queued_again_waits_for_its_next_try() -> None:
    found = states.tasks(
        1, [row("PENDING", "BeginTime", restarts=1)], {AttemptKey(0, 1, BATCH): note(75)}, {}
    )
    nodes = tuple(states.nodes(found[0], 1, cancelled=False))

    assert states.going(found, nodes).state is State.WAITING
    assert (nodes[0].attempt, nodes[0].attempts[0].exit_code) == (2, 75)


def test_an_array_runs_while_some_of_its_tasks_wait() -> None:
    rows = [row("COMPLETED"), row("PENDING")._replace(tasks=(1, 2))]

    found = states.tasks(3, rows, {}, {})

    assert states.going(found, ()).state is State.RUNNING


def test_tasks_that_never_began_are_told_for_each_array() -> None:
    """Slurm 22.05 does not name them; an array that is not split is all of the run."""
    first, second = row("COMPLETED")._replace(tasks=(0, 1)), row("CANCELLED")._replace(nodes="")
    rows = [first, second._replace(job="8", tasks=(2,), offset=2)]

    found = states.tasks(4, rows, {}, {}, each=2)

    assert [task.state for task in found] == ["COMPLETED", "COMPLETED", "CANCELLED", "CANCELLED"]


def test_how_a_run_ended_comes_back_equal_from_the_workspace() -> None:
    found = ended([row("FAILED", code=7, restarts=1)], {AttemptKey(0, 2, BATCH): note(7)})

    assert states.from_json(json.loads(json.dumps(states.to_json(found)))) == found
    assert isinstance(found.nodes[0], NodeStatus)


def test_the_answer_of_a_workspace_poll_is_parsed() -> None:
    text = (
        'claim 7\njob 7\nlast {"state": "failed"}\nends/0/1/batch\nends/2/1/0\nends/2/1/.rs-0.part\n'
        "failures/0-0/1-139\n 12 logs/0-0.txt\n3 logs/0-batch.txt\n15 total\n"
    )

    found = workspace_poll.read(text)

    assert (found.claim, found.jobs, found.holder()) == ("7", {0: "7"}, "7")
    assert found.last == {"state": "failed"}
    assert found.ends == {AttemptKey(0, 1, BATCH), AttemptKey(2, 1, 0)}
    assert found.codes == {AttemptKey(0, 1, 0): 139}
    assert found.logs == {(0, 0): 12}
    assert workspace_poll.read("claim cancelled\n").holder() is None


def test_a_note_that_is_cut_off_is_none() -> None:
    text = 'ends/0/1/0:{"code": 0}\nends/0/1/1:{"co\n/dev/null:x\n'

    assert dict(workspace_poll.noted(text)) == {AttemptKey(0, 1, 0): {"code": 0}}


@pytest.mark.process
@pytest.mark.parametrize(
    ("claim", "age_s", "shown", "expected"),
    [
        ("7", 0, "", (State.WAITING, reasons.NOT_SHOWN)),
        ("7", 3600, "", (State.WAITING, reasons.NOT_KNOWN)),
        ("cancelled", 0, "", (State.CANCELLED, "it had not started")),
        ("7", 3600, "7|N/A|RUNNING|None|0|0|1|10|N/A|n1|/w|another", (State.WAITING, reasons.NOT_KNOWN)),
        ("7", 3600, "7|N/A|RUNNING|None|0|0|1|10|N/A|n1|/w|job-a1", (State.RUNNING, "")),
    ],
    ids=["just now", "long ago", "cancelled", "of another", "its own"],
)  # fmt: skip
def test_a_job_that_is_not_shown_is_not_lost_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    claim: str,
    age_s: int,
    shown: str,
    expected: tuple[State, str],
) -> None:
    """Sites put caches before squeue; and a controller that lost its state gives an id to another job."""
    client = forgetful(tmp_path, monkeypatch, claim, age_s, shown)

    found = client.state("job-a1")

    assert (found.state, found.reason) == expected


@pytest.mark.process
def test_a_job_that_nobody_knows_has_failed_when_nothing_came_of_it_for_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And even that is not kept in the workspace: a word that comes later is heard."""
    client, run = forgetful(tmp_path, monkeypatch, "7", 3600), tmp_path / "runs/job-a1"
    (run / "logs").mkdir()
    (run / "logs/0-0.txt").write_text("begun\n")
    early = client.state("job-a1")
    assert not (run / "missing").exists(), "a read has changed the workspace"
    assert client.reconcile("job-a1") == ()
    then = time.time() - 60 * timing.DEFAULT.unknown_min - 5
    for name in ("missing", "logs/0-0.txt", "record.json"):
        os.utime(run / name, (then, then))

    late = SlurmClient(client.options).state("job-a1")
    (run / "ends/0/1").mkdir(parents=True)
    (run / "ends/0/1/batch").write_text('{"code": 0}')
    after = SlurmClient(client.options).state("job-a1")

    assert (early.state, early.reason) == (State.RUNNING, reasons.NOT_KNOWN)
    assert (late.state, late.reason) == (State.FAILED, reasons.FORGOTTEN)
    assert after.state is State.SUCCEEDED


@pytest.mark.process
def test_new_output_of_an_unknown_job_shows_that_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a job that goes on while its controller has lost its state."""
    client, run = forgetful(tmp_path, monkeypatch, "7", 3600), tmp_path / "runs/job-a1"
    client.reconcile("job-a1")
    then = time.time() - 60 * timing.DEFAULT.unknown_min - 5
    os.utime(run / "missing", (then, then))
    (run / "logs").mkdir()
    (run / "logs/0-0.txt").write_text("at work\n")

    later = SlurmClient(client.options)

    assert later.state("job-a1").state is State.RUNNING
    later.reconcile("job-a1")
    assert (run / "missing").stat().st_mtime > then + 60, "the wait does not begin again"


@pytest.mark.process
@pytest.mark.parametrize("there", [False, True], ids=["no folder", "an empty folder"])
def test_a_run_whose_workspace_is_away_is_not_gone(tmp_path: Path, *, there: bool) -> None:
    """As of a file system that is not mounted."""
    client = SlurmClient(SlurmOptions(workspace=str(tmp_path / "w")))
    if there:
        (tmp_path / "w").mkdir()
    assert client.state("job-a1").state is State.GONE, "nobody has submitted it"
    client.remember("job-a1", {"job": {"job": "7"}})

    for ask in (client.state, client.cancel, client.outputs, client.streams):
        with pytest.raises(Unavailable, match="does not exist or is empty"):
            ask("job-a1")
    (tmp_path / "w/runs").mkdir(parents=True)
    assert client.state("job-a1").state is State.GONE


def test_a_code_in_a_name_is_an_exit_record() -> None:
    """A full workspace takes an empty file, and no more."""
    seen = workspace_poll.read("ends/0/1/0.5\nends/0/1/batch.5\n")

    found = ended([row("FAILED", "NonZeroExitCode", 5)], seen.short)

    assert seen.ends == {AttemptKey(0, 1, 0), AttemptKey(0, 1, BATCH)}
    assert found[:3] == (State.FAILED, f"exited with code 5: {workspace_poll.WHY_FULL}", 5)
