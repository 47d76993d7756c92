"""Tasks that `retry.on` ends or starts again, for real: on this machine, on Slurm, and on rehearsed services."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.usage import cgroup
from runspec_emulators.aws.region import Region
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
    preempt,
    start,
    waiting,
)
from tests.support import ends
from tests.support.azure.emulated_account import blobs as blobs  # a fixture
from tests.support.little_memory import (
    NEEDS_MORE,
    little_memory as little_memory,  # a fixture
)
from tests.support.slurm.project import LIMIT_S, Project, cluster as cluster, project as project
from tests.support.wait import until

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


def in_table(provider: str, status: dict[str, Any], *kinds: str | None) -> None:
    """Compare what tasks say with the table of ends; a task of kind None is none of its rows."""
    found = ends.rows(status, [kind or f"none-{task}" for task, kind in enumerate(kinds)])
    ends.check(f"{provider}-rules", {kind: found[kind] for kind in kinds if kind})


def check(jobs: Any, provider: str) -> None:
    more = {} if provider == "azure-batch-ai" else {"setup": '[ "${sweep.code}" != 6 ] || exit 6'}
    codes = [42, 51, 7, *([6] if more else [])]
    status = ended(jobs, spec(provider, codes, STOPS, **more))

    expected = {0: ("failed", 42, 1), 1: ("failed", 51, 1), 2: ("failed", 7, 2)}
    assert attempts(status) == expected | ({3: ("failed", 6, 2)} if more else {})
    in_table(provider, status, "rule-stop", None, "rule-again", *(["setup"] if more else []))


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
    setup = '[ "${sweep.code}" != 6 ] || exit 6'
    status = ended(on_azure, spec("azure-batch", [42, 7, 6], STOPS, run=COUNTED, setup=setup))

    in_table("azure-batch", status, "rule-stop", "rule-again", "setup")
    found = {task: part[:2] for task, part in attempts(status).items()}
    assert found == {0: ("failed", 42), 1: ("failed", 7), 2: ("failed", 6)}
    assert all(0 <= node["attempts"][0]["setup_s"] < 60 for node in status["nodes"])
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


# Reasons: what has ended an attempt, whatever its exit code is.

REASONS = [{"reason": "timeout", "action": "stop"}, {"reason": "oom", "action": "stop"}]
WAYS = f"""\
case "${{sweep.way}}" in
slow) sleep 600;;
killed) kill -9 $$;;
*) exec python3 -c '{NEEDS_MORE}';;
esac
"""


NUMBERED = 'echo "attempt $RUNSPEC_ATTEMPT"\n'


def check_reasons(jobs: Any, provider: str) -> None:
    ways = ["slow", "memory", "killed"]
    more = {"run": WAYS, "sweep": {"way": ways}, "timeout": "20s", "max_parallel": 3}

    status = ended(jobs, spec(provider, [], REASONS, **more))

    begun = {task: found[1:] for task, found in attempts(status).items()}
    assert begun == {0: (124, 1), 1: (137, 1), 2: (137, 2)}, "a code is a program's own"
    in_table(provider, status, "rule-timeout", "rule-oom", None)


@pytest.mark.matrix
@pytest.mark.slow
def test_reasons_end_tasks_on_aws_batch(little_memory: None, on_aws: Local) -> None:
    check_reasons(on_aws, "aws-batch")


@pytest.mark.matrix
@pytest.mark.slow
def test_reasons_end_tasks_on_azure_batch(little_memory: None, on_azure: Local) -> None:
    more = {"run": NUMBERED + WAYS, "sweep": {"way": ["slow", "memory"]}, "timeout": "20s"}
    status = ended(on_azure, spec("azure-batch", [], REASONS, **more))

    _, log, _ = on_azure.said("logs", "job")
    assert ("attempt 1" in log, "attempt 2" in log) == (True, False)
    assert [node["exit_code"] for node in status["nodes"]] == [124, 137]
    in_table("azure-batch", status, "rule-timeout", "rule-oom")


@pytest.mark.process
def test_a_timeout_ends_a_task_on_this_machine(local: Local) -> None:
    more = {"run": "sleep 600", "sweep": {}, "timeout": "1s"}

    status = ended(local, spec("local", [], REASONS[:1], **more))

    in_table("local", status, "rule-timeout")
    assert attempts(status) == {0: ("failed", 124, 1)}


@pytest.mark.slow
def test_a_timeout_ends_a_task_on_slurm(project: Project) -> None:
    more = {"run": "sleep 600", "sweep": {}, "timeout": "2s"}

    status = ended(project, spec("slurm", [], REASONS[:1], **more))

    assert attempts(status) == {0: ("failed", 124, 1)}


def share_memory(project: Project) -> None:
    """Have the nodes of Slurm, and so their jobs, be in the control group of this process."""
    group = cgroup.find()
    assert group is not None
    conf = str(project.cluster.places.folder).encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"/slurmd\0" in path.read_bytes() and conf in path.with_name("environ").read_bytes():
                Path(group.memory, "cgroup.procs").write_text(path.parent.name)


@pytest.mark.matrix
@pytest.mark.slow
def test_reasons_end_tasks_on_slurm(little_memory: None, project: Project) -> None:
    share_memory(project)

    check_reasons(project, "slurm")


@pytest.mark.matrix
@pytest.mark.slow
def test_an_attempt_on_slurm_that_the_kernel_killed_has_more_memory_next(
    little_memory: None, project: Project
) -> None:
    share_memory(project)
    grows = [{"reason": "oom", "action": "retry", "memory": {"grow": 2, "most": "150MiB"}}]
    text = f"""echo "$SLURM_MEM_PER_NODE MiB"; [ "$RUNSPEC_ATTEMPT" -gt 1 ] || exec python3 -c '{NEEDS_MORE}'"""
    more = {"run": text, "sweep": {}, "cluster": {"memory": "50MiB"}}

    status = ended(project, spec("slurm", [], grows, **more))

    assert status["state"] == "succeeded"
    assert "100 MiB" in project.log()


@pytest.mark.slow
@pytest.mark.matrix
def test_a_lost_machine_ends_a_job_on_slurm(project: Project) -> None:
    waiting(project, "slurm", retry={"attempts": 2, **NOT_AGAIN})
    (lost,) = project.jobs("%N", "--states=RUNNING")

    project.cluster.lose(lost)
    project.cluster.set_node(lost, "DOWN", "its power is gone")
    project.until(lambda: project.status()["state"] != "running")
    project.cluster.mend(cancel=False)

    status = project.until_over()
    in_table("slurm", status, "rule-lost")
    assert status["state"] == "failed"


NOT_AGAIN = {"on": [{"reason": "lost", "action": "stop"}]}


@pytest.mark.slow
def test_a_lost_machine_ends_a_job_on_aws_batch(on_aws: Local, region: Region) -> None:
    waiting(on_aws, "aws-batch", cluster={"capacity": "spot"}, retry={"attempts": 2, **NOT_AGAIN})
    (job,) = [one for one in region.control("GET", "jobs") if one["status"] == "RUNNING"]

    region.control("POST", "reclaim", {"jobId": str(job["id"]), "notice_s": 0})

    status = on_aws.until_over(limit_s=2 * LIMIT_S)
    in_table("aws-batch", status, "rule-lost")
    (node,) = status["nodes"]
    assert (node["state"], len(node["attempts"])) == ("failed", 1)


@pytest.mark.slow
def test_a_lost_machine_ends_a_job_on_azure_batch(on_azure: Local, account: AzureBatch) -> None:
    """The service starts the next attempt, which runs nothing."""
    waiting(on_azure, "azure-batch", cluster={"capacity": "spot"}, retry=NOT_AGAIN)

    preempt(account, notice_s=0)

    status = on_azure.until_over(limit_s=2 * LIMIT_S)
    in_table("azure-batch", status, "rule-lost")
    (node,) = status["nodes"]
    assert (node["state"], len(node["attempts"])) == ("failed", 2)
    _, log, _ = on_azure.said("logs", "job")
    assert "the attempt before was lost: retry.on says stop" in log


# A sweep that ends when so many of its tasks have failed. They wait until the third task has its trap.

MANY = """\
[ "${sweep.n}" -gt 1 ] || { sleep 4; exit 3; }
trap 'exit 1' TERM
while :; do sleep 0.2; done
"""


def check_max_failed(jobs: Any, provider: str, **more: Any) -> dict[str, Any]:
    """Have two tasks fail, while one runs and others wait."""
    sweep = {"sweep": {"n": "0..6"}, "max_parallel": 3, "max_failed": 2, "retry": {}}

    status = ended(jobs, spec(provider, [], (), run=MANY, **sweep, **more))

    assert (status["state"], status["exit_code"]) == ("failed", 3)
    assert "max_failed: 2: 2 tasks have failed, and 5 others were cancelled" in status["reason"]
    # A busy service may have begun the last one before it was told that none is to begin.
    last = None if status["nodes"][-1]["attempts"] else "max-waiting"
    in_table(provider, status, "max-failed", None, "max-running", None, None, None, last)
    states = [node["state"] for node in status["nodes"]]
    assert states == ["failed"] * 2 + ["cancelled"] * 5
    return status


@pytest.mark.process
def test_failed_tasks_end_a_sweep_on_this_machine(local: Local) -> None:
    check_max_failed(local, "local")


@pytest.mark.slow
def test_failed_tasks_end_a_sweep_on_slurm(project: Project) -> None:
    check_max_failed(project, "slurm")


@pytest.mark.slow
@pytest.mark.parametrize("capacity", ["on-demand", "spot"])
def test_failed_tasks_end_a_sweep_on_aws_batch(on_aws: Local, capacity: str) -> None:
    check_max_failed(on_aws, "aws-batch", cluster={"capacity": capacity})


@pytest.mark.slow
def test_a_sweep_on_aws_batch_ends_although_no_client_looks(
    on_aws: Local, region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = {"sweep": {"n": "0..4"}, "max_failed": 2, "retry": {}}
    start(on_aws, spec("aws-batch", [], (), run=MANY, cluster={"capacity": "spot"}, **sweep))

    def has_ended() -> bool:
        states = [one["status"] for one in region.control("GET", "jobs")]
        return len(states) >= 5 and {*states} <= {"SUCCEEDED", "FAILED"}

    until(has_ended)
    status = on_aws.until_over("job", LIMIT_S)
    assert [node["state"] for node in status["nodes"]] == ["failed"] * 2 + ["cancelled"] * 3
    assert [len(node["attempts"]) for node in status["nodes"]] == [1] * 5


@pytest.mark.slow
def test_failed_tasks_end_a_sweep_on_azure_batch(on_azure: Local) -> None:
    check_max_failed(on_azure, "azure-batch")


# Memory that grows.

GROWS = [{"exit_codes": [9], "action": "retry", "memory": {"grow": 2, "most": "150MiB"}}]


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, pytest.param(2, marks=pytest.mark.matrix)])
def test_each_attempt_on_slurm_has_more_memory_up_to_a_bound(project: Project, nodes: int) -> None:
    text = 'echo "task ${sweep.n}: $SLURM_MEM_PER_NODE MiB"; [ "$RUNSPEC_ATTEMPT" -gt 2 ] || exit 9'
    more = {"cluster": {"memory": "50MiB", "nodes": nodes}, "sweep": {"n": [0, 1]}}

    grows = spec("slurm", [], GROWS, run=text, **more)
    status = ended(project, {**grows, "retry": {"attempts": 3, "on": GROWS}})

    assert status["state"] == "succeeded"
    _, log, _ = project.said("logs", "job")
    for mib in (50, 100, 150):
        assert f"task 1: {mib} MiB" in log
    _, planned, noted = project.said("plan", "job.yaml")
    assert "attempts ask for 50 MiB, then 100 MiB, then 150 MiB of memory" in planned + noted
