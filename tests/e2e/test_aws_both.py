"""What runs share on AWS Batch, against the rehearsal and against moto's own Batch, which nobody here wrote.

moto runs no job here: with `use_docker` off, one has succeeded as soon as it is submitted. The test writes the records
by which agents prove a success.
http://docs.getmoto.org/en/latest/docs/services/batch.html
What needs containers is in test_aws_moto.py, which also lists what moto's Batch lacks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from runspec_agent.base import end_causes
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.retry import end_record
from runspec_aws import discover, session, timing
from runspec_aws.options import AwsOptions
from runspec_emulators.aws.region import KEYS, Objects
from runspec_jobs.cli.app import run
from tests.support.aws.emulated_account import (
    BUCKET,
    PROFILE,
    REGION,
    SECRET,
    Capture,
    account,
    profile,
    stored,
    write,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    found = Objects(tmp_path_factory.mktemp("moto"))
    yield found
    found.close()


@pytest.fixture
def moto(server: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give an account of moto's own, for everything, in which there is nothing yet."""
    server.ask("POST", "/moto-api/reset")
    server.ask("POST", "/moto-api/config", json.dumps({"batch": {"use_docker": False}}))
    server.make_bucket(BUCKET, REGION)
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": server.url}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(timing, "DEFAULT", timing.Timing(settle_s=1.0, quiet_s=0.2))
    write_ends(monkeypatch, tmp_path.name)
    monkeypatch.chdir(tmp_path)
    profile(tmp_path, **account())


