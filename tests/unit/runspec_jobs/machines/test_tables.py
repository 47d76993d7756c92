"""The tables of the package say what their sources say, and are complete."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from runspec_azure.resources import vm_sizes
from runspec_ec2 import ec2_catalogue
from runspec_jobs.machines.machine import Catalogue
from tests.support.root import ROOT

TRAITS = set("burstable metal old accelerator no-spot no-on-demand confidential no-premium".split())


def catalogue(kind: str) -> Catalogue:
    return {"ec2": ec2_catalogue, "azure": vm_sizes.catalogue}[kind]()


@pytest.mark.parametrize("file", ["runspec_ec2/ec2_machines", "runspec_azure/resources/vm_sizes"])
def test_a_table_says_where_it_is_from_and_of_when(file: str) -> None:
    data = json.loads((ROOT / "providers" / f"{file}.json").read_text())

    assert re.fullmatch(r"\d{4}-\d\d-\d\d", data["version"])
    assert data["version"] in data["prices_from"]
    assert data["machines_from"]


@pytest.mark.parametrize("kind", ["ec2", "azure"])
def test_no_number_of_a_table_stands_for_something_unknown(kind: str) -> None:
    for machine in catalogue(kind).machines:
        assert machine.cpus is None or machine.cpus > 0, machine
        assert machine.memory_gib is None or machine.memory_gib > 0, machine
        assert machine.network_gbps is None or machine.network_gbps > 0, machine
        assert machine.gpu_gib is None or machine.gpu, machine
        assert not machine.gpus or machine.gpu, machine
        assert all(float(cell) > 0 for cell in machine.prices if cell not in ("", "?")), machine
        assert machine.traits <= TRAITS, machine


@pytest.mark.parametrize("kind,least", [("ec2", 1400), ("azure", 1700)])
def test_a_table_has_each_machine_once_and_in_order(kind: str, least: int) -> None:
    names = [machine.name for machine in catalogue(kind).machines]

    assert names == sorted(set(names))
    assert len(names) >= least


@pytest.mark.parametrize(
    "kind,name,cpus,memory_gib,gpus,gpu,fabric,usd",
    [
        # https://aws.amazon.com/ec2/instance-types/p5/ and /p4/, /g6/
        ("ec2", "p5.48xlarge", 192, 2048, 8, "H100", 32, 55.04),
        ("ec2", "p4d.24xlarge", 96, 1152, 8, "A100", 4, 21.9576),
        ("ec2", "g6.xlarge", 4, 16, 1, "L4", 0, 0.8048),
        ("ec2", "g6f.large", 2, 8, 0.125, "L4", 0, 0.202),
        ("ec2", "p3.2xlarge", 8, 61, 1, "V100", None, 3.06),
        # https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated/ and the pages below it
        ("azure", "Standard_NC24ads_A100_v4", 24, 220, 1, "A100", 0, 3.673),
        ("azure", "Standard_ND96isr_H100_v5", 96, 1900, 8, "H100", 1, 98.32),
        ("azure", "Standard_NV6ads_A10_v5", 6, 55, 0.1667, "A10", 0, 0.454),
        ("azure", "Standard_HB120-16rs_v3", 16, 456, 0, None, 1, 3.6),
    ],
)
def test_some_machines_are_as_their_pages_say(
    kind: str,
    name: str,
    cpus: int,
    memory_gib: float,
    gpus: float,
    gpu: str | None,
    fabric: int | None,
    usd: float,
) -> None:
    there = catalogue(kind)
    machine = there.named(name)

    assert machine is not None
    found = (machine.cpus, machine.memory_gib, machine.gpus, machine.gpu, machine.fabric)
    assert found == (cpus, memory_gib, gpus, gpu, fabric)
    assert there.usd(machine, there.regions[0]) == usd


def test_prices_of_windows_are_not_those_of_linux() -> None:
    """The list has the price of Windows for some sizes of these series: it says 0.195 here, and 0.103 elsewhere."""
    azure = catalogue("azure")
    machine = azure.named("Standard_D2ads_v5")

    assert machine is not None
    assert (azure.usd(machine, "eastus"), azure.usd(machine, "eastus2")) == (None, 0.103)
    assert azure.sold_in(machine, "eastus") is True


@pytest.mark.process
def test_importing_providers_reads_no_table() -> None:
    """The tables take longer to read than all else, and few verbs need them."""
    code = (
        "import sys; opened = []\n"
        "sys.addaudithook(lambda event, values: event == 'open' and opened.append(str(values[0])))\n"
        "import runspec_aws, runspec_parallelcluster, runspec_azure.batch, runspec_batchai, runspec_ec2\n"
        "print([name for name in opened if name.endswith('.json')])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
