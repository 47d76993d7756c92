"""How long AWS may take to show what has happened. Nothing says so exactly: these are on the safe side."""

from __future__ import annotations

# From making something to its being listed. Batch promises no bound; Metaflow waits 30 s for a job
# to be described, and a longer wait only follows a lost reply. See docs/unverified.md, aws-20.
SETTLE_S = 10.0
# From the end of a container to its last line in CloudWatch Logs. See docs/unverified.md, aws-26.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AnalyzingLogData.html
QUIET_S = 5.0
# From the end of a job's main node to that of the others: 30 s from SIGTERM to SIGKILL, and as much again.
# https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html
STOP_S = 60.0
