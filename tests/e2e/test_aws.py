"""AWS Batch, rehearsed: real jobs as processes of this machine, driven by the command line alone."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from runspec.cli.main import run
from runspec_aws import times
from runspec_rehearsal.aws.region import Objects, Region

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
REGION, BUCKET, ACCOUNT = "eu-central-1", "jobs", "123456789012"
SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:hf-a1b2c3"
PROFILE: dict[str, Any] = {
    "region": REGION,
    "bucket": BUCKET,
    "job_role": f"arn:aws:iam::{ACCOUNT}:role/job",
    "execution_role": f"arn:aws:iam::{ACCOUNT}:role/execution",
    "instance_role": f"arn:aws:iam::{ACCOUNT}:instance-profile/machine",
    "subnets": ["subnet-1"],
    "security_groups": ["sg-1"],
    "secrets": {"hf": f"aws-sm:{SECRET}"},
}
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    found = Objects(tmp_path_factory.mktemp("objects"))
    found.make_bucket(BUCKET, REGION)
    yield found
    found.close()


@pytest.fixture
def region(objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Region]:
    monkeypatch.setattr(times, "SETTLE_S", 1.0)
    monkeypatch.setattr(times, "QUIET_S", 0.2)
    found = Region(
        tmp_path / "region", REGION, objects, terminate_grace_s=2.0, secrets={SECRET: "s3cret"}
    )
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    profile(tmp_path)
    yield found
    found.close()


def profile(folder: Path, **more: Any) -> None:
    settings = {**PROFILE, "prefix": folder.name, **more}
    (folder / "runspec-profile.yaml").write_text(json.dumps({"providers": {"aws-batch": settings}}))


def write(text: str, **fields: Any) -> str:
    spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "aws-batch", "run": text}
    Path("job.yaml").write_text(json.dumps({**spec, **fields}))
    return "job.yaml"


def ended(capsys: Capture, *words: str) -> dict[str, Any]:
    """Give how an apply ended, as it says itself."""
    capsys.readouterr()
    run(["apply", *words, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def calls(region: Region, operation: str | None = None) -> list[dict[str, Any]]:
    found = region.control("GET", "calls")
    return [call for call in found if operation in (None, call["operation"])]


def jobs(region: Region) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = region.control("GET", "jobs")
    return found


def await_job(region: Region, text: str = "RUNNING") -> str:
    """Wait until a job runs; give its id."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if found := [job["id"] for job in jobs(region) if job["running"]]:
            return str(found[0])
        time.sleep(0.05)
    raise AssertionError(f"nothing is {text}: {jobs(region)}")


# The whole life of a job


