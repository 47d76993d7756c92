"""Each task and node on this machine has GPUs for itself; with RUNSPEC_REAL_GPU=1, those of this machine."""

from __future__ import annotations

import functools
import json
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import Facts, RemoteError, Request, Spec, State
from runspec_local import check, plan
from runspec_local.client import LocalClient
from runspec_local.discover import survey
from runspec_local.options import LocalOptions
from runspec_local.session.gpus import Gpu
from tests.support import gpus
from tests.support.wait import until

pytestmark = pytest.mark.process

BASE = {"apiVersion": "runspec/v1", "name": "n", "provider": "local"}
# Says which GPUs it has, and whether another process has the first of them, one that is left over included.
SCRIPT = """
exec 9>{0}/used-${{CUDA_VISIBLE_DEVICES%%,*}}
[ -z "$CUDA_VISIBLE_DEVICES" ] || flock -n 9 || echo shared >>{0}/shared
echo "${{CUDA_VISIBLE_DEVICES-all}}" >>{0}/had
{1}
"""


class World:
    """Runs of specs on this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.client = LocalClient(str(root / "local"))
        self.runs: list[str] = []

    def facts(self, spec: Spec) -> Facts:
        options = LocalOptions(
            root=str(self.root / "local"), grace=1, **spec.providers.get("local", {})
        )
        return Facts(options, survey={**survey(spec, options), "cpus": 64})

    def problems(self, more: Mapping[str, Any]) -> list[str]:
        spec = Spec.model_validate({**BASE, "run": "true", **more})
        return [p.what for p in check.problems(spec, self.facts(spec)) if p.severity == "error"]

    def start(self, more: Mapping[str, Any], meanwhile: str = "sleep .3") -> str:
        spec = Spec.model_validate({**BASE, "run": SCRIPT.format(self.root, meanwhile), **more})
        run = f"gpus{len(self.runs)}-{os.getpid():06x}"  # each of another job: none waits for another to end
        self.runs.append(run)
        self.client.call(plan.steps(spec, run, self.facts(spec))[-1].do)
        return run

    def state(self, run: str) -> State:
        return self.client.state(run).state

    def has_ended(self, run: str) -> bool:
        return self.state(run).terminal

    def ended(self, *runs: str) -> None:
        for run in runs:
            until(functools.partial(self.has_ended, run))
            assert self.state(run) is State.SUCCEEDED, self.client.state(run)

    @property
    def had(self) -> list[str]:
        path = self.root / "had"
        return sorted(path.read_text().split("\n")[:-1]) if path.exists() else []

    def remove(self) -> None:
        for run in self.runs:
            what = {"run": run, "folder": str(self.root / "local/runs" / run)}
            self.client.call(Request("local", "remove_run", what))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.remove()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Gpu]:
    return list(gpus.machine(tmp_path, monkeypatch))


def names(machine: list[Gpu]) -> list[str]:
    return [gpu.uuid if gpu.is_instance else gpu.index for gpu in machine]


def test_parallel_tasks_have_a_gpu_each(world: World, machine: list[Gpu]) -> None:
    """More tasks than GPUs: the others wait."""
    run = world.start(
        {"cluster": {"gpus": 1}, "sweep": {"a": [str(n) for n in range(2 * len(machine))]}}
    )

    world.ended(run)

    assert not (world.root / "shared").exists()
    assert world.had == sorted(2 * names(machine))


def test_nodes_that_need_more_gpus_than_there_are_are_refused(
    world: World, machine: list[Gpu]
) -> None:
    here = len(machine)

    problems = world.problems({"cluster": {"nodes": 2 * here, "gpus": 1}})

    (problem,) = problems
    assert problem.startswith(
        f"the spec asks for {2 * here} x 1 GPUs, which nodes do not share, and this machine has {here} "
    )
    assert world.problems({"cluster": {"nodes": here, "gpus": 1}}) == []


@pytest.mark.parametrize("elastic", [False, True])
def test_nodes_of_a_task_do_not_share_gpus(world: World, machine: list[Gpu], elastic: bool) -> None:
    nodes = {"min": len(machine), "max": len(machine)} if elastic else len(machine)

    run = world.start({"cluster": {"nodes": nodes, "gpus": 1}}, "")

    world.ended(run)

    assert world.had == sorted(names(machine))


def test_a_run_waits_for_the_gpus_of_another_and_says_so(world: World, machine: list[Gpu]) -> None:
    all_of_them = {"cluster": {"gpus": len(machine)}}
    first = world.start(all_of_them, f"until [ -e {world.root}/go ]; do sleep .02; done")
    until(lambda: len(world.had) == 1)

    second = world.start(all_of_them)
    third = world.start({"cluster": {"gpus": 1}})
    told = until(lambda: world.client.state(second).reason)
    until(lambda: world.client.state(third).reason)

    need = "1 GPU" if len(machine) == 1 else f"{len(machine)} GPUs"
    assert told == f"needs {need}, and 0 of {len(machine)} are free, used by {first}"
    assert world.client.state(second).nodes[0].state is State.WAITING
    (world.root / "go").touch()
    world.ended(first, second, third)
    assert not (world.root / "shared").exists()


def test_a_run_that_waits_for_gpus_is_cancelled(world: World, machine: list[Gpu]) -> None:
    wanted = {"cluster": {"gpus": len(machine)}}
    first = world.start(wanted, "sleep 600")
    until(lambda: world.had)
    second = world.start(wanted)
    third = world.start(wanted)
    until(lambda: world.client.state(second).reason)

    world.client.cancel(second)
    until(lambda: world.state(second).terminal)
    world.client.cancel(first)

    world.ended(third)  # the run that was cancelled waits no more, and holds nobody up
    assert world.state(second) is State.CANCELLED
    assert {node.state for node in world.client.state(second).nodes} == {State.CANCELLED}


@pytest.mark.parametrize("reaped", [True, False])
def test_a_killed_supervisor_gives_its_gpus_back(
    world: World, machine: list[Gpu], reaped: bool
) -> None:
    """Its parent first ends what the supervisor left behind, which may still use them."""
    wanted = {"cluster": {"gpus": len(machine)}}
    first = world.start(wanted, "trap '' TERM; sleep 600")
    until(lambda: world.had)
    pid = started(world, first)
    if not reaped:
        os.kill(parent(pid), signal.SIGKILL)

    os.kill(pid, signal.SIGKILL)
    second = world.start(wanted)

    world.ended(second)
    assert not (world.root / "shared").exists() or not reaped


def started(world: World, run: str) -> int:
    text = (world.root / "local/runs" / run / "started.json").read_text()
    return int(json.loads(text)["pid"])


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_the_users_own_variable_restricts_what_there_is(
    world: World, machine: list[Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", machine[-1].name)

    world.ended(world.start({"cluster": {"gpus": 1}}, ""))

    assert world.had == names(machine[-1:])
    assert world.problems({"cluster": {"gpus": 2}})


def test_a_job_that_needs_more_gpus_than_are_left_is_not_started(
    world: World, machine: list[Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPUs may have gone since the plan was made."""
    with pytest.raises(
        RemoteError, match=f"the job needs {len(machine) + 1} GPUs, and this machine"
    ):
        world.start({"cluster": {"gpus": len(machine) + 1}})

    assert not (world.root / "local/runs").exists()


