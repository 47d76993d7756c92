"""Horovod and Keras, really: the example trains the same wherever it runs, and with any number of processes."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.slurm import Machines
from runspec_jobs.cli.app import run
from tests.support import horovod_example as example
from tests.support.providers_of_chains import PROVIDERS, printed, stand_in, states
from tests.support.requirements import need
from tests.support.root import ROOT
from tests.support.slurm.machine_jobs import Desk, ended
from tests.support.slurm.shared_cluster import machines as machines  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.matrix]  # Horovod is compiled, for minutes

Capture = pytest.CaptureFixture[str]
NEAR = 1e-9  # in float64; sums in another order differ by about 1e-15


@pytest.fixture(scope="module")
def made() -> Path:
    need("c++")
    return example.environment()


@pytest.fixture(scope="module")
def ready(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of the example, with its data."""
    found = tmp_path_factory.mktemp("ready")
    example.prepared(found, made)
    return found / "horovod"


@pytest.fixture
def folder(ready: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example with its data, in the current folder."""
    shutil.copytree(ready, tmp_path / "horovod")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def one(made: Path, ready: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of one process with the same global batch, which no launcher starts and runspec does not know."""
    out = tmp_path_factory.mktemp("one")
    words = ["--data", "data", "--out", str(out), "--dtype", "float64", "--global-batch", "60"]
    line = ["python", "train.py", *words, "--epochs", str(example.EPOCHS)]
    example.alone(made, ready, line)
    return example.losses(out)


def applied(made: Path, **changes: Any) -> list[float]:
    """Apply the example with *changes* and return its losses."""
    Path("horovod.yaml").write_text(json.dumps(example.spec(made, **changes)))
    assert run(["apply", "horovod.yaml"]) == 0
    assert run(["fetch", "horovod", "horovod/trained"]) == 0
    return example.losses(Path("horovod/trained/node-0"))


CHAIN = "horovod/digits.yaml"
TRAIN = [
    "python", "${mounts.code}/train.py", "--data", "${mounts.data}", "--out", "${outputs.model}",
    "--dtype", "float64", "--epochs", str(example.EPOCHS),
]  # fmt: skip


@pytest.mark.parametrize("provider", PROVIDERS)
def test_shards_a_smoke_test_training_and_evaluation_are_one_chain(
    made: Path,
    one: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    provider: str,
) -> None:
    """By one field, on this machine, a real Slurm, and the stand-ins of two services."""
    shutil.copytree(ROOT / "specs" / "horovod", tmp_path / "horovod")
    monkeypatch.chdir(tmp_path)
    settings = [f"env.PATH={made / 'bin'}:{os.environ['PATH']}"]
    settings.append(f"digits-train:command={json.dumps(TRAIN)}")

    with stand_in(provider, CHAIN):
        line = ["apply", CHAIN, "--provider", provider]
        assert run([*line, *(word for one in settings for word in ("--set", one))]) == 0
        assert run(["fetch", "digits-train", "trained"]) == 0
        told = {name: printed(name) for name in states("digits", capsys)}

    assert "1500 digits in 4 shards, 297 to evaluate" in told["digits-shards"]
    assert "2 processes, loss=" in told["digits-smoke"]
    assert example.losses(Path("trained")) == pytest.approx(one, rel=0, abs=NEAR)
    (right,) = re.findall(r"accuracy=([0-9.]+) of 297 digits", told["digits-evaluate"])
    assert float(right) > 0.5


@pytest.mark.parametrize(
    "launch, nodes, each",
    [
        ("horovod", 1, 1),
        ("horovod", 1, 2),
        ("horovod", 1, 4),
        ("horovod", 2, 1),
        ("mpi", 1, 1),
        ("mpi", 1, 2),
        ("mpi", 1, 4),
        ("mpi", 2, 1),
        ("mpi", 2, 2),
    ],
)
def test_any_number_of_processes_trains_as_one(
    made: Path, folder: Path, one: list[float], launch: str, nodes: int, each: int
) -> None:
    found = applied(made, launch=launch, cluster={"nodes": nodes}, processes_per_node=each)

    assert found == pytest.approx(one, rel=0, abs=NEAR)


@pytest.mark.root
@pytest.mark.parametrize("launch", ["mpi", "horovod"])
def test_two_hosts_of_slurm_train_as_one_process(
    made: Path, folder: Path, one: list[float], machines: Machines, launch: str
) -> None:
    """Hosts with a network each, in float64."""
    desk = Desk(machines, folder, "m4")

    said = ended(desk.begin(example.spec(made, provider="slurm", launch=launch)))

    assert "2 processes, loss=" in said
    assert example.losses(folder / "workspace") == pytest.approx(one, rel=0, abs=NEAR)


def test_the_report_compares_numbers_of_processes(
    made: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Of real trainings on made-up pictures. How fast they are depends on what else the machine does."""
    monkeypatch.setenv("PATH", f"{made / 'bin'}:{os.environ['PATH']}")

    assert run(["apply", "horovod/scaling.yaml"]) == 0
    capsys.readouterr()
    assert run(["report", "horovod-speed", "--json"]) == 0

    (found,) = json.loads(capsys.readouterr().out)["series"]
    assert (found["unit"], [p["size"] for p in found["points"]]) == ("processes", [1, 2, 4])
    assert all(p["throughput"] > 0 for p in found["points"])
