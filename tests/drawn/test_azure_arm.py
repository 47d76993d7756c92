"""The clients of Batch AI and of the Resource Manager get answers drawn from all that their descriptions allow."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runspec_batchai import timing
from runspec_jobs.provider import State
from tests.drawn import azure_arm as arm
from tests.drawn.azure_arm import Subscribed, Workspace
from tests.drawn.azure_batch import TEXT
from tests.drawn.azure_cases import outcome
from tests.drawn.azure_cloud import ranged
from tests.drawn.azure_facts import BATCH_AI_OPERATIONS, SDK_OPERATIONS
from tests.drawn.azure_storage import Case, of_bytes
from tests.drawn.azure_ways import Way, check, drawn
from tests.drawn.drawing import COUNT, tried
from tests.support.http_server import ReceivedRequest, Reply, Server

GONE: Any = (State.GONE, None, [])
JOB = Way("running", arm.state, (GONE,))
WAYS: dict[str, tuple[Way, ...]] = {
    "Clusters_Create": (Way("running", arm.call("cluster")),),
    "Clusters_Delete": (Way("over", arm.undo("cluster"), ({},)),),
    "Clusters_Get": (
        Way("queued", arm.state),
        Way("over", arm.find("cluster"), (None,)),
        Way("over", arm.settled("cluster"), (False,)),
        Way("over", arm.undo("cluster"), ({},)),
    ),
    "Clusters_ListByWorkspace": (Way("running", arm.litter, arm.LESS),),
    "Experiments_Create": (Way("running", arm.call("experiment")),),
    "Experiments_Delete": (Way("over", arm.delete("Experiments"), (None,)),),
    "Experiments_Get": (Way("over", arm.find("experiment"), (None,)),),
    "Experiments_ListByWorkspace": (Way("running", arm.litter, arm.LESS),),
    "FileServers_ListByWorkspace": (Way("running", arm.file_servers, ([],)),),
    "Jobs_Create": (Way("running", arm.call("job")),),
    "Jobs_Delete": (Way("over", arm.undo("job"), ({},)),),
    "Jobs_Get": (
        JOB,
        Way("over", arm.state, (GONE,)),
        Way("queued", arm.state, (GONE,)),
        Way("running", arm.settled("job"), (False,)),
    ),
    "Jobs_ListByExperiment": (
        Way("running", arm.litter, arm.LESS),
        Way("over", arm.undo("cluster"), ({},)),
    ),
    "Jobs_ListOutputFiles": (Way("running", arm.streams, ([],)),),
    "Jobs_Terminate": (Way("running", arm.cancel, (None,)),),
    "Usages_List": (
        Way("running", arm.usages),
        Way("running", arm.call("cluster")),
        Way("running", arm.doctor, ([False, True],)),
    ),
    "Workspaces_Create": (Way("running", arm.call("workspace")),),
    "Workspaces_Delete": (Way("over", arm.delete("Workspaces"), (None,)),),
    "Workspaces_Get": (
        Way("over", arm.find("workspace"), (None,)),
        Way("running", arm.litter, arm.LESS),
    ),
    "ResourceGroups_CreateOrUpdate": (Way("running", arm.call("group")),),
    "ResourceGroups_Delete": (Way("running", arm.undo("group"), ({},)),),
    "ResourceGroups_Get": (
        Way("running", arm.find("group"), (None,)),
        Way("running", arm.undo("group"), ({},)),
    ),
    "Resources_ListByResourceGroup": (Way("running", arm.undo("group"), ({},)),),
    "ResourceSkus_List": (
        Way("running", arm.skus, (None,)),
        Way("running", arm.doctor, ([True, True, True, False],)),
        Way("subscription", arm.surveyed, arm.NOTHING),
    ),
    "Resources_List": (Way("subscription", arm.surveyed, arm.NOTHING),),
    "Resources_GetById": (Way("subscription", arm.surveyed, arm.NOTHING),),
    "Usage_List": (Way("subscription", arm.counted),),
    "Pool_Create": (Way("subscription", arm.made),),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as found:
        yield found


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits: not between two tries, and not for what is being deleted."""
    quick = timing.Timing(poll_s=0.0, gone_s=0.3, first_pause_s=0.001, longest_pause_s=0.002)
    monkeypatch.setattr(timing, "DEFAULT", quick)
    monkeypatch.setattr("runspec_batchai.session.RETRIES", 2)
    pause = time.sleep
    monkeypatch.setattr(time, "sleep", lambda wanted_s: pause(min(wanted_s, 0.002)))
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # thousands of lines
    monkeypatch.setenv("STORAGE_KEY", "c2VjcmV0IGtleQ==")


@pytest.mark.slow  # thousands of answers
@pytest.mark.parametrize("name", WAYS)
def test_a_client_takes_every_answer_for_what_it_is(name: str, server: Server) -> None:
    def opened(phase: str) -> Any:
        return (Subscribed if phase == "subscription" else Workspace)(server, phase)

    assert tried(name, drawn(name, WAYS[name], opened), check) >= COUNT


@pytest.mark.slow  # hundreds of answers
def test_a_log_behind_a_signed_link_is_read_whole_or_an_error_says_what_is_wrong(
    server: Server,
) -> None:
    account = Workspace(server, "over")
    server.wrong.clear()

    def truth(asked: ReceivedRequest) -> Reply:
        return ranged(TEXT, asked.headers.get("range"))

    def check(case: Case) -> None:
        account.reset()
        account.cloud.says("Jobs_ListOutputFiles", {"value": [arm.stdout(server)]})
        account.cloud.blobs["logs/stdout.txt"] = TEXT
        account.cloud.draw("Blob_Get", case.answer, case.often)
        found = outcome(lambda: arm.log(account))
        assert account.cloud.served
        assert not any((account.cloud.unknown, server.wrong)), (account.cloud.unknown, server.wrong)
        if case.kind == "told":
            assert found.error is None, f"it was told the truth, and said {found.error!r}"
        if found.error is None:
            gone = case.status in (404, 416)
            assert found.value in (TEXT, *((b"",) if gone else ())), f"{found.value!r}"

    assert tried("batch ai: a log", of_bytes(truth, ranged(TEXT, None)), check) >= COUNT


def test_every_operation_of_the_resource_manager_is_tried() -> None:
    assert set(WAYS) == {*BATCH_AI_OPERATIONS, *SDK_OPERATIONS}