def test_the_walk_through_is_one_file_and_one_command(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    """Entities, a GPU definition, a submission that is waited for, its log, and a model in S3."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train_mnist.py").write_text(
        "import os, sys\nprint('epoch 1 accuracy 0.97')\n"
        "open(os.path.join(sys.argv[1], 'lenet-0001.params'), 'wb').write(b'model')\n"
    )
    job = write(
        "python3 ${mounts.code}/train_mnist.py ${outputs.model}",
        cluster={"cpus": 4, "memory": "14GiB", "gpus": 1, "gpu_type": "T4"},
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "model", "path": "/job/model"}],
    )

    assert run(["apply", job]) == 0

    assert "epoch 1 accuracy 0.97" in capsys.readouterr().out
    assert run(["fetch", "job", "out"]) == 0
    assert (tmp_path / "out" / "model" / "lenet-0001.params").read_bytes() == b"model"
    made = calls(region, "RegisterJobDefinition")[0]["params"]["containerProperties"]
    assert {"type": "GPU", "value": "1"} in made["resourceRequirements"]
    assert run(["destroy", "job"]) == 0
    assert run(["destroy", "--site"]) == 0
    assert left(region, tmp_path) == []


def left(region: Region, folder: Path) -> list[str]:
    s3 = boto3.client("s3", region_name=REGION)
    batch = boto3.client("batch", region_name=REGION)
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"{folder.name}/").get("Contents", ())
    names = [o["Key"] for o in found]
    names += [
        d["jobDefinitionArn"]
        for d in batch.describe_job_definitions(status="ACTIVE")["jobDefinitions"]
    ]
    names += [q["jobQueueName"] for q in batch.describe_job_queues()["jobQueues"]]
    environments = batch.describe_compute_environments()["computeEnvironments"]
    return names + [e["computeEnvironmentName"] for e in environments]


def test_the_chainer_job_runs_with_one_changed_field(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    """Two nodes that meet through the store, MPI between them, and the outputs of a local run."""
    shutil.copytree(ROOT / "specs" / "mnist", tmp_path / "mnist")
    text = (ROOT / "specs" / "mnist-chainer.yaml").read_text()
    changed = re.sub(r"^provider: local\b", "provider: aws-batch", text, flags=re.MULTILINE)
    assert sum(a != b for a, b in zip(text.splitlines(), changed.splitlines(), strict=True)) == 1
    (tmp_path / "mnist-chainer.yaml").write_text(changed)

    assert run(["apply", "mnist-chainer.yaml"]) == 0, capsys.readouterr()

    log = capsys.readouterr().out
    assert "Num process (COMM_WORLD): 2" in log
    rows = [line.split() for line in log.splitlines() if re.match(r"\[node 0\] \d+ ", line)]
    assert float(rows[-1][6]) > 0.9, rows[-1]
    assert run(["fetch", "mnist-chainer", "out"]) == 0
    found = sorted(str(p.relative_to("out")) for p in Path("out").rglob("*") if p.is_file())
    assert found == ["model/log.json", "model/model_epoch_20.npz"]


def test_an_unchanged_job_is_not_run_again_and_costs_few_calls(
    region: Region, capsys: Capture
) -> None:
    job = write("echo once")
    assert run(["apply", job]) == 0
    before = len(calls(region))

    assert run(["apply", job]) == 0

    assert len(calls(region)) - before <= 4
    assert len(jobs(region)) == 1
    assert "starting nothing" in capsys.readouterr().err


def test_a_second_run_registers_nothing_and_uploads_nothing(region: Region) -> None:
    job = write("echo twice")
    run(["apply", job])

    assert run(["apply", job, "--new"]) == 0

    assert len(calls(region, "RegisterJobDefinition")) == 1
    assert len(calls(region, "CreateJobQueue")) == 1
    assert len(calls(region, "SubmitJob")) == 2


# How it ends


def test_the_exit_code_and_the_reason_are_those_of_the_job(region: Region, capsys: Capture) -> None:
    found = ended(capsys, write("echo so; exit 9"))

    assert (found["state"], found["exit_code"]) == ("failed", 9)
    assert "exited with code 9" in found["reason"]


def test_a_failure_is_tried_as_often_as_was_asked_for(region: Region, capsys: Capture) -> None:
    job = write('echo "try $RUNSPEC_ATTEMPT"; exit 4', retry={"attempts": 3})

    found = ended(capsys, job)

    assert (found["state"], found["exit_code"]) == ("failed", 4)
    assert [a["exitCode"] for a in jobs(region)[0]["attempts"]] == [75, 75, 4]
    run(["logs", "job"])
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("try")]
    assert said == ["try 1", "try 2", "try 3"]


def test_a_reclaimed_machine_is_no_failure_and_what_was_saved_is_there_again(
    region: Region, capsys: Capture
) -> None:
    job = write(
        'f=${outputs.state}/seen; echo "found $(cat $f 2>/dev/null)"; echo here > $f\n'
        '[ "$RUNSPEC_ATTEMPT" = 2 ] || sleep 60',
        outputs=[{"name": "state", "path": "/job/state", "sync": "1s"}],
        cluster={"capacity": "spot"},
    )
    assert run(["apply", job, "--detach"]) == 0
    name = await_job(region)
    time.sleep(3)  # until it is saved
    region.control("POST", "reclaim", {"jobId": name})

    assert run(["logs", "-f", "job"]) == 0

    captured = capsys.readouterr()
    assert "found here" in captured.out
    assert "1 of 2 tries ended because the machine was reclaimed" in captured.err
    attempts = jobs(region)[0]["attempts"]
    assert len(attempts) == 2
    assert attempts[0]["statusReason"].startswith("Host EC2")


def test_a_sweep_is_one_call_and_each_task_has_its_values(region: Region, capsys: Capture) -> None:
    job = write(
        'echo "lr ${sweep.lr} seed ${sweep.seed}"; [ "${sweep.seed}" != 2 ] || exit 3',
        sweep={"lr": ["0.1", "0.01"], "seed": "1..2"},
    )

    found = ended(capsys, job)

    assert (found["state"], found["exit_code"]) == ("failed", 3)
    assert len(calls(region, "SubmitJob")) == 1
    run(["status", "job", "--json"])
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert [(n["task"], n["exit_code"]) for n in nodes] == [(0, 0), (1, 3), (2, 0), (3, 3)]


def test_cancel_ends_every_child_of_an_array(region: Region) -> None:
    job = write("sleep 60", sweep={"a": "1..3"})
    run(["apply", job, "--detach"])
    await_job(region)

    assert run(["cancel", "job"]) == 0

    assert [j["status"] for j in jobs(region)] == ["FAILED"] * 4
    assert not any(j["running"] for j in jobs(region))


def test_a_job_that_waits_says_why(region: Region, capsys: Capture) -> None:
    region.control("PUT", "settings", {"capacity": "none"})
    run(["apply", write("echo never"), "--detach"])
    time.sleep(0.5)
    capsys.readouterr()

    run(["status", "job"])

    assert "AWS has no such machine now" in capsys.readouterr().out
    run(["destroy", "job"])


def test_a_secret_is_in_the_job_and_nowhere_else(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    job = write('echo "${#TOKEN} characters"', secrets={"TOKEN": "hf"})

    assert run(["apply", job]) == 0

    assert "6 characters" in capsys.readouterr().out
    home = Path(str(tmp_path))
    kept = [p for p in home.rglob("*") if p.is_file() and "region" not in p.parts]
    assert not any(b"s3cret" in path.read_bytes() for path in kept)
    assert "s3cret" not in json.dumps(calls(region))


def test_nodes_on_spot_meet_through_the_store(region: Region, capsys: Capture) -> None:
    job = write(
        "echo ready",
        cluster={"nodes": 2, "capacity": "spot"},
    )

    assert run(["apply", job]) == 0

    captured = capsys.readouterr()
    assert "multi-node jobs do not run on spot machines" in captured.err
    assert sorted(captured.out.splitlines()) == ["[node 0] ready", "[node 1] ready"]


@pytest.mark.parametrize("capacity", ["on-demand", "spot"])
def test_every_node_knows_the_others(region: Region, capsys: Capture, capacity: str) -> None:
    job = write(
        'echo "$RUNSPEC_HOST of $(cut -d" " -f1 "$RUNSPEC_HOSTFILE" | tr "\\n" " ")led by $RUNSPEC_LEADER"',
        cluster={"nodes": 2, "capacity": capacity},
    )

    assert run(["apply", job]) == 0

    said = sorted(
        re.findall(r"\[node \d\] (\S+) of (\S+ \S+) led by (\S+)", capsys.readouterr().out)
    )
    assert len(said) == 2
    assert {hosts for _, hosts, _ in said} == {said[0][1]}
    assert {leader for _, _, leader in said} == {said[0][1].split()[0]}


def test_a_gang_ends_when_all_of_it_has_ended_and_fails_with_any_of_it(
    region: Region, capsys: Capture
) -> None:
    job = write('[ "$RUNSPEC_RANK" = 0 ] || { sleep 1; exit 6; }', cluster={"nodes": 3})

    found = ended(capsys, job)

    assert (found["state"], found["exit_code"]) == ("failed", 6)


# Around


def test_what_no_record_knows_is_found_and_taken_away(
    region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    run(["apply", write("sleep 60"), "--detach"])
    await_job(region)
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))
    capsys.readouterr()

    assert run(["gc", "aws-batch"]) == 0
    found = capsys.readouterr().out
    assert run(["gc", "aws-batch", "--yes"]) == 0
    spared = [j for j in jobs(region) if j["running"]]
    assert run(["gc", "aws-batch", "--yes", "--alive"]) == 0

    assert "whose job is alive" in found
    assert len(spared) == 1
    assert left(region, tmp_path) == []
    assert not any(j["running"] for j in jobs(region))


def test_what_was_left_switched_off_is_switched_on_again(region: Region) -> None:
    """As by a destroy that was killed between its two calls."""
    run(["apply", write("echo once")])
    batch = boto3.client("batch", region_name=REGION)
    queue = batch.describe_job_queues()["jobQueues"][0]["jobQueueName"]
    batch.update_job_queue(jobQueue=queue, state="DISABLED")

    assert run(["apply", write("echo again"), "--new"]) == 0


def test_a_queue_with_anybodys_jobs_in_it_is_not_taken_away(
    region: Region, capsys: Capture
) -> None:
    run(["apply", write("echo ours")])
    batch = boto3.client("batch", region_name=REGION)
    queue = batch.describe_job_queues()["jobQueues"][0]["jobQueueName"]
    definition = batch.describe_job_definitions(status="ACTIVE")["jobDefinitions"][0]
    region.control("PUT", "settings", {"capacity": "none"})
    theirs = definition["jobDefinitionArn"]
    batch.submit_job(jobName="theirs", jobQueue=queue, jobDefinition=theirs)
    run(["destroy", "job"])

    assert run(["destroy", "--site"]) == 4

    assert "theirs is" in capsys.readouterr().err
    assert [q["jobQueueName"] for q in batch.describe_job_queues()["jobQueues"]] == [queue]


def test_what_a_record_knows_is_no_litter(region: Region, capsys: Capture) -> None:
    run(["apply", write("echo kept")])
    capsys.readouterr()

    assert run(["gc", "aws-batch"]) == 0

    assert capsys.readouterr().out == ""
