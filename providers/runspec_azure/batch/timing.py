"""How often Azure Batch is polled, and how long waits may take; its limits are undocumented."""

from __future__ import annotations

# A follower of a quiet run sends less than one request a second in total: for the end of the log every
# POLL_S, for the tasks every FRESH_S, for the job and the pool every SLOW_S.
POLL_S = 2.0
FRESH_S = 3.0
SLOW_S = 20.0
# For the deletion of a pool, which releases its machines first.
GONE_S = 1800.0
# For a running task to notice its stop request, to end within its grace period, and to save its outputs.
LISTENS_S = 180.0
# For how long the formula of a pool counts a run as submitted without samples: a little less than until the next
# evaluation. If the clock is wrong by minutes, a machine starts at that evaluation, or stays for longer.
WOKEN_S = 240.0
