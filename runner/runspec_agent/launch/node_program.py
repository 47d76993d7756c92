"""`launch -- WORD...`: start the program on this node as the environment describes, and return one exit code."""

import os
from typing import Callable, Dict, List

from runspec_agent.base import limits, process, program_hooks
from runspec_agent.base.job_env import Failure, current
from runspec_agent.base.process import Child, Signals
from runspec_agent.launch import launcher_end, mpi, ranks, torchrun
from runspec_agent.rendezvous.participant import Participant

LAUNCH: Dict[str, Callable[[Participant, List[str]], int]] = {
    "mpi": mpi.run,
    "horovod": mpi.run,
    "torchrun": torchrun.run,
    "srun": ranks.run,
}


def main(argv: List[str]) -> int:
    argv = argv[1:] if argv[:1] == ["--"] else argv
    if not argv:
        raise Failure("launch: no command")
    job_env, end_path = current(), launcher_end.take()
    setup, argv = program_hooks.split(argv)
    if setup:  # it may take other nodes longer
        longest_s = max(job_env.meet_timeout_s, limits.STORE_MEET_S)
        job_env = job_env._replace(meet_timeout_s=longest_s)
    process.adopt_orphans()
    with Signals() as signals:
        if job_env.launch == "none":
            return process.run(Child([*setup, *argv]), signals, job_env.grace_s)
        participant = Participant(job_env, signals)
        try:
            code = 0
            if setup:
                code = process.run(Child(setup), signals, job_env.grace_s, keep_rest=True)
                os.environ.pop(program_hooks.ENDED, None)
            if code == 0:
                code = LAUNCH[job_env.launch](participant, argv)
        except Failure as failure:
            launcher_end.tell(end_path, participant, failure.code, failure)
            participant.end(failure.code)
            raise
        launcher_end.tell(end_path, participant, code, None)
        participant.end(code)
        return code
