"""How often a cluster is asked, and how long it may take. Nothing says so exactly: these are on the safe side."""

from __future__ import annotations

# One look at the workspace is good for so long, and for ten times as long as it took, up to a cap: a login node that
# did not answer for a minute must not hide the end of a job for ten.
LOOK_S, LOOK_SSH_S = 0.05, 1.0
LOOK_SHARE, LOOK_CAP_S = 10, 2.0
# The controller is asked at once when the workspace has news of the run; else each pause is half as long again.
ASK_FIRST_S, ASK_LAST_S, ASK_GROWS = 0.25, 20.0, 1.5
# A command that has no answer by then is ended. Slurm's own commands give up after MessageTimeout (10 s), some
# after several tries: https://slurm.schedmd.com/slurm.conf.html#OPT_MessageTimeout
COMMAND_S = 120.0
STAGE_S = 24 * 3600.0
CONNECT_S = 20
PERSIST_S = 120  # an unused connection is kept open for the next command
# What a node wrote just before its job ended may come to be seen here later.
NOTES_S = 3.0
# Of a job that nobody knows anything of a word may come for so many minutes, three times what NFS takes; and how often
# it is looked for.
DOUBT_MIN, DOUBT_AGAIN_S = 3, 5.0
# Between two looks at what is told to end; and for a job to save its work, after its grace:
# `runspec_agent.job.slurm_batch`.
TELL_S, SAVE_S = 1.0, 120.0
# For all processes of a job that was cancelled to be gone: KillWait (30 s) and the epilog.
GONE_S = 300.0
