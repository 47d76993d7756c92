"""A node gets a machine by what its spec asks for, by the table, or by what the account has."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_azure.batch.infrastructure import pool
from runspec_azure.resources import request
from tests.support.azure.specs import decision, options, problems, spec


@pytest.mark.parametrize(
    ("cluster", "wanted"),
    [
        ({}, "Standard_D2lds_v5"),
        ({"cpus": 4, "memory": "24GiB"}, "Standard_E4ds_v5"),
        ({"gpus": 1}, "Standard_NC4as_T4_v3"),
        ({"gpus": 2, "gpu_type": "a100"}, "Standard_NC48ads_A100_v4"),
        ({"disk": "1TiB"}, "Standard_D32lds_v5"),
        ({"gpus": 9}, "Standard_D2ds_v5"),  # check has refused it
    ],
)
def test_the_cheapest_machine_that_holds_a_node_is_taken(
    cluster: dict[str, Any], wanted: str
) -> None:
    assert decision(spec(cluster=cluster)).vm_size == wanted


@pytest.mark.parametrize(
    ("named", "wanted"),
    [("standard_hb120rs_v3", "Standard_HB120rs_v3"), ("Standard_New_v9", "Standard_New_v9")],
)
def test_a_size_of_the_profile_is_used_as_it_is(named: str, wanted: str) -> None:
    assert decision(spec(cluster={"gpus": 1}), vm_size=named).vm_size == wanted


def test_a_machine_with_more_than_twice_the_gpus_is_refused_with_a_way_out() -> None:
    (found,) = [p for p in problems(spec(cluster={"gpus": 3, "gpu_type": "H100"})) if p.hint]

    assert found.path == ("cluster", "gpus")
    assert (
        found.what == "3, but the smallest machine with such GPUs, Standard_ND96isr_H100_v5, has 8"
    )
    assert found.hint == (
        "set gpus: 4 or more, choose another GPU, or set vm_size: Standard_ND96isr_H100_v5"
    )


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://jobs.westeurope.batch.azure.com", "westeurope"),
        ("https://jobs.usgovvirginia.batch.usgovcloudapi.net", "usgovvirginia"),
        ("http://127.0.0.1:1234", None),
        (None, None),
    ],
)
def test_the_region_of_an_account_is_in_its_url(url: str | None, wanted: str | None) -> None:
    assert request.region(options(batch_url=url)) == wanted


def test_prices_are_those_of_the_region() -> None:
    a100 = spec(cluster={"gpus": 2, "gpu_type": "A100"})
    there = "https://jobs.uksouth.batch.azure.com"

    (found, *_) = decision(a100, batch_url=there).machines

    assert (found.machine.name, found.usd) == ("Standard_NC48ads_A100_v4", 9.183)
    assert found.region == "uksouth"


def test_sizes_of_the_account_override_the_table() -> None:
    survey = {
        "machines": {
            "Standard_D4ds_v5": {"cpus": 4, "spot": False},
            "Standard_D8ds_v5": {"memory_gib": 33.0, "spot": True},
        }
    }

    assert decision(spec(), survey).vm_size == "Standard_D4ds_v5"
    assert decision(spec(cluster={"capacity": "spot"}), survey).vm_size == "Standard_D8ds_v5"
    assert [m.memory_gib for m in request.offered(survey)] == [16, 33]


def test_an_image_of_this_machine_alone_is_not_used() -> None:
    alone = {"image": "localhost/a:1", "requirements": ["six"]}

    assert decision(spec(container=alone)).image is None
    assert decision(spec(container={"image": "a:1"})).image == "a:1"


def test_a_pool_is_of_the_machine_that_the_account_has() -> None:
    survey = {"machines": {"Standard_D8ds_v5": {"cpus": 8}}}

    made = pool.content(decision(spec(), survey))

    assert made["vmSize"] == "Standard_D8ds_v5"
    assert pool.name(decision(spec(), survey)) != pool.name(decision(spec()))


def test_eight_gpus_of_any_kind_are_not_v100s_with_the_usual_image() -> None:
    """https://github.com/Azure/azhpc-images/issues/406"""
    own = {
        "image": "microsoft-dsvm:ubuntu-hpc:2204-v100:latest",
        "node_agent": "batch.node.ubuntu 22.04",
    }
    wanted = spec(cluster={"gpus": 8})

    assert decision(wanted).vm_size == "Standard_ND96asr_v4"
    assert decision(wanted, **own).vm_size == "Standard_ND40rs_v2"


def test_a_machine_whose_gpu_has_no_driver_in_the_image_is_not_chosen() -> None:
    """The image of Azure's HPC team has drivers of CUDA; A10 machines need those of GRID."""
    wanted = spec(cluster={"gpus": 1, "memory": "350GiB"})
    own = {"image": "mine:gpu:grid:latest", "node_agent": "batch.node.ubuntu 24.04"}

    assert decision(wanted).vm_size == "Standard_NC48ads_A100_v4"
    assert decision(wanted, **own).vm_size == "Standard_NV36ads_A10_v5"
