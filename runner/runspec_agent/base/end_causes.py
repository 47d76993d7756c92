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

# After the reason of a timeout. https://mpi4py.readthedocs.io/en/stable/mpi4py.run.html
MPI_HINT = (
    "; start Python by `python -m mpi4py`, or an exception on one rank leaves the others waiting"
)
