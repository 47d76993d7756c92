"""Nodes on spot machines of AWS Batch, rehearsed: one loses its machine, and all go on together."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from runspec.cli.main import run
from runspec_rehearsal.aws.region import Region
from tests.e2e import test_aws
from tests.e2e.test_aws import Capture, ended, jobs, write

pytestmark = pytest.mark.slow

objects, region = test_aws.objects, test_aws.region  # fixtures

STEPS = 60
# Adds up over both nodes in every step, as training does: it fails when the other is gone, goes on from
# the step that both have saved, and knows where the other is by its host file alone.
SUMS = f"""
import os, socket, sys, time, zlib
rank, state = int(os.environ["RUNSPEC_RANK"]), os.path.join(os.environ["RUNSPEC_OUTPUT_STATE"], "step")
hosts = [line.split()[0] for line in open(os.environ["RUNSPEC_HOSTFILE"])]
there = hosts[0], 20000 + zlib.crc32(os.environ["RUNSPEC_RUN"].encode()) % 10000
step = int(open(state).read()) if os.path.exists(state) else 0
print("try", os.environ["RUNSPEC_ATTEMPT"], "from", step, "on", hosts[rank], flush=True)
if rank == 0:
    link = socket.create_server(there).accept()[0]
else:
    while True:
        try:
            link = socket.create_connection(there)
            break
        except OSError:
            time.sleep(0.05)
lines = link.makefile("rw")
def both(mine):
    lines.write(f"{{mine}}\\n"); lines.flush()
    theirs = lines.readline()
    if not theirs:
        sys.exit("the other is gone")
    return mine, int(theirs)
step = min(both(step))
while step < {STEPS}:
    time.sleep(0.1)
    step = min(both(step + 1))
    with open(state + ".part", "w") as stream:
        stream.write(str(step))
    os.replace(state + ".part", state)
print("sum", sum(both(step)), flush=True)
"""


def sums(tmp_path: Path, **fields: Any) -> str:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "sums.py").write_text(SUMS)
    return write(
        "exec python3 ${mounts.code}/sums.py",
        cluster={"nodes": 2, "capacity": "spot"},
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "state", "path": "/job/state", "sync": "1s"}],
        **fields,
    )


def until_logged(region: Region, capsys: Capture, text: str) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        capsys.readouterr()
        run(["logs", "job"])
        if text in capsys.readouterr().out:
            return
        time.sleep(0.2)
    raise AssertionError(f"nobody says {text!r}: {jobs(region)}")


def child(region: Region, index: int) -> dict[str, Any]:
    (found,) = [job for job in jobs(region) if job["id"].endswith(f":{index}")]
    return found


@pytest.mark.parametrize("notice_s,codes", [(60, [143, 0]), (0, [None, 0])])
@pytest.mark.parametrize("lost", [0, 1])
def test_nodes_on_spot_that_lose_one_meet_again_and_go_on(
    region: Region,
    tmp_path: Path,
    capsys: Capture,
    lost: int,
    notice_s: float,
    codes: list[int | None],
) -> None:
    """With notice or without: no failure of the job, though the program of the other node fails."""
    assert run(["apply", sums(tmp_path, retry={"attempts": 1}), "--detach"]) == 0
    for rank in (0, 1):
        until_logged(region, capsys, f"[node {rank}] try 1 from 0")
    time.sleep(3)  # until some steps are saved
    region.control("POST", "reclaim", {"jobId": child(region, lost)["id"], "notice_s": notice_s})

    assert run(["logs", "-f", "job"]) == 0

    log = capsys.readouterr().out
    assert log.count(f"sum {2 * STEPS}") == 2
    again = dict(re.findall(r"\[node (\d)\] try 2 from (\d+) on 127\.0\.0\.\d+", log))
    assert set(again) == {"0", "1"}
    assert all(0 < int(step) < STEPS for step in again.values())
    assert [a["exitCode"] for a in child(region, lost)["attempts"]] == codes
    assert [a["exitCode"] for a in child(region, 1 - lost)["attempts"]] == [75, 0]
    assert run(["fetch", "job", "out"]) == 0
    found = {str(p.relative_to("out")): p.read_text() for p in Path("out").rglob("step")}
    assert set(found.values()) == {str(STEPS)}
    assert len(found) == 2


def test_a_node_that_has_ended_goes_again_with_one_that_lost_its_machine(
    region: Region, capsys: Capture
) -> None:
    """Nobody leaves for good while another may need it."""
    job = write(
        'echo "try $RUNSPEC_ATTEMPT"; [ "$RUNSPEC_RANK" = 0 ] || [ "$RUNSPEC_ATTEMPT" = 2 ] || sleep 60',
        cluster={"nodes": 2, "capacity": "spot"},
    )
    assert run(["apply", job, "--detach"]) == 0
    for rank in (0, 1):
        until_logged(region, capsys, f"[node {rank}] try 1")
    region.control("POST", "reclaim", {"jobId": child(region, 1)["id"], "notice_s": 0})

    assert run(["logs", "-f", "job"]) == 0

    said = re.findall(r"\[node (\d)\] try (\d)", capsys.readouterr().out)
    assert sorted(said) == [("0", "1"), ("0", "2"), ("1", "1"), ("1", "2")]


def test_nodes_of_an_array_fail_together_and_as_often_as_was_asked_for(
    region: Region, capsys: Capture
) -> None:
    """A failure is one of the job, whichever node it is on."""
    job = write(
        'echo "try $RUNSPEC_ATTEMPT"; [ "$RUNSPEC_RANK" != "$((RUNSPEC_ATTEMPT % 2))" ] || exit 6; sleep 60',
        cluster={"nodes": 2, "capacity": "spot"},
        retry={"attempts": 2},
    )

    found = ended(capsys, job)

    assert (found["state"], found["exit_code"]) == ("failed", 6)
    for index in (0, 1):
        assert [a["exitCode"] for a in child(region, index)["attempts"]] == [75, 6]
