"""`plan` shows people first what is made and kept, cuts no value in silence, and names changes as the spec does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from tests.support.profiles import own_profile

Capture = pytest.CaptureFixture[str]
HEAD = "apiVersion: runspec/v1\nname: toy\nprovider: local\ncommand: ['true']\n"
AWS = {
    "region": "eu-central-1",
    "bucket": "our-bucket",
    "job_role": "arn:aws:iam::123456789012:role/job",
    "instance_role": "arn:aws:iam::123456789012:instance-profile/i",
    "subnets": ["subnet-0123456789abcdef0"],
    "security_groups": ["sg-0123456789abcdef0"],
}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(HEAD)
    return path


def planned(capsys: Capture, *options: str) -> str:
    assert run(["plan", "job.yaml", *options]) == 0
    return capsys.readouterr().out


def test_plan_shows_resources_and_costs_before_requests(job: Path, capsys: Capture) -> None:
    own_profile().write_text(json.dumps({"providers": {"aws-batch": AWS}}))
    job.write_text(HEAD.replace("local", "aws-batch"))

    told = planned(capsys)

    heads = [
        "for this run, until `runspec destroy`\n     write the job's record\n     submit a job",
        "shared with other runs, and kept until `runspec destroy --shared`\n     upload the agent\n",
        "\ncost\n",
        "\nrequests\n  1. upload the agent",
    ]
    places = [told.index(head) for head in heads]
    assert places == sorted(places)


@pytest.mark.parametrize("length", [100, 101, 5000])
def test_a_value_is_cut_only_with_a_word_on_how_to_see_it_all(
    length: int, job: Path, capsys: Capture
) -> None:
    name = "PYTHONUNBUFFERED"  # otherwise it is there beside another variable
    value = "x" * (length - len(f'{{"{name}": ""}}'))
    job.write_text(f"{HEAD}env: {{{name}: {value}}}\n")

    short, full = planned(capsys), planned(capsys, "--full")

    assert f'{{"{name}": "{value}"}}' in full and "cut" not in full
    assert (f"... ({length:,} characters)" in short) == (length > 100)
    assert ("1 value is cut: --full shows everything, and so does --json" in short) == (
        length > 100
    )


def applied(job: Path, text: str, capsys: Capture) -> None:
    job.write_text(text)
    assert run(["apply", "--detach", "job.yaml"]) == 0
    capsys.readouterr()


@pytest.mark.process
def test_changes_are_named_as_the_spec_names_them(job: Path, capsys: Capture) -> None:
    source = job.parent / "src"
    source.mkdir()
    (source / "a.txt").write_text("one")
    with (source / "large").open("wb") as large:
        large.truncate(9 << 20)
    mounts = "mounts: [{name: code, source: ./src, target: /job/code}]\n"
    applied(job, f"{HEAD}{mounts}env: {{GREETING: hello, OLD: x}}\n", capsys)
    (source / "b.txt").write_text("two")
    changed = HEAD.replace("['true']", "['false', now]").replace(
        "name: toy\n", "name: toy\ntimeout: 5m\n"
    )
    job.write_text(f"{changed}{mounts}env: {{GREETING: bye}}\n")

    told = planned(capsys, "--diff")

    assert told.startswith("5 changes since toy-")
    lines = told.splitlines()[1:]
    assert "  ~ env.GREETING: hello -> bye" in lines and "  - env.OLD: x" in lines
    assert "  ~ command: true -> false now" in lines and "  + timeout: 300" in lines
    (code,) = (line for line in lines if line.startswith("  ~ mounts.code: "))
    before, after = re.findall(r"files, [\d,]+ bytes, ([0-9a-f]{12})\b", code)
    assert before != after
    assert lines[-1].endswith("of the requests differ: --full shows them")
    assert "do.params" not in told and "do.params" in planned(capsys, "--diff", "--full")


@pytest.mark.process
def test_json_has_the_changes_of_the_spec_and_of_the_requests(job: Path, capsys: Capture) -> None:
    applied(job, f"{HEAD}env: {{A: one}}\n", capsys)
    job.write_text(f"{HEAD}env: {{A: two}}\n")

    found = json.loads(planned(capsys, "--diff", "--json"))

    assert found["spec"] == [{"path": "env.A", "before": "one", "after": "two"}]
    assert [change["path"] for change in found["changes"]] == ["job.do.params.env.A"]


@pytest.mark.process
def test_a_setting_of_the_profile_that_changed_is_named(job: Path, capsys: Capture) -> None:
    applied(job, HEAD, capsys)
    settings = {"providers": {"local": {"engine": "process", "grace": "20s"}}}
    own_profile().write_text(json.dumps(settings))

    found = json.loads(planned(capsys, "--diff", "--json"))

    assert {"path": "profile.grace", "before": 10, "after": 20} in found["spec"]


@pytest.mark.process
def test_no_change_is_said_so(job: Path, capsys: Capture) -> None:
    applied(job, HEAD, capsys)

    assert planned(capsys, "--diff").startswith("no changes since toy-")


def test_the_files_of_a_folder_are_listed_with_what_is_left_out_and_why(
    job: Path, capsys: Capture
) -> None:
    source = job.parent / "src"
    (source / ".git").mkdir(parents=True)
    (source / "data").mkdir()
    for name in ("train.py", "data/big.bin", "notes.txt", ".git/config"):
        (source / name).write_text("12345")
    (source / ".gitignore").write_text("data/\n")
    (source / ".runspecignore").write_text("# mine\nnotes.*\n.gitignore\n")
    job.write_text(f"{HEAD}mounts: [{{name: code, source: ./src, target: /job/code}}]\n")

    told = planned(capsys, "--files")
    found = json.loads(planned(capsys, "--files", "--json"))

    assert "code: ./src, 1 file, 5 bytes\n              5  train.py\n  left out:\n" in told
    (folder,) = found["folders"]
    assert folder["files"] == [{"path": "train.py", "bytes": 5}]
    assert {one["path"]: one["why"] for one in folder["left_out"]} == {
        ".git/": "a built-in rule",
        ".gitignore": ".runspecignore: .gitignore",
        ".runspecignore": "a built-in rule",
        "data/": ".gitignore: data/",
        "notes.txt": ".runspecignore: notes.*",
    }


def test_a_job_without_folders_says_so(job: Path, capsys: Capture) -> None:
    assert planned(capsys, "--files") == "no folder of this machine is uploaded\n"
