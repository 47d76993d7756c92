"""Nodes that come and go on AWS Batch: children of one array on spot, each tried again by itself."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from runspec_agent.base.end_causes import AWAY
from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from runspec_jobs.provider.elastic_tasks import NOT_NEEDED
from tests.support.agent.elastic_nodes import accounted, fixed, generations, sgd, stepped, went
from tests.support.agent.elastic_sgd import OWN
from tests.support.aws.emulated_account import BUCKET, REGION, Capture, calls, jobs, write
from tests.support.profiles import priced

pytestmark = pytest.mark.slow
STEPS, LIMIT_S = 1500, 120.0


def state(folder: Path) -> dict[str, Any]:
    """Give what the leader has written last."""
    s3 = boto3.client("s3", region_name=REGION)
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{folder.name}/runs/").get("Contents", ())
    for entry in found:
        if entry["Key"].endswith("/elastic/0/state"):
            body = s3.get_object(Bucket=BUCKET, Key=entry["Key"])["Body"].read()
            said: dict[str, Any] = json.loads(body)
            return said
    return {}


def members(folder: Path, capsys: Capture) -> list[int]:
    """Give which nodes the generation has that runs, once it has done a step; none while one forms."""
    if not (here := running(folder)):
        return []
    stood = stepped(asked(capsys, "status")["changes"], state(folder)["generation"])
    return here if stood else []


def running(folder: Path) -> list[int]:
    """Give which nodes the generation has that runs; none while one forms."""
    found = state(folder)
    members = found["members"] if found.get("phase") == "running" else ()
    return sorted(int(member[0].partition("-")[0]) for member in members)


def asked(capsys: Capture, verb: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([verb, "job", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.3)


def test_training_goes_on_while_spot_machines_are_taken_away(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    """One of three with two minutes' notice, and one without; what is computed is what one process computes."""
    argv = sgd(tmp_path, STEPS, 0.05)
    priced("aws-batch", 3.6)
    text = 'touch "$RUNSPEC_OUTPUT_OUT/of-$RUNSPEC_RANK"; exec ' + " ".join(argv)
    fields = {
        "cluster": {"nodes": {"min": 1, "max": 3}, "capacity": "spot"},
        "outputs": [{"name": "out", "path": "/job/out", "sync": "1s"}, OWN],
    }
    assert run(["apply", write(text, **fields), "--detach"]) == 0
    child = {
        int(job["id"].rpartition(":")[2]): job["id"] for job in jobs(region) if ":" in job["id"]
    }
    until(lambda: members(tmp_path, capsys) == [0, 1, 2], "three run")
    first = state(tmp_path)["generation"]
    for lost, notice_s in ((1, 60), (0, 0)):
        before = state(tmp_path)["generation"]
        region.control("POST", "reclaim", {"jobId": child[lost], "notice_s": notice_s})
        until(lambda: state(tmp_path)["generation"] > before, f"{lost} goes")  # noqa: B023
        until(lambda: members(tmp_path, capsys) == [0, 1, 2], f"{lost} comes back")
    capsys.readouterr()
    run(["logs", "job"])
    assert "runspec: this node leaves: " in capsys.readouterr().out  # it heard the notice
    (tmp_path / "pace").write_text("0")

    assert run(["logs", "-f", "job"]) == 0

    found = asked(capsys, "status")
    assert [(n["rank"], n["state"]) for n in found["nodes"]] == [(r, "succeeded") for r in range(3)]
    cost = {part["outcome"]: (part["attempts"], part["untimed"]) for part in found["cost"]["parts"]}
    assert cost == {"succeeded": (3, 0), "reclaimed": (2, 0)}, found["cost"]
    told = asked(capsys, "report")["changes"]
    assert told == found["changes"]
    accounted(told)
    assert went(told, "lost") == [(0, "it was silent")]
    ((left, why),) = went(told, "left")
    assert left == 1 and "reclaimed" in why
    assert run(["fetch", "job", str(tmp_path / "fetched")]) == 0
    names = {path.name for path in (tmp_path / "fetched" / "out").iterdir()}
    assert names == {"of-0", "state.json"}  # of the first node of each generation, and nobody else
    kept = json.loads((tmp_path / "fetched" / "out" / "state.json").read_text())
    alone = fixed(tmp_path, sgd(tmp_path, STEPS, 0), {})
    assert kept["losses"] == pytest.approx(alone["losses"], abs=1e-4)
    assert kept["samples"] == alone["samples"]
    last = state(tmp_path)["generation"]
    of_own = [generations(tmp_path / "fetched", seat) for seat in range(3)]
    assert all(own[0] <= first < own[-1] == last for own in of_own), (first, last, of_own)


