"""Doctor says what will stop a job, and plans hear what the account has: from the service, only by looking."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from runspec_azure.batch import PROVIDER, doctor
from runspec_azure.batch.options import BatchOptions
from runspec_azure.discover import Subscription, survey
from tests.support.azure import resource_manager
from tests.support.azure.specs import decision, options, spec

pytestmark = pytest.mark.process

KEY = base64.b64encode(b"k" * 32).decode()


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[resource_manager.Azure]:
    monkeypatch.setenv("ANY_KEY", KEY)
    with resource_manager.azure() as made:
        yield made


def profile(azure: resource_manager.Azure, **more: Any) -> BatchOptions:
    """Give a profile that leads to *azure* alone."""
    return options(
        subscription=resource_manager.SUBSCRIPTION,
        batch_url=azure.url,
        batch_account="jobs",
        batch_key="env:ANY_KEY",
        storage_key="env:ANY_KEY",
        blob_url=f"{azure.url}/jobs",
        **more,
    )


def subscription(azure: resource_manager.Azure, **more: Any) -> Subscription:
    settings: dict[str, Any] = {
        "authentication_policy": resource_manager.OverHttp(),
        "retry_total": 0,
    }
    return Subscription(
        profile(azure, **more), resource_manager.Login(), base_url=azure.url, **settings
    )


def said(azure: resource_manager.Azure, **more: Any) -> dict[str, bool]:
    found = doctor.examine(profile(azure, **more), subscription(azure, **more))
    return {finding.what: finding.ok for finding in found}


def ends(found: dict[str, bool], ending: str) -> bool:
    """Give what is said of the one finding that ends so."""
    (ok,) = [ok for what, ok in found.items() if what.endswith(ending)]
    return ok


def test_an_account_that_is_as_it_should_be_is_found_good(azure: resource_manager.Azure) -> None:
    found = said(azure)

    assert all(found.values())
    assert "Batch account jobs" in found
    assert "container jobs of storage account jobs" in found
    assert "jobs in westeurope: Succeeded, user-subscription" in found
    assert ends(found, "with batch.node.ubuntu 24.04, until 2029-06-30")
    assert ends(found, "90 of 100 vCPUs in total are free")
    assert ends(found, "50 of 50 spot vCPUs are free")


def test_doctor_changes_nothing_in_the_account(azure: resource_manager.Azure) -> None:
    """The server answers GET, and takes blobs; anything else would be refused, and found."""
    assert all(said(azure).values())
    assert azure.blobs == set()
    assert len(azure.calls) <= 10


def test_a_store_that_does_not_obey_conditions_is_told_and_the_blob_is_deleted(
    azure: resource_manager.Azure,
) -> None:
    assert ends(said(azure), "the store of container jobs has conditional writes")
    azure.obeys = False

    found = said(azure)

    what = "the store of container jobs does not obey If-None-Match: two jobs of one run could both run"
    assert not found[what]
    assert azure.blobs == set()


def test_doctor_names_missing_settings_without_a_request() -> None:
    found = list(doctor.examine(options(container=None, batch_url=None)))

    assert [f.what for f in found] == [
        "the profile has no `batch_url`",
        "the profile has no `container`",
    ]
    assert not any(f.ok for f in found)


def test_a_key_that_is_not_there_is_said(
    azure: resource_manager.Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANY_KEY")

    found = said(azure)

    assert found["cannot find the key env:ANY_KEY"] is False
    assert azure.calls == []


def test_an_account_that_cannot_be_reached_is_said(azure: resource_manager.Azure) -> None:
    away = profile(azure).model_copy(update={"batch_url": "http://127.0.0.1:9"})

    first = next(iter(doctor.examine(away)))

    assert (first.ok, "cannot reach" in first.what) == (False, True)
    assert first.hint and first.hint.startswith("set batch_url")


def test_a_container_that_is_not_there_is_said(azure: resource_manager.Azure) -> None:
    azure.container = False

    found = list(doctor.examine(profile(azure), subscription(azure)))

    (bad,) = [f for f in found if not f.ok]
    assert "there is no container jobs" in bad.what
    assert bad.hint and "az storage container create" in bad.hint


def test_an_image_with_another_node_agent_is_said(azure: resource_manager.Azure) -> None:
    (bad,) = [
        f
        for f in doctor.examine(profile(azure, node_agent="batch.node.el 9"), subscription(azure))
        if not f.ok
    ]

    assert bad.hint == "set node_agent: batch.node.ubuntu 24.04"


@pytest.mark.parametrize("able", [(), ("NvidiaTeslaDriverInstalled",)])
def test_an_image_without_containers_is_said(
    azure: resource_manager.Azure, able: tuple[str, ...]
) -> None:
    without = (
        "image microsoft-dsvm:ubuntu-hpc:2404:latest supports only jobs without container.image"
    )
    assert without not in said(azure)

    azure.images[0]["capabilities"] = list(able)

    assert without in said(azure)


def test_doctor_says_that_a_custom_image_cannot_be_checked(
    azure: resource_manager.Azure,
) -> None:
    found = said(azure, image="/subscriptions/s/galleries/g/images/mine")

    assert any("doctor cannot check whether it has a container runtime" in what for what in found)


def test_an_image_that_the_account_has_not_is_said(azure: resource_manager.Azure) -> None:
    image = "microsoft-dsvm:ubuntu-hpc:1804:latest"

    assert said(azure, image=image)[f"the account has no image {image}"] is False


def test_a_pool_says_which_jobs_it_takes(azure: resource_manager.Azure) -> None:
    azure.pools["mine"] = {
        "id": "mine",
        "vmSize": "standard_d2ds_v5",
        "taskSlotsPerNode": 4,
        "virtualMachineConfiguration": {"containerConfiguration": {}},
        "resizeErrors": [{"code": "AccountCoreQuotaReached", "message": "no more cores"}],
    }

    found = said(azure, pool="mine")

    assert found["pool mine: AccountCoreQuotaReached: no more cores"] is False
    assert ends(found, "enableInterNodeCommunication is false, taskSlotsPerNode 4")
    assert ends(found, "pool mine runs only jobs without an image (standard_d2ds_v5)")


def test_a_pool_for_gangs_with_images_says_so(azure: resource_manager.Azure) -> None:
    containers = {"containerConfiguration": {"type": "dockerCompatible"}}
    azure.pools["mine"] = {
        "enableInterNodeCommunication": True,
        "virtualMachineConfiguration": containers,
        "mountConfiguration": [{"nfsMountConfiguration": {"relativeMountPath": "team"}}],
    }

    found = said(azure, pool="mine")

    assert "pool mine runs only jobs with an image (None)" in found
    assert "pool mine mounts team: other shared:// sources are not available" in found
    assert not [what for what in found if "only jobs of one node" in what]


def test_a_pool_that_is_not_there_is_said(azure: resource_manager.Azure) -> None:
    found = said(azure, pool="none")

    assert [what for what, ok in found.items() if not ok and "PoolNotFound" in what]


def test_machines_that_the_subscription_may_not_have_are_said(
    azure: resource_manager.Azure,
) -> None:
    found = said(azure)
    named = said(azure, vm_size="Standard_NC4as_T4_v3")

    what = "not available to this subscription in westeurope: Standard_NC4as_T4_v3 (NotAvailableForSubscription)"
    assert found[what] is True  # no job may need it
    assert named[what] is False
    assert not [w for w in found if "A100_v4 (" in w], "other zones have it"


def test_a_machine_that_the_region_has_not_is_said(azure: resource_manager.Azure) -> None:
    assert (
        said(azure, vm_size="Standard_HB176rs_v4")["not offered in westeurope: Standard_HB176rs_v4"]
        is False
    )


def test_too_few_free_cores_of_the_family_that_is_named_are_said(
    azure: resource_manager.Azure,
) -> None:
    few = "1 of 10 vCPUs of standardDDSv5Family are free"

    assert said(azure)[few] is True
    # Others use them now, so that a job waits.
    waiting = f"{few}: jobs wait until others end"
    assert said(azure, vm_size="Standard_D2ds_v5")[waiting] is True
    none = "0 of 0 vCPUs of StandardNCASv3_T4Family are free"  # which has spaces over there
    assert said(azure, vm_size="Standard_NC4as_T4_v3")[none] is False


def test_a_subscription_without_cores_is_said(azure: resource_manager.Azure) -> None:
    azure.usages[0] = resource_manager.usage("cores", 0, 1)

    assert said(azure)["1 of 1 vCPUs in total are free"] is False


def test_a_family_that_the_account_does_not_list_has_no_quota(
    azure: resource_manager.Azure,
) -> None:
    azure.account |= {
        "poolAllocationMode": "BatchService",
        "dedicatedCoreQuotaPerVMFamilyEnforced": True,
        "dedicatedCoreQuotaPerVMFamily": [],
    }

    found = said(azure, vm_size="Standard_D2ds_v5")

    assert found["the quota of dedicated vCPUs of standardDDSv5Family is 0"] is False


def test_an_account_of_batchs_own_has_quotas_of_its_own(azure: resource_manager.Azure) -> None:
    azure.account |= {
        "poolAllocationMode": "BatchService",
        "dedicatedCoreQuota": 0,
        "lowPriorityCoreQuota": 0,
        "dedicatedCoreQuotaPerVMFamilyEnforced": True,
        "dedicatedCoreQuotaPerVMFamily": [{"name": "standardDDSv5Family", "coreQuota": 1}],
    }

    found = said(azure, vm_size="Standard_D2ds_v5")

    assert found["the quota of all dedicated vCPUs is 0"] is False
    assert found["the quota of dedicated vCPUs of standardDDSv5Family is 1"] is False
    assert (
        found[
            "pool_allocation: user-subscription in the profile, and the account has batch-service"
        ]
        is False
    )
    assert found["the quota of all spot vCPUs is 0"] is True
    assert not [call for call in azure.calls if call.endswith("usages")]


def test_an_account_that_is_being_made_is_said(azure: resource_manager.Azure) -> None:
    azure.account["provisioningState"] = "Creating"

    assert said(azure)["jobs in westeurope: Creating, user-subscription"] is False


def test_an_account_of_another_subscription_is_said(azure: resource_manager.Azure) -> None:
    other = profile(azure).model_copy(update={"batch_account": "others"})
    asks = Subscription(
        other,
        resource_manager.Login(),
        base_url=azure.url,
        authentication_policy=resource_manager.OverHttp(),
    )

    found = {f.what: f.ok for f in doctor.examine(other, asks)}

    assert found["the subscription has no Batch account others"] is False


def test_doctor_reports_a_login_that_may_not_read_the_subscription(
    azure: resource_manager.Azure,
) -> None:
    azure.denied = "/subscriptions"

    found = list(doctor.examine(profile(azure), subscription(azure)))

    (bad,) = [f for f in found if not f.ok]
    assert "AuthorizationFailed" in bad.what


@pytest.mark.parametrize("what", ["/skus", "/usages"])
def test_doctor_reports_each_part_that_the_login_may_not_read(
    azure: resource_manager.Azure, what: str
) -> None:
    azure.denied = what

    found = said(azure)

    assert [what for what, ok in found.items() if not ok and "AuthorizationFailed" in what]
    assert found["jobs in westeurope: Succeeded, user-subscription"] is True


def test_a_machine_that_is_there_with_just_enough_cores_is_good(
    azure: resource_manager.Azure,
) -> None:
    azure.usages = [
        resource_manager.usage("cores", 98, 100),
        resource_manager.usage("standardDDSv5Family", 8, 10),
    ]

    found = said(azure, vm_size="Standard_D2ds_v5")

    assert all(found.values())
    assert "westeurope offers all 1 VM sizes" in found
    assert "2 of 10 vCPUs of standardDDSv5Family are free" in found


def test_an_account_of_batchs_own_with_just_enough_cores_is_good(
    azure: resource_manager.Azure,
) -> None:
    azure.account |= {
        "poolAllocationMode": "BatchService",
        "dedicatedCoreQuota": 2,
        "dedicatedCoreQuotaPerVMFamilyEnforced": True,
        "dedicatedCoreQuotaPerVMFamily": [{"name": "standardDDSv5Family", "coreQuota": 2}],
    }

    found = said(azure, vm_size="Standard_D2ds_v5", pool_allocation=None)

    assert all(found.values())
    assert "the quota of dedicated vCPUs of standardDDSv5Family is 2" in found


def test_doctor_does_not_say_that_all_machines_are_offered(azure: resource_manager.Azure) -> None:
    assert not [what for what in said(azure) if "offers all" in what]


def test_doctor_reports_a_missing_login(
    azure: resource_manager.Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys of the profile are for Batch and Blob alone: quotas take a login."""
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")  # asks no network

    *_, last = doctor.examine(profile(azure))

    assert not last.ok
    assert last.what.startswith("look for the Batch account: ")
    assert last.hint and "az login" in last.hint


