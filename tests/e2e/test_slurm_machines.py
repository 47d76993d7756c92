"""Many hosts for real: jobs of a Slurm whose nodes have an address, a name, a disk and an sshd each."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.slurm import Machines, Shape
from tests.e2e.test_launch import mpi as mpi  # a fixture
from tests.emulators.slurm.hand import until
from tests.support.slurm.machine_jobs import WAIT_S, Desk, ended, told
from tests.support.slurm.shared_cluster import (
    machines as machines,  # a fixture
)

pytestmark = [pytest.mark.slow, pytest.mark.root]

# Of `.ci/run`, 4; RUNSPEC_HOSTS=32 adds a run on so many, for which the machine of CI has neither time nor memory.
HOSTS = int(os.environ.get("RUNSPEC_HOSTS", "0"))
PLUGIN = {"openmpi": "pmix", "mpich": "pmi2"}
# One line of the first rank: where each rank is, by MPI alone. A file in /mnt is nobody's but that machine's.
WORLD = """
import json, os, socket
from mpi4py import MPI

world = MPI.COMM_WORLD
open("/mnt/%s-%d" % (os.environ["RUNSPEC_RUN"], world.rank), "w").close()
world.barrier()
mine = [name for name in os.listdir("/mnt") if name.startswith(os.environ["RUNSPEC_RUN"])]
words = [socket.gethostname(), os.environ["RUNSPEC_RANK"], os.environ["RUNSPEC_HOST"], len(mine)]
total, found = world.allreduce(world.rank + 1), world.gather(words)
if world.rank == 0:
    hosts = open(os.environ["RUNSPEC_HOSTFILE"]).read().splitlines()
    leader = os.environ["RUNSPEC_LEADER"]
    print(json.dumps({"total": total, "ranks": found, "file": hosts, "leader": leader}), flush=True)
"""
# The place of torch's own, which is not at hand: the words that it is given, and one process on each node.
TORCHRUN = """#!/bin/sh
for word; do
  case $word in --master-*) export "$(echo "${word#--}" | sed "s/master-addr/LEADER/;s/master-port/PORT/")" ;; esac
done
shift 6
exec "$@"
"""
# The first node listens where the others are told that it is; then it starts a program on all hosts by itself.
MEETING = """
import json, os, socket, subprocess, sys, time

place, rank = (os.environ["LEADER"], int(os.environ["PORT"])), int(os.environ["RUNSPEC_RANK"])
with open(os.environ["RUNSPEC_OUTPUT_FOUND"] + "/host", "w") as file:
    file.write(socket.gethostname())
if rank:
    for _ in range(100):
        try:
            with socket.create_connection(place, 20) as way:
                way.sendall(socket.gethostname().encode())
            sys.exit()
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit("nobody listens")

met = []
with socket.create_server(place) as door:
    door.settimeout(20)
    while len(met) < 3:
        way, (address, _) = door.accept()
        with way:
            met.append([way.recv(9).decode(), address])
found = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True).stdout.decode()
print(json.dumps({"met": sorted(met), "started": sorted(found.split())}), flush=True)
"""


# An mpirun that sees Slurm takes its nodes from there.
HIDDEN = """
unset $(env | sed -n "s/^\\(SLURM[A-Z]*_[A-Za-z0-9_]*\\)=.*/\\1/p")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
"""
# Waits for ever in its first try.
STAYS = """
import os, sys, time
from mpi4py import MPI

MPI.COMM_WORLD.barrier()
if MPI.COMM_WORLD.rank == 0 and os.environ["RUNSPEC_ATTEMPT"] == "1":
    open(sys.argv[1], "w").close()
if os.environ["RUNSPEC_ATTEMPT"] == "1":
    time.sleep(600)
"""
# Each asks the system's ssh to start its daemons. Hydra has a form of its own for the slots. In /tmp, which the hosts
# share, a daemon of Open MPI does not start where one with its pid was killed.
BY_SSH = {
    # On a busy machine, daemons of PRRTE 3 now and then wait for each other for ever.
    "openmpi": """
for try in 1 2 3 4 5; do
  timeout -k 5 20 mpirun --hostfile "$RUNSPEC_HOSTFILE" --map-by slot --wdir / --prtemca plm_ssh_agent "$AGENT" \\
    --prtemca prte_tmpdir_base "$TMPDIR/prte$try" hostname > "$TMPDIR/found" && exec cat "$TMPDIR/found"
