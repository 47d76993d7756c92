"""For which jobs of a chain AWS Batch itself waits, and for which this machine does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_jobs.api.chains import load_chain
from runspec_jobs.cli.app import run
from tests.support.aws.specs import PROFILE
from tests.support.profiles import own_profile

HEAD = """\
apiVersion: runspec/v1
provider: aws-batch
container: {image: "python:3.12"}
command: [echo]
"""
CHAIN = f"""\
{HEAD}
name: prepare
outputs: [{{name: data, path: /job/data}}]
---
{HEAD}
name: search
mounts: [{{name: data, source: run://prepare/data, target: /job/in}}]
outputs: [{{name: model, path: /job/model}}]
sweep: {{lr: [1, 2]}}
metric: {{name: loss, goal: min, pattern: 'loss=(\\S+)'}}
---
{HEAD}
name: predict
mounts: [{{name: best, source: 'run://search/model?best', target: /job/best}}]
"""


@pytest.fixture(autouse=True)
def _profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    own_profile().write_text(json.dumps({"providers": {"aws-batch": PROFILE}}))


def test_a_service_waits_for_the_jobs_that_a_job_needs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("all.yaml").write_text(CHAIN)

    code = run(["plan", "all.yaml", "--json"])

    shown = capsys.readouterr()
    assert code == 0, shown
    jobs = {one["job"]: one for one in json.loads(shown.out)["jobs"]}
    assert jobs["search"]["waits_by_service"] == ["prepare"]
    # Which task is the best, this machine alone knows.
    assert jobs["predict"]["waits_by_service"] == []
    (submit,) = [s for s in jobs["search"]["plan"]["steps"] if s["id"] == "job"]
    assert submit["do"]["params"]["dependsOn"] == [
        {"jobId": {"$answer": "prepare-000000/job.jobId"}}
    ]
    # Its agent does not believe the service that they have succeeded.
    (record,) = [s for s in jobs["search"]["plan"]["steps"] if s["id"] == "record"]
    assert json.loads(record["do"]["params"]["Body"])["needs"] == [{"run": "prepare-000000"}]


def test_a_client_waits_for_more_jobs_than_the_service_can() -> None:
    names = [f"job-{number}" for number in range(22)]
    last = f"{HEAD}name: last\nneeds: {json.dumps(names)}\n"
    Path("all.yaml").write_text("---\n".join([*(f"{HEAD}name: {name}\n" for name in names), last]))

    chain = load_chain(Path("all.yaml"))

    assert chain.waits_by_service("last") == names[:20]


@pytest.mark.parametrize(
    "more",
    [
        "cluster: {nodes: {min: 1, max: 3}}",  # nodes that it did not need count as failed
        "sweep: {a: [1, 2]}\nmetric: {name: m, goal: min, pattern: 'm=(\\d)', stop: {below: 1}}",
        "providers: {aws-batch: {files: signed}}",
    ],
)
def test_a_client_waits_for_a_job_of_which_the_service_cannot_tell_whether_it_has_succeeded(
    more: str,
) -> None:
    Path("all.yaml").write_text(
        f"{HEAD}name: first\n{more}\n---\n{HEAD}name: last\nneeds: [first]\n"
    )

    chain = load_chain(Path("all.yaml"))

    assert chain.waits_by_service("last") == []
