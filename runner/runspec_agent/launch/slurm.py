"""MPI in a Slurm allocation: with an mpirun that must not see the allocation, or with ranks that srun starts.

An mpirun that finds Slurm's variables uses the nodes and launcher of the allocation: Open MPI 5 then prints on one
node that "all nodes which are allocated for this job are already filled".
"""

import os
import shlex
from typing import Dict, List, Mapping, Sequence

from runspec_agent.rendezvous.shared_directory import Node

PLUGIN = "RUNSPEC_MPI"  # value of `srun --mpi`: pmix or pmi2; without it, mpirun starts the ranks
READY = "ready"  # a file in a node's folder: its ranks may start
SLURM = ("SLURM_", "SLURMD_", "SRUN_", "SBATCH_")
PMI = (
    "PMI_",
    "PMI2_",
    "PMIX_",
)  # set in a process that another mpirun or srun has started as a rank
KEPT = (
    "SLURM_JOB_ID",
    "SLURM_CONF",
)  # all other variables describe the current step, and srun would take them for options
# Each rank runs the script of its own node; srun numbers the nodes as runspec does. The exit code of a failed rank is
# written to a file, because srun returns the highest of all, including ranks that it ended itself. This shell ignores
# a SIGTERM that reaches the whole step, so that the program can handle it.
RANK = (
    'trap : TERM; set -f; IFS=":"; set -- $RUNSPEC_STARTS; shift "$SLURM_NODEID"; unset IFS; '
    'sh "$1" && exit; c=$?; echo $c >"$1.failed.$$"; exit $c'
)
START = ("sh", "-c", RANK)


def hidden(env: Mapping[str, str]) -> Dict[str, str]:
    """Return *env* without Slurm's variables."""
    return {name: value for name, value in env.items() if not name.startswith(SLURM)}


def without_pmi(env: Mapping[str, str]) -> Dict[str, str]:
    return {name: value for name, value in env.items() if not name.startswith(PMI)}


def shown(env: Mapping[str, str]) -> bytes:
    """Return shell code that restores Slurm's variables for a rank below such an mpirun."""
    return _exports({name: env[name] for name in env if name.startswith(SLURM)})


def srun(env: Mapping[str, str], nodes: int, slots: int) -> List[str]:
    """Return the srun command for the ranks of all nodes: https://slurm.schedmd.com/srun.html."""
    cpus = int(env.get("SLURM_CPUS_ON_NODE") or slots)
    argv = ["srun", "--overlap", "--mpi=" + env[PLUGIN], "--nodes={}".format(nodes)]
    argv += ["--ntasks={}".format(nodes * slots), "--ntasks-per-node={}".format(slots)]
    argv += ["--cpus-per-task={}".format(max(1, cpus // slots))]
    argv += ["--overcommit"] if slots > cpus else []
    return [*argv, "--kill-on-bad-exit=0", "--input=none", "--chdir=/", *START]


def env_of_srun(env: Mapping[str, str], nodes: Sequence[Node]) -> Dict[str, str]:
    """Return the environment of srun and all ranks: that of the first node, with the path of each node's script."""
    kept = {name: env[name] for name in KEPT if name in env}
    starts = ":".join(node.start for node in nodes)
    return dict(without_pmi(hidden(env)), RUNSPEC_STARTS=starts, **kept)


def start_script(env: Mapping[str, str], folder: str, script: bytes) -> bytes:
    """Return the script of a rank on this node: it sets this node's variables once its host file is written."""
    ours = {name: env[name] for name in env if name.startswith("RUNSPEC_")}
    ours.pop("RUNSPEC_LEADER", None)  # is known after the rendezvous, and set by the first node
    wait = "until [ -e {} ]; do sleep 0.1; done\nunset RUNSPEC_STARTS\n"
    ready = shlex.quote(os.path.join(folder, READY))
    return os.fsencode(wait.format(ready)) + _exports(ours) + script


def environment(pid: int) -> bytes:
    """Return the environment that *pid* was started with; empty if it has ended or belongs to another user."""
    try:
        with open("/proc/{}/environ".format(pid), "rb") as stream:
            return stream.read()
    except OSError:
        return b""


def _exports(env: Mapping[str, str]) -> bytes:
    """Return an export command for each variable.

    >>> print(_exports({"B": "it's", "A": "1"}).decode(), end="")
    export A=1
    export B='it'"'"'s'
    """
    lines = ["export {}={}\n".format(name, shlex.quote(env[name])) for name in sorted(env)]
    return os.fsencode("".join(lines))
