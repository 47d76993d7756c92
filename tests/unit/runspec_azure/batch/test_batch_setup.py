"""The steps of a setup on Azure: what they ask for, and what the profile says afterwards."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspec_azure.batch import PROVIDER
from runspec_azure.batch.setup.options import BatchSetup
from runspec_azure.batch.setup.steps import plan
from runspec_azure.batch.setup.template import make_policy
from runspec_emulators.azure_batch.account.resources import find_kind
from runspec_jobs.provider import Scope, Setup, SupportsSetup

SURVEY: dict[str, Any] = {
    "subscription": "00000000-0000-0000-0000-000000000001",
    "person": "00000000-0000-0000-0000-000000000002",
    "location": "westeurope",
    "quotas": {},
}


def make(survey: dict[str, Any] = SURVEY, **options: Any) -> Setup:
    return plan(BatchSetup(**options), survey, "azure-batch-abc123")


def test_the_provider_supports_setups() -> None:
    assert isinstance(PROVIDER, SupportsSetup)


def test_each_step_is_a_put_that_a_delete_undoes() -> None:
    setup = make()

    assert {step.scope for step in setup.steps} == {Scope.SITE}
    for step in setup.steps:
        assert step.undo is not None
        assert (step.do.operation, step.undo.operation) == ("put", "delete")
        assert step.undo.params["path"] == step.do.params["path"]
        assert find_kind(step.do.params["path"]), step.do.params["path"]


def test_accounts_of_storage_are_closed_and_names_fit() -> None:
    storage = next(step.do.params for step in make(name="a" * 12).steps if step.id == "storage")

    assert storage["body"]["properties"]["allowBlobPublicAccess"] is False
    assert len(storage["path"].rpartition("/")[2]) <= 24


def test_two_groups_have_accounts_of_different_names() -> None:
    one, other = make(resource_group="one"), make(resource_group="other")

    assert one.settings["storage_account"] != other.settings["storage_account"]


def test_settings_that_are_there_are_not_made() -> None:
    url = "https://jobs.westeurope.batch.azure.com"

    setup = make(batch_url=url)

    assert not {"batch", "role-batch"} & {step.id for step in setup.steps}
    assert setup.settings["batch_url"] == url


def test_names_of_roles_do_not_depend_on_the_setup() -> None:
    other = plan(BatchSetup(), SURVEY, "azure-batch-xyz789")

    paths = [step.do.params["path"] for step in make().steps]
    assert paths == [step.do.params["path"] for step in other.steps]


@pytest.mark.parametrize("key", ["accounts", "dedicated", "spot"])
def test_a_zero_quota_of_azure_is_named(key: str) -> None:
    (note,) = make({**SURVEY, "quotas": {key: 0, "other": 5}}).notes

    assert "is 0" in note and "Request quota increase" in note


def test_the_role_of_policy_setup_names_no_wildcards() -> None:
    role = make_policy(BatchSetup())

    assert "Microsoft.Authorization/roleAssignments/write" in role["Actions"]
    assert "*" not in json.dumps(role["Actions"])


def test_the_setup_after_a_template_is_told_the_settings_of_the_template() -> None:
    notes = PROVIDER.export_setup(make()).notes

    assert "--set location=westeurope SETTINGS, which" in notes[1]
