"""Each spec in specs/ runs on each provider that plans it: rehearsed, and on this machine itself.

Those that need packages or data of their own are tried where these are: `ELSEWHERE` says where.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runspec_jobs.cli.app import run
from tests.e2e.test_elastic_torch import MADE as TORCH, torch as torch
from tests.support import horovod_example
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.root import ROOT
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow
Capture = pytest.CaptureFixture[str]
CLOUDS = ("aws-batch", "azure-batch", "azure-batch-ai", "kubernetes", "slurm", "parallelcluster")
ON_CLUSTERS = ("kubernetes", "slurm", "parallelcluster")
# What each prints, whatever the provider.
SMALL = {
    "fit": "epoch 3  loss=",
    "files": " words\n",
    "hello": "hello",
    "search": "loss=",
    "secrets": "the token has",
    "spot": "step 5 of 5",
    "sweep": "learning rate 0.01, seed 3",
}
ELSEWHERE = {
    "elastic-digits": "tests/e2e/test_elastic_torch.py",
    "horovod": "tests/e2e/test_horovod_trains.py",
    "horovod/digits": "tests/e2e/test_horovod_trains.py",
    "horovod/scaling": "tests/e2e/test_horovod_trains.py",
    "mnist-chainer": "tests/e2e/test_hands_on.py",
    "aws-batch/predict": "tests/e2e/test_article_aws_batch.py",
    "aws-batch/search": "tests/e2e/test_article_aws_batch.py",
    "parallelcluster/bert": "tests/e2e/test_article_parallelcluster.py",
    "parallelcluster/mrpc": "tests/e2e/test_article_parallelcluster.py",
    "parallelcluster/notebook": "tests/e2e/test_article_parallelcluster.py",
    "parallelcluster/tensorboard": "tests/e2e/test_article_parallelcluster.py",
    "parallelcluster/translation": "tests/e2e/test_article_parallelcluster.py",
    "scaling/pretend": "tests/unit/runspec_jobs/cli/test_report.py",  # several jobs
}
PLACE = {"region": "us-east-1", "key_pair": "k", "subnets": ["subnet-0123456789abcdef0"]}
ARN = "arn:aws:secretsmanager:us-east-1:123456789012:secret:hf-a1b2c3"
SECRETS = {
    "local": "env:HF",
    "aws-batch": f"aws-sm:{ARN}",
    "azure-batch": "env:HF",
    "azure-batch-ai": "env:HF",
    "kubernetes": "env:HF",
    "slurm": "env:HF",
    "parallelcluster": "env:HF",
}


@pytest.fixture(autouse=True)
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("azurite", *PROGRAMS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF", "hf_of_nobody")
    settings: dict[str, Any] = {name: {"secrets": {"hf": at}} for name, at in SECRETS.items()}
    settings["parallelcluster"] |= {**PLACE, "storage": {"workspace": {"mount": "/workspace"}}}
    settings["slurm"] |= {"shared": {"workspace": "/far"}}
    settings["kubernetes"] |= {"shared": {"workspace": "pvc:workspace"}, "cloud": "gke"}
    own_profile().write_text(json.dumps({"providers": settings}))


def test_each_shipped_spec_is_tried() -> None:
    names = {
        str(path.relative_to(ROOT / "specs").with_suffix(""))
        for path in (ROOT / "specs").rglob("*.yaml")
        if "apiVersion" in path.read_text()
    }

    assert names == SMALL.keys() | ELSEWHERE.keys()
    assert [test for test in ELSEWHERE.values() if not (ROOT / test).exists()] == []


@pytest.mark.parametrize("provider", CLOUDS)
@pytest.mark.parametrize("name", SMALL)
def test_a_small_spec_is_rehearsed_on_each_provider(
    name: str, provider: str, capsys: Capture
) -> None:
    file = str(ROOT / "specs" / f"{name}.yaml")

    code = run(["rehearse", file, "--provider", provider])

    said = capsys.readouterr()
    assert code == 0, said.err
    assert SMALL[name] in said.out


@pytest.mark.parametrize("name", SMALL)
def test_a_small_spec_runs_on_this_machine(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "home"))

    assert run(["apply", str(ROOT / "specs" / f"{name}.yaml")]) == 0

    assert SMALL[name] in capsys.readouterr().out


@pytest.mark.parametrize("provider", ON_CLUSTERS)
def test_a_folder_is_put_where_the_cluster_shares_it(
    tmp_path: Path, provider: str, capsys: Capture
) -> None:
    (tmp_path / "data/set").mkdir(parents=True)
    (tmp_path / "data/set/a").write_text("shared\n")
    shared = {"shared": {"workspace": "pvc:all" if provider == "kubernetes" else "/far"}}
    own = {**PLACE, **shared} if provider == "parallelcluster" else shared
    own_profile().write_text(json.dumps({"providers": {provider: own}}))
    mount = {"name": "data", "source": "shared://workspace/set", "target": "/job/data"}
    spec = {"apiVersion": "runspec/v1", "name": "j", "provider": provider, "mounts": [mount]}
    Path("job.yaml").write_text(json.dumps({**spec, "run": 'cat "${mounts.data}/a"'}))

    assert run(["rehearse", "job.yaml", "--container", "workspace=data"]) == 0
    assert capsys.readouterr().out == "shared\n"
    assert run(["rehearse", "job.yaml", "--container", "workspce=data"]) == 2
    assert "workspace" in capsys.readouterr().err


class Large(NamedTuple):
    """How a spec that needs packages or data is tried: smaller, with what tools/setup has installed.

    *said* is what it prints. *needs* names the environment whose programs come first. *settings* are for `--set`, and
    *words* follow its command. *refused* has, by provider, why it is not planned there. *code* is 1 for a server,
    which only `timeout` ends.
    """

    said: str
    needs: str = ""
    settings: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    refused: Mapping[str, str] = {}
    code: int = 0


INSTALLED = "container.requirements=[]"
# What the job before it in the chain makes; tests/e2e/test_article_aws_batch.py has both.
BEST = "mounts=[{name: code, source: ./lenet, target: /job/code}, {name: model, source: ./best, target: /job/model}]"
PROCESS = "providers={local: {engine: process}}"
NO_GPU = "cluster={nodes: 1}"
UNSHARED = {
    "aws-batch": "the profile has no shared file system 'workspace'",
    "azure-batch": "the profile has no shared file system 'workspace'",
    "azure-batch-ai": "the profile has no volume 'workspace'",
}
SERVER = ("cluster={nodes: 1}", "timeout=3m")
SMALL_STEPS = ("--epochs", "1", "--batch", "20", "--double")
LARGE = {
    "elastic-digits": Large(
        "the program has exited with 0",
        "torch",
        (INSTALLED,),
        ("--epochs", "2"),
        {"azure-batch-ai": "Batch AI has no elastic jobs"},
    ),
    "horovod": Large("2 processes, loss=", "horovod", (), ("--epochs", "1")),
    "horovod/digits": Large("of 297 digits", "horovod", (), (), {"azure-batch-ai": "from: first"}),
    "horovod/scaling": Large("2 processes, loss=", "horovod", ("processes_per_node=2",)),
    "mnist-chainer": Large("Num process (COMM_WORLD): 2", "", (), ("--epoch", "1", "--unit", "10")),
    "aws-batch/predict": Large("predicted=1000", "torch", (INSTALLED, BEST, PROCESS)),
    "aws-batch/search": Large(
        "validation-accuracy=",
        "torch",
        (INSTALLED, "sweep={random: {trials: 2, seed: 1, draw: {lr: {log_uniform: [0.01, 1]}}}}"),
        ("--epochs", "1", "--samples", "200", "--batch", "16"),
    ),
    "parallelcluster/bert": Large(
        "epoch 1 loss=",
        "torch",
        (INSTALLED, NO_GPU),
        (*SMALL_STEPS, "--model", "${mounts.data}/bert"),
        UNSHARED,
    ),
    "parallelcluster/mrpc": Large("of 120 pairs", "torch", ("container={}", NO_GPU)),
    "parallelcluster/notebook": Large("/lab?token=", "", SERVER, (), UNSHARED, 1),
    "parallelcluster/tensorboard": Large("TensorBoard 2", "", SERVER, (), UNSHARED, 1),
    "parallelcluster/translation": Large(
        "loss",
        "torch",
        (INSTALLED, "cluster={nodes: 2, cpus: 1}", "processes_per_node=1"),
        (*SMALL_STEPS, *"--width 32 --heads 2 --layers 1 --lr 0.003".split()),
        UNSHARED,
    ),
    "scaling/pretend": Large(
        "samples/s",
        "",
        ("cluster.nodes=2",),
        (),
        {"azure-batch-ai": "Batch AI starts a command on every node only with mpirun"},
    ),
}


CHEAP = ("scaling/pretend",)  # seconds of processor time on each provider


def pairs() -> Iterator[Any]:
    """Yield each large spec with each provider; those that cost much are for `tools/test --matrix`."""
    for name, of in LARGE.items():
        for provider in ("local", *CLOUDS):
            cheap = name in CHEAP or provider in of.refused
            marks = [] if cheap else [pytest.mark.matrix]
            yield pytest.param(name, provider, marks=marks, id=f"{name}-{provider}")


@pytest.mark.parametrize(("name", "provider"), list(pairs()))
def test_a_large_spec_runs_on_each_provider_that_plans_it(
    name: str,
    provider: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    of = LARGE[name]
    shutil.copytree(ROOT / "specs", "specs", ignore=shutil.ignore_patterns("runspec-pro*"))
    settings = list(of.settings)
    if of.needs and provider not in of.refused:  # which are refused before anything is looked for
        made = request.getfixturevalue(of.needs) / "bin"
        settings.append(f"env.PATH={made}:{os.environ['PATH']}")
    if provider not in of.refused or name in CHEAP:
        prepare(name, tmp_path)
    Path("data").mkdir(exist_ok=True)
    shutil.copytree("data", "home/local/shared/workspace")  # where `local` has what is shared
    chosen = [w for one in settings for w in ("--set", one)]
    line: list[str] = [f"specs/{name}.yaml", "--provider", provider, *chosen]
    if provider in ON_CLUSTERS and "parallelcluster/" in name:
        line += ["--container", "workspace=data"]
    words = ["--", *of.words] if of.words else []
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "home"))

    code = run(["apply" if provider == "local" else "rehearse", *line, *words])

    said = capsys.readouterr()
    if provider in of.refused:
        assert (code, of.refused[provider] in said.err) == (2, True), said.err
    else:
        assert code == of.code, said.err[-3000:] + said.out[-2000:]
        assert of.said in said.out


def prepare(name: str, folder: Path) -> None:
    """Make the data that a spec reads, and a job of a spec with several sizes."""
    spec = folder / "specs" / f"{name}.yaml"
    lines = spec.read_text().splitlines(keepends=True)
    spec.write_text("".join(line for line in lines if not line.startswith("scaling:")))
    (folder / "data").mkdir()
    code = ROOT / "specs/parallelcluster/code"
    python = str(TORCH / "bin/python")
    if name.endswith("bert"):
        made = [python, str(code / "make_pairs.py"), "data/bert", "--train", "60", "--dev", "20"]
        subprocess.run(made, check=True)
    elif name.endswith("translation"):
        words = "--train 100 --valid 20 --below 500".split()
        subprocess.run([python, code / "make_numbers.py", "data/translation", *words], check=True)
    elif name == "aws-batch/predict":
        words = "--lr 0.1 --out specs/aws-batch/best --epochs 1 --samples 200 --batch 16".split()
        subprocess.run([python, "specs/aws-batch/lenet/train_lenet.py", *words], check=True)
    elif name == "horovod":
        made = [str(horovod_example.environment() / "bin/python"), "prepare.py", "data"]
        subprocess.run(made, cwd=folder / "specs/horovod", check=True)


@pytest.fixture
def horovod() -> Path:
    return horovod_example.environment()
