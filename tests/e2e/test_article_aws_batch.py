"""The AWS Batch walk-through of docs/articles.md: a search over learning rates, and what the best network answers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.aws.region import Region
from runspec_jobs.cli.app import run
from tests.e2e.test_elastic_torch import torch as torch  # a fixture: its environment has NumPy
from tests.support.aws.emulated_account import Capture, calls, jobs, left
from tests.support.root import ROOT

pytestmark = pytest.mark.slow

SMALL = ["--epochs", "2", "--samples", "800", "--batch", "16"]
TRAIN = [
    "python3", "${mounts.code}/train_lenet.py", "--lr", "${sweep.lr}", "--out", "${outputs.model}", *SMALL,
]  # fmt: skip
INSTALLED = ["--set", "container.requirements=[]"]  # in the environment that the machines have


def test_the_best_of_24_learning_rates_answers_in_a_predict_job(
    torch: Path, region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    shutil.copytree(ROOT / "specs/aws-batch", tmp_path / "specs")
    monkeypatch.chdir(tmp_path / "specs")

    assert (
        run(["apply", ".", *INSTALLED, "--set", f"lenet-search:command={json.dumps(TRAIN)}"]) == 0
    )

    said = capsys.readouterr().out
    best = ranking(capsys)[0]
    (accuracy,) = re.findall(r"predicted=1000 accuracy=([0-9.]+)", said)
    assert float(accuracy) == pytest.approx(best["value"], abs=0.05) and float(accuracy) > 0.8
    assert run(["fetch", "lenet-predict", "answers"]) == 0
    answers = Path("answers/answers/answers.txt").read_text().splitlines()
    assert sum(len({*line.split()}) == 1 for line in answers) == round(1000 * float(accuracy))
    assert run(["logs", "lenet-search", "--task", str(best["task"])]) == 0
    printed = capsys.readouterr().out.replace(f"[task {best['task']}] ", "")
    assert printed == alone(torch, best["values"]["lr"])
    assert len(calls(region, "SubmitJob")) == 2  # one array, and the job that predicts
    assert len(jobs(region)) == 1 + 24 + 1
    for words in (["specs"], ["--shared"]):
        assert run(["destroy", *words]) == 0
    assert left(region, tmp_path) == []


def ranking(capsys: Capture) -> list[dict[str, Any]]:
    """Return the tasks, the best first; the largest learning rates have the worst places."""
    capsys.readouterr()
    assert run(["report", "lenet-search", "--json"]) == 0
    tasks = json.loads(capsys.readouterr().out)["tasks"]
    assert sorted(task["task"] for task in tasks) == list(range(24))
    values = [task["value"] for task in tasks]
    assert values == sorted(values, reverse=True) and values[0] > 5 * values[-1]
    return list(tasks)


def alone(torch: Path, lr: str) -> str:
    """Train with the same learning rate without runspec; return what the program prints."""
    words = [str(torch / "bin/python3"), "lenet/train_lenet.py", "--lr", lr, "--out", "alone"]
    return subprocess.run([*words, *SMALL], check=True, capture_output=True, text=True).stdout
