"""Whatever AWS answers to a setup within its description, a setup finds or misses something, or says what is wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from botocore import xform_name
from hypothesis import strategies as st

from runspec_aws.errors import checked
from runspec_aws.setup import client, finders, survey, undo_check
from runspec_aws.setup.finders import Place
from runspec_aws.setup.marks import OWNERS, read_marks
from runspec_aws.setup.options import AwsSetup
from runspec_aws.setup.steps import Names, plan
from runspec_emulators.aws import models
from runspec_jobs.plan.model import REF, fill, find_marked
from runspec_jobs.provider import Request, RunspecError, Step
from tests.drawn.aws_models import output
from tests.drawn.drawing import tried
from tests.drawn.schema import Ways, values

pytestmark = pytest.mark.slow

# The SDK leaves nulls and unknown names out of what it gives.
WAYS = Ways(nulls=False, unknown_names=False)
SURVEY = {
    "region": "eu-central-1",
    "account": "111122223333",
    "partition": "aws",
    "quotas": {},
    "zones": ["a"],
}
SETUP = plan(AwsSetup(repository="train"), SURVEY, "aws-batch-abc123")
STEPS = {step.id: step for step in SETUP.steps}
MOST = 25  # answers of each place that asks


class Drawn:
    """A session whose services answer what is drawn."""

    region, bucket = "eu-central-1", "mine"

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], service: str = "") -> None:
        self._draw, self._service = draw, service

    def look(self, service: str) -> Drawn:
        return Drawn(self._draw, service)

    make = look

    def get_paginator(self, operation: str) -> Drawn:
        found = Drawn(self._draw, self._service)
        found.paginate = lambda **_: [getattr(self, operation)()]  # type: ignore[attr-defined]
        return found

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        words = {xform_name(name): name for name in models.service(self._service).operation_names}

        def answer(**_: Any) -> Any:
            drawn = self._draw(values(output(self._service, words[operation]), WAYS))
            checked(drawn)
            return drawn

        return answer


def hold(name: str, ask: Callable[[Any], Any]) -> None:
    """Have *ask* meet drawn answers: any error but one of ours fails the test."""

    # Hypothesis draws while the code asks, which only data() permits.
    def check(data: Any) -> None:
        with contextlib.suppress(RunspecError):
            ask(Drawn(data.draw))

    assert tried(name, st.data(), check, MOST) > 0


def place(session: Any) -> Place:
    return Place(session, Names(AwsSetup(repository="train"), SURVEY))


def fill_in(params: Mapping[str, Any]) -> Any:
    return fill(params, {REF: dict.fromkeys(find_marked(params, REF), "id-1")})


@pytest.mark.parametrize("step", STEPS.values(), ids=list(STEPS))
def test_each_step_is_found_or_not_or_an_error_of_ours(step: Step) -> None:
    hold(step.id, lambda session: finders.find(place(session), step.do.operation, step.do.params))


UNDO = {step.undo.operation: step.undo for step in SETUP.steps if step.undo}


@pytest.mark.parametrize("operation", OWNERS)
def test_marks_are_read_or_an_error_of_ours(operation: str) -> None:
    undo = UNDO[operation]._replace(params=fill_in(UNDO[operation].params))

    hold(operation, lambda session: read_marks(place(session), undo))


def test_what_keeps_a_setup_is_found_or_an_error_of_ours() -> None:
    requests: list[Request] = [u._replace(params=fill_in(u.params)) for u in UNDO.values()]

    for data in (True, False):
        hold(
            f"undo {data}",
            lambda session, data=data: undo_check.list_conflicts(  # type: ignore[misc]
                place(session), requests, with_data=data
            ),
        )


@pytest.mark.parametrize("given", [{}, {"subnets": ["subnet-1"]}, {"network": "own"}])
def test_an_account_is_surveyed_or_an_error_of_ours(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = AwsSetup(region="eu-central-1", **given)

    def ask(session: Any) -> None:
        monkeypatch.setattr(survey, "open_session", lambda *_: session)
        survey.survey(options)

    hold(f"survey {given}", ask)


@pytest.mark.parametrize("step", STEPS.values(), ids=list(STEPS))
def test_each_request_is_answered_or_an_error_of_ours(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    do = step.do._replace(params=fill_in(step.do.params))

    def ask(session: Any) -> None:
        monkeypatch.setattr(client, "open_session", lambda *_: session)
        client.AwsSetupClient(AwsSetup(), SURVEY, "aws-batch-abc123").call(do)

    hold(f"call {step.id}", ask)
