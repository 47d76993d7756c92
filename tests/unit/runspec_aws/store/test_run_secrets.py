"""Secrets of this machine in the plan of a job on AWS Batch: names, and never values."""

from __future__ import annotations

import json

import pytest

from runspec_aws import offer
from runspec_jobs.provider import Scope
from tests.support.aws.specs import SECRET, spec
from tests.unit.runspec_aws.test_plan import RUN, facts, steps

CALLER = {"T": {"from": "caller"}}


def test_a_secret_of_the_shell_is_made_for_the_run_before_the_definition_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("T", "s3cret")

    found = steps(spec(secrets={**CALLER, "U": "hf"}), secrets={"hf": SECRET})

    own = [name for name, step in found.items() if step.scope is Scope.RUN]
    assert own == ["record", "secret-T", "definition", "value-T", "job"]
    container = found["definition"].do.params["containerProperties"]
    assert container["secrets"] == [
        {"name": "T", "valueFrom": {"$ref": "secret-T.ARN"}},
        {"name": "U", "valueFrom": SECRET.removeprefix("aws-sm:")},
    ]
    assert found["definition"].do.params["jobDefinitionName"] == f"runspec-{RUN}"
    assert found["secret-T"].do.params["Name"] == f"runspec/{RUN}/T"
    assert found["value-T"].do.params["SecretString"] == {"$secret": "env:T"}
    assert found["secret-T"].undo is not None
    assert found["secret-T"].undo.params["ForceDeleteWithoutRecovery"] is True
    assert "s3cret" not in json.dumps([step.do.params for step in found.values()])


def test_a_job_without_secrets_of_this_machine_shares_its_definition() -> None:
    found = steps(spec(secrets={"U": "hf"}), secrets={"hf": SECRET})

    assert found["definition"].scope is Scope.SITE


@pytest.mark.parametrize(("count", "words"), [(1, "a secret"), (2, "2 secrets")])
def test_secrets_that_are_kept_have_a_price(count: int, words: str) -> None:
    wanted = spec(secrets={f"T{n}": {"from": "caller"} for n in range(count)})

    *_, last = offer.offer(wanted, facts(wanted)).standing

    assert last.what.startswith(f"{words} in Secrets Manager until the run is destroyed")
    assert last.usd_hour == pytest.approx(count * 0.4 / 730)
    assert last.hours == 24
