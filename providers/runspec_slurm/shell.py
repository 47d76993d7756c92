"""Access to a node of a running job: a shell in a job step of its own, and tunnels to ports."""

from __future__ import annotations

import re
from collections.abc import Sequence

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider import RunspecError, Unavailable
from runspec_jobs.provider.elastic_tasks import task_of
from runspec_jobs.provider.payload import pack_agent
from runspec_jobs.provider.types import Address, ExecSpec, Forward, Route
from runspec_slurm.lookup.arrays import Arrays
from runspec_slurm.lookup.jobs import Jobs
from runspec_slurm.naming import AGENT_KEY
from runspec_slurm.session.process import CLEAN
from runspec_slurm.session.transport import Ssh, remote
from runspec_slurm.store.workspace import WorkspaceStore

# Arguments: the job and the rank. Prints the job's own number, which each task of an array has, and the name and the
# address of the node. Slurm numbers the nodes of a job in the order of its list:
# https://slurm.schedmd.com/sbatch.html (SLURM_NODEID)
FIND = """\
set -- "$2" $(squeue --noheader --states=RUNNING --jobs="$1" --format='%A %N' 2>/dev/null)
[ $# -eq 3 ] || exit 0
node=$(scontrol show hostnames "$3" | sed -n "$(($1 + 1))p")
address=$(scontrol --oneliner show node "$node" | sed -n 's/.* NodeAddr=\\([^ ]*\\).*/\\1/p')
printf '%s %s %s\\n' "$2" "$node" "${address:-$node}"
"""
# Arguments: the job, the node, `--pty` or nothing, python, the agent, and then the arguments of the agent. --overlap:
# the step shares the resources of the job, which uses all of them: https://slurm.schedmd.com/srun.html#OPT_overlap
ENTER = """\
job=$1 node=$2 tty=$3 python=$4 agent=$5; shift 5
exec srun --jobid="$job" --overlap --nodes=1 --ntasks=1 --nodelist="$node" --mpi=none --quiet \\
  ${tty:+"$tty"} -- "$python" -IS "$PWD/$agent" enter "$@"
"""
# A host in an argument of ssh: a name, an IPv4 or an IPv6 address.
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]*")


class Node(NamedTuple):
    """A node of a running job."""

    run: str
    task: int
    rank: int
    job: str
    name: str
    address: str


def node(jobs: Jobs, store: WorkspaceStore, run: str, task: int, rank: int) -> Node:
    """Return the node *rank* of *task*. Raises Unavailable if the task is not running."""
    seen = jobs.poller.seen(run)
    record = None if seen is None else jobs.record(run)
    none = not_running(run, task, rank)
    if seen is None or record is None:
        raise none
    index, at = task_of(record, task, rank)
    array, number = divmod(index, Arrays.of(run, record).each)
    owner = seen.jobs.get(array, "")
    if not owner.isdigit():
        raise none
    job = f"{owner}_{number}" if record["slurm"]["array"] else owner
    done = store.way.run(store.entered(CLEAN + FIND), [store.workspace, job, str(at)])
    fields = done.out.decode(errors="replace").split()
    if done.code or done.lost:
        raise Unavailable(f"{store.way.where}: cannot find the nodes of {run}: {done.err}")
    if len(fields) != 3:
        raise none
    return Node(run, task, rank, *fields)


def not_running(run: str, task: int, rank: int) -> Unavailable:
    return Unavailable(f"task {task}, node {rank} of {run} is not running")


def shell(
    store: WorkspaceStore, at: Node, python: str, words: Sequence[str], *, terminal: bool
) -> ExecSpec:
    """Return the command that starts a step on the node, in the environment and the folder of the program."""
    _bring(store)
    args = _enter_arguments(store, at, python, words, "--pty" if terminal else "")
    line = ["/bin/sh", "-c", store.entered(CLEAN + ENTER), "sh", *args]
    connection = store.way
    if isinstance(connection, Ssh):
        line = [*(_at_terminal(connection.argv()) if terminal else connection.argv()), remote(line)]
    return ExecSpec(tuple(line))


def _at_terminal(argv: Sequence[str]) -> list[str]:
    """Return the words of ssh for a terminal, where it says that a connection is closed: ssh_config(5)."""
    changed = {"-T": "-t", "LogLevel=ERROR": "LogLevel=INFO"}
    return [changed.get(word, word) for word in argv]


def _enter_arguments(
    store: WorkspaceStore, at: Node, python: str, words: Sequence[str], tty: str = ""
) -> list[str]:
    """Return the arguments of ENTER."""
    there = [at.run, str(at.task), str(at.rank), *(["--", *words] if words else [])]
    return [store.workspace, at.job, at.name, tty, python, AGENT_KEY, *there]


def _bring(store: WorkspaceStore) -> None:
    """Write this version's agent to the workspace, unless it exists: the job may use another version."""
    try:
        if store.size(AGENT_KEY) is None:
            store.put(AGENT_KEY, pack_agent())
    except RunspecError as exc:
        raise Unavailable(exc.message, exc.hint) from exc


def tunnel(store: WorkspaceStore, at: Node, python: str, port: int) -> Route:
    """Return the route to *port* of the node, through the login node if there is one.

    It leads to the address that the program has in $RUNSPEC_HOST, so a server that listens only on the loopback
    address of the node cannot be reached.
    """
    connection = store.way
    address = find_address(store, at, python)
    if not isinstance(connection, Ssh):
        return Address(address, port)
    *arguments, mark, host = connection.argv()
    # ssh refuses -N beside another type of session: https://man.openbsd.org/ssh_config#SessionType
    kind = arguments.index("SessionType=default")
    del arguments[kind - 1 : kind + 1]
    # The first value of an option takes effect: https://man.openbsd.org/ssh_config
    forwards = ("-o", "ClearAllForwardings=no", "-o", "ExitOnForwardFailure=yes")
    to = f"[{address}]" if ":" in address else address
    return Forward(
        (arguments[0], *forwards, *arguments[1:], "-N", "-L", f"{{socket}}:{to}:{port}", mark, host)
    )


def find_address(store: WorkspaceStore, at: Node, python: str) -> str:
    """Return the address at which the node's program listens, or Slurm's address of the node if it is unknown."""
    _bring(store)
    args = _enter_arguments(store, at, python, ["printenv", "RUNSPEC_HOST"])
    done = store.way.run(store.entered(CLEAN + ENTER), args)
    address = done.out.decode(errors="replace").strip()
    return address if HOST.fullmatch(address) else at.address
