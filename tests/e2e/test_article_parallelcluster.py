"""The trainings of the ParallelCluster article, smaller and on processors: one rank, four, and resumed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from runspec_emulators.slurm import Cluster, Partition, Shape
from runspec_jobs import api
from runspec_jobs.cli.app import run
from tests.e2e.test_elastic_torch import MADE, torch as torch  # a fixture
from tests.support.providers_of_chains import PROVIDERS, in_all, printed, stand_in, states
from tests.support.requirements import lack
from tests.support.root import ROOT
from tests.support.saved_outputs import saved
from tests.support.slurm.pcluster_site import pcluster_site
from tests.support.wait import until

pytestmark = pytest.mark.slow

CODE = ROOT / "specs/parallelcluster/code"
REQUIREMENTS = (CODE / "requirements.txt").read_text()
(TRANSFORMERS,) = re.findall("(?m)^transformers==(.+)$", REQUIREMENTS)
QUEUES = {
    "gpu": {"instance_types": ["g5.2xlarge"], "max_count": 2},
    "gpus": {"instance_types": ["g5.12xlarge"], "capacity": "spot", "max_count": 4},
}
PACE = ["--double", "--pace", "0.15", "--save-every", "10"]
BERT = [*PACE, "--epochs", "2", "--batch", "20", "--lr", "0.002"]
TRANSLATION = [
    *PACE,
    *"--epochs 2 --batch 50 --width 32 --heads 2 --layers 1 --dropout 0 --warm-up 30".split(),
    *"--lr 0.003".split(),
]


class Site:
    """A cluster that is this machine, its file system, and the specs as they are in the project."""

    def __init__(self, folder: Path, cluster: Cluster, torch: Path) -> None:
        self.folder, self.cluster, self.torch = folder, cluster, torch
        self.workspace = folder / "workspace"
        shutil.copytree(
            CODE.parent, folder / "specs", ignore=shutil.ignore_patterns("runspec-pro*")
        )

    def runspec(self, *words: str) -> str:
        line = [sys.executable, "-m", "runspec_jobs", *words]
        cwd = self.folder / "specs"
        done = subprocess.run(line, cwd=cwd, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    def python(self, program: str, *words: str) -> str:
        """Run a program of the example as a user would, without runspec."""
        line = [str(self.torch / "bin/python"), str(CODE / program), *words]
        done = subprocess.run(line, capture_output=True, text=True, check=True, cwd=self.folder)
        return done.stdout

    def start(self, name: str, words: Sequence[str], output: str, **fields: str) -> None:
        """Apply a spec with what makes it small: no GPU, the packages of the tests, and quick saves."""
        path = f"{self.torch / 'bin'}:{os.environ['PATH']}"
        kept = f"[{{name: {output}, path: /job/{output}, sync: 1s}}]"
        small = {"cluster": "{nodes: 1}", "container": "{}", "env.PATH": path, "outputs": kept}
        small |= fields
        settings = [word for key, value in small.items() for word in ("--set", f"{key}={value}")]
        settings += ["--set", "env.OMP_NUM_THREADS=1"]
        self.runspec("apply", "--detach", f"{name}.yaml", *settings, "--", *words)

    def take_machine(self, name: str) -> None:
        """Have Slurm begin the job again, as when its machine is reclaimed, once a checkpoint is kept."""
        (run,) = (self.workspace / "runspec/runs").glob(f"{name}-*")
        self.until(lambda: "checkpoint.pt" in saved(run / "outputs"))
        (job,) = set(self.cluster.run("squeue", "-h", "-o", "%i").split())
        self.cluster.run("scontrol", "requeue", job)

    def log(self, name: str) -> str:
        return self.runspec("logs", name)

    def until(self, true: Callable[[], object], limit_s: float = 120) -> None:
        end = time.monotonic() + limit_s
        while not true():
            assert time.monotonic() < end
            time.sleep(0.3)

    def losses(self, name: str, output: str) -> list[float]:
        """Wait for the end; give the losses of all steps."""
        self.runspec("logs", "-f", name)
        assert "succeeded" in self.runspec("status", name)
        self.runspec("fetch", name, f"out-{name}")
        fetched = self.folder / "specs" / f"out-{name}"
        of_first = fetched / "node-0"
        return read((of_first if of_first.exists() else fetched) / output)


def read(folder: Path) -> list[float]:
    found: list[float] = json.loads((folder / "losses.json").read_text())
    return found


@pytest.fixture
def site(torch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    storage = {"workspace": {"mount": str(workspace), "size_gib": 1200}}
    settings = {"cluster": "training", "queues": QUEUES, "storage": storage}
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    shape = {"partitions": [Partition("gpu"), Partition("gpus")], "shape": Shape(cpus=4)}
    with pcluster_site(tmp_path, monkeypatch, settings, **shape) as cluster:
        yield Site(tmp_path, cluster, torch)


def compare(site: Site, name: str, output: str, alone: str, processes: int) -> list[int]:
    """Hold a run against the same training by one process without runspec; return where its attempts began."""
    found, log = site.losses(name, output), site.log(name)

    assert found == pytest.approx(read(site.folder / "alone"), abs=1e-9)
    assert found[-1] < 0.65 * found[0]
    steps = [int(n) for n in re.findall(rf"{processes} processes begin at step (\d+)", log)]
    assert steps[0] == 0 and all(0 < step < len(found) for step in steps[1:])
    assert alone.splitlines()[-1] in log  # the figure at the end
    return steps


@pytest.mark.matrix
@pytest.mark.parametrize("taken", [False, True])
def test_translation_with_four_ranks_is_that_of_one(site: Site, taken: bool) -> None:
    data = site.workspace / "translation"
    site.python("make_numbers.py", str(data), "--train", "1200", "--valid", "20", "--below", "2000")

    site.start("translation", TRANSLATION, "checkpoints")
    if taken:
        site.take_machine("translation")
    alone = site.python("translate.py", "--data", str(data), "--out", "alone", *TRANSLATION)

    steps = compare(site, "translation", "checkpoints", alone, 4)
    assert len(steps) == 1 + taken


def need_transformers() -> None:
    if not (MADE / f".transformers-{TRANSFORMERS}").exists():
        lack(f"transformers {TRANSFORMERS}, which tools/setup --test installs")


FOUR = {"launch": "torchrun", "processes_per_node": "4"}


@pytest.mark.matrix
@pytest.mark.parametrize("more", [{}, FOUR])
def test_bert_goes_on_from_its_checkpoint(site: Site, more: dict[str, str]) -> None:
    need_transformers()
    data = site.workspace / "bert"
    site.python("make_pairs.py", str(data), "--train", "600", "--dev", "60")

    words = [*BERT, "--model", str(data / "bert")]
    site.start("bert", words, "model", **more)
    site.take_machine("bert")
    alone = site.python("finetune.py", "--data", str(data), "--out", "alone", *words)

    steps = compare(site, "bert", "model", alone, int(more.get("processes_per_node", "1")))
    assert len(steps) == 2


CHAIN = "specs/mrpc.yaml"
SIZE = ["--train", "300", "--dev", "60"]
SETTINGS = (
    "container={}",
    "cluster={nodes: 1}",
    "env.OMP_NUM_THREADS=1",
    "mrpc-bert:outputs=[{name: model, path: /job/model, sync: 1s}]",
)
# This machine is in `test_horovod_trains.py`, and `test_chains.py` has a chain over Slurm, Azure Batch and AWS Batch.
ELSEWHERE = ("local", "slurm", "azure-batch")


def command(job: str, program: str, *words: str) -> str:
    line = ["python3", f"${{mounts.code}}/{program}", *words]
    return f"{job}:command={json.dumps(line)}"


def fine_tuning(data: str, out: str) -> list[str]:
    return ["--data", data, "--model", f"{data}/bert", "--out", out, *BERT]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of the same training without runspec."""
    need_transformers()
    folder = tmp_path_factory.mktemp("alone")
    python = str(MADE / "bin/python")
    for program, words in (
        ("make_pairs.py", ["pairs", *SIZE]),
        ("finetune.py", fine_tuning("pairs", "out")),
    ):
        line = [python, str(CODE / program), *words]
        subprocess.run(line, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return read(folder / "out")


@pytest.mark.parametrize("provider", in_all(*PROVIDERS, matrix=ELSEWHERE))
def test_pairs_fine_tuning_and_evaluation_are_one_chain_that_goes_on_the_next_day(
    torch: Path,
    alone: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    provider: str,
) -> None:
    """By one field: the chain is cancelled after a checkpoint, and `apply --resume` does the rest alone."""
    shutil.copytree(CODE.parent, tmp_path / "specs", ignore=shutil.ignore_patterns("runspec-pro*"))
    monkeypatch.chdir(tmp_path)
    # A rehearsal shows its jobs what its own PATH names, also if the cache of tests is among temporary files.
    monkeypatch.setenv("PATH", f"{torch / 'bin'}:{os.environ['PATH']}")
    settings = [
        *SETTINGS,
        f"env.PATH={os.environ['PATH']}",
        command("mrpc-pairs", "make_pairs.py", "${outputs.data}", *SIZE),
        command("mrpc-bert", "finetune.py", *fine_tuning("${mounts.data}", "${outputs.model}")),
    ]
    line = ["apply", CHAIN, "--provider", provider]
    line += [word for one in settings for word in ("--set", one)]

    with stand_in(provider, CHAIN):
        following = subprocess.Popen([sys.executable, "-m", "runspec_jobs", *line])
        until(lambda: any(run.outputs() for run in api.runs("mrpc-bert")), 300)
        assert run(["cancel", "mrpc"]) == 0
        assert following.wait() == 1
        assert states("mrpc", capsys)["mrpc-bert"] == "cancelled"

        assert run([*line, "--resume"]) == 0
        assert set(states("mrpc", capsys).values()) == {"succeeded"}
        assert run(["fetch", "mrpc-bert", "trained"]) == 0
        log, told = printed("mrpc-bert"), printed("mrpc-evaluate")
        assert len(api.runs("mrpc-pairs")) == 1

    losses = read(Path("trained/model"))
    assert losses == pytest.approx(alone, abs=1e-9)
    (step,) = map(int, re.findall(r"1 processes begin at step (\d+)", log))
    assert 0 < step < len(losses)
    assert re.search(r"accuracy=[01]\.\d+ f1=[01]\.\d+ of 60 pairs", told)
