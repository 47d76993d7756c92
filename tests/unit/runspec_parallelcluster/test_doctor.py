"""What will stop a job is told before anything is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import Finding, NoAnswer, RemoteError, RunspecError
from runspec_parallelcluster import PROVIDER, doctor, infrastructure
from runspec_parallelcluster.decision import decide
from runspec_parallelcluster.naming import TAG
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_slurm import doctor as slurm_doctor
from tests.support.slurm import fake_pcluster
from tests.support.slurm.parallelcluster_specs import RUN, Pcluster, facts, options, spec, up

WOULD = "Request would have succeeded, but DryRun flag is set."

pytestmark = pytest.mark.process


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = fake_pcluster.install(tmp_path / "programs")
    (folder / "node").write_text("#!/bin/sh\n")
    (folder / "node").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def found(**settings: Any) -> dict[str, bool]:
    return {one.what: one.ok for one in PROVIDER.examine(options(**settings))}


def test_where_all_is_there_all_is_well(programs: Path) -> None:
    said = found(cluster="training")

    assert all(said.values())
    assert "the account answers in us-east-1; there is no training yet" in said


def test_a_program_that_is_missing_is_named(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    said = found()

    assert said["node is not installed"] is False and said["ssh is not installed"] is False
    assert any("installs aws-parallelcluster" in what for what in said)


def test_a_key_that_is_not_there_is_told(programs: Path) -> None:
    assert found(ssh_key="/nowhere/key")["the key /nowhere/key does not exist"] is False


def test_credentials_that_are_refused_are_told(programs: Path) -> None:
    (programs / "pcluster").write_text('#!/bin/sh\necho \'{"message": "ExpiredToken"}\'; exit 1\n')

    assert found()["pcluster describe-cluster: ExpiredToken"] is False


class Head:
    """A client whose Slurm is that of a head node, which no test here reaches."""

    def __init__(self, options: ParallelClusterOptions) -> None:
        self.options = options

    def slurm(self) -> Head:
        return self


NAMED = {"cluster": "training"}


def found_of_job(
    monkeypatch: pytest.MonkeyPatch, known: Pcluster, **settings: Any
) -> list[Finding]:
    """Return what doctor says of a job, without what it says of this machine; Slurm accepts the job."""
    accepts = Finding("Slurm would accept the job", True)
    monkeypatch.setattr(doctor, "examine", lambda options: iter(()))
    monkeypatch.setattr(doctor, "Cli", lambda options, tell: known)
    monkeypatch.setattr(doctor, "ParallelClusterClient", Head)
    monkeypatch.setattr(slurm_doctor, "examine_job", lambda options, steps: iter([accepts]))
    job = spec()
    given = facts(job, **settings)
    steps = PROVIDER.plan(job, RUN, given)
    return list(PROVIDER.examine_job(job, given, steps))


def wanted_tags() -> list[dict[str, str]]:
    wanted = infrastructure.configuration(decide(spec(), options(**NAMED)))
    return [{"key": tag["Key"], "value": tag["Value"]} for tag in wanted["Tags"]]


def test_the_slurm_of_the_cluster_is_asked_whether_it_accepts_the_job(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Pcluster()
    known.there["training"] = up(tags=wanted_tags())

    said = found_of_job(monkeypatch, known, **NAMED)

    assert [one.what for one in said if not one.unknown] == ["Slurm would accept the job"]
    assert [one.what for one in said if one.unknown] == [
        "doctor cannot check the quotas of EC2 for the machines of the queues",
        "doctor cannot check all rights of the login that pcluster needs to make a cluster",
    ]
    assert known.changes() == []


@pytest.mark.parametrize(
    ("state", "ok", "what"),
    [
        ({"clusterStatus": "CREATE_FAILED"}, False, "the cluster training: no reason given"),
        ({"computeFleetStatus": "STOPPED"}, False, "are stopped: jobs wait"),
        ({"headNode": {}}, True, "has no address yet"),
        ({"tags": [{"key": TAG, "value": "another"}]}, True, "differs from the profile"),
        ({"tags": []}, False, "that runspec did not make"),
    ],
)
def test_a_cluster_that_cannot_run_the_job_now_is_said(
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: dict[str, Any],
    ok: bool,
    what: str,
) -> None:
    known = Pcluster()
    known.there["training"] = up(**{"tags": wanted_tags(), **state})

    said = found_of_job(monkeypatch, known, **NAMED)

    (one,) = [each for each in said if what in each.what]
    assert (one.ok, one.unknown) == (ok, ok)


@pytest.mark.parametrize(
    ("error", "ok", "unknown", "what"),
    [
        (RemoteError(f"pcluster create-cluster: {WOULD}"), True, False, "would make the cluster"),
        (RemoteError("pcluster create-cluster: no subnet"), False, False, "no subnet"),
        (RemoteError("Rate exceeded", transient=True), True, True, "cannot check the cluster"),
        (NoAnswer("no answer in 600 s"), True, True, "cannot check the cluster"),
    ],
)
def test_a_dry_run_says_whether_the_cluster_can_be_made(
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: RunspecError,
    ok: bool,
    unknown: bool,
    what: str,
) -> None:
    known = Pcluster()
    known.refuse["create-cluster"] = [error]

    said = found_of_job(monkeypatch, known, **NAMED)

    (one,) = [each for each in said if what in each.what]
    assert (one.ok, one.unknown) == (ok, unknown)
    (call,) = known.changes()
    assert call[2:] == ("--dryrun", "true")


def test_doctor_reports_a_missing_cluster_of_the_profile(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = found_of_job(monkeypatch, Pcluster(), manage=False, **NAMED)

    assert [one.what for one in said if not one.ok] == ["there is no cluster training"]


def test_a_head_node_of_the_profile_needs_no_pcluster(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Pcluster()

    said = found_of_job(monkeypatch, known, manage=False, host="head")

    assert [one.what for one in said] == ["ssh is installed", "Slurm would accept the job"]
    assert known.calls == []


def test_a_head_node_that_does_not_answer_is_said(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (programs / "ssh").write_text("#!/bin/sh\necho 'no route to host' >&2\nexit 255\n")
    job = spec()
    given = facts(job, manage=False, host="head")

    said = list(PROVIDER.examine_job(job, given, PROVIDER.plan(job, RUN, given)))

    (bad,) = [one for one in said if not one.ok]
    assert "no route to host" in bad.what


def test_places_in_s3_that_the_cluster_writes_to_are_unknown(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = {"work": {"mount": "/work", "data": "s3://ours/work"}}

    said = found_of_job(monkeypatch, Pcluster(), storage=storage, **NAMED)

    assert "doctor cannot check whether the cluster may write to s3://ours/work" in [
        one.what for one in said if one.unknown
    ]
