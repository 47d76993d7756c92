"""How often Azure Batch is asked, and how long it may take. Nothing says so exactly: these are on the safe side."""

from __future__ import annotations

# A follower that has nothing to do asks less than once a second, all in all: the end of the log every
# POLL_S, the tasks every FRESH_S, the job and the pool every SLOW_S.
POLL_S = 2.0
FRESH_S = 3.0
SLOW_S = 20.0
# For a pool to be gone: its machines are given back first.
GONE_S = 1800.0
# For a task that runs to hear that it is stopped, to end within its grace, and to save what it wrote.
LISTENS_S = 180.0
# For how long a pool that is woken goes by what was submitted, and not by its samples: as long as the next
# evaluation is away, and a little less. A clock that is wrong by minutes costs the wait for that, or a
# machine's longer stay.
WOKEN_S = 240.0