done
exit 1
""",
    "mpich": """
sed "s/ slots=/:/" "$RUNSPEC_HOSTFILE" > "$TMPDIR/hosts"
exec mpirun -f "$TMPDIR/hosts" -n 8 -wdir / -launcher ssh -launcher-exec "$AGENT" hostname
""",
}
OPTIONS: Mapping[str, Mapping[str, str]] = {"mpirun": {}, "srun": {"mpi": "srun"}, "itself": {}}
Begun = Mapping[str, tuple[Desk, subprocess.Popen[str]]]


@pytest.fixture
def desk(machines: Machines, tmp_path: Path) -> Desk:
    return Desk(machines, tmp_path, "m4")


@pytest.fixture(scope="module")
def begun(
    machines: Machines, mpi: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Begun]:
    """Jobs of four nodes, all begun at once: the nodes have room for them, and they mostly wait."""
    found = {}
    for name, options in OPTIONS.items():
        desk = Desk(machines, tmp_path_factory.mktemp(name), "m4")
        plugin = {"mpi_type": PLUGIN[mpi.name]} if name == "srun" else {}
        spec = by_itself(desk, mpi) if name == "itself" else ranks(desk, mpi)
        if name == "srun":
            # A rank of Open MPI 5 now and then crashes in MPI_Init, when another one's message comes before it is ready
            # (mca_pml_ob1_recv_frag_callback_match): seen twice in about 25 runs.
            spec["retry"] = {"attempts": 3}
        found[name] = desk, desk.begin(spec, **options, **plugin)
    yield found
    for _, applying in found.values():
        applying.kill()
        applying.communicate()


def around(mpi: Path) -> dict[str, str]:
    """Give the variables of a job that has an MPI, which no machine has by itself."""
    return {"PATH": f"{mpi / 'bin'}:/usr/bin:/bin"}


def expected(nodes: int, slots: int) -> dict[str, Any]:
    hosts = [(f"m{i}", f"10.77.0.{i}") for i in range(1, nodes + 1)]
    size = nodes * slots
    return {
        "total": size * (size + 1) // 2,
        "ranks": [
            [name, str(node), address, slots]
            for node, (name, address) in enumerate(hosts)
            for _ in range(slots)
        ],
        "file": [f"{address} slots={slots}" for _, address in hosts],
        "leader": hosts[0][1],
    }


def ranks(desk: Desk, mpi: Path) -> dict[str, Any]:
    return {
        "cluster": {"nodes": 4},
        "launch": "mpi",
        "processes_per_node": 2,
        "env": around(mpi),
        "command": ["python", desk.script(WORLD)],
    }


def by_itself(desk: Desk, mpi: Path) -> dict[str, Any]:
    agent, torchrun = desk.folder / "agent", desk.folder / "torchrun"
    agent.write_text(f'#!/bin/sh\nexec ssh -F {desk.machines.ssh_config} "$@"\n')
    torchrun.write_text(TORCHRUN)
    for program in (agent, torchrun):
        program.chmod(0o700)
    return {
        "cluster": {"nodes": 4},
        "launch": "torchrun",
        "processes_per_node": 2,
        "env": {"PATH": f"{desk.folder}:{around(mpi)['PATH']}", "AGENT": str(agent)},
        "outputs": [{"name": "found", "path": "/job/found"}],
        "command": ["python", desk.script(MEETING), "sh", "-c", HIDDEN + BY_SSH[mpi.name]],
    }


@pytest.mark.parametrize("starter", ["mpirun", "srun"])
def test_ranks_are_on_all_hosts(begun: Begun, starter: str) -> None:
    """As many on each as it has slots, in the order of the nodes, by addresses that others reach."""
    said = ended(begun[starter][1])

    assert told(said) == [expected(4, 2)], said
    assert " not be found" not in said


def test_the_leader_is_reached_and_the_host_file_is_for_ssh(begun: Begun) -> None:
    """What a program may do by itself with the words it is given; its outputs come from each one's own disk."""
    desk, applying = begun["itself"]

    said = ended(applying)

    met = [[f"m{i}", f"10.77.0.{i}"] for i in (2, 3, 4)]
    started = [f"m{i}" for i in (1, 2, 3, 4) for _ in range(2)]
    assert told(said) == [{"met": met, "started": started}], said
    outputs = sorted((desk.folder / "workspace").glob("runs/*/outputs/found/[0-3]/**/host"))
    assert [path.read_text() for path in outputs] == ["m1", "m2", "m3", "m4"]


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_a_host_that_is_lost_is_named_and_the_job_goes_on_elsewhere(
    desk: Desk, mpi: Path, tmp_path: Path
) -> None:
    """In the midst of a job, with its network: all ranks begin anew, on hosts that are there."""
    ready = tmp_path / "ready"
    spec = {
        "cluster": {"nodes": 3},
        "launch": "mpi",
        "retry": {"spot_attempts": 2},
        "env": around(mpi),
        "command": ["python", desk.script(STAYS + WORLD), str(ready)],
    }
    try:
        with desk.begin(spec) as applying:
            until(ready.exists)
            desk.machines.lose("m2")
            desk.machines.set_node("m2", "DOWN")
            said = ended(applying)
    finally:
        desk.machines.mend()

    assert [rank[0] for one in told(said) for rank in one["ranks"]] == ["m1", "m3", "m4"], said
    assert "1 of 2 attempts ended because its node was lost" in said, said
    (log,) = tmp_path.glob("workspace/runs/*/logs/0-batch.txt")
    assert "Node failure on m2" in log.read_text()


