"""A sweep of more than 10,000 tasks: Slurm takes it as several arrays, and the others name their own limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run

SPEC = {"apiVersion": "runspec/v1", "name": "large", "command": ["true"]}
LIMITS = {
    "local": "at most 10,000 are allowed: this machine runs them all",
    "aws-batch": "at most 10,000 are allowed: AWS Batch allows no more in one array",
    "azure-batch": "at most 10,000 are allowed: how Azure Batch behaves with more is not known",
    "slurm": "",
    "parallelcluster": "",
}


@pytest.mark.parametrize("provider", LIMITS)
def test_each_provider_says_how_many_tasks_it_takes(
    provider: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = {"n": [str(n) for n in range(10_001)]}
    Path("job.yaml").write_text(json.dumps({**SPEC, "provider": provider, "sweep": sweep}))

    code = run(["validate", "job.yaml"])

    said = capsys.readouterr().err
    assert code == (2 if LIMITS[provider] else 0)
    assert LIMITS[provider] in said
