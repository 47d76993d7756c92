"""A pool is woken once for each run, and one that cannot be woken is awake."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from azure.core import exceptions

from runspec_azure.batch import PROVIDER
from runspec_azure.batch.client import AzureClient
from runspec_jobs.provider import AlreadyExists, Facts, NoAnswer, RemoteError, Request, Step
from tests.support.azure.specs import IDENTITY, options, spec
from tests.unit.runspec_azure.batch.infrastructure.test_autoscale import wakes


class Service:
    """What a session would send, to a pool that has the formula of whoever gave it last.

    It is its own management, too, which makes pools with an identity.
    """

    def __init__(self, refusal: RemoteError | NoAnswer | None = None) -> None:
        self.refusal = refusal
        self.pool: dict[str, Any] = {"autoScaleFormula": "", "allocationState": "steady"}

        self.made: list[str] = []
        self.management = self

    def make_pool(self, path: dict[str, str], body: Any) -> None:
        self.made.append(f"Pool_Create {path['poolName']}")

    def make(self, operation: str, path: dict[str, str], body: Any) -> None:
        assert operation in ("Pool_Add", "Pool_EnableAutoScale")
        if self.refusal is not None:
            raise self.refusal
        self.made.append(operation)
        self.pool = body

    def look(self, operation: str, path: dict[str, str]) -> Any:
        assert operation == "Pool_Get"
        return self.pool


def client(service: Service) -> AzureClient:
    found = AzureClient(options())
    found.session = service  # type: ignore[assignment] # what it asks of it
    return found


def step() -> Step:
    (found,) = wakes(spec())
    return found


def pool_step() -> Step:
    steps = PROVIDER.plan(spec(), "n-abc123", Facts(options(), {}))
    (found,) = [s for s in steps if s.id == "pool"]
    return found


def refused(kind: type[RemoteError | NoAnswer], code: str) -> RemoteError | NoAnswer:
    cause = exceptions.HttpResponseError("no")
    cause.model = type("Model", (), {"code": code})()
    found = kind("no")
    found.__cause__ = cause
    return found


def test_a_wake_that_may_have_been_sent_is_known_by_the_formula() -> None:
    service = Service()
    found = client(service)

    before = found.find(step())
    answer = found.call(step().do)

    assert before is None
    assert found.find(step()) == answer
    assert "// woken by n-abc123\n" in service.pool["autoScaleFormula"]
    assert "$clock" not in service.pool["autoScaleFormula"]
    assert service.pool["autoScaleEvaluationInterval"] == "PT5M"


def test_a_wake_of_another_run_is_not_taken_for_ours() -> None:
    service = Service()
    found = client(service)
    params = dict(step().do.params)
    text = params["body"]["autoScaleFormula"]["$clock"].replace("n-abc123", "n-abc1234")
    params["body"] = {**params["body"], "autoScaleFormula": {"$clock": text}}

    found.call(Request("batch", "Pool_EnableAutoScale", params))

    assert found.find(step()) is None


@pytest.mark.parametrize(
    "state",
    [{"allocationState": "resizing"}, {"targetLowPriorityNodes": 1}, {"currentDedicatedNodes": 2}],
)
def test_a_pool_that_has_machines_or_gets_some_is_awake(state: dict[str, Any]) -> None:
    service = Service()
    service.pool |= state

    assert client(service).find(step()) == {}


@pytest.mark.parametrize(
    "refusal",
    [
        refused(RemoteError, "PoolBeingResized"),
        refused(NoAnswer, "TooManyEnableAutoScaleRequests"),
    ],
)
def test_a_pool_that_cannot_be_woken_is_awake(refusal: RemoteError | NoAnswer) -> None:
    """It is resized, or somebody else has woken it within half a minute."""
    assert client(Service(refusal)).call(step().do) == {}


def test_other_refusals_of_a_wake_up_are_errors() -> None:
    refusal = refused(RemoteError, "AutoScalingFormulaSyntaxError")

    with pytest.raises(RemoteError):
        client(Service(refusal)).call(step().do)


def test_a_pool_that_was_made_just_now_is_made_awake_and_not_woken() -> None:
    service = Service()
    found = client(service)

    found.call(pool_step().do)
    found.call(step().do)

    assert service.made == ["Pool_Add"]
    until = re.search(r'time\("(.*)"\)', service.pool["autoScaleFormula"])
    assert until and datetime.now(UTC) < datetime.fromisoformat(until[1])


def test_a_pool_with_an_identity_is_made_awake_by_the_resource_manager() -> None:
    """The data plane makes none: see `managed_pool`."""
    named = {"identity": IDENTITY, "subscription": "s", "resource_group": "g"}
    steps = PROVIDER.plan(spec(), "n-abc123", Facts(options(**named), {}))
    made = {step.id: step.do for step in steps}
    service = Service()
    found = client(service)

    answer = found.call(made["pool"])
    found.call(made["wake"])

    assert service.made == [f"Pool_Create {answer['id']}"]


def test_a_pool_that_another_command_has_made_is_woken() -> None:
    """Whoever goes on with a run that was cut off does not know when that was."""
    service = Service()
    client(service).call(pool_step().do)

    client(service).call(step().do)

    assert service.made == ["Pool_Add", "Pool_EnableAutoScale"]


def test_a_pool_that_was_there_already_is_woken() -> None:
    service = Service(refused(RemoteError, "PoolExists"))
    body = pool_step().do.params["body"]
    service.pool = {**body, "autoScaleFormula": ""}
    found = client(service)
    with pytest.raises(AlreadyExists):  # the engine looks for it then
        found.call(pool_step().do)
    answer, service.refusal = found.find(pool_step()), None

    found.call(step().do)

    assert answer == {"id": body["id"]}
    assert service.made == ["Pool_EnableAutoScale"]