def test_a_job_without_gpus_sees_none(
    world: World, machine: list[Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would use those of other tasks. It sees what its own `env` names."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    more = {"providers": {"local": {"without_gpus": True}}}

    runs = [world.start(cluster) for cluster in ({}, {"cluster": {"gpus": 99}, **more})]

    world.ended(*runs, world.start({"env": {"CUDA_VISIBLE_DEVICES": "7"}}))
    assert world.had == ["", "", "7"]


def test_a_smoke_test_checks_the_gpus_of_each_node(world: World, machine: list[Gpu]) -> None:
    env = {"RUNSPEC_SMOKE": "1"}
    run = world.start({"cluster": {"nodes": len(machine), "gpus": 1}, "env": env}, "")

    world.ended(run)

    for rank in range(len(machine)):
        log = (world.root / f"local/runs/{run}/logs/0-{rank}.log").read_text()
        assert f"runspec: node {rank}: 1 GPUs answer (NVIDIA" in log


@pytest.mark.skipif(gpus.REAL, reason="a real GPU is not divided for a test")
def test_an_instance_of_a_divided_gpu_counts_as_a_gpu(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = gpus.machine(tmp_path, monkeypatch, 1, instances=2)

    world.ended(world.start({"cluster": {"gpus": 1}, "sweep": {"a": ["1", "2"]}}))

    assert world.had == [gpu.uuid for gpu in machine] != []
