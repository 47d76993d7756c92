"""Answers that were drawn and made a crash or a wrong result once: each is right now, in every run of the tests."""

from __future__ import annotations

import pytest

from tests.drawn.aws_account import JOB, Drawn, World
from tests.drawn.aws_cases import CASES
from tests.drawn.aws_judge import Example, Region
from tests.drawn.drawing import HTML
from tests.drawn.schema import UNKNOWN_ENUM
from tests.drawn.test_aws import account as account  # a fixture
from tests.support.http_server import Reply

NO_TEXT = Drawn("odd", reply=Reply(500, {"Content-Type": "application/json"}, b"\xff\xfe"))
PAGE = Drawn("odd", reply=Reply(429, {"Content-Type": "text/html"}, HTML))
WHOLE = Drawn("whole", value={})


def without(place: int) -> Drawn:
    """Return an answer that lacks one of its members, by number."""
    return Drawn("lacking", value={}, lack=(place, "out"))


EXAMPLES = {
    "a job without its id": ("DescribeJobs, state", World(), without(1)),
    "a job without its status": ("DescribeJobs, state", World(), without(3)),
    "a status that is new": ("DescribeJobs, state", World(status=UNKNOWN_ENUM), WHOLE),
    "a new status of a job to cancel": ("DescribeJobs, cancel", World(status=UNKNOWN_ENUM), WHOLE),
    "a job of the list without a time": (
        "ListJobs, find",
        World(pages=((JOB,),)),
        Drawn("whole", value={"jobSummaryList": []}),
    ),
    "a queue in use, after an empty page": (
        "ListJobs, destroy --site",
        World(pages=((), ("x",))),
        WHOLE,
    ),
    "a body that is no text": ("TerminateJob, cancel", World(), NO_TEXT),
    "a proxy's page in the place of XML": ("CreatePlacementGroup, call", World(), PAGE),
    "a proxy's page about a role": ("GetRole, doctor", World(), PAGE),
    "placement groups without a list": ("DescribePlacementGroups, find", World(), without(0)),
    "launch templates without a list": ("DescribeLaunchTemplates, destroy", World(), without(0)),
    "launch templates of all, without a list": (
        "DescribeLaunchTemplates, gc",
        World(pages=(("runspec-machine-0123456789ab",),)),
        without(0),
    ),
    "environments without a list": (
        "DescribeComputeEnvironments, gc",
        World(pages=(("1",),)),
        without(0),
    ),
    "a queue without its status": ("DescribeJobQueues, settled", World(), without(5)),
    "an empty body for a list of objects": (
        "ListObjectsV2, destroy",
        World(pages=(("a",),)),
        Drawn("cut", value={}, seen=False),
    ),
    "an unfinished upload, after an empty page": (
        "ListMultipartUploads, destroy --site",
        World(pages=((), ("1",))),
        WHOLE,
    ),
    "a caller without a name": ("GetCallerIdentity, doctor", World(), without(0)),
    "subnets without a list": (
        "DescribeSubnets, doctor",
        World(pages=(("m5.large", "c5.large"),)),
        without(0),
    ),
    "a queue to look at without its state": ("DescribeJobQueues, doctor", World(), without(3)),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_answer_that_was_misunderstood_once_is_understood(account: Region, name: str) -> None:
    case, world, drawn = EXAMPLES[name]

    account.judge(CASES[case], Example(world, drawn))
