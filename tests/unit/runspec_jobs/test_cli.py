"""The command line: what a person types, what they are told, and the exit code."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runspec_jobs import errors
from runspec_jobs.cli.app import run
from runspec_jobs.load import registry
from runspec_jobs.state import run_record
from tests.support.profiles import own_profile
from tests.support.wait import LIMIT_S, SOON_S

pytestmark = pytest.mark.process

HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\n"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(HEAD + "command: [echo, hi]\n")
    return path


def json_of(capsys: Capture) -> dict[str, object]:
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_apply_prints_the_jobs_lines_and_ends_with_its_success(spec: Path, capsys: Capture) -> None:
    code = run(["apply", str(spec)])

    assert (code, capsys.readouterr().out) == (0, "hi\n")


def test_apply_ends_with_1_when_the_job_fails_and_says_why(spec: Path, capsys: Capture) -> None:
    spec.write_text(HEAD + "run: exit 7\n")

    code = run(["apply", str(spec), "--json"])

    found = json_of(capsys)
    assert code == 1
    assert (found["state"], found["exit_code"]) == ("failed", 7)
    assert found["reason"] == "exited with code 7"


def test_applying_what_has_succeeded_starts_nothing(spec: Path, capsys: Capture) -> None:
    run(["apply", str(spec)])
    capsys.readouterr()

    code = run(["apply", str(spec)])

    told = capsys.readouterr()
    assert (code, told.out) == (0, "")
    assert "has already succeeded; starting no other" in told.err
    assert len(run_record.list_all()) == 1


def test_new_starts_another(spec: Path) -> None:
    run(["apply", str(spec)])
    run(["apply", str(spec), "--new"])

    assert len(run_record.list_all()) == 2


def test_apply_starts_a_failed_run_again(spec: Path) -> None:
    spec.write_text(HEAD + "run: exit 1\n")
    run(["apply", str(spec)])
    run(["apply", str(spec)])

    assert len(run_record.list_all()) == 2


def test_a_changed_spec_beside_a_living_run_is_a_conflict_that_names_the_change(
    spec: Path, capsys: Capture
) -> None:
    spec.write_text(HEAD + "command: [sleep, 60]\n")
    run(["apply", str(spec), "--detach"])
    spec.write_text(HEAD + "command: [sleep, 61]\n")
    capsys.readouterr()

    code = run(["apply", str(spec)])

    assert code == 4
    told = capsys.readouterr().err
    assert re.search(r" is (running|waiting) with another spec: command changed\n", told)
    assert run(["destroy", "job"]) == 0


def test_a_run_is_detached_from_followed_cancelled_and_destroyed(
    spec: Path, capsys: Capture
) -> None:
    spec.write_text(HEAD + "run: |\n  echo begun\n  sleep 60\n")

    assert run(["apply", str(spec), "--detach"]) == 0
    name = capsys.readouterr().out.strip()
    assert run(["logs", "-f", name, "--timeout", "1s"]) == 124
    assert capsys.readouterr().out == "begun\n"
    assert run(["cancel", name]) == 0
    assert run(["status", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["state"] == "cancelled"
    assert run(["destroy", name]) == 0
    assert not (Path(os.environ["RUNSPEC_HOME"]) / "local" / "runs" / name).exists()
    assert run(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["runs"] == []


def test_ctrl_c_while_following_leaves_the_job_alone_and_says_how_to_come_back(spec: Path) -> None:
    spec.write_text(HEAD + "run: |\n  echo begun\n  sleep 60\n")
    words = [sys.executable, "-m", "runspec_jobs", "apply", str(spec)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == "begun\n"
        child.send_signal(signal.SIGINT)
        told = child.stderr.read()
        code = child.wait(LIMIT_S)

    assert code == errors.DETACHED
    assert "follow: runspec logs -f job-" in told and "stop: runspec cancel job-" in told
    state = run_record.find("job").run
    assert run(["status", state]) == 0
    assert run(["destroy", state]) == 0


def test_outputs_come_back_also_after_a_failure(spec: Path, tmp_path: Path) -> None:
    spec.write_text(
        HEAD
        + "outputs: [{name: out, path: /job/out}]\n"
        + 'run: |\n  mkdir "${outputs.out}/deep"\n  echo kept > "${outputs.out}/deep/x"\n  exit 3\n'
    )

    assert run(["apply", str(spec)]) == 1
    assert run(["fetch", "job", str(tmp_path / "got")]) == 0
    assert (tmp_path / "got" / "out" / "deep" / "x").read_text() == "kept\n"


def test_a_saved_log_is_what_was_printed(spec: Path, tmp_path: Path) -> None:
    spec.write_text(HEAD + "run: printf 'a\\nb\\377'\n")
    run(["apply", str(spec)])

    assert run(["logs", "job", "--save", str(tmp_path / "log")]) == 0
    assert (tmp_path / "log").read_bytes() == b"a\nb\xff"


def test_a_plan_is_the_same_bytes_every_time(spec: Path, capsys: Capture) -> None:
    run(["plan", str(spec), "--json"])
    first = capsys.readouterr().out
    run(["plan", str(spec), "--json"])

    assert capsys.readouterr().out == first
    assert json.loads(first)["format"] == "runspec.plan/v1"


def test_a_diff_names_what_changed_and_its_exit_code_says_so(spec: Path, capsys: Capture) -> None:
    run(["apply", str(spec)])
    assert run(["plan", str(spec), "--diff", "--detailed-exitcode"]) == 0
    spec.write_text(HEAD + "command: [echo, ho]\n")
    capsys.readouterr()

    code = run(["plan", str(spec), "--diff", "--detailed-exitcode"])

    assert code == 3
    assert "~ command: echo hi -> echo ho" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_validate_fails_in_every_format(spec: Path, capsys: Capture, form: str) -> None:
    spec.write_text(HEAD + "comand: [echo]\n")

    code = run(["validate", str(spec), "--output-format", form])

    told = capsys.readouterr()
    assert code == 2
    assert "comand" in (told.err if form == "text" else told.out)


def test_one_bad_file_does_not_hide_another(spec: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "b.yaml").write_text("a: [")
    (tmp_path / "c.yaml").write_text(HEAD + "launch: x\nrun: a\n")

    code = run(["validate", "missing.yaml", "b.yaml", "c.yaml", str(spec)])

    told = capsys.readouterr().err
    assert code == 2
    assert "missing.yaml" in told and "b.yaml:1:" in told and "c.yaml:4:9" in told
    assert "3 of 4 specs are invalid" in told


def test_validate_is_content_with_a_provider_that_is_to_come(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "EXPECTED", ("tomorrow",))
    spec.write_text(spec.read_text().replace("local", "tomorrow"))

    assert run(["validate", str(spec)]) == 0
    assert "does not exist yet" in capsys.readouterr().err
    assert run(["plan", str(spec)]) == 69


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["valdate", "x"], "did you mean 'validate'?"),
        (["gc"], "see runspec gc --help"),
        (["logs"], "runspec list shows the runs"),
        (["apply", "job.yaml", "--timeout", "5"], "write it as 30m"),
        (["status", "nothing"], "nothing was applied yet"),
        (["destroy"], "name a run"),
        (["plan", "x", "--output-format", "yaml"], "choose one of text, json, github"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_advice(
    spec: Path, capsys: Capture, words: list[str], hint: str
) -> None:
    assert run(words) == 2
    assert hint in capsys.readouterr().err


def test_an_unexpected_error_is_one_line_and_a_report_without_values(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runspec_jobs.load import source

    words = ("canary", "value")

    def broken(*args: object) -> None:
        raise ValueError("-".join(words))

    monkeypatch.setattr(source, "validate_text", broken)

    code = run(["validate", str(spec)])

    told = capsys.readouterr().err
    assert code == 70
    assert told.count("\n") == 1 and "Traceback" not in told
    report = Path(told.rsplit(" ", 1)[1].strip())
    assert "canary-value" not in report.read_text()
    report.unlink()


def test_an_error_about_a_descriptor_is_reported_as_a_bug(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its `filename` is a number, and no name of a file."""
    from runspec_jobs.load import source

    def broken(*args: object) -> None:
        raise OSError(9, "Bad file descriptor", 7)

    monkeypatch.setattr(source, "validate_text", broken)

    code = run(["validate", str(spec)])

    told = capsys.readouterr().err
    assert code == 70 and "Traceback" not in told
    Path(told.rsplit(" ", 1)[1].strip()).unlink()


