"""What answers of Batch AI may lack: each of these once ended a command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runspec_jobs.provider import NoAnswer, State, Status
from tests.drawn.azure_arm import RUN, Subscribed, Workspace, counted
from tests.support.http_server import Reply, Server

pytestmark = pytest.mark.process


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Workspace]]:
    monkeypatch.setenv("STORAGE_KEY", "c2VjcmV0IGtleQ==")
    with Server() as server:
        yield lambda phase: Workspace(server, phase)


def of_a_sweep(account: Workspace) -> Status:
    """Ask for a run whose jobs are in a list alone."""
    account.cloud.says("Jobs_Get", {"error": {"code": "ResourceNotFound", "message": "no"}}, 404)
    return account.client().state(RUN)


@pytest.mark.parametrize("page", [{}, {"value": None}])
def test_a_list_that_is_null_has_nothing(page: Any, opened: Callable[[str], Workspace]) -> None:
    account = opened("running")
    for operation in ("Jobs_ListOutputFiles", "Jobs_ListByExperiment", "Clusters_ListByWorkspace"):
        account.cloud.says(operation, page)

    assert list(account.client().streams(RUN)) == []
    assert of_a_sweep(account).state is State.GONE


def test_an_empty_page_is_no_answer(opened: Callable[[str], Workspace]) -> None:
    account = opened("running")
    account.cloud.truth["Jobs_ListByExperiment"] = lambda _: Reply(
        200, {"Content-Type": "application/json"}
    )

    with pytest.raises(NoAnswer, match="Jobs_ListByExperiment: the reply was cut off"):
        of_a_sweep(account)


def test_a_job_that_waits_for_an_unnamed_cluster_waits(
    opened: Callable[[str], Workspace],
) -> None:
    account = opened("queued")
    job = account.truths()["Jobs_Get"]
    del job["properties"]["cluster"]
    account.cloud.says("Jobs_Get", job)

    found = account.client().state(RUN)

    assert (found.state, found.reason) == (State.WAITING, "")


def test_files_without_a_name_or_a_link_are_no_logs(opened: Callable[[str], Workspace]) -> None:
    account = opened("running")
    files = [{"fileType": "file", "downloadUrl": "x"}, {"name": "stdout.txt", "fileType": "file"}]
    account.cloud.says("Jobs_ListOutputFiles", {"value": files})

    assert list(account.client().streams(RUN)) == []


def test_a_usage_without_its_numbers_is_left_out(opened: Callable[[str], Workspace]) -> None:
    account = opened("running")
    usages = [{"name": {"value": "Clusters"}, "limit": 3}, {"currentValue": 1, "limit": 2}]
    account.cloud.says("Usages_List", {"value": usages})

    assert account.client().arm.usages() == {}
    subscribed = Subscribed(account.server, "subscription")
    subscribed.cloud.says("Usage_List", {"value": usages})
    assert counted(subscribed) == {}
