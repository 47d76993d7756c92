"""What will stop a job on a cluster is found before anything is made, with a way out."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from runspec_emulators.slurm import Cluster
from runspec_jobs.provider import Finding, Request, Scope, Step
from runspec_slurm import discover, doctor, resources as clusters
from runspec_slurm.options import PROFILE_TEMPLATE, SlurmOptions
from runspec_slurm.session.transport import Here
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS, slurm

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
def test_doctor_finds_wrong_settings_of_a_cluster(up: Cluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = SlurmOptions(
        workspace=str(tmp_path / "file/x"), partition="none", python="/none/python3"
    )

    found = list(doctor.examine(options))

    assert bad(found) == [
        f"the workspace {tmp_path}/file/x cannot be made or entered",
        "there is no partition none",
        "there is no /none/python3, which starts every job",
    ]
    assert all(one.hint for one in found if not one.ok)


@pytest.mark.slow
def test_a_workspace_that_is_open_to_others_is_told(up: Cluster, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)

    found = list(doctor.examine(SlurmOptions(workspace=str(tmp_path / "open"))))

    assert bad(found) == [f"other users can access the workspace {tmp_path}/open (mode 755)"]


@pytest.mark.process
@pytest.mark.parametrize("of_job", [False, True])
def test_a_workspace_that_is_open_to_others_stops_no_job(tmp_path: Path, of_job: bool) -> None:
    tmp_path.chmod(0o755)
    options = SlurmOptions(workspace=str(tmp_path))

    found = list(doctor.examine_workspace(Here(), options, of_job=of_job))

    (told,) = [one for one in found if one.what.startswith("other users can access")]
    assert told.ok is of_job


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--partition=long"], []),
        (["--partition=down,long"], []),  # Slurm uses the one that can start the job
        (["--partition=down"], ["partition down is down: 1 nodes, 4 cpus each"]),
        ([], []),  # the default one
    ],
)
def test_only_partitions_of_the_job_stop_it(words: list[str], wrong: list[str]) -> None:
    about = {"nodes": 1, "cpus": 4, "memory_mb": 0, "gpus": {}}
    states = {"down": "down", "long": "up"}
    partitions = {
        name: {**about, "state": state, "default": name == "long"} for name, state in states.items()
    }

    assert bad(list(doctor.check_partitions({"partitions": partitions}, words))) == wrong


def submit(tmp_path: Path, *words: str) -> tuple[SlurmOptions, list[Step]]:
    options = SlurmOptions(workspace=str(tmp_path / "workspace"))
    argv = ["--parsable", "--job-name=n", "--nodes=1", "--output=log", *words]
    script = "#!/bin/sh\ntouch ran\n"
    do = Request("slurm", "sbatch", {"argv": argv, "script": script})
    return options, [Step("job", "submit", Scope.RUN, do)]


@pytest.mark.slow
def test_a_job_that_slurm_would_accept_is_said_to_run_and_is_not_submitted(
    up: Cluster, tmp_path: Path
) -> None:
    found = list(doctor.examine_job(*submit(tmp_path)))

    assert bad(found) == []
    assert found[-1].what.startswith("Slurm would accept the job: Job ")
    assert list((tmp_path / "workspace").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("--nodes=99", "allocation failure: More processors requested than permitted"),
        ("--reservation=none", "allocation failure: Requested reservation is invalid"),
    ],
)
def test_a_job_that_slurm_would_refuse_is_told_in_words_of_slurm(
    up: Cluster, tmp_path: Path, word: str, told: str
) -> None:
    found = list(doctor.examine_job(*submit(tmp_path, word)))

    (what,) = bad(found)
    assert what.startswith(told), what


@pytest.mark.process
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
def test_discovery_returns_the_facts_of_the_cluster(up: Cluster) -> None:
    found = discover.query(Here(), SlurmOptions())

    main = clusters.Partition("main", **found["partitions"]["main"])
    assert (main.default, main.nodes, main.cpus, main.memory_mb) == (True, 4, 2, 2000)
    assert main.gpus == {"": 2}
    assert found["partitions"]["short"]["max_time_s"] == 60
    assert found["max_array"] == 10001
    assert "pmi2" in found["mpi"]


# As those who are not root are told of partitions with Hidden=YES: scontrol(1), sinfo(1), --all.
HIDES = """\
#!/bin/sh
case " $* " in *" --all "*) exec {real} "$@" ;; esac
{real} "$@" | grep -v spot
"""


@pytest.mark.slow
def test_a_partition_that_is_hidden_is_one_that_a_job_may_go_to(
    up: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("scontrol", "sinfo"):
        (tmp_path / name).write_text(HIDES.format(real=shutil.which(name)))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    found = discover.query(Here(), SlurmOptions())

    assert (found["partitions"]["spot"]["nodes"], found["partitions"]["spot"]["cpus"]) == (4, 2)


@pytest.mark.slow
def test_a_node_that_is_well_is_said_to_be_and_nothing_is_left(up: Cluster, tmp_path: Path) -> None:
    options = SlurmOptions(workspace=str(tmp_path), python=sys.executable, sbatch=("--exclusive",))

    found = list(discover.examine(options))

    assert bad(found) == []
    assert found[1].what.startswith(
        f"the workspace {tmp_path} is the same folder on the login node and on "
    )
    assert found[2].what.endswith(f"is Python {sys.version.split()[0]}")
    assert list(tmp_path.iterdir()) == []
    assert "runspec" not in up.run("squeue", "--noheader", "--format=%j")


@pytest.mark.slow
def test_doctor_node_finds_what_a_compute_node_lacks(
    up: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace of this machine alone: srun goes on elsewhere where there is none on the node."""
    real = shutil.which("srun")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/srun").write_text(
        f'#!/bin/sh\nmv "$PWD" "$PWD.away"\n{real} "$@"; c=$?\nmv "$PWD.away" "$PWD"; exit $c\n'
    )
    (tmp_path / "bin/srun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    options = SlurmOptions(
        workspace=str(tmp_path / "w"), python="/none/python3", container="apptainer"
    )

    found = list(discover.examine(options))

    where = found[0].what.partition(" was allocated")[0]
    assert bad(found) == [
        f"{where} does not see the files in the workspace {tmp_path}/w",
        f"{where} has no /none/python3, which starts every job",
        f"{where} has podman"
        if shutil.which("podman")
        else f"{where} has neither apptainer nor podman",
    ]
    assert all(one.hint for one in found if not one.ok)


