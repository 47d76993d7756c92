"""The AWS Batch provider: a job in containers on machines that AWS Batch starts and stops."""

from __future__ import annotations

from runspec_aws.provider import PROVIDER as PROVIDER
