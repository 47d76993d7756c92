"""How a job on AWS Batch ends, rehearsed: exit codes, tries, reclaimed machines, cancelled arrays."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import (
    Capture,
    await_job,
    await_object,
    calls,
    ended,
    jobs,
    profile,
    write,
)

pytestmark = pytest.mark.slow


def test_the_exit_code_and_the_reason_are_those_of_the_job(region: Region, capsys: Capture) -> None:
    found = ended(capsys, write("echo so; exit 9"))

    assert (found["state"], found["exit_code"]) == ("failed", 9)
    assert "exited with code 9" in found["reason"]


def test_a_failure_is_tried_as_often_as_was_asked_for(region: Region, capsys: Capture) -> None:
    job = write('echo "try $RUNSPEC_ATTEMPT"; exit 4', retry={"attempts": 3})

    found = ended(capsys, job)

    assert (found["state"], found["exit_code"]) == ("failed", 4)
    assert [a["exitCode"] for a in jobs(region)[0]["attempts"]] == [75, 75, 4]
    run(["logs", "job"])
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("try")]
    assert said == ["try 1", "try 2", "try 3"]


def test_a_reclaimed_machine_is_no_failure_and_what_was_saved_is_there_again(
    region: Region, capsys: Capture
) -> None:
    job = write(
        'f=${outputs.state}/seen; echo "found $(cat $f 2>/dev/null)"; echo here > $f\n'
        '[ "$RUNSPEC_ATTEMPT" = 2 ] || sleep 60',
        outputs=[{"name": "state", "path": "/job/state", "sync": "1s"}],
        cluster={"capacity": "spot"},
    )
    assert run(["apply", job, "--detach"]) == 0
    name = await_job(region)
    time.sleep(3)  # until it is saved
    region.control("POST", "reclaim", {"jobId": name})

    assert run(["logs", "-f", "job"]) == 0

    captured = capsys.readouterr()
    assert "found here" in captured.out
    assert "1 of 2 attempts ended because the machine was reclaimed" in captured.err
    attempts = jobs(region)[0]["attempts"]
    assert len(attempts) == 2
    assert attempts[0]["statusReason"].startswith("Host EC2")


def test_a_sweep_is_one_call_and_each_task_has_its_values(region: Region, capsys: Capture) -> None:
    job = write(
        'echo "lr ${sweep.lr} seed ${sweep.seed}"; [ "${sweep.seed}" != 2 ] || exit 3',
        sweep={"lr": ["0.1", "0.01"], "seed": "1..2"},
    )

    found = ended(capsys, job)

    assert (found["state"], found["exit_code"]) == ("failed", 3)
    assert len(calls(region, "SubmitJob")) == 1
    run(["status", "job", "--json"])
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert [(n["task"], n["exit_code"]) for n in nodes] == [(0, 0), (1, 3), (2, 0), (3, 3)]


def test_cancel_ends_every_child_of_an_array(region: Region) -> None:
    job = write("sleep 60", sweep={"a": "1..3"})
    run(["apply", job, "--detach"])
    await_job(region)

    assert run(["cancel", "job"]) == 0

    assert [j["status"] for j in jobs(region)] == ["FAILED"] * 4
    assert not any(j["running"] for j in jobs(region))


def test_a_job_that_waits_says_why(region: Region, capsys: Capture) -> None:
    region.control("PUT", "settings", {"capacity": "none"})
    run(["apply", write("echo never"), "--detach"])
    time.sleep(0.5)
    capsys.readouterr()

    run(["status", "job"])

    assert "AWS has no such machine now" in capsys.readouterr().out
    run(["destroy", "job"])


def test_a_notice_leaves_time_to_save_what_only_sigterm_makes_a_job_save(
    region: Region, capsys: Capture
) -> None:
    """Nothing is saved on the way: no sync, and no file before the notice."""
    job = write(
        "f=${outputs.state}/step; [ ! -e $f ] || { echo on from $(cat $f); exit 0; }\n"
        "trap 'echo 41 > $f; exit 1' TERM; echo up; while :; do sleep 0.1; done",
        outputs=[{"name": "state", "path": "/job/state"}],
        cluster={"capacity": "spot"},
        retry={"attempts": 1},
    )
    assert run(["apply", job, "--detach"]) == 0
    region.control("POST", "reclaim", {"jobId": await_job(region), "notice_s": 30})

    assert run(["logs", "-f", "job"]) == 0

    captured = capsys.readouterr()
    assert "runspec: the machine will be reclaimed at 20" in captured.out
    assert "on from 41" in captured.out
    assert "1 of 2 attempts ended because the machine was reclaimed" in captured.err
    assert [a["exitCode"] for a in jobs(region)[0]["attempts"]] == [143, 0]


def test_a_task_of_fargate_spot_that_does_not_listen_is_tried_again(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    """By the words of its service alone: it was killed, and its code says nothing."""
    profile(tmp_path, fargate=True)
    job = write(
        'trap "" TERM; f=${outputs.state}/seen; [ ! -e $f ] || { echo on; exit 0; }\n'
        "echo here > $f; while :; do sleep 0.1; done",
        outputs=[{"name": "state", "path": "/job/state", "sync": "1s"}],
        cluster={"capacity": "spot"},
    )
    assert run(["apply", job, "--detach"]) == 0
    name = await_job(region)
    await_object(tmp_path, "seen")
    region.control("POST", "reclaim", {"jobId": name})

    assert run(["logs", "-f", "job"]) == 0

    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1].endswith("on")
    assert "1 of 2 attempts ended because the machine was reclaimed" in captured.err
    first = jobs(region)[0]["attempts"][0]
    assert (first["exitCode"], first["statusReason"]) == (137, "Your Spot Task was interrupted.")


def test_a_job_that_waits_in_vain_is_given_up(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    """After max_queue_wait, which is of the queue: nobody of ours has to be there."""
    profile(tmp_path, max_queue_wait="10m")
    region.control("PUT", "settings", {"capacity": "none", "limit_second_s": 0.002})

    found = ended(capsys, write("echo never"))

    assert found["state"] == "failed"
    assert "max_queue_wait has passed: AWS has no such machine now" in found["reason"]


OWN = {
    75: "exited with code 75",
    137: "exited with code 137 (SIGKILL: perhaps out of memory)",
    143: "exited with code 143 (SIGTERM)",
}


@pytest.mark.parametrize(
    "code", [*(pytest.param(code, marks=pytest.mark.matrix) for code in (75, 137)), 143]
)
def test_the_exit_code_of_a_program_on_spot_is_its_own(
    code: int, region: Region, capsys: Capture
) -> None:
    """No machine was reclaimed, so that no other attempt follows."""
    found = ended(capsys, write(f"exit {code}", cluster={"capacity": "spot"}))

    assert (found["state"], found["exit_code"]) == ("failed", code)
    assert found["reason"] == OWN[code]
    assert len(jobs(region)[0]["attempts"]) == 1


def test_a_timeout_saves_and_counts_as_a_failed_attempt(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    job = write(
        "trap 'exit 1' TERM; echo x > ${outputs.o}/checkpoint; while :; do sleep 0.1; done",
        timeout="2s",
        retry={"attempts": 2},
        outputs=[{"name": "o", "path": "/job/o"}],
    )

    found = ended(capsys, job)

    assert (found["state"], found["exit_code"]) == ("failed", 124)
    assert found["reason"] == "timeout: not done after 2 s"
    assert [a["exitCode"] for a in jobs(region)[0]["attempts"]] == [75, 124]
    assert run(["fetch", "job", "got"]) == 0
    assert [p.name for p in (tmp_path / "got").rglob("*") if p.is_file()] == ["checkpoint"]