@contextmanager
def cut(machines: Machines, at: str, way: str) -> Iterator[None]:
    """Take a way away on one machine, and give it back: new connections to the ports of programs, or a route."""
    line = [*machines.at(at), "sh", "-c"]
    subprocess.run([*line, way.format("A", "add")], check=True)
    try:
        yield
    finally:
        subprocess.run([*line, way.format("D", "del")], check=True)


# Slurm's own daemons talk on other ports, or the other way round.
SILENT = "iptables -{0} OUTPUT -d 10.77.0.3 -p tcp --syn --dport 32768:60999 -j DROP"
ROUTE = "ip route {1} unreachable 10.77.0.4"


def test_a_smoke_test_says_which_hosts_cannot_talk_and_keeps_the_job_back(desk: Desk) -> None:
    """Of four, by a firewall that is silent in one direction, and by a route that is not there, so in both."""
    spec = {"cluster": {"nodes": 4}, "smoke": "echo smoked", "run": "echo ran"}
    with cut(desk.machines, "m2", SILENT), cut(desk.machines, "m3", ROUTE):
        applying = desk.begin(spec, ("apply", "--smoke", "--json"))
        said, _ = applying.communicate(timeout=WAIT_S)

    (told,) = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert (applying.returncode, told["exit_code"]) == (1, 68), said
    found = [
        (way["from"]["node"], way["to"]["node"], way["to"]["host"], way["why"])
        for way in told["unreached"]
    ]
    assert found == [
        (1, 2, "10.77.0.3", "timed out"),
        (2, 3, "10.77.0.4", "unreachable"),
        (3, 2, "10.77.0.3", "timed out"),
    ]
    assert "SrunPortRange" in told["rule"]

    said = ended(desk.begin(spec, ("apply", "--smoke")))

    lines = [line.rpartition("] ")[2] for line in said.splitlines()]
    assert [lines.count("smoked"), lines.count("ran")] == [4, 4], said


@pytest.mark.skipif(HOSTS == 0, reason="by RUNSPEC_HOSTS=32 alone: see CONTRIBUTING.md")
@pytest.mark.parametrize("starter", ["mpirun", "srun"])
def test_ranks_are_on_many_hosts(mpi: Path, starter: str, tmp_path: Path) -> None:
    room = Shape(cpus=8, memory_mb=8000)
    spec = {"cluster": {"nodes": HOSTS}, "timeout": "10m"}
    with Machines(tmp_path / "cluster", nodes=HOSTS, shape=room) as machines:
        desk = Desk(machines, tmp_path, "m1")
        plugin = {"mpi": "srun", "mpi_type": PLUGIN[mpi.name]} if starter == "srun" else {}
        said = ended(desk.begin({**ranks(desk, mpi), **spec}, **plugin), 600)

    assert told(said) == [expected(HOSTS, 2)], said
