"""The times that AWS may take to show an effect. AWS documents no exact limits, so these are generous."""

from __future__ import annotations

# From the creation of a resource until lists contain it. AWS Batch documents no limit. Metaflow waits 30 s for
# DescribeJobs to show a job; runspec waits for this only after a lost reply. See docs/unverified.md, aws-20.
SETTLE_S = 10.0
# From the end of a container until its last line is in CloudWatch Logs. See docs/unverified.md, aws-26.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AnalyzingLogData.html
QUIET_S = 5.0
# From the end of a job's main node to that of the other nodes: 30 s from SIGTERM to SIGKILL, and 30 s more.
# https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html
STOP_S = 60.0