def write_ends(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    """Have each job that is submitted leave the end records of agents whose programs succeeded."""
    opened = session.Session.new_client

    def write(params: dict[str, Any], **_: Any) -> None:
        at = f"{prefix}/runs/{params['jobName']}/"
        for task in range(params.get("arrayProperties", {"size": 1})["size"]):
            place = TaskIdentity("moto's", task, rank=0, attempt=1)
            key = end_record.key(at, place, end_record.End(0, end_causes.PROGRAM))
            boto3.client("s3").put_object(Bucket=BUCKET, Key=key, Body=b"{}")

    def new_client(self: session.Session, service: str, config: Any) -> Any:
        client = opened(self, service, config)
        client.meta.events.register(
            "provide-client-params.batch.SubmitJob", write, unique_id="ends"
        )
        return client

    monkeypatch.setattr(session.Session, "new_client", new_client)


@pytest.fixture(params=["region", "moto"], autouse=True)
def service(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(request.param)


def batch() -> Any:
    return boto3.client("batch", region_name=REGION)


def definitions() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = batch().describe_job_definitions(status="ACTIVE")[
        "jobDefinitions"
    ]
    return found


def submitted() -> list[dict[str, Any]]:
    """Give all jobs in all queues."""
    queues = batch().describe_job_queues()["jobQueues"]
    arns = [queue["jobQueueArn"] for queue in queues]
    found = [
        batch().list_jobs(jobQueue=arn, jobStatus=status)["jobSummaryList"]
        for arn in arns
        for status in ("RUNNABLE", "RUNNING", "SUCCEEDED", "FAILED")
    ]
    return [job for page in found for job in page]


def test_an_unchanged_job_is_not_run_again(capsys: Capture) -> None:
    job = write("echo once")
    assert run(["apply", job]) == 0

    assert run(["apply", job]) == 0

    assert len(submitted()) == 1
    assert "starting no other" in capsys.readouterr().err


def test_a_second_run_shares_what_the_first_one_made() -> None:
    job = write("echo twice")
    assert run(["apply", job]) == 0
    before = stored(batch())

    assert run(["apply", job, "--new"]) == 0

    assert stored(batch()) == before
    assert [d["revision"] for d in definitions()] == [1]
    assert len(submitted()) == 2


def test_spot_comes_before_on_demand_in_the_queue() -> None:
    assert run(["apply", write("echo", cluster={"capacity": "spot-then-on-demand"})]) == 0

    (queue,) = batch().describe_job_queues()["jobQueues"]
    order = sorted(queue["computeEnvironmentOrder"], key=lambda one: one["order"])
    made = batch().describe_compute_environments()["computeEnvironments"]
    kinds = {e["computeEnvironmentArn"]: e["computeResources"]["type"] for e in made}
    assert [kinds[one["computeEnvironment"]] for one in order] == ["SPOT", "EC2"]
    assert {(e["state"], e["status"]) for e in made} == {("ENABLED", "VALID")}


def test_the_environments_of_a_queue_of_one_s_own_are_found() -> None:
    assert run(["apply", write("echo", cluster={"capacity": "spot-then-on-demand"})]) == 0
    (queue,) = batch().describe_job_queues()["jobQueues"]
    made = batch().describe_compute_environments()["computeEnvironments"]

    options = AwsOptions.model_validate({**PROFILE, "queue": queue["jobQueueName"]})
    (spot, on_demand) = discover.survey(options)["environments"]

    assert [spot["type"], on_demand["type"]] == ["SPOT", "EC2"]
    assert {spot["name"], on_demand["name"]} == {e["computeEnvironmentName"] for e in made}
    assert spot["max_vcpus"] == on_demand["max_vcpus"] == 256
    assert on_demand["instance_types"] == made[0]["computeResources"]["instanceTypes"]
    unknown = options.model_copy(update={"queue": "unknown"})
    assert discover.survey(unknown) == {"environments": []}


def test_every_made_resource_has_a_tag_with_its_kind() -> None:
    assert run(["apply", write("echo")]) == 0

    made = [*definitions(), *batch().describe_job_queues()["jobQueues"]]
    made += batch().describe_compute_environments()["computeEnvironments"]
    kinds = [thing["tags"]["runspec:kind"] for thing in made]
    assert kinds == ["definition", "queue", "environment"]
    (job,) = batch().describe_jobs(jobs=[one["jobId"] for one in submitted()])["jobs"]
    assert job["tags"] == {"runspec:run": job["jobName"], "runspec:job": "job"}


def test_a_definition_names_a_secret_and_does_not_hold_it() -> None:
    assert run(["apply", write("echo", secrets={"TOKEN": "hf"})]) == 0

    (found,) = definitions()
    secrets = found["containerProperties"]["secrets"]
    assert {"name": "TOKEN", "valueFrom": SECRET} in secrets
    assert "s3cret" not in json.dumps(found, default=str)


def test_apply_enables_a_disabled_queue_again() -> None:
    """As by a destroy that was killed between its two calls."""
    assert run(["apply", write("echo once")]) == 0
    (queue,) = batch().describe_job_queues()["jobQueues"]
    batch().update_job_queue(jobQueue=queue["jobQueueName"], state="DISABLED")

    assert run(["apply", write("echo again"), "--new"]) == 0

    assert batch().describe_job_queues()["jobQueues"][0]["state"] == "ENABLED"


def test_destroy_leaves_no_resource(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "x").write_text("x")
    mounts = [{"name": "code", "source": "./code", "target": "/job/code"}]
    assert run(["apply", write("echo", mounts=mounts)]) == 0
    assert run(["apply", write("echo", sweep={"a": "1..3"}, name="another")]) == 0

    assert run(["destroy", "job"]) == 0
    assert run(["destroy", "another"]) == 0
    assert run(["destroy", "--site"]) == 0

    assert stored(batch(), tmp_path) == []


def test_gc_deletes_resources_without_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    assert run(["apply", write("echo once")]) == 0
    capsys.readouterr()
    assert run(["gc", "aws-batch"]) == 0
    known = capsys.readouterr().out
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))

    assert run(["gc", "aws-batch", "--yes"]) == 0

    assert known == ""
    assert stored(batch(), tmp_path) == []


def test_neither_of_two_users_of_one_queue_harms_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Equal specs, and a folder of records for each of them."""
    job, homes = write("echo ours"), {name: str(tmp_path / name) for name in ("mine", "theirs")}
    runs = {}
    for name, home in homes.items():
        monkeypatch.setenv("RUNSPEC_HOME", home)
        capsys.readouterr()
        assert run(["apply", job, "--detach"]) == 0
        runs[name] = capsys.readouterr().out.strip()
    assert run(["logs", "-f", "job"]) == 0

    monkeypatch.setenv("RUNSPEC_HOME", homes["mine"])
    assert run(["destroy", "job"]) == 0
    monkeypatch.setenv("RUNSPEC_HOME", homes["theirs"])
    capsys.readouterr()
    assert run(["status", "job", "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["run"] == runs["theirs"]
    assert runs["mine"] != runs["theirs"]
    assert len(definitions()) == 1
    assert run(["apply", job, "--new"]) == 0
