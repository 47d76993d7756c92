"""What `pcluster` answers, as 3.16 documents it, is read; a part of it is no refusal, and no cluster is lost.

https://docs.aws.amazon.com/parallelcluster/latest/ug/pcluster.create-cluster-v3.html
https://docs.aws.amazon.com/parallelcluster/latest/ug/pcluster.describe-cluster-v3.html
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import NoAnswer, RunspecError, Unavailable
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_parallelcluster.session import install, pcluster

CLUSTER: dict[str, Any] = {
    "clusterName": "demo",
    "cloudformationStackStatus": "CREATE_IN_PROGRESS",
    "cloudformationStackArn": "arn:aws:cloudformation:eu-central-1:123456789012:stack/demo/1",
    "region": "eu-central-1",
    "version": "3.16.1",
    "clusterStatus": "CREATE_IN_PROGRESS",
    "scheduler": {"type": "slurm"},
}
ANSWERS: dict[str, dict[str, Any]] = {
    "create-cluster": {
        "cluster": CLUSTER,
        "validationMessages": [
            {
                "level": "WARNING",
                "type": "KeyPairValidator",
                "message": "A key pair is not specified, so SSH cannot be used. Invalid for some.",
            }
        ],
    },
    "describe-cluster": {
        **CLUSTER,
        "computeFleetStatus": "RUNNING",
        "tags": [{"key": "Name", "value": "demo"}],
        "failures": [
            {"failureCode": "X", "failureReason": "A node does not exist: Unable to start"}
        ],
    },
    "delete-cluster": {"cluster": {**CLUSTER, "clusterStatus": "DELETE_IN_PROGRESS"}},
}


def called(monkeypatch: pytest.MonkeyPatch, operation: str, out: str) -> dict[str, Any]:
    monkeypatch.setattr(install, "program", lambda options, told: Path("pcluster"))
    monkeypatch.setattr(pcluster, "execute", lambda *_: (0, out))
    options = ParallelClusterOptions.model_validate({"region": "eu-central-1"})
    return pcluster.Cli(options, lambda text: None).run(operation, "demo")


@pytest.mark.parametrize("operation", ANSWERS)
def test_an_answer_is_read_behind_warnings(monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    out = f"npm warn: {{old}}\n{json.dumps(ANSWERS[operation], indent=2)}\n"

    assert called(monkeypatch, operation, out) == ANSWERS[operation]


@pytest.mark.parametrize("operation", ANSWERS)
def test_an_answer_that_is_cut_off_anywhere_is_neither_a_refusal_nor_no_cluster(
    monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    out = json.dumps(ANSWERS[operation], indent=2)
    kind = NoAnswer if operation in pcluster.CHANGES else Unavailable
    wrong: dict[str, RunspecError] = {}

    for end in range(len(out)):
        try:
            called(monkeypatch, operation, out[:end])
        except RunspecError as exc:
            if type(exc) is not kind:
                wrong[out[:end][-30:]] = exc

    assert wrong == {}
