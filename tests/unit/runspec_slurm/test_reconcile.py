"""What reads leave alone, `reconcile` ends or notes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import State
from runspec_jobs.provider.node_ends import exited
from runspec_slurm import queue, reasons
from runspec_slurm.client import SlurmClient
from runspec_slurm.status import states
from tests.support.slurm.forgetful_queue import forgetful


@pytest.mark.process
def test_an_end_is_kept_by_reconcile_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, run = forgetful(tmp_path, monkeypatch, "7", 3600), tmp_path / "runs/job-a1"
    (run / "ends/0/1").mkdir(parents=True)
    (run / "ends/0/1/batch").write_text('{"code": 3}')

    found = client.state("job-a1")

    assert (found.state, found.exit_code) == (State.FAILED, 3)
    assert not (run / "last").exists(), "a read has changed the workspace"
    assert client.reconcile("job-a1") == ()
    assert states.from_json(json.loads((run / "last").read_text())) == found
    assert SlurmClient(client.options).state("job-a1") == found


@pytest.mark.process
def test_a_run_that_has_ended_or_is_nowhere_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, run = forgetful(tmp_path, monkeypatch, "7", 3600), tmp_path / "runs/job-a1"
    (run / "ends/0/1").mkdir(parents=True)
    (run / "ends/0/1/batch").write_text('{"code": 3}')
    client.reconcile("job-a1")

    later = SlurmClient(client.options)
    monkeypatch.setattr(later.jobs, "status", lambda run: pytest.fail(f"{run} is looked for"))

    assert later.reconcile("job-a1") == ()
    assert later.reconcile("job-b2") == ()


@pytest.mark.process
def test_a_second_job_of_a_run_is_ended_by_reconcile_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is there after a reply of sbatch was lost; the run is claimed for the first one before."""
    waits = "|N/A|PENDING|Priority|0|0|9|N/A|N/A||/w|job-a1|"
    client = forgetful(tmp_path, monkeypatch, "", 0, f"12{waits}\n7{waits}")
    run, called = tmp_path / "runs/job-a1", tmp_path / "called"
    (run / "claim").unlink()
    (tmp_path / "bin/scancel").write_text(f'#!/bin/sh\necho "$*" >>{called}\n')
    (tmp_path / "bin/scancel").chmod(0o700)

    assert client.jobs.find("job-a1") == {"job": "7"}
    assert client.state("job-a1").state is State.WAITING
    assert not called.exists(), "a read has ended a job"
    assert not (run / "claim").exists(), "a read has claimed the run"

    assert list(client.reconcile("job-a1")) == ["cancelled 1 job of the same run"]
    assert called.read_text() == "-- 12\n"
    assert (run / "claim").read_text() == "7"
    assert list(client.reconcile("job-a1")) == []


KILLED = "7|N/A|FAILED|RaisedSignal:9(Killed)|9|0|9|10|20|node1|/w|job-a1|"


def with_killed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    attempts: int,
    scontrol: str,
    state: str = "FAILED",
) -> SlurmClient:
    """Give a client of a run of which Slurm says that its batch script was killed."""
    client = forgetful(tmp_path, monkeypatch, "7", 0, KILLED.replace("FAILED", state))
    record = {"count": 1, "nodes": 1, "attempts": attempts}
    client.store.put("runs/job-a1/record.json", json.dumps(record).encode())
    (tmp_path / "bin/scontrol").write_text(
        f'#!/bin/sh\ncase "$*" in *show*) cat {tmp_path}/shown; exit ;; esac\n'
        f'echo "$*" >>{tmp_path}/called\n{scontrol}\n'
    )
    (tmp_path / "bin/scontrol").chmod(0o700)
    (tmp_path / "shown").write_text(f"JobId=7 JobState={state} Requeue=1 Restarts=0 ExitCode=0:9\n")
    return client


