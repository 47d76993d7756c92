"""The size of what a run adds to its job definition: SubmitJob does not check it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runspec_aws.client import AwsClient
from runspec_aws.options import AwsOptions
from runspec_aws.provider import PROVIDER
from runspec_aws.store.objects import Objects
from runspec_aws.timing import CLOCK, DEFAULT
from runspec_jobs.provider import Facts, RemoteError, Request
from tests.support.aws.specs import PROFILE, spec


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(("length", "refused"), [(6000, False), (7200, True)])
def test_overrides_with_which_the_job_would_fail_are_not_sent(
    length: int, refused: bool, nodes: int
) -> None:
    """Batch accepts them, adds its own variables, and the job fails."""
    wanted = spec(cluster={"nodes": nodes})
    params = dict(
        PROVIDER.plan(wanted, "n-abc123", Facts(AwsOptions.model_validate(PROFILE)))[-1].do.params
    )
    own = {"environment": [{"name": "RUNSPEC_FILES", "value": "x" * length}]}
    if nodes > 1:
        properties = [{"targetNodes": "0:", "containerOverrides": own}]
        params["nodeOverrides"] = {"numNodes": nodes, "nodePropertyOverrides": properties}
    else:
        params["containerOverrides"] = own
    sent: list[Any] = []

    def submit_job(**given: Any) -> dict[str, str]:
        sent.append(given)
        return {"jobName": "", "jobId": "", "jobArn": ""}

    batch = SimpleNamespace(submit_job=submit_job)
    session: Any = SimpleNamespace(
        make=lambda service: batch, valid={}, clock=CLOCK, timing=DEFAULT
    )
    one = AwsClient.__new__(AwsClient)
    one.session, one.files = session, Objects(session, "runspec")

    if refused:
        with pytest.raises(RemoteError, match=r"the container overrides have 7,2.. bytes") as told:
            one.send(Request("batch", "submit_job", params))
        assert told.value.hint and "shorter session token" in told.value.hint
    else:
        one.send(Request("batch", "submit_job", params))
    assert len(sent) == (not refused)
