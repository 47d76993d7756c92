"""Nodes with networks of their own are machines to each other, and leave nothing behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_emulators.slurm import Failed, Machines
from tests.emulators.slurm.hand import holders
from tests.support.requirements import need, need_root
from tests.support.slurm.shared_cluster import MACHINES, PROGRAMS

pytestmark = [pytest.mark.slow, pytest.mark.root]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    need(*PROGRAMS, *MACHINES)
    need_root()
    before = links()
    with Machines(tmp_path_factory.mktemp("machines"), nodes=3) as machines:
        yield machines
    assert holders(machines) == []
    assert links() == before


def links() -> set[str]:
    return set(os.listdir("/sys/class/net"))


def ssh(machines: Machines, name: str, line: str) -> str:
    return machines.run("ssh", "-F", str(machines.ssh_config), name, line)


def test_each_node_has_a_name_an_address_and_a_disk(machines: Machines, tmp_path: Path) -> None:
    line = (
        "hostname; ip -4 -oneline addr show eth0 | cut -d' ' -f7; touch /mnt/$(hostname); ls /mnt"
    )

    found = machines.run("srun", "--nodes=3", "--label", "sh", "-c", line).splitlines()

    assert sorted(found) == sorted(
        f"{i}: {word}"
        for i in range(3)
        for word in (f"m{i + 1}", f"10.77.0.{i + 1}/16", f"m{i + 1}")
    )
    assert not Path("/mnt/m1").exists()


def test_nodes_log_in_to_each_other_by_name(machines: Machines) -> None:
    there = f"ssh -F {machines.ssh_config} m2 hostname"

    assert machines.run("srun", "--nodes=1", "--nodelist=m1", "sh", "-c", there) == "m2\n"
    assert ssh(machines, "head", "hostname; srun --nodelist=m3 hostname") == "head\nm3\n"


def test_a_lost_machine_is_not_reached_until_it_is_back(machines: Machines) -> None:
    machines.lose("m1")

    with pytest.raises(Failed, match=r"timed out|No route to host"):
        machines.run("ssh", "-F", str(machines.ssh_config), "-oConnectTimeout=1", "m1", "true")

    machines.set_node("m1", "DOWN")
    machines.mend()
    assert ssh(machines, "m1", "hostname") == "m1\n"


def test_two_clusters_have_separate_networks(machines: Machines, tmp_path: Path) -> None:
    with Machines(tmp_path, nodes=1) as other:
        assert ssh(other, "m1", "hostname") == "m1\n"
        assert set(other.states()) == {"m1"}
        assert set(machines.states()) == {"m1", "m2", "m3"}


def test_an_ordinary_user_is_told_that_root_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(Failed, match="network namespaces need root"):
        Machines(tmp_path)


def test_a_machine_that_cannot_be_made_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container without the right to."""
    need(*PROGRAMS)
    need_root()
    monkeypatch.setattr("runspec_emulators.slurm.machines.HOLD", "echo no right >&2; exit 1")

    with pytest.raises(Failed, match="head-holder has ended with 1: no right"):
        Machines(tmp_path, nodes=1)
    assert subprocess.run(["ip", "link", "show", "br0"], capture_output=True).returncode != 0
