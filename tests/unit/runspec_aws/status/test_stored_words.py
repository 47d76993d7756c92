"""Words that AWS Batch stores and that other versions of runspec compare: they never change."""

from __future__ import annotations

from runspec_aws.status import jobs


def test_reasons_of_ended_jobs_are_those_of_version_0_1_0() -> None:
    assert jobs.NOT_NEEDED == "the job is over: it is not needed any more"
    assert jobs.CANCELLED == "cancelled by runspec"
