"""Words that AWS Batch stores and that other versions of runspec compare: they never change."""

from __future__ import annotations

from runspec_aws.status.nodes import CANCELLED
from runspec_jobs.provider.elastic_tasks import NOT_NEEDED


def test_reasons_of_ended_jobs_are_those_of_version_0_1_0() -> None:
    assert NOT_NEEDED == "the job is over: it is not needed any more"
    assert CANCELLED == "cancelled by runspec"
