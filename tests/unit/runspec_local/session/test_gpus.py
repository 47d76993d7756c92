"""GPUs are found by what the machine has: nvidia-smi, CDI specifications or device files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runspec_local.session import gpus
from runspec_local.session.gpus import Found, Gpu
from tests.support.gpus import INSTANCE, UUID, fake, listing

# As nvidia-ctk writes it, shortened.
YAML = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
- name: "1:0"
  containerEdits: {}
- name: GPU-0a1b2c3d-1111-2222-3333-444455556666
- name: all
containerEdits:
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
"""
JSON = '{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0"},{"name": "all"}]}'
OTHER = "kind: amd.com/gpu\ndevices:\n- name: '7'\n"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have no nvidia-smi; return an empty folder for device files."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "dev").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "dev"


@pytest.mark.process
def test_a_machine_without_anything_has_no_gpu(nowhere: Path) -> None:
    how = f"according to {nowhere}, without nvidia-smi"

    assert gpus.find(os.environ, (), nowhere) == Found((), how)


@pytest.mark.process
def test_device_files_are_counted_where_there_is_nothing_else(nowhere: Path) -> None:
    for name in ("nvidia0", "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia0foo"):
        (nowhere / name).touch()

    assert gpus.find(os.environ, (), nowhere).gpus == (Gpu("0"), Gpu("2"), Gpu("10"))


@pytest.mark.process
def test_a_cdi_specification_names_gpus(nowhere: Path, tmp_path: Path) -> None:
    for name, text in (("nvidia.yaml", YAML), ("amd.yaml", OTHER), ("nvidia.yaml~", "name: '9'")):
        (tmp_path / name).write_text(text)
    folders = (tmp_path / "absent", tmp_path)

    found = gpus.find(os.environ, folders, nowhere)

    assert found.gpus == (Gpu("0"), Gpu("1:0"))
    assert gpus.cdi_names(folders) == ("0", "1:0", "GPU-0a1b2c3d-1111-2222-3333-444455556666")
    (tmp_path / "nvidia.yaml").rename(tmp_path / "x.json")
    (tmp_path / "x.json").write_text(JSON)
    assert gpus.cdi_names(folders) == ("0",)


@pytest.mark.process
def test_a_driver_that_does_not_answer_is_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where an old CDI specification names some."""
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    (tmp_path / "nvidia.yaml").write_text(YAML)
    fake(tmp_path, monkeypatch, f"{said}\nMake sure that the driver is installed.\n", 9)

    assert gpus.find(os.environ, (tmp_path,)) == Found((), f"nvidia-smi failed: {said}")


@pytest.mark.process
def test_a_gpu_that_is_divided_is_its_instances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = listing(1, instances=2) + listing(2).splitlines()[1] + "\n"
    fake(tmp_path, monkeypatch, text)

    found = gpus.find(os.environ).gpus

    instances = [Gpu(f"0:{i}", INSTANCE.format(0, i)) for i in range(2)]
    assert found == (*instances, Gpu("1", UUID.format(1)))


@pytest.mark.process
@pytest.mark.parametrize(
    ("modes", "usable", "told"),
    [
        (
            "0, Enabled\n1, Disabled\n",
            (1,),
            ", without those that are divided (MIG) and have no instance: 0",
        ),
        (
            "0, Enabled\n1, Enabled\n",
            (),
            ", without those that are divided (MIG) and have no instance: 0 and 1",
        ),
        ("0, [N/A]\n1, [N/A]\n", (0, 1), ""),
        ('Field "mig.mode.current" is not a valid field to query.\n', (0, 1), ""),
        ("", (0, 1), ""),
    ],
)
def test_a_gpu_that_is_divided_and_has_no_instance_is_not_used(
    modes: str, usable: tuple[int, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, monkeypatch, listing(2), modes=modes)

    found = gpus.find(os.environ)

    gpus_found = tuple(Gpu(str(n), UUID.format(n)) for n in usable)
    assert found == Found(gpus_found, f"according to nvidia-smi{told}")


TWO = (Gpu("0", UUID.format(0)), Gpu("1", UUID.format(1)))
PARTS = (Gpu("0:0", "MIG-a"), Gpu("0:1", "MIG-b"), Gpu("1", "GPU-c"))


@pytest.mark.parametrize(
    "value,of,expected",
    [
        ("", TWO, ()),
        ("1", TWO, TWO[1:]),
        (" 1 , 0", TWO, (TWO[1], TWO[0])),
        ("NoDevFiles", TWO, ()),
        ("0,-1,1", TWO, TWO[:1]),
        (UUID.format(1), TWO, TWO[1:]),
        ("0", PARTS, PARTS[:2]),
        ("MIG-b,1", PARTS, PARTS[1:]),
    ],
)
def test_the_users_variable_is_read_as_cuda_reads_it(
    value: str, of: tuple[Gpu, ...], expected: tuple[Gpu, ...]
) -> None:
    assert gpus.visible(of, value) == expected


def test_whole_gpus_are_named_by_index_in_the_order_of_nvidia_smi() -> None:
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    fastest = {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}

    assert gpus.variables(TWO, {}) == {**order, "CUDA_VISIBLE_DEVICES": "0,1"}
    assert gpus.variables(PARTS[:2], {}) == {"CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b"}
    named = {"CUDA_VISIBLE_DEVICES": f"{TWO[0].uuid},{TWO[1].uuid}"}
    assert gpus.variables(TWO, fastest) == named


def test_containers_get_their_gpus_by_name() -> None:
    """A specification that an old toolkit has written has indices only."""
    by_uuid = [("--device", f"nvidia.com/gpu={gpu.uuid}") for gpu in TWO]

    assert gpus.options(TWO, "podman", [gpu.uuid for gpu in TWO]) == by_uuid
    by_index = [("--device", "nvidia.com/gpu=0:1"), ("--device", "nvidia.com/gpu=1")]
    assert gpus.options(PARTS[1:], "podman", ["0:0", "0:1", "1"]) == by_index
    assert gpus.options(PARTS[1:], "docker", []) == [("--gpus", '"device=MIG-b,GPU-c"')]
