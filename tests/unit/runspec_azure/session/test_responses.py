"""What answers of Azure Batch may lack, and may hold besides: each of these once ended a command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runspec_azure.session import responses
from runspec_jobs.provider import NoAnswer, RemoteError, State
from tests.drawn.azure_batch import RUN, Account
from tests.drawn.azure_table import reply
from tests.support.http_server import Server

pytestmark = pytest.mark.process


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    monkeypatch.setenv("KEY", "c2VjcmV0IGtleQ==")
    with Server() as server:
        yield Account(server, "running")


def test_a_job_without_a_state_is_no_answer(account: Account) -> None:
    account.cloud.says("Job_Get", {"id": RUN})

    with pytest.raises(NoAnswer, match="Job_Get: the reply lacks 'state'"):
        account.client().state(RUN)


@pytest.mark.parametrize("answer", [{"value": None}, {"value": [], "odata.nextLink": None}])
def test_a_list_that_is_null_has_nothing(answer: Any, account: Account) -> None:
    account.cloud.says("Task_List", answer)

    assert account.client().state(RUN).state is State.WAITING


@pytest.mark.parametrize("answer", [{}, {"values": []}, [], 1, None])
def test_an_answer_that_is_no_list_is_no_answer(answer: Any) -> None:
    with pytest.raises(NoAnswer, match="Task_List: the reply was cut off"):
        responses.listed("Task_List", answer)


def test_null_is_what_is_not_given(account: Account) -> None:
    tasks = [{"id": "task-00000", "state": "running", "executionInfo": None}]
    account.cloud.says("Task_List", {"value": tasks})
    account.cloud.says("Job_List", {"value": [{"id": "x", "state": "active", "metadata": None}]})
    account.cloud.says("Pool_List", {"value": [{"id": "x", "state": "active", "metadata": [{}]}]})

    assert account.client().state(RUN).state is State.RUNNING
    assert list(account.client().find_orphans([RUN], [])) == []


def test_a_state_that_is_new_is_no_end(account: Account) -> None:
    tasks = [{"id": "task-00000", "state": "hibernating"}, {"id": "task-00001", "state": "running"}]
    account.cloud.says("Task_List", {"value": tasks})

    assert account.client().state(RUN).state is State.RUNNING


def test_a_task_that_somebody_added_is_none_of_ours(account: Account) -> None:
    tasks = [{"id": name, "state": "running"} for name in ("task-00000", "task-00001", "mine")]
    account.cloud.says("Task_List", {"value": tasks})

    assert [node.task for node in account.client().state(RUN).nodes] == [0, 1]


def test_a_job_is_ours_with_members_that_are_new(account: Account) -> None:
    job = account.truths()["Job_Get"]
    job["poolInfo"] = {**job["poolInfo"], "autoPoolSpecification": None, "since": "today"}
    job["metadata"] = [{**job["metadata"][0], "since": "today"}, {"name": "cost", "value": "7"}]
    account.cloud.says("Job_Get", job)

    assert account.client().find(account.steps["job"]) == {"id": RUN}


@pytest.mark.parametrize(
    ("added", "error"),
    [
        ({"taskId": "task-00000"}, NoAnswer),
        ({"status": "clienterror", "error": {"code": "X", "message": None}}, RemoteError),
        ({"status": "servererror", "taskId": "task-00000", "error": None}, RemoteError),
    ],
)
def test_a_task_that_was_perhaps_not_added_is_told(
    added: Any, error: type[Exception], account: Account
) -> None:
    account.cloud.says("Task_AddCollection", {"value": [added]})

    with pytest.raises(error):
        account.client().call(account.steps["tasks-0"].do)


def test_a_node_without_a_place_has_no_log_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "c2VjcmV0IGtleQ==")
    with Server() as server:
        account = Account(server, "gang")
        account.cloud.truth["Task_ListSubtasks"] = lambda _: reply(
            200, {"value": [{"id": 1, "nodeInfo": {"nodeId": "tvm-b"}}]}
        )
        _, other = account.client().streams(RUN)

        assert other.read(None).data == b""
