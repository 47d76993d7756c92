"""A smoke test is a spec of its own, run before its job; where it fails, the job is not begun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_agent.rendezvous import connectivity
from runspec_agent.rendezvous.connectivity import Seat
from runspec_jobs.cli.app import run
from runspec_jobs.document import reader
from runspec_jobs.document.nodes import Text, format_flow
from runspec_jobs.plan import smoke
from runspec_jobs.plan.smoke import Unreached
from runspec_jobs.spec import validate
from runspec_jobs.spec.model import Spec
from runspec_jobs.state import run_record
from tests.support.spec_examples import GOOD, HEAD

Capture = pytest.CaptureFixture[str]
LOCAL = "providers: {local: {engine: process}}\n"
ODD = """\
env: {VERSION: 3.10, NO: NO, QUOTED: "7", ODD: "\\u2028\\x7f \\"é😀\\\\ ${x}"}
mounts: [{name: code, source: ./a b, target: /job/code}]
outputs: [{name: model, path: /job/model}]
cluster: {nodes: 2, memory: 1GiB}
sweep: {lr: [1, 2]}
max_parallel: 1
retry: {attempts: 4, spot_attempts: 7}
timeout: 10m
command: [train, "${sweep.lr}"]
setup: [warm, "${sweep.lr}"]
smoke: [train, --lr, "${sweep.lr}", "${mounts.code}", "${outputs.model}"]
"""


def derived(text: str) -> tuple[Spec, Spec]:
    """Give the spec in *text*, and its smoke test as it is read from its own text."""
    document = reader.read(text)
    spec, _ = validate.parse_spec(document)
    assert spec is not None
    assert isinstance(document.value, dict)
    found, problems = validate.parse_spec(reader.read(smoke.make_text(spec, document.value)))
    assert found is not None, problems
    return spec, found


def test_a_smoke_test_keeps_the_machines_and_the_environment_of_its_job() -> None:
    spec, found = derived(HEAD + ODD)

    assert (found.name, found.command) == ("job-smoke", spec.smoke)
    assert found.env == {**spec.env, "RUNSPEC_SMOKE": "1"}
    for same in (
        "provider",
        "cluster",
        "container",
        "mounts",
        "outputs",
        "launch",
        "secrets",
        "setup",
    ):
        assert getattr(found, same) == getattr(spec, same)
    assert (found.sweep, found.max_parallel, found.smoke) == ({"lr": ("1",)}, None, None)
    assert (found.retry.attempts, found.retry.spot_attempts, found.timeout) == (1, 7, 600)


@pytest.mark.parametrize("name", [name for name in GOOD if "smoke" not in name])
def test_every_spec_can_have_one(name: str) -> None:
    spec, found = derived(GOOD[name] + 'smoke: |\n  test "$RUNSPEC_SMOKE" = 1\n')

    assert (found.run, found.command) == ('test "$RUNSPEC_SMOKE" = 1\n', None)
    assert found.cluster.nodes.min == found.cluster.nodes.max == spec.cluster.nodes.max
    assert found.timeout == min(1800, spec.timeout or 1800)


def test_a_smoke_test_of_an_elastic_job_uses_the_maximum_of_nodes() -> None:
    _, found = derived(
        HEAD + "cluster: {nodes: {min: 1, max: 3}, cpus: 2}\ncommand: [a]\nsmoke: [b]\n"
    )

    assert (found.cluster.nodes.min, found.cluster.nodes.max, found.cluster.cpus) == (3, 3, 2)


def test_text_stays_text_when_it_is_written_and_read_again() -> None:
    """Text that is read again is what it was: no number becomes a word, and no word a number."""
    value = {"a": Text("010"), "b": Text("010", plain=False), "c": [Text("~"), Text("x: y # z")]}

    found = reader.read(format_flow(value)).value

    assert found == value
    assert isinstance(found, dict)
    assert [found["a"].plain, found["b"].plain] == [True, False]  # type: ignore[union-attr]


SEATS = [Seat("10.0.0.1", 40213, ""), Seat("10.0.0.2", 40214, "")]


def test_the_log_of_a_smoke_test_names_unreached_nodes(capfd: pytest.CaptureFixture[str]) -> None:
    connectivity.say(SEATS, {1: {0: "timed out"}}, 1, "the security group")
    err = capfd.readouterr().err

    found = smoke.find_unreached(["a line of the program", *err.splitlines()])

    expected = Unreached(1, "10.0.0.2", 0, "10.0.0.1", 40213, "timed out")
    assert found == ([expected], "the security group")


def test_an_agent_of_an_earlier_version_is_understood() -> None:
    assert smoke.find_unreached(["runspec: look at: the security group"]) == (
        [],
        "the security group",
    )


# On this machine


def write(folder: Path, monkeypatch: pytest.MonkeyPatch, smoke: str, more: str = "") -> Path:
    """Write a spec whose jobs leave a line each in a file."""
    monkeypatch.chdir(folder)
    path = folder / "job.yaml"
    say = 'echo "$RUNSPEC_RUN $RUNSPEC_RANK ${RUNSPEC_SMOKE-}" >> ' + str(folder / "truth")
    path.write_text(f"{HEAD}{LOCAL}{more}run: |\n  {say}\nsmoke: |\n  {say}\n  {smoke}\n")
    return path


def truth(folder: Path) -> list[str]:
    """Give name, rank and RUNSPEC_SMOKE of every node that ran; nodes of one run in order."""
    lines = [line.partition(" ") for line in (folder / "truth").read_text().splitlines()]
    runs = list(dict.fromkeys(run for run, _, _ in lines))
    return [
        f"{run[:-7]} {rest.strip()}" for r in runs for run, _, rest in sorted(lines) if run == r
    ]


@pytest.mark.process
def test_the_job_comes_after_its_smoke_test_and_an_equal_one_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path = write(tmp_path, monkeypatch, ":", "cluster: {nodes: 2}\n")
    tested, ran = ["job-smoke 0 1", "job-smoke 1 1"], ["job 0", "job 1"]

    assert run(["apply", "--smoke", str(path)]) == 0
    assert run(["apply", "--smoke", str(path)]) == 0
    path.write_text(path.read_text().replace("run: |\n", "run: |\n  :\n"))
    assert run(["apply", "--smoke", str(path)]) == 0

    assert truth(tmp_path) == [*tested, *ran, *ran]
    assert run(["apply", "--smoke", "--new", str(path)]) == 0
    assert truth(tmp_path)[6:] == [*tested, *ran]


@pytest.mark.process
def test_a_job_whose_smoke_test_fails_is_not_begun_until_it_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path = write(tmp_path, monkeypatch, f"test -e {tmp_path}/mended || exit 7")

    code = run(["apply", "--smoke", "--json", str(path)])

    told = json.loads(capsys.readouterr().out)
    assert (code, told["exit_code"], told["unreached"], told["rule"]) == (1, 7, [], None)
    assert told["run"].startswith("job-smoke-")
    assert run_record.list_runs("job") == []
    (tmp_path / "mended").touch()
    assert run(["apply", "--smoke", str(path)]) == 0
    assert truth(tmp_path) == ["job-smoke 0 1", "job-smoke 0 1", "job 0"]


@pytest.mark.process
def test_an_interrupted_smoke_test_goes_on_and_begins_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path = write(tmp_path, monkeypatch, "sleep 300")

    code = run(["apply", "--smoke", "--timeout", "1s", str(path)])

    assert code == 124
    assert run_record.list_runs("job") == []
    assert run(["cancel", "job-smoke"]) == 0


@pytest.mark.process
def test_the_job_alone_is_detached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path = write(tmp_path, monkeypatch, "echo smoked")

    assert run(["apply", "--smoke", "--detach", str(path)]) == 0

    said = capsys.readouterr().out.splitlines()
    assert (said[0], said[1][:4]) == ("smoked", "job-")
    assert run(["logs", "-f", "job"]) == 0


def test_a_spec_without_one_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path = write(tmp_path, monkeypatch, ":")
    path.write_text(path.read_text().partition("smoke:")[0])

    assert run(["apply", "--smoke", str(path)]) == 2
    assert "has no smoke test" in capsys.readouterr().err
    assert run_record.list_all() == []


def test_plan_smoke_plans_the_smoke_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path = write(tmp_path, monkeypatch, ":", "cluster: {nodes: 2}\n")

    assert run(["plan", "--smoke", "--json", str(path)]) == 0

    (step,) = json.loads(capsys.readouterr().out)["steps"]
    assert step["do"]["params"]["env"] == {
        "PYTHONUNBUFFERED": "1",
        "RUNSPEC_SMOKE": "1",
    }
    assert step["do"]["params"]["reach"] == ""
