"""`launch -- WORD...`: start the program on this node as the environment describes, and return one exit code."""

from typing import Callable, Dict, List

from runspec_agent.base import process
from runspec_agent.base.job_env import Failure, current
from runspec_agent.base.process import Child, Signals
from runspec_agent.launch import launcher_end, mpi, torchrun
from runspec_agent.rendezvous.participant import Participant

LAUNCH: Dict[str, Callable[[Participant, List[str]], int]] = {
    "mpi": mpi.run,
    "horovod": mpi.run,
    "torchrun": torchrun.run,
}


def main(argv: List[str]) -> int:
    argv = argv[1:] if argv[:1] == ["--"] else argv
    if not argv:
        raise Failure("launch: no command")
    words, told = current(), launcher_end.take()
    process.adopt_orphans()
    with Signals() as signals:
        if words.launch == "none":
            return process.run(Child(argv), signals, words.grace_s)
        seat = Participant(words, signals)
        try:
            code = LAUNCH[words.launch](seat, argv)
        except Failure as failure:
            launcher_end.tell(told, seat, failure.code, failure)
            seat.end(failure.code)
            raise
        launcher_end.tell(told, seat, code, None)
        seat.end(code)
        return code
