"""Ten faults that a client might have had, one of each kind: the drawn answers find every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from runspec_aws import errors, logs, lookup
from runspec_aws.client import AwsClient
from runspec_aws.status import jobs
from runspec_aws.store.objects import Objects
from tests.drawn.aws_cases import CASES
from tests.drawn.aws_judge import Region, examples
from tests.drawn.drawing import goes_wrong
from tests.drawn.planted import Fault, planted
from tests.drawn.test_aws import account as account  # a fixture

pytestmark = pytest.mark.slow


class Planted(NamedTuple):
    """A fault, and the case whose drawn answers have to find it."""

    function: Callable[..., Any]
    old: str
    new: str
    case: str


PLANTED = {
    "an optional member is taken to be there": Planted(
        jobs.Jobs.list_queue, 'job.get("createdAt", 0)', 'job["createdAt"]', "ListJobs, find"
    ),
    "a status that is not known is a crash": Planted(
        jobs.Jobs.state_of,
        'STATES.get(job["status"], State.WAITING)',
        'STATES[job["status"]]',
        "DescribeJobs, state",
    ),
    "a status that is not known is a failure": Planted(
        jobs.Jobs.state_of, "State.WAITING)\n", "State.FAILED)\n", "DescribeJobs, state"
    ),
    "an empty page is the end": Planted(
        jobs.Jobs.listed_as,
        'yield from got(page, "jobSummaryList")',
        'yield from (found := got(page, "jobSummaryList"))\n            if not found:\n                return',
        "ListJobs, find",
    ),
    "a page that is cut off is the last one": Planted(
        errors.listed,
        'got(page, "IsTruncated")',
        'page.get("IsTruncated")',
        "ListObjectsV2, destroy",
    ),
    "an answer without its list is an empty one": Planted(
        lookup.definition,
        'got(definitions, "jobDefinitions")',
        'definitions.get("jobDefinitions")',
        "DescribeJobDefinitions, find",
    ),
    "a null list is a crash": Planted(
        lookup.any_state,
        "got(answer, kind.listed)",
        "answer.get(kind.listed)",
        "DescribeJobQueues, find",
    ),
    "a reply that is cut off is one": Planted(
        AwsClient.send, "any(key not in answer for key in kept)", "False", "SubmitJob, call"
    ),
    "an error that nobody knows means that nothing is there": Planted(
        lookup.absent, "code_of(exc) in codes", "code_of(exc)", "GetObject, state"
    ),
    "an empty page of a log ends it": Planted(
        logs.CloudStream.read, "after != token", "False", "GetLogEvents, logs"
    ),
    "a body that is no text is a crash": Planted(
        errors.while_parsing, "return any(", "return not any(", "TerminateJob, cancel"
    ),
    "expired credentials are any refusal": Planted(
        errors.refusal, "code in DENIED", 'code == ""', "PutObject, call"
    ),
    "an output that cannot be listed whole is none": Planted(
        Objects.outputs,
        "for entry in self.listing(base)",
        "for entry in list(self.listing(base))[:1]",
        "ListObjectsV2, outputs",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(account: Region, name: str) -> None:
    function, old, new, which = PLANTED[name]
    case = CASES[which]

    with planted(Fault(function, old, new)):
        found = goes_wrong(case.name, examples(case), lambda one: account.judge(case, one))

    assert found
