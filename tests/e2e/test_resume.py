"""A job that was cancelled goes on from its last save: on this machine and on each rehearsed service."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from runspec_jobs import api
from runspec_jobs.api.emulation import emulated
from runspec_jobs.api.jobs import Overrides
from runspec_jobs.cli.app import run
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS
from tests.support.wait import until

pytestmark = pytest.mark.slow

STEPS = 400
COUNT = """
done=$(cat "${outputs.state}/done" 2>/dev/null || echo 0)
echo "goes on after step $done"
while [ "$done" -lt "$STEPS" ]; do
  sleep 0.05
  done=$((done + 1))
  echo "$done" > "${outputs.state}/done.new" && mv "${outputs.state}/done.new" "${outputs.state}/done"
  ln -sfn done "${outputs.state}/latest"
  echo "step $done"
done
"""
SPEC = {
    "apiVersion": "runspec/v1",
    "name": "count",
    "provider": "local",
    "env": {"STEPS": str(STEPS)},
    "outputs": [{"name": "state", "path": "/job/state", "sync": "1s"}],
    "run": COUNT,
    "providers": {"local": {"engine": "process"}},
}
NEEDS = {"slurm": PROGRAMS, "azure-batch": ["azurite"], "aws-batch": []}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "count.yaml"
    path.write_text(json.dumps(SPEC))
    return path


def cancelled(provider: str, *options: str) -> api.Run:
    """Apply the job, and cancel it after its first save."""
    assert run(["apply", "--detach", "--provider", provider, *options, "count.yaml"]) == 0
    made = api.get("count")
    until(made.outputs)
    assert run(["cancel", made.id]) == 0
    return made


def begun_after(of: api.Run) -> int:
    """Return the step after which a run began; its first node has printed each one from there on."""
    lines = [line.text for line in of.logs() if line.node == 0]
    printed = [int(n) for line in lines for n in re.findall(r"step (\d+)$", line)]
    assert printed == list(range(printed[0], printed[0] + len(printed)))
    return printed[0]


def saved_step(of: api.Run, folder: Path) -> int:
    """Return the last step that a run has saved."""
    of.fetch(folder)
    (link,) = folder.rglob("latest")
    assert link.is_symlink()
    return int(link.read_text())


def lost_a_step(of: api.Run, saved: int) -> bool:
    """Return whether a run has printed a step that it has not saved."""
    return f"step {saved + 1}" in [line.text for line in of.logs() if line.node == 0]


@pytest.mark.parametrize("nodes", ["1", "{min: 1, max: 2}"], ids=["one-node", "elastic"])
def test_a_cancelled_job_goes_on_from_its_last_save_and_repeats_no_step(
    nodes: str, job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of an elastic job, every node begins with what the first one had saved."""
    size = f"cluster.nodes={nodes}"
    first = cancelled("local", "--set", size)
    assert run(["status", first.id]) == 0
    assert "can be resumed: runspec apply count.yaml --resume\n" in capsys.readouterr().out

    line = ["apply", "--resume", "--set", size, "--set", "env.STEPS=90", "count.yaml"]
    assert run(line) == 0, capsys.readouterr().err

    second = api.get("count")
    assert second.status().state == "succeeded"
    assert (begun_after(first), saved_step(first, tmp_path / "a")) == (0, begun_after(second))
    assert saved_step(second, tmp_path / "b") == 90
    assert not lost_a_step(first, begun_after(second))


@pytest.mark.parametrize("provider", NEEDS)
def test_a_job_goes_on_at_another_service_and_again_where_it_is(
    provider: str, job: Path, tmp_path: Path
) -> None:
    """The save of this machine is uploaded to the store of the service; the second one is read there in place."""
    need(*NEEDS[provider])
    with emulated(job, folder=tmp_path / "kept", overrides=Overrides(provider)):
        first = cancelled("local")
        second = cancelled(provider, "--resume")
        third = cancelled(provider, "--resume")

        saved = [saved_step(one, tmp_path / one.id) for one in (first, second, third)]
        assert [begun_after(one) for one in (first, second, third)] == [0, *saved[:2]]
        assert saved == sorted(set(saved))
        if provider != "azure-batch":  # which kills tasks without a signal before it
            assert not any(map(lost_a_step, (first, second, third), saved))
        resumed = [one.record.resume for one in (first, second, third)]
        assert [one and (one.run, one.copied) for one in resumed] == [
            None,
            (first.id, True),
            (second.id, False),
        ]
        for one in (third, second, first):
            assert run(["destroy", "--yes", one.id]) == 0


LINKS = """
cd "${outputs.out}"
if [ -e step-1 ]; then cat "$PWD/latest/step"; exit 0; fi
mkdir step-1; echo one >step-1/step; ln -s "$PWD/step-1" latest; exit "$CODE"
"""


def test_absolute_links_of_a_save_lead_to_the_same_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the run that resumes it, and in the one that reads it."""
    monkeypatch.chdir(tmp_path)
    out = [{"name": "out", "path": "/job/out"}]
    first = {**SPEC, "name": "first", "env": {"CODE": "3"}, "outputs": out, "run": LINKS}
    (tmp_path / "first.yaml").write_text(json.dumps(first))
    mount = {"name": "in", "source": "run://first/out", "target": "/job/in"}
    fields = {"name": "second", "outputs": [], "mounts": [mount]}
    second = {**SPEC, **fields, "run": 'cat "${mounts.in}/latest/step"'}
    (tmp_path / "second.yaml").write_text(json.dumps(second))

    assert run(["apply", "first.yaml"]) == 1
    assert run(["apply", "first.yaml", "--resume", "--set", "env.CODE=0"]) == 0
    assert run(["apply", "second.yaml"]) == 0

    assert capsys.readouterr().out.splitlines()[-2:] == ["one", "one"]
