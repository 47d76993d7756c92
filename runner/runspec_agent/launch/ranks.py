"""Start the ranks of a node without MPI and without Slurm, with the variables that srun would set for them."""

import os
import time
import zlib
from typing import Callable, Dict, List, Mapping, Optional, Sequence

from runspec_agent.base import process
from runspec_agent.base.process import Child
from runspec_agent.env import sockets
from runspec_agent.launch import mpi, slurm
from runspec_agent.rendezvous.participant import Participant
from runspec_agent.rendezvous.shared_directory import one_stack


def run(participant: Participant, argv: List[str]) -> int:
    """Start this node's ranks, by srun where the provider says so; the first node ends after all others."""
    words = participant.words
    if os.environ.get(slurm.PLUGIN):
        return mpi.run(participant, argv)
    participant.meet()
    env = dict(sockets.variables(words.host, one_stack(participant.nodes)), **participant.env())
    hosts = [node.host for node in participant.nodes]
    ranks = Ranks(
        argv,
        [
            dict(env, **of_rank(env, hosts, words.rank, words.slots, local))
            for local in range(words.slots)
        ],
        words.grace_s,
        lambda: words.rank > 0 or participant.all_others_ended(),
    )
    code = process.run(ranks, participant.signals, words.grace_s, participant.watch)
    participant.tell_of_failure(ranks.failed)
    return code


def of_rank(
    env: Mapping[str, str], hosts: Sequence[str], node: int, slots: int, local: int
) -> Dict[str, str]:
    """Return srun's variables for a rank, numbered as srun does: all ranks of a node after those of the node before.

    https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES. Those of the job are Slurm's own if there
    are some. Elsewhere its number is made of the name of the run, and is the same on all nodes.
    """
    name = "{}/{}".format(env.get("RUNSPEC_RUN", ""), env.get("RUNSPEC_TASK", "0"))
    job = env.get("SLURM_JOB_ID") or str(zlib.crc32(name.encode()) % 2**31 + 1)
    nodes = env.get("SLURM_JOB_NODELIST") or ",".join(hosts)
    count, total = str(len(hosts)), str(len(hosts) * slots)
    each = "{}(x{})".format(slots, count) if len(hosts) > 1 else str(slots)
    return {
        **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), job),
        **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST"), nodes),
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES"), count),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"), total),
        **dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"), each),
        "SLURM_NTASKS_PER_NODE": str(slots),
        "SLURM_NODEID": str(node),
        "SLURM_LOCALID": str(local),
        "SLURM_PROCID": str(node * slots + local),
        "SLURMD_NODENAME": env.get("SLURMD_NODENAME") or hosts[node],
    }


class Ranks(Child):
    """The ranks of this node as one program, whose exit code is that of the first rank that failed.

    *are_others_over* says whether the other nodes have ended, without which this program has not.
    """

    def __init__(
        self,
        argv: List[str],
        envs: Sequence[Mapping[str, str]],
        grace_s: float,
        are_others_over: Callable[[], bool],
    ) -> None:
        self.failed: Optional[int] = None
        self._failed_at = 0.0
        self._grace_s = grace_s
        self._are_others_over = are_others_over
        self._ranks: List[Child] = []
        try:
            for env in envs:
                self._ranks.append(Child(argv, env))
        finally:
            if len(self._ranks) < len(envs):
                process.kill_rest()

    def members(self) -> List[Child]:
        return self._ranks

    def send(self, number: int) -> None:
        for rank in self._ranks:
            rank.send(number)

    def stop(self, grace_s: float, number: int = process.STOPS[0]) -> None:
        self._kill_in(grace_s)
        for rank in self._ranks:
            rank.stop(grace_s, number)

    def tick(self) -> None:
        """Stop the other ranks some time after one has failed: they may fail for the same reason, and say so."""
        for rank in self._ranks:
            if rank.code and self.failed is None:
                self.failed, self._failed_at = rank.exit_code, time.monotonic()
            rank.tick()
        is_late = time.monotonic() - self._failed_at > mpi.FAILED_S
        if self.failed is not None and self._kill_at is None and is_late:
            self.stop(self._grace_s)

    def is_over(self) -> bool:
        if not all(rank.is_over() for rank in self._ranks):
            return False
        return self.failed is not None or self._kill_at is not None or self._are_others_over()

    @property
    def exit_code(self) -> int:
        return self.failed or 0
