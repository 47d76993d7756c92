"""The table of machines gives each node the cheapest that holds it, and none that has gone."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_azure.resources.vm_sizes import catalogue, current, gpu_types, holding, known, machines
from runspec_jobs.provider import Problem, Spec
from runspec_jobs.provider.machines import MachineRequest
from tests.support.azure.specs import problems, spec


def names(request: MachineRequest) -> list[str]:
    return [one.machine.name for one in holding(request._replace(region="eastus"), current())]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (MachineRequest(1, 1), "Standard_D2alds_v6"),
        (MachineRequest(2, 3), "Standard_D2alds_v6"),
        (MachineRequest(2, 3.1), "Standard_D2ds_v5"),  # 1 GiB of 4 is the system's
        (MachineRequest(2, 7.1), "Standard_E2ds_v5"),
        (MachineRequest(4, 8), "Standard_D4ads_v5"),
        (MachineRequest(1, 1, disk_gib=110), "Standard_D2alds_v6"),
        (MachineRequest(1, 1, disk_gib=111), "Standard_D4alds_v6"),
        (MachineRequest(97, 1), "Standard_HB120rs_v3"),
        (MachineRequest(129, 1), "Standard_HB176rs_v4"),
        (MachineRequest(gpus=1), "Standard_NC4as_T4_v3"),
        (MachineRequest(gpus=2), "Standard_NC64as_T4_v3"),
        (MachineRequest(gpus=8), "Standard_ND40rs_v2"),
        (MachineRequest(gpus=8, gpu_type="A100"), "Standard_ND96asr_v4"),
        (MachineRequest(gpus=1, gpu_type="h100"), "Standard_NC40ads_H100_v5"),
        (MachineRequest(gpus=4, gpu_type="H100"), "Standard_ND96isr_H100_v5"),
        (MachineRequest(gpus=4, gpu_type="V100"), "Standard_ND40rs_v2"),
    ],
)
def test_a_node_gets_the_cheapest_machine_that_holds_it(asked: MachineRequest, wanted: str) -> None:
    assert names(asked)[0] == wanted


@pytest.mark.parametrize(("gpus", "kind"), [(1, "V100"), (3, "H100")])
def test_no_node_gets_more_than_twice_the_gpus_that_it_asks_for(gpus: int, kind: str) -> None:
    assert names(MachineRequest(gpus=gpus, gpu_type=kind)) == []


def test_a_machine_of_the_account_is_chosen_though_the_list_of_prices_has_none_in_its_region() -> (
    None
):
    (machine,) = [m for m in current() if m.name == "Standard_HB120-16rs_v3"]
    listed = catalogue().named(machine.name)
    assert listed and catalogue().sold_in(listed, "eastus2") is False

    chosen = holding(MachineRequest(region="eastus2"), [machine])

    assert [one.machine.name for one in chosen] == [machine.name]


def test_a_series_that_leaves_is_not_chosen() -> None:
    chosen = {name for gpus in (0, 1) for name in names(MachineRequest(gpus=gpus))}

    assert chosen <= {m.name for m in machines() if m.leaves is None}
    assert "K80" not in gpu_types()


def test_a_machine_without_a_disk_of_its_own_is_not_chosen() -> None:
    without = [m for m in current() if not m.disk_gib]

    assert without, "there are such in the table"
    assert not holding(MachineRequest(), without)


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


def test_every_machine_is_there_once() -> None:
    there = [m.name.lower() for m in machines()]

    assert len(there) == len(set(there))


# What a plan says of the machine that was named


def notes(wanted: Spec, **profile: Any) -> list[Problem]:
    return [p for p in problems(wanted, **profile) if "vm_size" in p.what]


@pytest.mark.parametrize("name", ["STANDARD_ND96", "Standard_ND128isr_B300_v7"])
def test_an_unknown_vm_size_gets_a_note_that_it_is_unchecked(
    name: str,
) -> None:
    (note,) = notes(spec(cluster={"gpus": 8}), vm_size=name)

    assert (note.severity, note.path) == ("note", ("provider",))
    assert note.what.endswith("so runspec cannot check that it is large enough")
    assert note.hint is not None and "Standard_ND96" in note.hint


@pytest.mark.parametrize("name", ["Standard_NC6", "Standard_D2_v2", "Standard_ND96", "D2ds_v5"])
def test_problems_of_a_vm_size_point_at_the_setting_in_the_spec(name: str) -> None:
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