def test_doctor_without_a_subscription_skips_quotas(azure: resource_manager.Azure) -> None:
    without = profile(azure).model_copy(update={"subscription": None})

    found = [f.what for f in doctor.examine(without)]

    assert found[-1] == "the profile has no `subscription`: doctor cannot check quotas"
    assert not [call for call in azure.calls if call.startswith("/subscriptions")]


def test_a_survey_has_the_machines_that_the_subscription_may_have(
    azure: resource_manager.Azure,
) -> None:
    found = survey(profile(azure), subscription(azure))

    assert found == {
        "pool_allocation": "user-subscription",
        "machines": {
            "Standard_D2ds_v5": {
                "family": "standardDDSv5Family",
                "cpus": 2,
                "memory_gib": 8.0,
                "disk_gib": 75,
                "spot": True,
            },
            "Standard_HB120-16rs_v3": {
                "family": "standardHBv3Family",
                "cpus": 16,
                "memory_gib": 456.0,
                "disk_gib": 480,
                "spot": False,
            },
            "Standard_NC24ads_A100_v4": {
                "family": "StandardNCADSA100v4Family",
                "cpus": 24,
                "memory_gib": 220.0,
                "gpus": 1,
            },
        },
    }


def test_a_plan_takes_what_the_survey_has(azure: resource_manager.Azure) -> None:
    found = survey(profile(azure), subscription(azure))
    gpu = spec(cluster={"gpus": 1})

    assert decision(gpu).vm_size == "Standard_NC4as_T4_v3"
    assert decision(gpu, found).vm_size == "Standard_NC24ads_A100_v4"


