"""Intervals and timeouts of requests to a cluster, chosen cautiously where no documentation gives a value."""

from __future__ import annotations

# How long the result of a look at the workspace is reused: at least this long, and ten times as long as the look took,
# up to a cap. Without the cap, a login node that hung for a minute would hide the end of a job for ten.
LOOK_S, LOOK_SSH_S = 0.05, 1.0
LOOK_SHARE, LOOK_CAP_S = 10, 2.0
# The controller is polled at once when the workspace shows a change of the run; else each pause is 1.5 times the last.
ASK_FIRST_S, ASK_LAST_S, ASK_GROWS = 0.25, 20.0, 1.5
# A command without an answer after this time is killed. Slurm's own commands give up after MessageTimeout (10 s), some
# after several attempts: https://slurm.schedmd.com/slurm.conf.html#OPT_MessageTimeout
COMMAND_S = 120.0
STAGE_S = 24 * 3600.0
CONNECT_S = 20
PERSIST_S = 120  # an unused connection is kept open for the next command
# How long a file that a node wrote just before its job ended may stay invisible here.
NOTES_S = 3.0
# How many minutes to wait for the exit record of a job that Slurm does not know, three times the delay of NFS; and the
# pause between two checks.
UNKNOWN_MIN, UNKNOWN_POLL_S = 3, 5.0
# The pause between two checks of jobs that are being stopped; and the time for a job to save its work, after its grace
# period: `runspec_agent.job.slurm_batch`.
STOP_POLL_S, SAVE_S = 1.0, 120.0
# How long all processes of a cancelled job may take to end: KillWait (30 s) and the epilog.
GONE_S = 300.0
