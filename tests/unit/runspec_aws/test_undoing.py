"""Taking things away where the reply to the first try was lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from runspec_aws import lookup
from runspec_aws.client import AwsClient
from runspec_aws.timing import DEFAULT, Clock
from runspec_jobs.errors import RemoteError
from runspec_jobs.provider import Request

UNDO = Request("batch", "delete_job_queue", {"jobQueue": "q"})


class Queue:
    """A queue as a client asks for it: it is told what its status is, look by look, and that it is not found."""

    def __init__(self, *statuses: str) -> None:
        self.statuses = list(statuses)

    def look(self, service: str) -> Any:
        return SimpleNamespace(
            describe_job_queues=self.described, describe_launch_templates=self.templates
        )

    def described(self, **asked: list[str]) -> dict[str, Any]:
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return {"jobQueues": [{"jobQueueName": "q", "status": status, "state": "DISABLED"}]}

    def templates(self, **asked: list[str]) -> dict[str, Any]:
        return {"LaunchTemplates": [{}]}


def undone(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    client = AwsClient.__new__(AwsClient)
    client.timing, client.clock = DEFAULT, Clock(sleep=lambda seconds: None)
    monkeypatch.setattr(client, "session", queue, raising=False)
    monkeypatch.setattr(
        client, "jobs", SimpleNamespace(refuse_if_used=lambda name: None), raising=False
    )

    def send(request: Request) -> Any:
        raise RemoteError("JobQueue not found: q")

    monkeypatch.setattr(client, "send", send)
    client.undo(UNDO)


def test_undo_waits_for_a_queue_that_is_being_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK sends a request again whose reply was lost, and hears that there is no such queue."""
    queue = Queue("VALID", "VALID", "DELETING", "DELETING", "DELETING", "DELETED")

    undone(queue, monkeypatch)

    assert queue.statuses == ["DELETED"]


def test_undo_accepts_a_queue_that_disappears(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else deletes it at the same time."""
    undone(Queue("VALID", "VALID", "DELETING", "DELETED"), monkeypatch)


def test_undo_fails_if_the_queue_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RemoteError, match="not found"):
        undone(Queue("VALID"), monkeypatch)


def test_a_launch_template_counts_as_present_while_it_exists() -> None:
    template = Request("ec2", "delete_launch_template", {"LaunchTemplateName": "t"})

    assert lookup.stays(Queue("DELETING"), template)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("states", "answer"),
    [
        (["available"], {"GroupName": "runspec-close-1"}),
        (["deleted"], None),
        (["deleted", "pending"], {"GroupName": "runspec-close-1"}),
        ([], None),
    ],
)
def test_a_placement_group_that_was_deleted_is_not_there(
    states: list[str], answer: dict[str, str] | None
) -> None:
    """Its states: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_PlacementGroup.html"""
    groups = {"PlacementGroups": [{"State": state} for state in states]}
    ec2 = SimpleNamespace(describe_placement_groups=lambda **asked: groups)
    session: Any = SimpleNamespace(look=lambda service: ec2)
    undo = Request("ec2", "delete_placement_group", {"GroupName": "runspec-close-1"})

    assert lookup.FINDERS["create_placement_group"](session, undo.params) == answer
    assert lookup.there(session, undo) == (answer is not None)


def test_a_repository_with_images_of_other_runs_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what was asked for is done: https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_DeleteRepository.html"""
    there = SimpleNamespace(describe_repositories=lambda **asked: {"repositories": [{}]})
    client = AwsClient.__new__(AwsClient)
    client.timing, client.clock = DEFAULT, Clock(sleep=lambda seconds: None)
    session = SimpleNamespace(look=lambda service: there)
    monkeypatch.setattr(client, "session", session, raising=False)

    def send(request: Request) -> Any:
        answer = {"Error": {"Code": "RepositoryNotEmptyException", "Message": "it has images"}}
        raise RemoteError("it has images") from ClientError(answer, "DeleteRepository")

    monkeypatch.setattr(client, "send", send)

    assert client.undo(Request("ecr", "delete_repository", {"repositoryName": "jobs"})) == {}
