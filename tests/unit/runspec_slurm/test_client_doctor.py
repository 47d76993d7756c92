"""What will stop a job on a cluster is found before anything is made, with a way out."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runspec.provider import Finding
from runspec_rehearsal.slurm import Cluster
from runspec_slurm import cluster as clusters, doctor, survey
from runspec_slurm.first import PROFILE
from runspec_slurm.options import SlurmOptions
from tests.slurm import slurm

__all__ = ["slurm"]


@pytest.fixture
def up(slurm: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    for name, value in slurm.env.items():
        monkeypatch.setenv(name, value)
    return slurm


def bad(found: list[Finding]) -> list[str]:
    return [one.what for one in found if not one.ok]


@pytest.mark.slow
def test_a_cluster_that_is_well_is_said_to_be(up: Cluster, tmp_path: Path) -> None:
    options = SlurmOptions(workspace=str(tmp_path / "workspace"), spot_partition="spot")

    found = list(doctor.examine(options))

    assert bad(found) == []
    assert any(one.what.startswith("partition spot is up: 4 nodes") for one in found)
    assert (tmp_path / "workspace").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "workspace").iterdir()) == []


@pytest.mark.slow
def test_what_is_wrong_with_a_cluster_is_found(up: Cluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = SlurmOptions(
        workspace=str(tmp_path / "file/x"), partition="none", python="/none/python3"
    )

    found = list(doctor.examine(options))

    assert bad(found) == [
        f"the workspace {tmp_path}/file/x cannot be made, or not be entered",
        "there is no partition none",
        "/none/python3 is not there, and it starts every job",
    ]
    assert all(one.hint for one in found if not one.ok)


@pytest.mark.slow
def test_a_workspace_that_is_open_to_others_is_told(up: Cluster, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)

    found = list(doctor.examine(SlurmOptions(workspace=str(tmp_path / "open"))))

    assert bad(found) == [f"the workspace {tmp_path}/open is open to others (755)"]


def test_a_machine_without_slurm_is_told_which_host_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("env", "sed"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "COMMANDS", ("no-sbatch", "no-squeue"))

    (found,) = doctor.examine(SlurmOptions())

    assert found.what == "this machine has no no-sbatch, no-squeue"
    assert "host" in (found.hint or "")


@pytest.mark.slow
def test_what_the_cluster_says_is_what_plans_go_by(up: Cluster) -> None:
    found = survey.asked(survey.transport(None), SlurmOptions())

    main = clusters.Partition("main", **found["partitions"]["main"])
    assert (main.default, main.nodes, main.cpus, main.memory_mb) == (True, 4, 2, 2000)
    assert main.gpus == {"": 2}
    assert found["partitions"]["short"]["max_time_s"] == 60
    assert found["max_array"] == 10001
    assert "pmi2" in found["mpi"]


def test_the_first_profile_has_settings_that_there_are() -> None:
    written = yaml.safe_load(PROFILE)["providers"]["slurm"]
    hidden = [
        line.strip("# ").partition(":")[0] for line in PROFILE.splitlines() if "    # " in line
    ]

    SlurmOptions.model_validate(written)
    assert {name for name in hidden if " " not in name} <= set(SlurmOptions.model_fields)
