"""How often Batch AI is asked. Nothing says how often it may be: these are on the safe side."""

from __future__ import annotations

# A follower that has nothing to do asks less than once a second, all in all: one end of a log every
# POLL_S, the job every FRESH_S, what files there are every LISTED_S.
POLL_S = 2.0
FRESH_S = 4.0
LISTED_S = 20.0
