"""Jobs of several nodes on a real Slurm, a node that is lost, and times that are over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.saved_outputs import saved
from tests.support.slurm.project import Project, cluster as cluster, project as project  # fixtures

pytestmark = pytest.mark.slow
# What torchrun does of a fixed group, as far as a program sees it: as many processes as it is told, which know the
# others by these variables. https://docs.pytorch.org/docs/stable/elastic/run.html
TORCHRUN = """\
#!/usr/bin/python3
import os, subprocess, sys
given = dict(word[2:].split("=") for word in sys.argv[1:] if word.startswith("--") and "=" in word)
program = sys.argv[2 + len(given):]
each, node = int(given["nproc-per-node"]), int(given["node-rank"])
world = {"WORLD_SIZE": str(each * int(given["nnodes"])), "MASTER_ADDR": given["master-addr"]}
world["MASTER_PORT"] = given["master-port"]
ranks = [{"RANK": str(node * each + i), "LOCAL_RANK": str(i)} for i in range(each)]
running = [subprocess.Popen(program, env={**os.environ, **world, **rank}) for rank in ranks]
sys.exit(max([process.wait() for process in running]))
"""
# All ranks add theirs up at rank 0, which tells everybody the sum: as an all-reduce does.
TRAIN = """\
import os, socket, sys, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(where) as server:
        others = [server.accept()[0] for _ in range(size - 1)]
    total = sum(int(other.recv(99)) for other in others)
    for other in others:
        other.sendall(str(total).encode())
else:
    end = time.monotonic() + 60
    while True:
        try:
            one = socket.create_connection(where)
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
    one.sendall(str(rank).encode())
    total = int(one.recv(99))
node, place = os.environ["RUNSPEC_RANK"], os.environ["SLURMD_NODENAME"]
with open(os.path.join(sys.argv[1], "rank-%d" % rank), "w") as file:
    file.write("%d %s %s" % (total, node, place))
print("rank", rank, flush=True)
"""


def test_torchrun_makes_one_world_of_four_nodes(project: Project, tmp_path: Path) -> None:
    """Two ranks on each of Slurm's nodes add up; torchrun itself is a stand-in, for torch is 200 MB."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(TRAIN)
    (code / "torchrun").write_text(TORCHRUN)
    (code / "torchrun").chmod(0o755)

    found = project.ended(
        cluster={"nodes": 4},
        launch="torchrun",
        processes_per_node=2,
        env={"PATH": f"{code}:/usr/bin:/bin"},
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "out", "path": "/job/out"}],
        command=["python3", "${mounts.code}/train.py", "${outputs.out}"],
    )

    assert found["state"] == "succeeded", project.log()
    files = project.fetched()
    said = {name.rpartition("-")[2]: text for name, text in files.items()}
    assert said == {str(rank): f"28 {rank // 2} node{rank // 2 + 1}" for rank in range(8)}
    assert sorted(project.log("job", "--node", "3").splitlines()) == [
        "[node 3] rank 6",
        "[node 3] rank 7",
    ]


COUNTS = """\
place="${outputs.out}/count"
count=$(cat "$place" 2>/dev/null || echo 0)
echo "try $RUNSPEC_ATTEMPT begins at $count on $SLURMD_NODENAME"
while [ "$count" -lt 40 ]; do
    count=$((count + 1))
    echo "$count" >"$place.new"
    mv "$place.new" "$place"
    sleep 0.2
    [ "$RUNSPEC_ATTEMPT" != 1 ] || [ "$count" -lt 20 ] || exec sleep 600
done
"""


def test_a_job_whose_node_is_lost_goes_on_elsewhere_from_what_was_saved(project: Project) -> None:
    """The node loses its power; Slurm queues the job again by itself, and its second try finds the count."""
    name = project.started(
        COUNTS,
        outputs=[{"name": "out", "path": "/job/out", "sync": "1s"}],
        retry={"spot_attempts": 3},
    )
    outputs = project.workspace / "runs" / name / "outputs"
    project.until(lambda: saved(outputs).get("count") == b"20\n")
    (node,) = project.jobs("%N", f"--name={name}")

    # An answer to a ping that comes late brings a node back that is down: Slurm 24.11 then starts the job there again.
    project.cluster.set_node(node, "DRAIN", "its power is gone")
    project.cluster.lose(node)
    project.cluster.set_node(node, "DOWN", "its power is gone")
    found = project.until_over()

    first, then = (line.split() for line in project.log().splitlines() if line.startswith("try"))
    assert (first[1:5], then[1:5]) == (["1", "begins", "at", "0"], ["2", "begins", "at", "20"])
    assert then[-1] != first[-1] == node
    assert (found["state"], project.fetched()) == ("succeeded", {"out/count": "40\n"})
    assert [(a["number"], a["reclaimed"]) for a in found["nodes"][0]["attempts"]] == [
        (1, True),
        (2, False),
    ]
    assert "its node was lost" in found["reason"]
    project.cluster.mend()


SAVES = """\
trap 'echo saved >"${outputs.out}/state"; exit 0' TERM
echo ready
while :; do sleep 0.1; done
"""


def test_a_timeout_is_kept_to_the_second_and_the_program_saves(project: Project) -> None:
    """Slurm's own limit is of whole minutes, and is looked at every half of one."""
    found = project.ended(SAVES, timeout="3s", outputs=[{"name": "out", "path": "/job/out"}])

    assert (found["state"], found["exit_code"]) == ("failed", 124)
    assert "timeout: not done after 3 s" in found["reason"]
    (attempt,) = project.status()["nodes"][0]["attempts"]
    assert 2 <= attempt["ended_s"] - attempt["began_s"] < 45
    assert project.fetched() == {"out/state": "saved\n"}


def test_slurms_own_limit_tells_the_programs_of_all_nodes_to_save(project: Project) -> None:
    """It signals the batch script a while before it is over; a limit can be lowered while a job runs."""
    name = project.started(
        SAVES, cluster={"nodes": 2}, outputs=[{"name": "out", "path": "/job/out"}]
    )
    project.until(lambda: project.log().count("ready") == 2)
    number = project.jobs("%i", f"--name={name}")[0]

    project.cluster.run("scontrol", "update", f"JobId={number}", "TimeLimit=1")
    found = project.until_over()

    assert (found["state"], found["exit_code"]) == ("failed", 124)
    assert "Slurm's time limit for the job is over" in found["reason"]
    assert sorted(project.fetched().values()) == ["saved\n", "saved\n"]


def test_an_srun_of_the_program_runs_beside_the_step_of_its_nodes(project: Project) -> None:
    """It would wait for the memory that this step has, until the timeout."""
    found = project.ended(
        'if [ "$RUNSPEC_RANK" = 0 ]; then srun sh -c \'echo "at $SLURMD_NODENAME"\'; fi',
        cluster={"nodes": 2, "cpus": 2},
        timeout="60s",
    )

    assert (found["state"], found["exit_code"]) == ("succeeded", 0), found
    assert len([line for line in project.log().splitlines() if "at node" in line]) == 2
