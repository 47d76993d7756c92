"""Whatever stands at any place of a file, it is refused with a place, or becomes a spec that is valid."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from runspec_aws import PROVIDER
from runspec_imports import KUBERNETES, SKYPILOT
from runspec_jobs.provider import UsageError
from runspec_jobs.provider.types import ForeignFile, Imported
from tests.support.imports import read_all

DEFINITION = {
    "jobDefinitionName": "train",
    "parameters": {"lr": "0.1"},
    "retryStrategy": {"attempts": 3, "evaluateOnExit": [{"onExitCode": "1", "action": "EXIT"}]},
    "containerProperties": {
        "image": "train:1",
        "command": ["train", "Ref::lr"],
        "vcpus": 1,
        "volumes": [{"name": "d", "host": {"sourcePath": "/d"}}],
        "mountPoints": [{"sourceVolume": "d", "containerPath": "/d"}],
        "environment": [{"name": "A", "value": "b"}],
        "ulimits": [{"name": "nofile", "hardLimit": 9}],
    },
}
TASK = {
    "name": "train",
    "resources": {"cpus": 4, "any_of": [{"infra": "aws", "accelerators": "L4:1"}]},
    "num_nodes": 2,
    "workdir": ".",
    "envs": {"A": "b"},
    "file_mounts": {"/a": "./a", "~/b": {"name": "bucket"}},
    "setup": "echo a",
    "run": "echo $SKYPILOT_NODE_RANK",
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {
        "completions": 2,
        "completionMode": "Indexed",
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"values": [1]}}]},
        "template": {
            "spec": {
                "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}],
                "containers": [
                    {
                        "image": "train:1",
                        "command": ["sh", "-c", "echo a"],
                        "workingDir": "/a",
                        "env": [{"name": "A", "value": "b"}],
                        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                        "volumeMounts": [{"name": "d", "mountPath": "/d"}],
                    }
                ],
            }
        },
    },
}
VALUES: list[Any] = [None, 0, "${a.b}", "a\nb", [1], {"a": 1}]


def list_places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield from list_places(value[key], (*at, key))


def damage(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    whole = here = copy.deepcopy(value)
    for part in at[:-1]:
        here = here[part]
    here[at[-1]] = new
    return whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sample", "imports"),
    [(DEFINITION, PROVIDER.imports), (TASK, SKYPILOT.imports), (JOB, KUBERNETES.imports)],
    ids=["definition", "task", "job"],
)
def test_a_damaged_file_is_refused_or_becomes_a_valid_spec(
    sample: Any, imports: Callable[[ForeignFile, Any], Imported]
) -> None:
    valid = 0
    for place in list_places(sample):
        for value in VALUES:
            text = yaml.safe_dump(damage(sample, place, value), sort_keys=False)
            try:
                imported = imports(ForeignFile("a.yaml", text), None)
            except UsageError:
                continue
            read_all(imported)
            valid += 1

    assert valid > 100