def test_a_survey_of_those_who_may_not_ask_is_empty(azure: resource_manager.Azure) -> None:
    azure.denied = "/subscriptions"

    assert survey(profile(azure), subscription(azure)) == {}


def test_a_survey_of_a_place_that_has_nothing_leaves_it_to_the_table(
    azure: resource_manager.Azure,
) -> None:
    azure.skus = []

    assert survey(profile(azure), subscription(azure)) == {"pool_allocation": "user-subscription"}


def test_a_survey_asks_nobody_where_the_profile_names_no_subscription() -> None:
    assert PROVIDER.survey(spec(), options()) == {}
    assert PROVIDER.survey(spec(), options(subscription="s", batch_url=None)) == {}


def test_the_region_is_that_of_the_account_or_of_its_url(azure: resource_manager.Azure) -> None:
    away = Subscription(
        options(
            subscription=resource_manager.SUBSCRIPTION,
            arm_url=azure.url,
            batch_url="https://others.northeurope.batch.azure.com",
        ),
        resource_manager.Login(),
        base_url=azure.url,
        authentication_policy=resource_manager.OverHttp(),
    )
    nameless = Subscription(
        options(
            subscription=resource_manager.SUBSCRIPTION,
            arm_url=azure.url,
            batch_url="http://localhost:1",
        ),
        resource_manager.Login(),
        base_url=azure.url,
        authentication_policy=resource_manager.OverHttp(),
    )

    assert subscription(azure).region == "westeurope"
    assert away.region == "northeurope"
    assert nameless.region == ""
