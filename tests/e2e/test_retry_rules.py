"""Tasks that `retry.on` ends or starts again, for real: on this machine, on Slurm, and on rehearsed services."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.batch_ai import BatchAI
from tests.e2e.test_ends import (
    Local,
    account as account,  # fixtures
    batch_ai as batch_ai,
    ended,
    local as local,
    on_aws as on_aws,
    on_azure as on_azure,
)
from tests.support.azure.emulated_account import blobs as blobs  # a fixture
from tests.support.slurm.project import Project, cluster as cluster, project as project

STOPS = [{"exit_codes": [42, "50..52"], "action": "stop"}]

COUNTED = 'echo "attempt $RUNSPEC_ATTEMPT with ${sweep.code}"; exit "${sweep.code}"'


def spec(provider: str, codes: list[int], rules: Any, **more: Any) -> dict[str, Any]:
    """Return a spec whose tasks exit with *codes*, and may have two attempts."""
    return {
        "apiVersion": "runspec/v1",
        "name": "job",
        "provider": provider,
        "run": 'exit "${sweep.code}"',
        "sweep": {"code": codes},
        "retry": {"attempts": 2, "on": rules},
        **more,
    }


def attempts(status: dict[str, Any]) -> dict[int, tuple[str, int, int]]:
    """Return the state, the exit code and the number of attempts of each task."""
    return {
        node["task"]: (node["state"], node["exit_code"], len(node["attempts"]))
        for node in status["nodes"]
    }


def check(jobs: Any, provider: str) -> None:
    status = ended(jobs, spec(provider, [42, 51, 7], STOPS))

    assert attempts(status) == {0: ("failed", 42, 1), 1: ("failed", 51, 1), 2: ("failed", 7, 2)}


@pytest.mark.process
def test_a_code_ends_a_task_on_this_machine(local: Local) -> None:
    check(local, "local")


@pytest.mark.process
def test_all_codes_but_one_end_a_task(local: Local) -> None:
    rules = [{"exit_codes": [7], "action": "retry"}, {"action": "stop"}]

    status = ended(local, spec("local", [7, 8], rules))

    assert attempts(status) == {0: ("failed", 7, 2), 1: ("failed", 8, 1)}


@pytest.mark.slow
def test_a_code_ends_a_task_on_slurm(project: Project) -> None:
    check(project, "slurm")


@pytest.mark.slow
def test_a_code_of_two_nodes_ends_a_task_on_slurm(project: Project) -> None:
    status = ended(project, spec("slurm", [42], STOPS, cluster={"nodes": 2}))

    assert [len(node["attempts"]) for node in status["nodes"]] == [1, 1]


@pytest.mark.slow
def test_a_code_ends_a_task_on_aws_batch(on_aws: Local) -> None:
    check(on_aws, "aws-batch")


@pytest.mark.slow
def test_a_code_ends_nodes_on_spot_machines_of_aws_batch(on_aws: Local) -> None:
    cluster = {"nodes": 2, "capacity": "spot"}

    status = ended(on_aws, spec("aws-batch", [42], STOPS, cluster=cluster))

    assert [len(node["attempts"]) for node in status["nodes"]] == [1, 1]


@pytest.mark.slow
def test_a_code_ends_a_task_on_azure_batch(on_azure: Local, account: AzureBatch) -> None:
    """The service starts the next attempt all the same, which runs nothing."""
    status = ended(on_azure, spec("azure-batch", [42, 7], STOPS, run=COUNTED))

    found = attempts(status)
    assert {task: part[:2] for task, part in found.items()} == {0: ("failed", 42), 1: ("failed", 7)}
    _, log, _ = on_azure.said("logs", "job", "--task", "0")
    assert ("attempt 1 with 42" in log, "attempt 2 with 42" in log) == (True, False)
    assert "retry.on has ended this task, with 42" in log


@pytest.mark.slow
def test_a_code_ends_two_nodes_on_azure_batch(on_azure: Local) -> None:
    status = ended(on_azure, spec("azure-batch", [42], STOPS, run=COUNTED, cluster={"nodes": 2}))

    assert next((n["state"], n["exit_code"]) for n in status["nodes"]) == ("failed", 42)
    _, log, _ = on_azure.said("logs", "job")
    assert ("attempt 1 with 42" in log, "attempt 2 with 42" in log) == (True, False)


@pytest.mark.slow
def test_a_code_ends_a_job_of_batch_ai(batch_ai: BatchAI, tmp_path: Any, capsys: Any) -> None:
    check(Local(tmp_path, capsys), "azure-batch-ai")