def test_init_writes_a_spec_that_runs(spec: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(["init", "fresh.yaml"]) == 0
    assert run(["validate", "fresh.yaml"]) == 0
    assert run(["apply", "fresh.yaml"]) == 0
    assert capsys.readouterr().out == "hello from fresh-" + run_record.find("fresh").run[-6:] + "\n"
    assert run(["init", "fresh.yaml"]) == 4


@pytest.mark.parametrize("provider", ["local", "aws-batch", "azure-batch", "slurm"])
def test_init_names_the_job_after_its_folder(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {"A": "a", "My Model": "my-model", "3d": "job-3d", "Übung": "ubung", "___": "job"}
    folders |= {"x" * 60: "x" * 40, "job": "job", "-a-": "a", "\u6df1": "job"}
    for folder, name in folders.items():
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        assert run(["init", "--provider", provider]) == 0
        assert run(["validate", "--quiet", "job.yaml"]) == 0
        assert f"\nname: {name}\n" in Path("job.yaml").read_text()

    assert run(["init", "--provider", provider, "one/lenet.job.yaml"]) == 0
    assert "\nname: lenet\n" in Path("one/lenet.job.yaml").read_text()


CLOUDS = ["aws-batch", "azure-batch", "azure-batch-ai"]


@pytest.mark.parametrize("provider", CLOUDS)
def test_init_for_a_cloud_leads_to_a_profile_and_a_plan_which_costs_nothing(
    provider: str, spec: Path, capsys: Capture
) -> None:
    assert run(["init", "--provider", provider, "fresh.yaml"]) == 0

    told = capsys.readouterr().err
    assert f"\n  {provider}:\n" in Path("runspec-profile.yaml").read_text()
    assert "fill in runspec-profile.yaml" in told
    assert "next: runspec plan fresh.yaml" in told and "runspec apply" not in told


@pytest.mark.parametrize("provider", CLOUDS)
def test_init_shows_what_belongs_into_a_profile_that_is_there(
    provider: str, spec: Path, capsys: Capture
) -> None:
    mine = "providers: {local: {engine: process}}\n"
    Path("runspec-profile.yaml").write_text(mine)

    assert run(["init", "--provider", provider, "fresh.yaml"]) == 0

    told = capsys.readouterr()
    assert f"runspec-profile.yaml has no settings of {provider}" in told.err
    assert f"\n  {provider}:\n" in told.out
    assert Path("runspec-profile.yaml").read_text() == mine


def test_init_says_nothing_of_a_profile_that_has_the_provider(spec: Path, capsys: Capture) -> None:
    Path("runspec-profile.yaml").write_text("providers: {aws-batch: {region: eu-west-1}}\n")

    assert run(["init", "--provider", "aws-batch", "fresh.yaml"]) == 0

    assert "profile" not in capsys.readouterr().err


def test_the_doctor_speaks_json(capsys: Capture) -> None:
    run(["doctor", "local", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert {"about": "local", "ok": True} in [
        {"about": one["about"], "ok": one["ok"]} for one in found["findings"]
    ]


def test_after_a_reboot_the_truth_is_told(spec: Path, capsys: Capture) -> None:
    """A supervisor of another boot is gone, whoever has its number now."""
    spec.write_text(HEAD + "run: sleep 60\n")
    assert run(["apply", str(spec), "--detach"]) == 0
    name = capsys.readouterr().out.strip()
    (started,) = Path(os.environ["RUNSPEC_HOME"]).glob("local/runs/*/started.json")
    who = json.loads(started.read_text())

    started.write_text(json.dumps({**who, "boot": "another"}))

    assert run(["status", name]) == 0
    told = capsys.readouterr().out
    assert "failed" in told and "the machine was restarted while it ran" in told
    started.write_text(json.dumps(who))
    assert run(["destroy", name]) == 0


def test_secrets_reach_the_job_and_nothing_else(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE", "canary-5309")
    own_profile().write_text("providers: {local: {secrets: {t: 'env:SOURCE'}}}\n")
    spec.write_text(
        HEAD + "secrets: {TOKEN: t}\n" + "run: |\n  test ${#TOKEN} = 11 && echo right\n"
    )

    assert run(["apply", str(spec)]) == 0
    assert capsys.readouterr().out == "right\n"
    for path in Path(os.environ["RUNSPEC_HOME"]).rglob("*"):
        assert not (path.is_file() and b"canary-5309" in path.read_bytes()), path


def test_a_secret_that_is_not_set_is_told_before_anything_starts(
    spec: Path, capsys: Capture
) -> None:
    own_profile().write_text("providers: {local: {secrets: {t: 'env:NO_SUCH'}}}\n")
    spec.write_text(HEAD + "secrets: {TOKEN: t}\nrun: echo\n")

    assert run(["apply", str(spec)]) == 5
    assert "env:NO_SUCH is not set" in capsys.readouterr().err


def test_a_sweep_runs_every_task_and_no_more_than_allowed_at_once(
    spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    spec.write_text(
        HEAD
        + "sweep: {lr: [0.1, 0.01], seed: 1..2}\nmax_parallel: 2\n"
        + f"run: |\n  touch {tmp_path}/on-$RUNSPEC_TASK; ls {tmp_path} | grep -c on-; sleep 0.3\n"
        + f'  rm {tmp_path}/on-$RUNSPEC_TASK; echo "lr ${{sweep.lr}} seed ${{sweep.seed}}"\n'
    )

    assert run(["apply", str(spec)]) == 0
    lines = capsys.readouterr().out.splitlines()
    done = sorted(line.split("] ")[1] for line in lines if "lr" in line)
    assert done == ["lr 0.01 seed 1", "lr 0.01 seed 2", "lr 0.1 seed 1", "lr 0.1 seed 2"]
    assert {line.split("] ")[1] for line in lines if "lr" not in line} <= {"1", "2"}


def test_a_job_is_tried_again_and_finds_what_it_wrote(spec: Path, capsys: Capture) -> None:
    spec.write_text(
        HEAD
        + "outputs: [{name: o, path: /job/o}]\nretry: {attempts: 3}\n"
        + 'run: |\n  echo x >> "${outputs.o}/n"\n  echo "try $RUNSPEC_ATTEMPT"\n'
        + '  test "$(wc -l < "${outputs.o}/n")" = 3\n'
    )

    assert run(["apply", str(spec)]) == 0
    assert capsys.readouterr().out == "try 1\ntry 2\ntry 3\n"


def test_a_job_that_takes_too_long_is_ended_and_the_reason_told(
    spec: Path, capsys: Capture
) -> None:
    spec.write_text(HEAD + "timeout: 1s\ncommand: [sleep, 600]\n")
    began = time.monotonic()

    assert run(["apply", str(spec), "--json"]) == 1
    assert json_of(capsys)["reason"] == "timeout: not done after 1 s"
    assert time.monotonic() - began < SOON_S
