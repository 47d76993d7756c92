"""How whoever is logged in, and jobs, get at blobs: what is signed and for how long, and what is never sent."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import parse_qs

import pytest

from runspec_azure.batch import emulator
from runspec_azure.batch.client import AzureClient
from runspec_azure.batch.timing import DEFAULT
from runspec_azure.timing import Clock
from runspec_jobs.provider import UsageError
from tests.support.azure.specs import IDENTITY, errors, options, problems, spec

KEY = base64.b64encode(b"key of nobody").decode()


def client(monkeypatch: pytest.MonkeyPatch, **profile: Any) -> AzureClient:
    monkeypatch.setenv("STORAGE_KEY", KEY)
    return AzureClient(options(**profile))


def test_no_login_is_sent_in_the_open(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = {
        "batch_url": "http://127.0.0.1:1",
        "blob_url": "http://localhost:2",
        "storage_key": None,
    }
    found = client(monkeypatch, **plain)

    with pytest.raises(UsageError, match=r"batch_url: http://127\.0\.0\.1:1 is not encrypted"):
        found.session.look("Job_List")
    with pytest.raises(UsageError, match="blob_url: http://localhost:2 is not encrypted"):
        found.blobs.size("a")


def test_a_signature_is_for_https_alone_and_made_anew_before_it_is_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [1000.0]
    monkeypatch.setenv("STORAGE_KEY", KEY)
    signer = AzureClient(options(signed_for="1h"), clock=Clock(lambda: clock[0])).signer
    made: list[str] = []
    real = signer.sign

    def signed(rights: str, key: str) -> str:
        made.append(real(rights, key))
        return made[-1]

    monkeypatch.setattr(signer, "sign", signed)

    first = signer.with_urls({"a": [{"$signed": "racwdl"}, {"$signed": "racwdl"}]})["a"][0]
    clock[0] += DEFAULT.signature_s + 1
    signer.with_urls({"$signed": "racwdl"})

    assert parse_qs(first)["spr"] == ["https"]
    assert len(made) == 2


@pytest.mark.parametrize(
    ("timeout", "profile", "way"),
    [
        ("90m", {"signed_for": "1h"}, "set signed_for: 90m or longer"),
        ("8d", {"storage_key": None}, "set identity in the profile, or storage_key"),
    ],
)
def test_a_job_that_outlives_its_signature_is_told_a_way_that_there_is(
    timeout: str, profile: dict[str, Any], way: str
) -> None:
    (found,) = [p for p in problems(spec(timeout=timeout), **profile) if p.severity == "error"]

    assert way in (found.hint or "")


SUBNET = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/a"
GALLERY = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/g/images/i/versions/1.0.0"
KEYED: dict[str, Any] = {"batch_key": "env:BATCH_KEY", "pool_allocation": None}


@pytest.mark.parametrize(
    ("profile", "survey", "name"),
    [
        ({"pool_allocation": "user-subscription"}, {}, "user subscription"),
        ({}, {"pool_allocation": "user-subscription"}, "user subscription"),
        ({"subnet": SUBNET}, {}, "subnet"),
        ({"image": GALLERY}, {}, "image"),
    ],
)
def test_check_reports_settings_that_need_a_login_instead_of_a_key(
    profile: dict[str, Any], survey: dict[str, Any], name: str
) -> None:
    (found,) = [
        p for p in problems(spec(), survey, **{**KEYED, **profile}) if p.severity == "error"
    ]

    assert name in found.what and "batch_key" in found.what
    assert "remove batch_key" in str(found.hint)
    assert errors(spec(), survey, **{**KEYED, **profile, "batch_key": None}) == []


def test_a_key_is_enough_for_pools_that_somebody_else_makes() -> None:
    """A pool of the profile is there already; one with an identity is made by the Resource Manager."""
    linked = {**KEYED, "subnet": SUBNET, "image": GALLERY}
    managed = {**linked, "identity": IDENTITY, "subscription": "s", "resource_group": "g"}

    assert errors(spec(), None, **linked, pool="mine") == []
    assert errors(spec(), None, **managed) == []


def test_an_emulator_of_this_machine_takes_keys_alone() -> None:
    """No login is sent over plain http."""
    here = {"batch_url": "http://127.0.0.1:1", "batch_key": "env:BATCH_KEY"}

    assert errors(spec(), None, **here) == []


def test_a_rehearsal_leaves_out_what_a_key_cannot_make() -> None:
    profile = {"subnet": SUBNET, "image": GALLERY, "node_agent": "batch.node.el 8", "max_nodes": 4}

    assert emulator.portable(profile) == {"max_nodes": 4}
    assert emulator.portable({"image": "a:b:c:d", "node_agent": "x"}) != {}


@pytest.mark.parametrize("fields,told", [({}, True), ({"timeout": "2d"}, False)])
def test_a_signed_job_without_a_timeout_is_told_how_long_its_urls_last(
    fields: dict[str, Any], told: bool
) -> None:
    found = problems(spec(container={"image": "a:1"}, **fields), files="signed")

    said = [one.severity for one in found if "without timeout it may run" in one.what]
    assert said == ["note"] * told


@pytest.mark.parametrize(
    ("fields", "files", "told"),
    [
        ({"retry": {"attempts": 2}}, "signed", True),
        ({"retry": {"attempts": 2}}, "agent", False),
        ({}, "signed", False),
    ],
)
def test_a_signed_job_that_asks_which_attempt_it_is_gets_no_answer(
    fields: dict[str, Any], files: str, told: bool
) -> None:
    """Azure Batch tells a task nothing about its retries, and no agent counts."""
    more = {"run": 'exit "$RUNSPEC_ATTEMPT"', "timeout": "1h", **fields}
    found = problems(spec(container={"image": "a:1"}, **more), files=files)

    said = [(one.path, one.severity) for one in found if "RUNSPEC_ATTEMPT is 1" in one.what]
    assert said == [(("run",), "note")] * told
