"""Ways into a node of a job that runs: a step of its own beside the job's, and its ports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from runspec_jobs.provider import (
    Address,
    ExecSpec,
    Forward,
    Route,
    RunspecError,
    Unavailable,
    inside_zipapp,
    task_of,
)
from runspec_slurm.lookup.jobs import Jobs
from runspec_slurm.naming import INSIDE
from runspec_slurm.session.clean_environment import CLEAN
from runspec_slurm.session.transport import Ssh, remote
from runspec_slurm.store.workspace import WorkspaceStore

# job, rank: the job's own number (each task of an array has one), the name of the node and its address. Slurm counts
# a job's nodes as it lists them: https://slurm.schedmd.com/sbatch.html (SLURM_NODEID)
FIND = """\
set -- "$2" $(squeue --noheader --states=RUNNING --jobs="$1" --format='%A %N' 2>/dev/null)
[ $# -eq 3 ] || exit 0
node=$(scontrol show hostnames "$3" | sed -n "$(($1 + 1))p")
address=$(scontrol --oneliner show node "$node" | sed -n 's/.* NodeAddr=\\([^ ]*\\).*/\\1/p')
printf '%s %s %s\\n' "$2" "$node" "${address:-$node}"
"""
# job, node, `--pty` or nothing, python, and our part of the job; then what that is told. --overlap: it shares what the
# job has, which is all there is: https://slurm.schedmd.com/srun.html#OPT_overlap
ENTER = """\
job=$1 node=$2 tty=$3 python=$4 inside=$5; shift 5
exec srun --jobid="$job" --overlap --nodes=1 --ntasks=1 --nodelist="$node" --mpi=none --quiet \\
  ${tty:+"$tty"} -- "$python" -IS "$PWD/$inside" enter "$@"
"""
# Of what goes into a word of ssh's: a name, or an address of either kind.
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]*")


class Node(NamedTuple):
    """A node of a job that runs."""

    run: str
    task: int
    rank: int
    job: str
    name: str
    address: str


def node(jobs: Jobs, store: WorkspaceStore, run: str, task: int, rank: int) -> Node:
    """Find the node. Raises Unavailable where the job does not run there."""
    seen = jobs.poller.seen(run)
    record = None if seen is None else jobs.record(run)
    none = Unavailable(f"task {task}, node {rank} of {run} does not run")
    if seen is None or record is None or not seen.job.isdigit():
        raise none
    index, at = task_of(record, task, rank)
    job = f"{seen.job}_{index}" if record["slurm"]["array"] else seen.job
    done = store.way.run(store.entered(CLEAN + FIND), [store.workspace, job, str(at)])
    words = done.out.decode(errors="replace").split()
    if done.code or done.lost:
        raise Unavailable(f"{store.way.where}: where {run} runs is not known now: {done.err}")
    if len(words) != 3:
        raise none
    return Node(run, task, rank, *words)


def shell(
    store: WorkspaceStore, at: Node, python: str, words: Sequence[str], *, terminal: bool
) -> ExecSpec:
    """Return what starts a step on the node, which goes on to the program's environment and folder."""
    _bring(store)
    args = _enter_arguments(store, at, python, words, "--pty" if terminal else "")
    line = ["/bin/sh", "-c", store.entered(CLEAN + ENTER), "sh", *args]
    way = store.way
    if isinstance(way, Ssh):
        asked = ["-t" if terminal and word == "-T" else word for word in way.argv()]
        line = [*asked, remote(line)]
    return ExecSpec(tuple(line))


def _enter_arguments(
    store: WorkspaceStore, at: Node, python: str, words: Sequence[str], tty: str = ""
) -> list[str]:
    """Return the arguments of ENTER."""
    there = [at.run, str(at.task), str(at.rank), *(["--", *words] if words else [])]
    return [store.workspace, at.job, at.name, tty, python, INSIDE, *there]


def _bring(store: WorkspaceStore) -> None:
    """Put our part of the job where it is, unless it is there: the job may be of another version."""
    try:
        if store.size(INSIDE) is None:
            store.put(INSIDE, inside_zipapp())
    except RunspecError as exc:
        raise Unavailable(exc.message, exc.hint) from exc


def tunnel(store: WorkspaceStore, at: Node, python: str, port: int) -> Route:
    """Return the way to *port* of the node, through the login node where there is one.

    It leads to the address that the program knows as $RUNSPEC_HOST: what listens on the node's loopback
    address alone is not reached.
    """
    way = store.way
    address = _address(store, at, python)
    if not isinstance(way, Ssh):
        return Address(address, port)
    *words, mark, host = way.argv()
    # What comes first counts: https://man.openbsd.org/ssh_config
    own = ("-o", "ClearAllForwardings=no", "-o", "ExitOnForwardFailure=yes")
    to = f"[{address}]" if ":" in address else address
    return Forward((words[0], *own, *words[1:], "-N", "-L", f"{{socket}}:{to}:{port}", mark, host))


def _address(store: WorkspaceStore, at: Node, python: str) -> str:
    """Ask the node where its program is reached; Slurm's own address of it has to do where it does not say."""
    _bring(store)
    args = _enter_arguments(store, at, python, ["printenv", "RUNSPEC_HOST"])
    done = store.way.run(store.entered(CLEAN + ENTER), args)
    found = done.out.decode(errors="replace").strip()
    return found if HOST.fullmatch(found) else at.address
