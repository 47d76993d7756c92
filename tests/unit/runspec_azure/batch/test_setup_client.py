"""The client of a setup on Azure: what keeps an account that the setup has made from its deletion."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Self

import pytest
from azure.core.exceptions import HttpResponseError

from runspec_azure.batch.setup import client
from runspec_azure.batch.setup.manager import Manager
from runspec_azure.batch.setup.options import BatchSetup
from runspec_azure.batch.setup.steps import MARK, Names, plan
from runspec_azure.errors import translated
from runspec_jobs.provider import Conflict, RemoteError, Step

SETUP = "azure-batch-abc123"
LATER = "azure-batch-later1"  # a setup of this machine, too
SURVEY: dict[str, Any] = {
    "subscription": "00000000-0000-0000-0000-000000000001",
    "person": "00000000-0000-0000-0000-000000000002",
    "location": "westeurope",
    "quotas": {},
}


class Resources:
    """A Resource Manager with what this setup has made, and what others have put *inside*, by how its path ends."""

    def __init__(self, inside: Mapping[str, Any], marks: Mapping[str, str] | None = None) -> None:
        self.inside, self.deleted, self.marks = inside, list[str](), marks or {}

    def get(self, path: str, version: str) -> dict[str, Any] | None:
        return None if path in self.deleted else {"tags": {MARK: self.marks.get(path, SETUP)}}

    def list(self, path: str, version: str) -> list[Any]:
        return [row for end, row in self.inside.items() if path.endswith(end)]

    def send(self, method: str, path: str, version: str) -> Any:
        if method == "POST":
            return 200, {"keys": [{"value": "k"}]}
        self.deleted.append(path)
        return 200, {}


def fill_container(monkeypatch: pytest.MonkeyPatch, *blobs: str) -> list[tuple[str, str]]:
    """Have the container hold *blobs*, and return a list that gets the name and the key each time it is opened."""
    opened = []

    class Container:
        def __init__(self, url: str, name: str, key: Mapping[str, str], **_: Any) -> None:
            opened.append((name, key["account_key"]))

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def list_blobs(self, results_per_page: int) -> list[str]:
            return list(blobs)

    monkeypatch.setattr(client, "ContainerClient", Container)
    return opened


def check(
    monkeypatch: pytest.MonkeyPatch,
    inside: Mapping[str, Any],
    *,
    with_data: bool = False,
    blobs: bool = False,
    marks: Mapping[str, str] | None = None,
    **options: Any,
) -> list[str]:
    """Return why a whole setup cannot be undone."""
    monkeypatch.setattr(client, "Manager", lambda _: Resources(inside, marks))
    fill_container(monkeypatch, *(["blob"] if blobs else []))
    settings = BatchSetup(**options)
    requests = [step.undo for step in plan(settings, SURVEY, SETUP).steps if step.undo]
    together = (SETUP, LATER)
    found = client.connect(settings, SURVEY, SETUP).check_undo(
        requests, together, with_data=with_data
    )
    return [conflict.message for conflict in found]


@pytest.mark.parametrize("endpoint", [None, "own.westeurope.batch.azure.com"])
def test_the_settings_get_the_address_of_the_account(
    monkeypatch: pytest.MonkeyPatch, endpoint: str | None
) -> None:
    """As the service says it; otherwise, as it is named by default."""
    names = Names(BatchSetup(), SURVEY)
    answer = {"properties": {"accountEndpoint": endpoint} if endpoint else {}}
    manager = SimpleNamespace(send=lambda *request: (200, answer))
    monkeypatch.setattr(client, "Manager", lambda _: manager)
    steps = {step.do.params["path"]: step.do for step in plan(BatchSetup(), SURVEY, SETUP).steps}

    made = client.connect(BatchSetup(), SURVEY, SETUP).call(steps[names.batch])

    usual = f"{names.batch.rpartition('/')[2]}.westeurope.batch.azure.com"
    assert made == {"url": f"https://{endpoint or usual}"}


def test_a_whole_setup_without_anything_of_others_may_be_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = Names(BatchSetup(), SURVEY)
    ours = {"/resources": {"name": "ours", "id": names.batch.upper()}}
    ours |= {"/containers": {"name": "jobs", "id": names.container}}

    assert check(monkeypatch, ours) == []


@pytest.mark.parametrize("setup", [LATER, "azure-batch-other1", ""])
def test_what_a_later_setup_has_made_again_does_not_keep_the_first_one(
    monkeypatch: pytest.MonkeyPatch, setup: str
) -> None:
    """It goes before, with the later setup; what that of another machine or nobody has made stays, and all with it."""
    names = Names(BatchSetup(), SURVEY)
    inside = {"/resources": {"name": "data", "id": names.storage}}

    reasons = check(monkeypatch, inside, marks={names.storage: setup})

    assert reasons == ([] if setup == LATER else [f"{names.group_name} has data, and stays"])


def test_what_keeps_a_setup_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = {"name": "theirs", "id": "/theirs"}
    inside = dict.fromkeys(("/resources", "/pools", "/containers", "/shares"), theirs)

    reasons = check(monkeypatch, inside, blobs=True)

    ends = [reason.partition(" has ")[2] for reason in reasons]
    assert ends == ["theirs, and stays"] * 4 + ["blobs, and stays"]
    assert check(monkeypatch, {}, blobs=True, with_data=True) == []


def test_an_identity_stays_with_pools_of_another_account(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(BatchSetup(), SURVEY)
    account = {"name": "other", "id": "/subscriptions/s/resourceGroups/g/batchAccounts/other"}
    users: dict[str, Any] = {"userAssignedIdentities": {names.identity.upper(): {}}}
    inside = {"/batchAccounts": account, "other/pools": {"name": "nodes", "identity": users}}

    reasons = check(monkeypatch, inside, batch_url="https://other.westeurope.batch.azure.com")

    (reason,) = reasons
    assert reason.endswith("is used by the pools nodes of the Batch account other")
    unused = {**inside, "other/pools": {"name": "nodes", "identity": None}}
    assert check(monkeypatch, unused) == []


def test_lists_of_several_pages_are_read_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {
        "": {
            "value": [{"id": "/a", "name": "a"}],
            "nextLink": "https://x.y/z?api-version=v&$skiptoken=t",
        },
        "t": {"value": [{"id": "/b", "name": "b"}]},
    }

    def send(self: Any, method: str, path: str, version: str, body: Any, query: Any) -> Any:
        return 200, pages[query.get("$skiptoken", "")]

    monkeypatch.setattr(Manager, "send", send)

    assert [row["name"] for row in Manager.__new__(Manager).list("/z", "v")] == ["a", "b"]


def undo(monkeypatch: pytest.MonkeyPatch, name: str, inside: Mapping[str, Any]) -> Resources:
    manager = Resources(inside)
    monkeypatch.setattr(client, "Manager", lambda _: manager)
    step: Step = next(s for s in plan(BatchSetup(), SURVEY, SETUP).steps if s.id == name)
    assert step.undo is not None
    client.connect(BatchSetup(), SURVEY, SETUP).call(step.undo)
    return manager


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("storage", "/blobServices/default/containers"),
        ("storage", "/fileServices/default/shares"),
        ("storage", "/queueServices/default/queues"),
        ("storage", "/tableServices/default/tables"),
        ("batch", "/pools"),
        ("identity", "/pools"),
        ("role-jobs", "/pools"),
    ],
)
def test_an_account_with_things_of_others_stays(
    monkeypatch: pytest.MonkeyPatch, name: str, end: str
) -> None:
    with pytest.raises(Conflict, match="has theirs, and stays") as caught:
        undo(monkeypatch, name, {end: {"name": "theirs"}})

    assert caught.value.hint


def test_data_stay_with_pools_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Resources({"/pools": {"name": "theirs"}})
    monkeypatch.setattr(client, "Manager", lambda _: manager)
    data = plan(BatchSetup(), SURVEY, SETUP).data["container"]

    with pytest.raises(Conflict, match="has theirs, and stays"):
        client.connect(BatchSetup(), SURVEY, SETUP).call(data)

    assert manager.deleted == []


@pytest.mark.parametrize("name", ["storage", "batch"])
def test_an_account_without_data_is_deleted(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    leaving = {"name": "old", "properties": {"provisioningState": "Deleting"}}

    manager = undo(monkeypatch, name, {"/pools": leaving})

    assert len(manager.deleted) == 1


def test_a_subscription_that_the_login_does_not_know_is_no_missing_resource(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer_404(monkeypatch, "ResourceGroupNotFound")
    assert Manager.__new__(Manager).get("/subscriptions/s/resourceGroups/g", "v") is None

    answer_404(monkeypatch, "SubscriptionNotFound")
    with pytest.raises(RemoteError, match="SubscriptionNotFound"):
        Manager.__new__(Manager).get("/subscriptions/s/resourceGroups/g", "v")


def answer_404(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    def send(*_: Any) -> Any:
        exc = HttpResponseError(code)
        exc.status_code, exc.error = 404, SimpleNamespace(code=code, message=code)  # type: ignore[assignment]
        with translated("GET g"):
            raise exc

    monkeypatch.setattr(Manager, "send", send)


class Answers:
    """A Resource Manager that answers the same resource each time, and keeps what it was sent."""

    def __init__(self, resource: Mapping[str, Any] | None) -> None:
        self.resource, self.sent = resource, list[tuple[str, str]]()

    def get(self, path: str, version: str) -> Any:
        return self.resource

    def send(self, method: str, path: str, version: str, body: Any = None) -> Any:
        self.sent.append((method, path))
        return 200, self.resource


def reach(
    monkeypatch: pytest.MonkeyPatch, name: str, resource: Mapping[str, Any] | None, **options: Any
) -> tuple[Any, Step, Answers]:
    """Return a client whose manager answers *resource*, the step *name*, and the manager."""
    manager = Answers(resource)
    monkeypatch.setattr(client, "Manager", lambda _: manager)
    settings = BatchSetup(**options)
    step = next(s for s in plan(settings, SURVEY, SETUP).steps if s.id == name)
    return client.connect(settings, SURVEY, SETUP), step, manager


def test_a_resource_is_made_by_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"properties": {"principalId": "p1"}}
    opened, step, manager = reach(monkeypatch, "identity", made)

    assert opened.call(step.do) == {"principalId": "p1"}

    assert manager.sent == [("PUT", step.do.params["path"])]


def test_a_resource_of_somebody_else_is_refused_unless_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened, step, _ = reach(monkeypatch, "storage", {"properties": {}})
    with pytest.raises(Conflict, match="exists, and no runspec setup has made it"):
        opened.find(step)

    opened, step, _ = reach(monkeypatch, "storage", {"properties": {}}, storage_account="mine")
    assert opened.find(step) == {}


def test_a_resource_that_is_being_deleted_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for state, there in (("Deleting", None), ("Succeeded", {})):
        resource = {"tags": {MARK: SETUP}, "properties": {"provisioningState": state}}
        opened, step, _ = reach(monkeypatch, "storage", resource)
        assert opened.find(step) == there


def test_a_resource_can_be_used_when_its_state_is_succeeded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for state, usable in (("Creating", False), ("Succeeded", True), (None, True)):
        opened, step, _ = reach(
            monkeypatch, "storage", {"properties": {"provisioningState": state}}
        )
        assert opened.settled(step) is usable
    opened, step, _ = reach(monkeypatch, "storage", {"properties": {"provisioningState": "Failed"}})
    with pytest.raises(RemoteError, match="its state is Failed"):
        opened.settled(step)


def test_blobs_are_looked_for_with_a_key_of_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fill_container(monkeypatch, "blob")
    resource = {"tags": {MARK: SETUP}, "keys": [{"value": "k"}]}
    opened, step, manager = reach(monkeypatch, "container", resource)
    manager.list = lambda *_: []  # type: ignore[attr-defined]
    assert step.undo is not None

    (conflict,) = opened.check_undo([step.undo], (SETUP,), with_data=False)

    assert conflict.message == "the container jobs has blobs, and stays"
    assert asked == [("jobs", "k")]
