"""The tables of machines are read as they are written, and what they do not say is unknown."""

from __future__ import annotations

import pytest

from runspec_jobs.machines.machine import COLUMNS, Machine, read

HEAD = ",".join([*COLUMNS, "here", "there"])
FULL = "g4dn.xlarge,g4dn,x86_64,4,16,1,T4,16,116,5,0,metal no-spot,0.526,?"
EMPTY = "new.large,,,,,,,,,,,,,"


def test_a_cell_becomes_the_value_of_its_column() -> None:
    machine = read("2026-07-20", [HEAD, FULL]).machines[0]

    assert machine == Machine(
        name="g4dn.xlarge",
        family="g4dn",
        architecture="x86_64",
        cpus=4,
        memory_gib=16,
        gpus=1,
        gpu="T4",
        gpu_gib=16,
        disk_gib=116,
        network_gbps=5,
        fabric=0,
        traits=frozenset({"metal", "no-spot"}),
        prices=("0.526", "?"),
    )


def test_an_empty_cell_is_unknown_and_never_0() -> None:
    catalogue = read("2026-07-20", [HEAD, EMPTY])
    machine = catalogue.machines[0]

    unknown = [getattr(machine, name) for name in COLUMNS[2:-1]]
    assert unknown == [None] * 9
    assert catalogue.usd(machine, "here") is None
    assert catalogue.sold_in(machine, "here") is None


def test_a_region_says_what_it_sells_by_its_prices() -> None:
    catalogue = read("1", [HEAD, FULL, "a.large,a,,,,,,,,,,,1.5,"])
    full, half = catalogue.machines

    assert (catalogue.usd(full, "here"), catalogue.usd(full, "there")) == (0.526, None)
    assert [catalogue.sold_in(full, r) for r in ("here", "there", "mars")] == [True, True, None]
    assert [catalogue.sold_in(half, r) for r in ("here", "there")] == [True, False]


def test_a_region_says_what_it_offers_by_families_and_names() -> None:
    lines = f"{HEAD}\n{FULL}\ng5.large,g5,,,,,,,,,,,,\ng5.xlarge,g5,,,,,,,,,,,,\np3.large,p3,,,,,,,,,,,9,"
    catalogue = read("1", lines.split("\n"), {"mars": "g4dn g5.large", "moon": "g5"})

    sold = {m.name: [catalogue.sold_in(m, r) for r in ("mars", "moon")] for m in catalogue.machines}
    assert sold == {
        "g4dn.xlarge": [True, False],
        "g5.large": [True, True],
        "g5.xlarge": [False, True],
        "p3.large": [None, None],  # no region is known to offer it
    }


def test_a_line_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"g4dn\.xlarge: 13 cells, not 14"):
        read("1", [HEAD, FULL[:-2]])


def test_a_machine_is_found_by_its_name_in_any_case() -> None:
    catalogue = read("1", [HEAD, FULL])

    assert catalogue.named("G4DN.xlarge") is catalogue.machines[0]
    assert catalogue.named("g4dn") is None
