"""The table of machines gives each node the cheapest that holds it, and none that has gone."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_azure.resources.vm_sizes import CURRENT, MACHINES, fitting, gpu_types, known
from runspec_jobs.provider import Problem, Spec
from tests.support.azure.specs import problems, spec


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ((1, 1, 0, None), "Standard_D2ds_v5"),
        ((2, 7, 0, None), "Standard_D2ds_v5"),
        ((2, 7.1, 0, None), "Standard_E2ds_v5"),  # 1 GiB of 8 is the system's
        ((4, 8, 0, None), "Standard_D4ds_v5"),
        ((1, 1, 0, None, 75), "Standard_D2ds_v5"),
        ((1, 1, 0, None, 76), "Standard_D2ds_v6"),
        ((97, 1, 0, None), "Standard_D128ds_v6"),
        ((129, 1, 0, None), "Standard_HB176-144rs_v4"),
        ((1, 1, 1, None), "Standard_NC4as_T4_v3"),
        ((1, 1, 2, None), "Standard_NC64as_T4_v3"),
        ((1, 1, 8, None), "Standard_ND40rs_v2"),
        ((1, 1, 8, "A100"), "Standard_ND96asr_v4"),
        ((1, 1, 1, "h100"), "Standard_NC40ads_H100_v5"),
        ((1, 1, 3, "H100"), "Standard_ND96isr_H100_v5"),
        ((1, 1, 1, "V100"), "Standard_ND40rs_v2"),
    ],
)
def test_a_node_gets_the_cheapest_machine_that_holds_it(
    asked: tuple[Any, ...], wanted: str
) -> None:
    assert fitting(*asked)[0].name == wanted


def test_a_series_that_leaves_is_not_chosen() -> None:
    chosen = {m.name for gpus in (0, 1) for m in fitting(1, 1, gpus, None)}

    assert chosen <= {m.name for m in MACHINES if m.leaves is None}
    assert "K80" not in gpu_types()


def test_a_machine_without_a_disk_of_its_own_is_not_chosen() -> None:
    assert not [m for m in fitting(1, 1, 0, None) if not m.disk_gib]
    assert [m for m in CURRENT if not m.disk_gib], "there are such in the table"


@pytest.mark.parametrize(
    ("name", "retired", "leaves"),
    [
        ("STANDARD_NC6", True, "2023-09-06"),
        ("standard_nc6s_v3", True, "2025-09-30"),
        ("Standard_D2_v2", False, "2028-05-01"),
        ("Standard_D2ds_v5", False, None),
    ],
)
def test_a_name_has_no_case_and_says_when_its_series_leaves(
    name: str, retired: bool, leaves: str | None
) -> None:
    machine = known(name)

    assert machine is not None
    assert (machine.retired, machine.leaves) == (retired, leaves)


@pytest.mark.parametrize(
    ("name", "has"),
    [
        ("Standard_HB120rs_v3", True),
        ("Standard_HB176-24rs_v4", True),
        ("Standard_ND96isr_H100_v5", True),
        ("Standard_NC24r", True),
        ("Standard_NC24ads_A100_v4", False),
        ("Standard_NC6", False),
        ("Standard_D2ds_v5", False),
    ],
)
def test_the_name_says_whether_there_is_infiniband(name: str, has: bool) -> None:
    machine = known(name)

    assert machine is not None
    assert machine.rdma is has


def test_every_machine_is_there_once() -> None:
    names = [m.name.lower() for m in MACHINES]

    assert len(names) == len(set(names))


# What a plan says of the machine that was named


def notes(wanted: Spec, **profile: Any) -> list[Problem]:
    return [p for p in problems(wanted, **profile) if "vm_size" in p.what]


@pytest.mark.parametrize("name", ["STANDARD_ND96", "Standard_ND128isr_B300_v7"])
def test_of_a_machine_that_is_not_in_the_table_it_is_said_that_nothing_was_checked(
    name: str,
) -> None:
    (note,) = notes(spec(cluster={"gpus": 8}), vm_size=name)

    assert (note.severity, note.path) == ("note", ("provider",))
    assert note.what.endswith("so runspec cannot check that it is large enough")
    assert note.hint is not None and "Standard_ND96" in note.hint


@pytest.mark.parametrize("name", ["Standard_NC6", "Standard_D2_v2", "Standard_ND96", "D2ds_v5"])
def test_what_is_wrong_with_a_machine_stands_where_the_spec_names_it(name: str) -> None:
    """Whether the profile or the spec names it, the options have it."""
    wanted = spec(providers={"azure-batch": {"vm_size": name}})

    assert {p.path for p in notes(wanted, vm_size=name)} == {
        ("providers", "azure-batch", "vm_size")
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [("pool", "a b"), ("spot_wait", "2h"), ("image", "microsoft-dsvm:ubuntu-hpc:2204:latest")],
)
def test_a_wrong_setting_of_the_spec_is_told_at_its_line(key: str, value: str) -> None:
    own: dict[str, Any] = {key: value}
    wanted = spec(providers={"azure-batch": own})

    assert ("providers", "azure-batch", key) in {p.path for p in problems(wanted, **own)}
