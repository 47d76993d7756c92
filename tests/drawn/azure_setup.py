"""A setup of Azure at a Resource Manager that answers as a test draws."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from azure.core.credentials import AccessToken
from hypothesis import strategies as st

from runspec_azure.batch.setup import client, survey
from runspec_azure.batch.setup.options import BatchSetup
from runspec_azure.batch.setup.steps import MARK, Names, plan
from runspec_jobs.provider import Step
from tests.drawn.azure_cloud import Cloud, Truth
from tests.drawn.azure_table import Operation, operations, reply
from tests.support.http_server import ReceivedRequest, Reply, Server

SETUP = "azure-batch-abc123"
SURVEY: dict[str, Any] = {
    "subscription": "00000000-0000-0000-0000-000000000001",
    "person": "00000000-0000-0000-0000-000000000002",
    "location": "westeurope",
    "quotas": {},
}
OTHER = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Batch/batchAccounts/other"
TAGS = {"tags": {MARK: SETUP}}
STATE = {"provisioningState": "Succeeded"}
# What the service says of each kind of resource of the setup, beside its id and name.
RESOURCES: Mapping[str, Mapping[str, Any]] = {
    "Group": {**TAGS, "properties": STATE},
    "Storage": {**TAGS, "properties": STATE},
    "Container": {"properties": {"metadata": {MARK.replace("-", "_"): SETUP}}},
    "Identity": {**TAGS, "properties": {"principalId": "p1"}},
    "Batch": {**TAGS, "properties": {**STATE, "accountEndpoint": "a.westeurope.batch.azure.com"}},
    "Role": {"properties": {"principalId": "p1", "roleDefinitionId": "r1"}},
}
MISSING = {"error": {"code": "ResourceNotFound", "message": "no"}}


class Login:
    """Whoever is logged in: a token with an object id."""

    def get_token(self, *scopes: str, **more: Any) -> AccessToken:
        claims = base64.urlsafe_b64encode(json.dumps({"oid": SURVEY["person"]}).encode())
        return AccessToken(f"head.{claims.decode()}.sig", int(time.time()) + 3600)


@cache
def patterns() -> Mapping[str, tuple[Operation, re.Pattern[str]]]:
    found = {}
    for name, one in operations("setup").items():
        pattern = re.escape(one.path).replace(r"\{scope\}", ".+")
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", pattern)
        found[name] = one, re.compile(pattern, re.IGNORECASE)
    return found


def operation_of(asked: ReceivedRequest) -> str:
    """Return the name of the operation that a request is. Raises ValueError for one that is in no table."""
    (name,) = [
        name
        for name, (one, pattern) in patterns().items()
        if one.method == asked.method and pattern.fullmatch(asked.path)
    ]
    return name


class Subscription:
    """A subscription with all that a setup has made; *phase* says whether others use it, too."""

    def __init__(self, server: Server, phase: str) -> None:
        self.server, self.phase = server, phase
        self.options = BatchSetup(location="westeurope", arm_url=server.url)
        self.names = Names(self.options, SURVEY)
        self.setup = plan(self.options, SURVEY, SETUP)
        self.steps = {step.id: step for step in self.setup.steps}
        self.client = client.connect(self.options, SURVEY, SETUP)
        self.reset()

    def reset(self) -> None:
        self.cloud = Cloud()
        self.gone: set[str] = set()
        self.server.answering = self.answer
        self.server.wrong.clear()

    def answer(self, asked: ReceivedRequest) -> Reply:
        name = operation_of(asked)
        drawn = self.cloud.drawn
        if drawn is not None and drawn[0] == name and self.cloud.served < self.cloud.often:
            self.cloud.served += 1
            return drawn[1](asked)
        return self.truth(name, asked)

    def truth(self, name: str, asked: ReceivedRequest) -> Reply:
        kind, _, verb = name.partition("_")
        if verb == "Delete":
            self.gone.add(asked.path)
            return Reply(200)
        if verb == "Get" and asked.path in self.gone:
            return reply(404, MISSING)
        if verb == "List" and kind == "Pool" and asked.path.startswith(OTHER):
            return reply(200, {"value": []})
        return reply(200, self.truths()[name])

    def truths(self) -> dict[str, Any]:
        """Return what the service says of what it is asked for."""
        found: dict[str, Any] = {f"{kind}_Get": dict(one) for kind, one in RESOURCES.items()}
        found |= {f"{kind}_Put": dict(one) for kind, one in RESOURCES.items()}
        theirs = [{"id": f"/theirs/{n}", "name": f"theirs-{n}"} for n in range(2)]
        rows = theirs if self.phase == "used" else []
        lists = ("Group_ListResources", "Container_List", "Share_List", "Queue_List", "Table_List")
        found |= {name: {"value": rows} for name in (*lists, "Pool_List")}
        return found | {
            "Batch_List": {"value": [{"id": OTHER, "name": "other"}]},
            "Storage_ListKeys": {"keys": [{"value": "k"}]},
            "Subscriptions_List": {"value": [{"subscriptionId": SURVEY["subscription"]}]},
            "Quota_Get": {"accountQuota": 3},
        }

    def told(self, operation: str) -> st.SearchStrategy[Truth] | None:
        """Return how a deletion goes: what is deleted is not there afterwards."""
        if not operation.endswith("_Delete"):
            return None
        return st.just(lambda asked: self.truth(operation, asked))


Drive = Callable[[Subscription], Any]


def find(step: str) -> Drive:
    return lambda account: account.client.find(account.steps[step])


def settled(step: str) -> Drive:
    return lambda account: account.client.settled(account.steps[step])


def call(step: str) -> Drive:
    return lambda account: account.client.call(account.steps[step].do)


def undo(step: str) -> Drive:
    def done(account: Subscription) -> Any:
        found: Step = account.steps[step]
        assert found.undo is not None
        if account.cloud.drawn and account.cloud.drawn[0].endswith("_Get"):
            account.cloud.often = 1  # what is always there is never deleted
        return account.client.call(found.undo)

    return done


def delete_data(account: Subscription) -> Any:
    return account.client.call(account.setup.data["container"])


def conflicts(account: Subscription) -> list[str]:
    requests = [step.undo for step in account.setup.steps if step.undo]
    found = account.client.check_undo(requests, (SETUP,), with_data=False)
    return [one.message for one in found]


def surveyed(account: Subscription) -> Any:
    return survey.survey(account.options)
