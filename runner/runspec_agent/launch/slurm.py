"""MPI inside an allocation of Slurm: an mpirun that must not see it, or ranks that srun starts.

An mpirun that finds Slurm's variables takes its nodes and its launcher from there: Open MPI 5 then says on one node
that "all nodes which are allocated for this job are already filled".
"""

import os
import shlex
from typing import Dict, List, Mapping, Sequence

from runspec_agent.rendezvous.rendezvous import Node

PLUGIN = "RUNSPEC_MPI"  # of `srun --mpi`: pmix, pmi2; without it mpirun starts the ranks
READY = "ready"  # a file in a node's folder: its ranks may begin
SLURM = ("SLURM_", "SLURMD_", "SRUN_", "SBATCH_")
PMI = (
    "PMI_",
    "PMI2_",
    "PMIX_",
)  # of a process that somebody's mpirun or srun has started as a rank
KEPT = (
    "SLURM_JOB_ID",
    "SLURM_CONF",
)  # the rest is of the step that we are in, and would be taken for wishes
# Each rank runs what its own node has written; srun numbers the nodes as it has numbered ours. The code of one that
# fails is written down, as srun tells the highest of all, with those that it ends then. This shell outlives a SIGTERM
# that reaches all of the step, so that the program can, too.
RANK = (
    'trap : TERM; set -f; IFS=":"; set -- $RUNSPEC_STARTS; shift "$SLURM_NODEID"; unset IFS; '
    'sh "$1" && exit; c=$?; echo $c >"$1.failed.$$"; exit $c'
)
START = ("sh", "-c", RANK)


def hidden(env: Mapping[str, str]) -> Dict[str, str]:
    """Return *env* without what Slurm has said."""
    return {name: value for name, value in env.items() if not name.startswith(SLURM)}


def without_pmi(env: Mapping[str, str]) -> Dict[str, str]:
    return {name: value for name, value in env.items() if not name.startswith(PMI)}


def shown(env: Mapping[str, str]) -> bytes:
    """Return what gives a rank below such an mpirun Slurm's words back."""
    return _exports({name: env[name] for name in env if name.startswith(SLURM)})


def srun(env: Mapping[str, str], nodes: int, slots: int) -> List[str]:
    """Return the words that start the ranks of all nodes, beside the agents: https://slurm.schedmd.com/srun.html."""
    cpus = int(env.get("SLURM_CPUS_ON_NODE") or slots)
    argv = ["srun", "--overlap", "--mpi=" + env[PLUGIN], "--nodes={}".format(nodes)]
    argv += ["--ntasks={}".format(nodes * slots), "--ntasks-per-node={}".format(slots)]
    argv += ["--cpus-per-task={}".format(max(1, cpus // slots))]
    argv += ["--overcommit"] if slots > cpus else []
    return [*argv, "--kill-on-bad-exit=0", "--input=none", "--chdir=/", *START]


def env_of_srun(env: Mapping[str, str], nodes: Sequence[Node]) -> Dict[str, str]:
    """Return what srun sees, and hands to all ranks: *env* of the first node, and the way to each node's own."""
    kept = {name: env[name] for name in KEPT if name in env}
    starts = ":".join(node.start for node in nodes)
    return dict(without_pmi(hidden(env)), RUNSPEC_STARTS=starts, **kept)


def start_script(env: Mapping[str, str], folder: str, script: bytes) -> bytes:
    """Return what a rank runs on this node: with this node's words, once its host file and all is there."""
    ours = {name: env[name] for name in env if name.startswith("RUNSPEC_")}
    ours.pop("RUNSPEC_LEADER", None)  # is known since they met, and comes from the first node
    wait = "until [ -e {} ]; do sleep 0.1; done\nunset RUNSPEC_STARTS\n"
    ready = shlex.quote(os.path.join(folder, READY))
    return os.fsencode(wait.format(ready)) + _exports(ours) + script


def environment(pid: int) -> bytes:
    """Return the variables that *pid* was started with; none where it has ended, or is somebody else's."""
    try:
        with open("/proc/{}/environ".format(pid), "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def _exports(env: Mapping[str, str]) -> bytes:
    """Return a line for each variable.

    >>> print(_exports({"B": "it's", "A": "1"}).decode(), end="")
    export A=1
    export B='it'"'"'s'
    """
    lines = ["export {}={}\n".format(name, shlex.quote(env[name])) for name in sorted(env)]
    return os.fsencode("".join(lines))
