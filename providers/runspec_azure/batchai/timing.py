"""How often Batch AI is polled; its limits are undocumented, so these are careful."""

from __future__ import annotations

# A follower of a quiet run sends less than one request a second in total: for the end of a log every
# POLL_S, for the job every FRESH_S, for the list of files every LISTED_S.
POLL_S = 2.0
FRESH_S = 4.0
LISTED_S = 20.0