@pytest.mark.process
def test_a_killed_batch_script_is_requeued_once_by_reconcile_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that would have done it is dead. Another client may have been faster."""
    client = with_killed(tmp_path, monkeypatch, 2, "")
    failure = tmp_path / "runs/job-a1/failures/0-0/1-137"

    found = client.state("job-a1")

    assert (found.state, found.reason) == (State.WAITING, reasons.KILLED)
    assert not failure.exists() and not (tmp_path / "called").exists(), (
        "a read has changed something"
    )
    assert list(client.reconcile("job-a1")) == ["requeued job 7, whose batch script was killed"]
    assert ((tmp_path / "called").read_text(), failure.exists()) == ("requeue 7\n", True)

    (tmp_path / "shown").write_text("JobId=7 JobState=PENDING Requeue=1 Restarts=1 ExitCode=0:0\n")
    failure.unlink()
    assert list(client.reconcile("job-a1")) == []
    assert ((tmp_path / "called").read_text(), failure.exists()) == ("requeue 7\n", False)


@pytest.mark.process
@pytest.mark.parametrize(
    ("held", "state", "asked"),
    [
        ("600M", "FAILED", "1200"),
        ("2G", "FAILED", "3000"),
        ("3000M", "FAILED", None),
        ("0", "FAILED", None),
        ("600M", "OUT_OF_MEMORY", "1200"),
    ],
)
def test_a_requeued_job_asks_for_as_much_memory_as_its_rule_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: str, state: str, asked: str | None
) -> None:
    """The batch script that would have asked for it was killed: by the kernel, if Slurm says so."""
    client = with_killed(tmp_path, monkeypatch, 2, "", state)
    growth = {"action": "retry", "memory": {"grow": 2, "most": 3000 << 20}}
    rule = {"reason": "oom"} if state == "OUT_OF_MEMORY" else {"codes": [[137, 137]]}
    record = {"count": 1, "nodes": 1, "attempts": 2, "retry_on": [{**rule, **growth}]}
    client.store.put("runs/job-a1/record.json", json.dumps(record).encode())
    shown = tmp_path / "shown"
    shown.write_text(shown.read_text().replace("\n", f" MinMemoryNode={held} MinTmpDiskNode=0\n"))
    client.state("job-a1")

    list(client.reconcile("job-a1"))

    update = [f"update JobId=7 MinMemoryNode={asked}"] if asked else []
    assert (tmp_path / "called").read_text().splitlines() == ["requeue 7", *update]


@pytest.mark.process
def test_a_run_that_is_destroyed_before_its_requeue_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, run = with_killed(tmp_path, monkeypatch, 2, ""), tmp_path / "runs/job-a1"
    requeue = client.jobs.queue.requeue

    def late(*args: Any) -> bool:
        shutil.rmtree(run)
        return requeue(*args)

    monkeypatch.setattr(client.jobs.queue, "requeue", late)

    assert list(client.reconcile("job-a1")) == []
    assert not run.exists() and not (tmp_path / "called").exists()


@pytest.mark.process
def test_a_killed_batch_script_without_attempts_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = with_killed(tmp_path, monkeypatch, 1, "")

    assert client.state("job-a1")[:3] == (State.FAILED, exited(137), 137)
    assert list(client.reconcile("job-a1")) == []
    assert not (tmp_path / "called").exists()


@pytest.mark.process
def test_a_killed_job_that_slurm_does_not_requeue_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = "Requested operation is presently disabled for job 7"
    client = with_killed(tmp_path, monkeypatch, 2, f'echo "{refusal}" >&2; exit 1')

    (line,) = client.reconcile("job-a1")

    assert line.startswith("7: another attempt was due, but the job cannot be requeued: ")
    client.jobs.forget("job-a1")
    found = client.state("job-a1")
    assert (found.state, found.exit_code) == (State.FAILED, 137)
    assert refusal in found.reason


@pytest.mark.process
def test_a_killed_job_of_a_cancelled_run_is_not_requeued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = with_killed(tmp_path, monkeypatch, 3, "")
    client.store.put("runs/job-a1/claim", b"cancelled")
    client.store.put("runs/job-a1/job", b"7")

    client.reconcile("job-a1")

    assert not (tmp_path / "called").exists()
    assert client.state("job-a1").state.terminal


@pytest.mark.process
def test_the_queue_is_read_without_making_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = forgetful(tmp_path, monkeypatch, "7", 0)
    away = SlurmClient(client.options.model_copy(update={"workspace": f"{tmp_path}/away"}))

    assert away.queue.of_name("job-a1") == []
    assert away.queue.all() == []

    assert not (tmp_path / "away").exists()


@pytest.mark.process
def test_of_two_machines_that_keep_an_end_the_first_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, run = forgetful(tmp_path, monkeypatch, "7", 3600), tmp_path / "runs/job-a1"
    (run / "ends/0/1").mkdir(parents=True)
    (run / "ends/0/1/batch").write_text('{"code": 3}')
    ended = client.state("job-a1")
    first = ended._replace(reason="as another machine has seen it")
    (run / "last").write_text(json.dumps(states.to_json(first)))

    client.jobs.keep("job-a1")

    assert client.state("job-a1") == first


@pytest.mark.process
@pytest.mark.parametrize(
    ("attempts", "most", "before", "counted"),
    [
        ("1", 2, (), {"0", "3", "5", "6"}),
        ("2", 2, (), {"3", "5", "6"}),
        ("2 refused", 2, (), {"0", "3", "5", "6"}),
        ("1", 1, ("1",), {"1"}),
        ("1", 2, ("0",), {"0", "3", "5", "6"}),
    ],
)
def test_tasks_that_were_killed_with_their_agents_count_for_max_failed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    attempts: str,
    most: int,
    before: tuple[str, ...],
    counted: set[str],
) -> None:
    """Not one that has another attempt, was stopped or told to end, or ended once the limit was reached.

    Task 5 has the code that Slurm gives a job that it ends at its time limit, 6 lost its nodes in its last attempt,
    and 7 has just asked to be requeued.
    """
    scontrol = "exit 1" if "refused" in attempts else ""
    client, run = with_killed(tmp_path, monkeypatch, 1, scontrol), tmp_path / "runs/job-a1"
    lines = [
        KILLED.replace("N/A", "0", 1),
        KILLED.replace("N/A", "1", 1).replace("|9|0|9|", "|143|0|0|"),
        KILLED.replace("N/A", "2", 1),
        KILLED.replace("N/A", "3", 1).replace("FAILED", "NODE_FAIL"),
        KILLED.replace("N/A", "4", 1).replace("FAILED", "RUNNING"),
        KILLED.replace("N/A", "5", 1).replace("|9|0|9|", "|15|0|9|").replace("FAILED", "TIMEOUT"),
        *(KILLED.replace("N/A", n, 1).replace("|9|0|9|", "|19200|0|9|") for n in "67"),
    ]
    for number, note in ((6, {"code": 75, "why": "lost"}), (7, {"code": 75, "again": True})):
        client.store.put(f"runs/job-a1/ends/{number}/1/batch", json.dumps(note).encode())
    squeue = "\n".join(lines).replace("|", queue.BETWEEN)
    (tmp_path / "bin/squeue").write_text(f"#!/bin/sh\necho '{squeue}'\n")
    record = {"count": 8, "nodes": 1, "attempts": int(attempts[0]), "max_failed": most}
    client.store.put("runs/job-a1/record.json", json.dumps(record).encode())
    client.store.put("runs/job-a1/stop/2", b"")
    for task in before:
        client.store.put(f"runs/job-a1/failed/{task}", b"")

    assert client.state("job-a1").state is State.RUNNING
    assert {path.name for path in run.glob("failed/*")} == set(before), "a read has counted"

    client.reconcile("job-a1")
    client.reconcile("job-a1")

    assert {path.name for path in run.glob("failed/*")} == counted
