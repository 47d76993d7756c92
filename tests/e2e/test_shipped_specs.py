"""Each spec in specs/ runs on each provider that plans it: rehearsed, and on this machine itself.

Those that need packages or data of their own are tried where these are: `ELSEWHERE` says where.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from tests.e2e.test_elastic_torch import torch as torch
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.root import ROOT
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow
Capture = pytest.CaptureFixture[str]
CLOUDS = ("aws-batch", "azure-batch", "azure-batch-ai", "slurm", "parallelcluster")
# What each prints, whatever the provider.
SMALL = {
    "hello": "hello",
    "search": "loss=",
    "secrets": "the token has",
    "spot": "step 5 of 5",
    "sweep": "learning rate 0.01, seed 3",
}
ELSEWHERE = {
    "elastic-digits": "tests/e2e/test_elastic_torch.py",
    "horovod": "tests/e2e/test_horovod_trains.py",
    "horovod/evaluate": "tests/e2e/test_horovod_trains.py",
    "horovod/prepare": "tests/e2e/test_horovod_trains.py",
    "horovod/scaling": "tests/e2e/test_horovod_trains.py",
    "mnist-chainer": "tests/e2e/test_hands_on.py",
    "aws-batch/predict": "tests/e2e/test_article_aws_batch.py",
    "aws-batch/search": "tests/e2e/test_article_aws_batch.py",
    "parallelcluster/bert": "tests/e2e/test_article_parallelcluster.py",
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
    own_profile().write_text(json.dumps({"providers": settings}))


def test_each_shipped_spec_is_tried() -> None:
    names = {
        str(path.relative_to(ROOT / "specs").with_suffix(""))
        for path in (ROOT / "specs").rglob("*.yaml")
        if "apiVersion" in path.read_text()
    }

    assert names == SMALL.keys() | ELSEWHERE.keys()
    assert [test for test in ELSEWHERE.values() if not (ROOT / test).exists()] == []


# Each provider and each spec once in a whole run; all pairs with --matrix.
PAIRS = [
    pytest.param(name, provider, marks=() if i % len(CLOUDS) == j else pytest.mark.matrix)
    for i, name in enumerate(SMALL)
    for j, provider in enumerate(CLOUDS)
]


@pytest.mark.parametrize(("name", "provider"), PAIRS)
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


@pytest.mark.parametrize("provider", ["slurm", "parallelcluster"])
def test_a_folder_is_put_where_the_cluster_shares_it(
    tmp_path: Path, provider: str, capsys: Capture
) -> None:
    (tmp_path / "data/set").mkdir(parents=True)
    (tmp_path / "data/set/a").write_text("shared\n")
    own = {**PLACE, "shared": {"workspace": "/far"}} if provider != "slurm" else {}
    own = own or {"shared": {"workspace": "/far"}}
    own_profile().write_text(json.dumps({"providers": {provider: own}}))
    mount = {"name": "data", "source": "shared://workspace/set", "target": "/job/data"}
    spec = {"apiVersion": "runspec/v1", "name": "j", "provider": provider, "mounts": [mount]}
    Path("job.yaml").write_text(json.dumps({**spec, "run": 'cat "${mounts.data}/a"'}))

    assert run(["rehearse", "job.yaml", "--container", "workspace=data"]) == 0
    assert capsys.readouterr().out == "shared\n"
    assert run(["rehearse", "job.yaml", "--container", "workspce=data"]) == 2
    assert "workspace" in capsys.readouterr().err


@pytest.mark.matrix
@pytest.mark.parametrize("provider", ["slurm", "parallelcluster"])
def test_elastic_torchrun_is_rehearsed_on_a_cluster(
    torch: Path, provider: str, capsys: Capture
) -> None:
    """With the agent as compiled modules; the first node builds the environment, which takes a minute."""
    file = str(ROOT / "specs" / "elastic-digits.yaml")

    code = run(["rehearse", file, "--provider", provider])

    said = capsys.readouterr()
    assert code == 0, said.err
    assert "the program has exited with 0" in said.out
    assert str(torch / "bin") in os.environ["PATH"]
