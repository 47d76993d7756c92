"""Nodes on spot machines of AWS Batch, rehearsed: one loses its machine, and all go on together."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.aws.region import Objects, Region
from runspec_jobs.cli.app import run
from tests.e2e import test_launch
from tests.support.aws.emulated_account import Capture, ended, jobs, prepared, write

pytestmark = pytest.mark.slow

mpi = test_launch.mpi  # a fixture

STEPS = 60  # a quarter of a second each: longer than a notice may take to be seen
# Adds up over both nodes in every step, as training does: it fails when the other is gone, goes on from
# the step that both have saved, and knows where the other is by its host file alone.
SUMS = f"""
import os, socket, sys, time, zlib
rank, state = int(os.environ["RUNSPEC_RANK"]), os.path.join(os.environ["RUNSPEC_OUTPUT_STATE"], "step")
hosts = [line.split()[0] for line in open(os.environ["RUNSPEC_HOSTFILE"])]
assert hosts[rank] == os.environ["RUNSPEC_HOST"], "a stale host file"
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
heard, said = link.makefile("r"), link.makefile("w")  # one for both drops what was read ahead when it writes
def both(mine):
    said.write(f"{{mine}}\\n"); said.flush()
    theirs = heard.readline()
    if not theirs:
        sys.exit("the other is gone")
    return mine, int(theirs)
step = min(both(step))
while step < {STEPS}:
    time.sleep(0.25)
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


@pytest.mark.parametrize(
    ("lost", "notice_s", "codes"),
    [
        (0, 60, [143, 0]),
        (1, 0, [None, 0]),
        pytest.param(0, 0, [None, 0], marks=pytest.mark.matrix),
        pytest.param(1, 60, [143, 0], marks=pytest.mark.matrix),
    ],
)
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


# MPI

# Adds up over all ranks in every step; the first rank keeps count for all. A line is one write: see docs/logs.md.
RANKS = f"""
import os, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
state = os.path.join(os.environ["RUNSPEC_OUTPUT_STATE"], "step")
step = int(open(state).read()) if world.rank == 0 and os.path.exists(state) else 0
step = world.bcast(step)
node, host, attempt = (os.environ["RUNSPEC_" + name] for name in ("RANK", "HOST", "ATTEMPT"))
sys.stdout.write("rank %d try %s from %d node %s %s\\n" % (world.rank, attempt, step, node, host))
while step < {STEPS}:
    time.sleep(0.25)
    assert world.allreduce(1) == world.size
    step += 1
    if world.rank == 0:
        with open(state + ".part", "w") as stream:
            stream.write(str(step))
        os.replace(state + ".part", state)
sys.stdout.write("ranks %d\\n" % world.allreduce(1))
"""


@pytest.fixture
def with_mpi(
    mpi: Path, objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Region]:
    """A region whose machines have an MPI and Python with mpi4py."""
    monkeypatch.setenv("PATH", f"{mpi / 'bin'}:{os.environ['PATH']}")
    yield from prepared(objects, tmp_path, monkeypatch)


def ranks(tmp_path: Path) -> str:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "ranks.py").write_text(RANKS)
    return write(
        "exec python3 ${mounts.code}/ranks.py",
        launch="mpi",
        processes_per_node=2,
        cluster={"nodes": 2, "capacity": "spot"},
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "state", "path": "/job/state", "sync": "1s"}],
        retry={"attempts": 1},
    )


@test_launch.one_mpi
def test_ranks_on_spot_nodes_are_one_world(
    with_mpi: Region, tmp_path: Path, capsys: Capture
) -> None:
    """Every machine has its own address, and its own ranks."""
    assert run(["apply", ranks(tmp_path)]) == 0

    log = capsys.readouterr().out
    assert log.count("ranks 4") == 4
    found = set(re.findall(r"rank (\d) try 1 from 0 node (\d) (127\.0\.0\.\d+)", log))
    assert sorted((rank, node) for rank, node, _ in found) == [
        ("0", "0"),
        ("1", "0"),
        ("2", "1"),
        ("3", "1"),
    ]
    assert len({(node, host) for _, node, host in found}) == len({h for *_, h in found}) == 2


@test_launch.one_mpi
@pytest.mark.parametrize(
    "notice_s,codes", [(60, [143, 0]), pytest.param(0, [None, 0], marks=pytest.mark.matrix)]
)
def test_ranks_go_on_where_they_were_when_a_node_has_lost_its_machine(
    with_mpi: Region, tmp_path: Path, capsys: Capture, notice_s: float, codes: list[int | None]
) -> None:
    assert run(["apply", ranks(tmp_path), "--detach"]) == 0
    for rank in range(4):
        until_logged(with_mpi, capsys, f"rank {rank} try 1 from 0")
    time.sleep(3)  # until some steps are saved
    lost = {"jobId": child(with_mpi, 1)["id"], "notice_s": notice_s}
    with_mpi.control("POST", "reclaim", lost)

    assert run(["logs", "-f", "job"]) == 0

    log = capsys.readouterr().out
    assert log.count("ranks 4") == 4
    again = dict(re.findall(r"rank (\d) try 2 from (\d+)", log))
    assert set(again) == set("0123")
    assert all(0 < int(step) < STEPS for step in again.values())
    assert [a["exitCode"] for a in child(with_mpi, 1)["attempts"]] == codes
    assert [a["exitCode"] for a in child(with_mpi, 0)["attempts"]] == [75, 0]


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
