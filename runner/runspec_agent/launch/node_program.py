"""`launch -- WORD...`: start the program on this node as the environment describes, and return one exit code."""

from typing import Callable, Dict, List

from runspec_agent.base import process
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
    process.adopt_orphans()
    with Signals() as signals:
        if job_env.launch == "none":
            return process.run(Child(argv), signals, job_env.grace_s)
        participant = Participant(job_env, signals)
        try:
            code = LAUNCH[job_env.launch](participant, argv)
        except Failure as failure:
            launcher_end.tell(end_path, participant, failure.code, failure)
            participant.end(failure.code)
            raise
        launcher_end.tell(end_path, participant, code, None)
        participant.end(code)
        return code
