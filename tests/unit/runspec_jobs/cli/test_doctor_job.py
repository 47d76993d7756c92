"""`runspec doctor PROVIDER job.yaml` says whether one job will run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.provider import Facts, Finding, Spec, Step
from runspec_local import PROVIDER
from tests.support.profiles import own_profile

Capture = pytest.CaptureFixture[str]
AWS = {
    "region": "eu-central-1",
    "bucket": "jobs",
    "job_role": "arn:aws:iam::210987654321:role/r",
    "instance_role": "arn:aws:iam::210987654321:instance-profile/r",
    "subnets": ["subnet-1"],
    "security_groups": ["sg-1"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(provider: str = "local", **fields: Any) -> str:
    spec = {"apiVersion": "runspec/v1", "name": "train", "provider": provider, "command": ["sh"]}
    Path("job.yaml").write_text(json.dumps({**spec, **fields}))
    return "job.yaml"


def find(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> None:
    def examine(self: object, spec: Spec, facts: Facts, steps: Sequence[Step]) -> Iterable[Finding]:
        return findings

    monkeypatch.setattr(type(PROVIDER), "examine_job", examine)


def test_a_job_that_nothing_stops_will_run(capsys: Capture) -> None:
    assert run(["doctor", "local", write()]) == 0

    told = capsys.readouterr().out.splitlines()
    assert told[0] == "ok  local: the spec is valid, and its plan has 1 step"
    assert told[-1].startswith("train on local will run: no check of ")


def test_a_failed_check_says_that_the_job_will_not_run(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(monkeypatch, Finding("no disk", False, "buy one"), Finding("no sun", True, unknown=True))

    assert run(["doctor", write()]) == 69

    told = capsys.readouterr().out.splitlines()
    assert told[1:] == [
        "BAD local: no disk",
        "      hint: buy one",
        "?   local: no sun",
        "train on local will not run: 1 check failed of 3; 1 could not be checked",
    ]


def test_a_job_of_which_something_was_not_checked_is_not_said_to_run(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(monkeypatch, Finding("no sun", True, "look", unknown=True))

    assert run(["doctor", write()]) == 0

    assert capsys.readouterr().out.splitlines()[-1] == (
        "train on local: no check of 2 failed; 1 could not be checked, so whether it will run is not known"
    )


def test_an_unknown_finding_stops_no_job(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    find(monkeypatch, Finding("no sun", True, "look", unknown=True))

    assert run(["doctor", write(), "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["job"], told["will_run"]) == ("train", None)
    assert told["findings"][-1] == {
        "about": "local",
        "job": "train",
        "what": "no sun",
        "ok": True,
        "hint": "look",
        "unknown": True,
    }


@pytest.mark.process
def test_doctor_without_a_job_answers_for_none(capsys: Capture) -> None:
    assert run(["doctor", "local", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["job"], told["will_run"]) == (None, None)


def test_a_wrong_spec_is_shown_with_its_line_and_not_checked(capsys: Capture) -> None:
    assert run(["doctor", "local", write(cluster={"nodes": 0})]) == 2

    assert "job.yaml:1:" in capsys.readouterr().err


def test_doctor_checks_the_job_on_the_provider_that_is_typed(capsys: Capture) -> None:
    assert run(["doctor", "local", write("slurm")]) == 0

    assert "train on local will run" in capsys.readouterr().out


def test_of_several_sizes_the_largest_is_checked(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def examine(self: object, spec: Spec, facts: Facts, steps: Sequence[Step]) -> Iterable[Finding]:
        return [Finding(f"{spec.cluster.nodes.max} nodes", True)]

    monkeypatch.setattr(type(PROVIDER), "examine_job", examine)

    assert run(["doctor", write(scaling=[1, 8, 2])]) == 0

    assert "ok  local: 8 nodes" in capsys.readouterr().out


def test_a_program_that_is_not_there_stops_a_process(capsys: Capture) -> None:
    assert run(["doctor", write(command=["no-such-program"])]) == 69

    told = capsys.readouterr().out
    assert "BAD local: there is no program no-such-program on PATH" in told
    assert "hint: install no-such-program, or write its path in command" in told


def test_a_program_that_the_packages_of_the_job_bring_stops_no_process(capsys: Capture) -> None:
    packages = {"requirements": ["no-such-program"]}

    run(["doctor", write(command=["no-such-program"], container=packages)])

    assert "there is no program" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("launch", "program"), [("mpi", "mpirun"), ("torchrun", "torchrun"), ("horovod", "horovodrun")]
)
def test_a_launcher_that_is_not_there_stops_the_job(
    launch: str, program: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    spec = write(launch=launch, cluster={"nodes": 2})

    assert run(["doctor", spec]) == 69
    told = f"BAD local: launch: {launch} needs {program}, which is not on PATH"
    assert told in capsys.readouterr().out
    (tmp_path / program).symlink_to("/bin/sh")
    assert run(["doctor", spec]) == 0
    assert f"ok  local: launch: {launch} uses {tmp_path}/{program}" in capsys.readouterr().out


def test_a_secret_that_the_shell_lacks_stops_the_job_and_is_not_shown(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_profile().write_text(json.dumps({"providers": {"local": {"secrets": {"hf": "env:HF"}}}}))
    spec = write(secrets={"HF_TOKEN": "hf"})
    monkeypatch.delenv("HF", raising=False)

    assert run(["doctor", spec]) == 69
    assert "BAD local: the secret env:HF is not set" in capsys.readouterr().out
    monkeypatch.setitem(os.environ, "HF", "s3cret-value")
    assert run(["doctor", spec]) == 0
    told = capsys.readouterr()
    assert "ok  local: the secret env:HF can be read" in told.out
    assert "s3cret-value" not in told.out + told.err


@pytest.mark.parametrize("more", [["--probe"], ["--node"]])
def test_probes_and_nodes_take_no_job(more: list[str], capsys: Capture) -> None:
    assert run(["doctor", "local", write(), *more]) == 2

    assert f"{more[0]} takes no job" in capsys.readouterr().err


def test_policy_prints_the_rights_of_doctor(capsys: Capture) -> None:
    own_profile().write_text(json.dumps({"providers": {"aws-batch": AWS}}))
    spec = write("aws-batch")

    assert run(["policy", "--doctor", spec]) == 0
    assert "iam:SimulatePrincipalPolicy" in capsys.readouterr().out
    assert run(["policy", spec]) == 0
    assert "iam:SimulatePrincipalPolicy" not in capsys.readouterr().out
    assert run(["policy", "--doctor", "--job", spec]) == 2


# Chains


def write_chain(*jobs: dict[str, Any]) -> str:
    same = {"apiVersion": "runspec/v1", "provider": "local", "command": ["sh"]}
    texts = [
        "".join(f"{key}: {json.dumps(value)}\n" for key, value in {**same, **job}.items())
        for job in jobs
    ]
    Path("mnist.yaml").write_text("---\n".join(texts))
    return "mnist.yaml"


def test_each_job_of_a_chain_is_checked_and_the_chain_has_one_verdict(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def examine(self: object, spec: Spec, facts: Facts, steps: Sequence[Step]) -> Iterable[Finding]:
        return [Finding(f"{spec.name} has a disk", spec.name != "train", "buy one")]

    monkeypatch.setattr(type(PROVIDER), "examine_job", examine)
    chain = write_chain({"name": "prepare"}, {"name": "train", "needs": ["prepare"]})

    assert run(["doctor", chain]) == 69

    assert capsys.readouterr().out.splitlines() == [
        "ok  prepare on local: the spec is valid, and its plan has 1 step",
        "ok  prepare on local: prepare has a disk",
        "ok  train on local: the spec is valid, and its plan has 1 step",
        "BAD train on local: train has a disk",
        "      hint: buy one",
        "mnist will not run: 1 check failed of 4",
    ]


def test_the_checks_of_a_chain_name_their_job_in_json(capsys: Capture) -> None:
    chain = write_chain({"name": "prepare"}, {"name": "train", "needs": ["prepare"]})

    assert run(["doctor", chain, "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["job"], told["will_run"]) == ("mnist", True)
    assert {finding["job"] for finding in told["findings"]} == {"prepare", "train"}


def test_of_a_chain_only_the_jobs_of_the_provider_that_is_typed_are_checked(
    capsys: Capture,
) -> None:
    own_profile().write_text(json.dumps({"providers": {"aws-batch": AWS}}))
    chain = write_chain(
        {"name": "prepare"},
        {"name": "train", "provider": "aws-batch", "needs": ["prepare"]},
    )

    assert run(["doctor", "local", chain]) == 0

    told = capsys.readouterr().out
    assert "train" not in told
    assert told.splitlines()[-1].startswith("mnist on local will run: no check of ")


def test_a_chain_without_a_job_on_the_provider_is_refused(capsys: Capture) -> None:
    chain = write_chain({"name": "prepare"}, {"name": "train"})

    assert run(["doctor", "slurm", chain]) == 2

    told = capsys.readouterr().err
    assert "no job of mnist runs on 'slurm': its jobs run on local" in told
    assert "runspec doctor mnist.yaml" in told


@pytest.mark.parametrize("words", [["jobs/"], ["local", "jobs"]])
def test_a_folder_of_jobs_is_a_chain(words: list[str], capsys: Capture) -> None:
    Path("jobs").mkdir()
    Path(write_chain({"name": "prepare"}, {"name": "train"})).rename("jobs/all.yaml")

    assert run(["doctor", *words]) == 0

    assert "jobs" in capsys.readouterr().out.splitlines()[-1]


def test_a_wrong_job_of_a_chain_is_shown_with_its_line(capsys: Capture) -> None:
    chain = write_chain({"name": "prepare"}, {"name": "train", "needs": ["nobody"]})

    assert run(["doctor", chain]) == 2

    assert "mnist.yaml:10:" in capsys.readouterr().err
