"""What ends a node: the last word in the name of its end record, which the agent writes and clients read.

`retry.end_record` describes the record.
"""

PROGRAM = "program"  # the program itself
SETUP = "setup"  # the setup, which failed before the program
TIMEOUT = "timeout"  # the agent, since the attempt took longer than `timeout`
STOPPED = "stopped"  # a signal: the run was cancelled, or the service ends the job
RECLAIMED = "reclaimed"  # a notice that the machine will be reclaimed
RELEASED = "released"  # a user gave this node of an elastic job back
PEER = "peer"  # another node of the task
UNSAVED = "unsaved"  # the program succeeded, but its outputs could not be saved
FULL = "full"  # the same, because the store is full
AGENT = "agent"  # the agent could not prepare or continue the job
KILLED = "killed"  # a signal ended the agent, as its parent saw
OF_PROGRAM = (PROGRAM, SETUP, TIMEOUT, UNSAVED, FULL)  # with a failure that counts
AWAY = "released: it stays away until it is asked for"  # of a node that a user gave back

# What exit codes mean, as shells define them; numbers of signals are those of Linux, on which jobs run.
MEANINGS = {
    126: "cannot be executed",
    127: "command not found",
    129: "SIGHUP",
    130: "SIGINT",
    131: "SIGQUIT",
    132: "SIGILL",
    134: "SIGABRT",
    135: "SIGBUS",
    136: "SIGFPE",
    137: "SIGKILL: perhaps out of memory",
    138: "SIGUSR1",
    139: "SIGSEGV",
    140: "SIGUSR2",
    141: "SIGPIPE",
    142: "SIGALRM",
    143: "SIGTERM",
    152: "SIGXCPU",
    153: "SIGXFSZ",
}

# After the reason of a timeout. https://mpi4py.readthedocs.io/en/stable/mpi4py.run.html
MPI_HINT = (
    "; start Python by `python -m mpi4py`, or an exception on one rank leaves the others waiting"
)


def exited(code: int) -> str:
    """Return the reason of a program that has ended with an exit code of its own.

    >>> exited(3), exited(143)
    ('exited with code 3', 'exited with code 143 (SIGTERM)')
    """
    meaning = MEANINGS.get(code)
    return "exited with code {}{}".format(code, " ({})".format(meaning) if meaning else "")