@pytest.mark.slow
def test_a_node_that_cannot_be_had_is_told_in_slurms_words(up: Cluster, tmp_path: Path) -> None:
    (found,) = discover.examine(SlurmOptions(workspace=str(tmp_path), partition="none"))

    assert not found.ok
    assert "Invalid partition name specified" in found.what


@pytest.mark.slow
def test_a_federation_is_told_not_to_be_supported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(*PROGRAMS)
    more = {"FederationParameters": "fed_display"}
    with Cluster(tmp_path / "slurm", nodes=1, more=more) as cluster:
        for name, value in cluster.env.items():
            monkeypatch.setenv(name, value)

        found = list(doctor.examine(SlurmOptions(workspace=str(tmp_path / "w"))))

    what = "the cluster is part of a federation, which runspec does not support"
    assert bad(found) == [f"{what} (FederationParameters=fed_display)"]


def test_the_first_profile_has_settings_that_there_are() -> None:
    written = yaml.safe_load(PROFILE_TEMPLATE)["providers"]["slurm"]
    hidden = [
        line.strip("# ").partition(":")[0]
        for line in PROFILE_TEMPLATE.splitlines()
        if "    # " in line
    ]

    SlurmOptions.model_validate(written)
    assert {name for name in hidden if " " not in name} <= set(SlurmOptions.model_fields)