def test_a_node_that_never_came_back_is_called_off_when_the_job_is_over(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    """Its machine is taken away, and there is none any more: else one would be started for nothing, later."""
    go = tmp_path / "go"
    cluster = {"nodes": {"min": 1, "max": 2}, "capacity": "spot"}
    write(f"until [ -e {go} ]; do sleep 0.2; done", cluster=cluster)
    assert run(["apply", "job.yaml", "--detach"]) == 0
    until(lambda: running(tmp_path) == [0, 1], "two run")
    region.control("PUT", "settings", {"capacity": "none"})
    (lost,) = (job["id"] for job in jobs(region) if job["id"].endswith(":1"))
    region.control("POST", "reclaim", {"jobId": lost, "notice_s": 0})
    until(lambda: running(tmp_path) == [0], "one runs")
    assert run(["status", "job"]) == 0
    assert calls(region, "TerminateJob") == []  # as long as the job goes on, it may come
    go.touch()

    capsys.readouterr()
    until(lambda: done(capsys), "it is over")

    found = done(capsys)
    said = [(n["rank"], n["state"], n["reason"]) for n in found["nodes"]]
    assert said == [(0, "succeeded", ""), (1, "cancelled", NOT_NEEDED)]
    assert (found["state"], found["exit_code"]) == ("succeeded", 0)
    assert [call["params"]["jobId"] for call in calls(region, "TerminateJob")] == [lost]
    region.control("PUT", "settings", {"capacity": "all"})
    ends = {job["id"].rpartition(":")[2]: (job["status"], job["starts"]) for job in jobs(region)}
    assert (ends["0"], ends["1"]) == (("SUCCEEDED", 1), ("FAILED", 1))


def done(capsys: Capture) -> dict[str, Any]:
    """Give how a job has ended; nothing while it goes on."""
    run(["status", "job", "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found if found["state"] not in ("running", "waiting") else {}


def test_nodes_that_are_given_back_end_and_come_back_as_jobs_of_their_own(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    """Of three, one waits for a machine: it is called off, and of those that run, one saves and leaves.

    Both come back. One is given back again, and all that is left of the array is: the job goes on without it.
    """
    argv = sgd(tmp_path, 300, 0.5)
    write(
        "exec " + " ".join(argv),
        cluster={"nodes": {"min": 1, "max": 3}, "capacity": "spot"},
        outputs=[{"name": "out", "path": "/job/out", "sync": "1s"}],
    )
    assert run(["apply", "job.yaml", "--detach"]) == 0
    until(lambda: members(tmp_path, capsys) == [0, 1, 2], "three run")
    region.control("PUT", "settings", {"capacity": "none"})
    (lost,) = (job["id"] for job in jobs(region) if job["id"].endswith(":2"))
    region.control("POST", "reclaim", {"jobId": lost, "notice_s": 0})
    until(lambda: members(tmp_path, capsys) == [0, 1], "two run")

    for words, size in ((["release", "job", "2"], 2), (["resize", "job", "1"], 1)):
        capsys.readouterr()
        assert run([*words, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["size"]
        assert (found["asked"], found["present"]) == (size, size)
    assert [call["params"]["jobId"] for call in calls(region, "TerminateJob")] == [lost]
    region.control("PUT", "settings", {"capacity": "all"})
    assert run(["resize", "job", "3"]) == 0
    until(lambda: members(tmp_path, capsys) == [0, 1, 2], "all run again")
    came = [job for job in jobs(region) if ":" not in job["id"]][1:]
    assert sorted(job["name"].partition("_")[2] for job in came) == ["1_1", "2_1"]
    assert run(["release", "job", "0", "2"]) == 0  # the array has ended then
    until(lambda: members(tmp_path, capsys) == [1], "one of those that came back runs")
    (tmp_path / "pace").write_text("0")
    assert run(["logs", "-f", "job"]) == 0

    found = asked(capsys, "status")
    said = [(n["rank"], n["state"], n["reason"], len(n["attempts"])) for n in found["nodes"]]
    assert said == [(0, "cancelled", AWAY, 1), (1, "succeeded", "", 2), (2, "cancelled", AWAY, 2)]
    assert [a["number"] for a in found["nodes"][2]["attempts"]] == [1, 2]
    assert (found["state"], found["exit_code"]) == ("succeeded", 0)
    assert sorted(went(found["changes"], "left")) == [(rank, AWAY) for rank in range(3)]
    assert run(["logs", "job"]) == 0
    assert capsys.readouterr().out.count("this node was released") == 3
    assert run(["fetch", "job", str(tmp_path / "fetched")]) == 0
    kept = json.loads((tmp_path / "fetched" / "out" / "state.json").read_text())
    alone = fixed(tmp_path, sgd(tmp_path, 300, 0), {})
    assert kept["losses"] == pytest.approx(alone["losses"], abs=1e-9)
