"""The files of a cluster's configuration say what was asked for, and look no name up."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_emulators.slurm.cluster import free_ports, this_machine
from runspec_emulators.slurm.conf import (
    Machine,
    Node,
    Partition,
    Places,
    Shape,
    gres_conf,
    slurm_conf,
)

PLACES = Places(Path("/work"), Path("/tmp/near"))
NODES = [Node("node1", 7001, "127.0.0.1"), Node("node2", 7002, "10.0.0.2", "m2")]


HERE, SHAPE = Machine("here"), Shape()


def conf(machine: Machine = HERE, shape: Shape = SHAPE, **more: str) -> list[str]:
    partitions = [Partition("main"), Partition("short", 5, ("node2",), {"PriorityTier": 3})]
    return slurm_conf(PLACES, machine, "me", 7000, NODES, partitions, shape, more).splitlines()


def test_nodes_and_controller_are_addressed_by_number() -> None:
    lines = conf()

    assert "SlurmctldHost=here(127.0.0.1)" in lines
    assert [line for line in lines if line.startswith("NodeName=")] == [
        "NodeName=node1 NodeHostname=here NodeAddr=127.0.0.1 Port=7001 CPUs=2 RealMemory=2000 State=UNKNOWN",
        "NodeName=node2 NodeHostname=m2 NodeAddr=10.0.0.2 Port=7002 CPUs=2 RealMemory=2000 State=UNKNOWN",
    ]


def test_the_first_partition_is_the_default() -> None:
    assert [line for line in conf() if line.startswith("PartitionName=")] == [
        "PartitionName=main Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP",
        "PartitionName=short Nodes=node2 Default=NO MaxTime=5 State=UP PriorityTier=3",
    ]


def test_memory_is_divided_among_jobs_where_it_is_known() -> None:
    assert "SelectTypeParameters=CR_CPU_Memory" in conf()

    without = conf(shape=Shape(memory_mb=None))
    assert "SelectTypeParameters=CR_CPU" in without
    assert not any("RealMemory" in line or "DefMem" in line for line in without)


def test_gpus_are_files_of_their_own(tmp_path: Path) -> None:
    one = Shape(gpus=1)
    assert "GresTypes=gpu" in conf(shape=one)
    assert gres_conf(one, Path("/g")) == "Name=gpu File=/g/gpu-0\n"

    two = Shape(gpus=1, gpu_types=("a100", "v100"), disk_mb=5)
    assert any("TmpDisk=5 Gres=gpu:a100:1,gpu:v100:1" in line for line in conf(shape=two))
    assert gres_conf(two, Path("/g")).splitlines() == [
        "Name=gpu Type=a100 File=/g/a100-0",
        "Name=gpu Type=v100 File=/g/v100-0",
    ]


def test_settings_are_put_over() -> None:
    lines = conf(MinJobAge="10", LaunchParameters="use_interactive_step")

    assert "MinJobAge=10" in lines and "MinJobAge=3600" not in lines
    assert "LaunchParameters=use_interactive_step" in lines


def test_daemons_listen_on_loopback_only_where_the_machines_name_leads_there(
    tmp_path: Path,
) -> None:
    """Slurm looks the name up for it: where the name leads elsewhere, nobody would be reached."""
    only = "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny"

    assert only in conf(Machine("here", "127.0.1.1", bound=True))
    assert only not in conf(Machine("here"))


def test_the_machines_address_is_what_its_own_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "here.example")
    hosts = tmp_path / "hosts"

    hosts.write_text("127.0.0.1 localhost\n127.0.1.1 here.example here # me\n")
    assert this_machine(hosts) == Machine("here", "127.0.1.1", bound=True)
    hosts.write_text("127.0.0.1 localhost # here\n172.17.0.2 here\n")
    assert this_machine(hosts) == Machine("here", "127.0.0.1", bound=False)
    assert this_machine(tmp_path / "none") == Machine("here", "127.0.0.1", bound=False)


@pytest.mark.process
def test_ports_are_each_its_own() -> None:
    ports = free_ports(50)

    assert len(set(ports)) == 50
