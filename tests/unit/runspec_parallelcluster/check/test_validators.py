"""The library's own validators and update policy, against a service that is not there: see moto_parallelcluster.

Real: schema, validators, templates, change sets, update policy of aws-parallelcluster 3.16.1.
Not shown by it, and claimed nowhere: that a cluster comes up, that machines start, that a file system is made,
that a reservation has what it says, that AMIs have the system they are said to have.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from runspec_jobs.provider import Spec
from runspec_parallelcluster import infrastructure
from runspec_parallelcluster.decision import decide
from runspec_parallelcluster.session.pcluster import StopFirst, failure
from tests.support.root import ROOT
from tests.support.slurm.parallelcluster_specs import options, spec
from tests.support.slurm.pcluster_library import interpreter

# The fixture of the first test asks the validators everything: a minute of processor time.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PLAIN = spec()
ASKING = ROOT / "tests/support/slurm/pcluster_calls.py"
WOULD = "Request would have succeeded, but DryRun flag is set."
KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
CPU, GPU = {"instance_types": ["c6i.4xlarge"], "max_count": 4}, {"instance_types": ["g5.xlarge"]}
BOTH: dict[str, Any] = {
    "queues": {"cpu": CPU, "gpu": {**GPU, "capacity": "spot", "spot_price": 1.5}}
}
# Settings that the validators refuse, and a word of theirs. Those without a check of ours ask what only EC2 knows.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no subnet": ({"subnets": ["subnet-0123456789abcdef0"]}, "subnet-0123456789abcdef0"),
    "no key": ({"key_pair": "nobody"}, "nobody"),
    "no group": ({"placement_group": "nowhere"}, "nowhere"),
    "no reservation": ({"reservation": "cr-00000000000000000"}, "cr-00000000000000000"),
    "min above max": ({"queues": {"cpu": {**CPU, "min_count": 5}}}, "Max count"),
    "name": ({"queues": {"CPU": CPU}}, "lowercase"),
    "no adapter": ({"efa": True, "instance_types": ["c6i.4xlarge"]}, "EFA"),
    "size": ({"storage": {"w": {"mount": "/w", "size_gib": 1000}}}, "1,200"),
    "mount": ({"storage": {"w": {"mount": "/opt/slurm"}}}, "reserved"),
}
# Requests, and settings, for which runspec chooses the machines.
CHOSEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "small": ({}, {}),
    "large": ({"cpus": 8, "memory": "200GiB"}, {}),
    "both": ({"cpus": 4, "capacity": "spot-then-on-demand"}, {}),
    "gpu": ({"gpus": 1}, {}),
    "adapters": ({"cpus": 4, "nodes": 2, "placement": "close"}, {"efa": True}),
    "memory": ({"cpus": 4, "memory": "10GiB"}, {"memory_scheduling": True}),
}
# What a cluster that runs with BOTH becomes: whether it may, and whether that takes a fleet that is stopped.
CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "larger": ({"queues": {**BOTH["queues"], "cpu": {**CPU, "max_count": 8}}}, "may"),
    "another queue": (
        {"queues": {**BOTH["queues"], "big": {"instance_types": ["c6i.8xlarge"]}}},
        "may",
    ),
    "dearer": (
        {"queues": {"cpu": CPU, "gpu": {**GPU, "capacity": "spot", "spot_price": 2.0}}},
        "may",
    ),
    "bought otherwise": ({"queues": {"cpu": CPU, "gpu": GPU}}, "may"),
    "smaller": ({"queues": {**BOTH["queues"], "cpu": {**CPU, "max_count": 2}}}, "stop"),
    "other machines": (
        {"queues": {**BOTH["queues"], "cpu": {**CPU, "instance_types": ["c6i.8xlarge"]}}},
        "stop",
    ),
    "one queue less": ({"queues": {"cpu": CPU}}, "stop"),
    "idle": ({**BOTH, "idle_minutes": 5}, "stop"),
    "another system": ({**BOTH, "os": "ubuntu2404"}, "never"),
    "another head": ({**BOTH, "head_node": "m6i.2xlarge"}, "never"),
}
TERMINATED = ("smaller", "other machines", "one queue less")  # and because of update: terminate
DRAINED = ("dearer", "bought otherwise")  # what the service takes only because of update: drain


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Ask everything in one process: most of a call's time is the start of the library."""
    python, home = interpreter(), tmp_path_factory.mktemp("home")
    log = (home / "moto.log").open("wb")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        number = listener.fileno()
        words = [sys.executable, "-m", "tests.support.slurm.moto_parallelcluster", str(number)]
        server = subprocess.Popen(words, cwd=ROOT, stdout=log, stderr=log, pass_fds=[number])
    try:
        base = account(url, server)
        calls = dict(questions(base))
        done = subprocess.run(
            [str(python), str(ASKING)],
            input=json.dumps(list(calls.values())),
            env={"PATH": os.environ["PATH"], "HOME": str(home), "AWS_ENDPOINT_URL": url, **KEYS},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        yield dict(zip(calls, json.loads(done.stdout), strict=True))
    finally:
        server.kill()
        server.wait()
        log.close()


def account(url: str, server: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Make what an account has before there is a cluster; give the settings that name it."""
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 1):
                break
        except OSError:
            time.sleep(0.1)
    ec2, s3 = (boto3.client(name, endpoint_url=url, **keys) for name in ("ec2", "s3"))
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    for word in ("EnableDnsHostnames", "EnableDnsSupport"):
        ec2.modify_vpc_attribute(VpcId=vpc, **{word: {"Value": True}})
    where = {"CidrBlock": "10.0.1.0/24", "AvailabilityZone": "us-east-1a"}
    subnet = ec2.create_subnet(VpcId=vpc, **where)["Subnet"]["SubnetId"]
    ec2.create_key_pair(KeyName="my-key", KeyType="ed25519")
    ec2.create_placement_group(GroupName="near", Strategy="cluster")
    images = ec2.describe_images()["Images"]
    ami = next(i["ImageId"] for i in images if i.get("Architecture") == "x86_64")
    s3.create_bucket(Bucket="own-files")
    s3.put_bucket_versioning(Bucket="own-files", VersioningConfiguration={"Status": "Enabled"})
    return {"subnets": [subnet], "custom_ami": ami, "bucket": "own-files"}


def questions(base: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    def made(name: str = "demo", of: Spec = PLAIN, **settings: Any) -> dict[str, Any]:
        given = options(**{**base, "cluster": name, **settings})
        return {
            "cluster_name": name,
            "cluster_configuration": infrastructure.configuration(decide(of, given)),
        }

    create, update = {"op": "create_cluster"}, {"op": "update_cluster"}
    near: dict[str, Any] = {
        "placement_group": "near",
        "efa": True,
        "instance_types": ["c6i.32xlarge"],
    }
    yield "near", {**create, **made("near", **near), "dryrun": True}
    reserved: dict[str, Any] = {
        "reservation": "cr-0123456789abcdef0",
        "instance_types": ["c6i.4xlarge"],
    }
    yield "reserved", {**create, **made("res", max_count=4, **reserved), "dryrun": True}
    for name, (asked, settings) in CHOSEN.items():
        wanted = made("new", spec(cluster=asked), **settings)
        yield f"chosen {name}", {**create, **wanted, "dryrun": True}
    for name, (settings, _) in REFUSED.items():
        yield name, {**create, **made("bad", **settings), "dryrun": True}
    yield "create", {**create, **made(**BOTH)}
    yield "-running", {"op": "fleet", "cluster": "demo", "status": "RUNNING"}
    yield (
        "-head",
        {"op": "head", "cluster": "demo", "ami": base["custom_ami"], "subnet": base["subnets"][0]},
    )
    yield "describe", {"op": "describe_cluster", "cluster_name": "demo"}
    for name, (settings, _) in CHANGES.items():
        yield name, {**update, **made(**settings), "dryrun": True}
    for name in DRAINED:
        wanted = made(**CHANGES[name][0], update="stop")
        yield f"{name}, not drained", {**update, **wanted, "dryrun": True}
    for name in TERMINATED:
        wanted = made(**CHANGES[name][0], update="terminate")
        yield f"{name}, terminated", {**update, **wanted, "dryrun": True}
    yield "-stopped", {"op": "fleet", "cluster": "demo", "status": "STOPPED"}
    yield "update", {**update, **made(**CHANGES["other machines"][0])}
    yield (
        "start",
        {"op": "update_compute_fleet", "cluster_name": "demo", "status": "START_REQUESTED"},
    )
    yield "updated", {"op": "describe_cluster", "cluster_name": "demo"}


def kind(answer: dict[str, Any]) -> str:
    """Give what our client makes of an answer to an update: it may, never may, or the fleet must stop."""
    if answer["message"] == WOULD:
        return "may"
    return "stop" if isinstance(failure("update-cluster", answer, ""), StopFirst) else "never"


@pytest.mark.parametrize("name", ["near", "reserved"])
def test_the_validators_take_what_we_take(said: dict[str, Any], name: str) -> None:
    assert said[name]["message"] == WOULD, said[name]


@pytest.mark.parametrize("name", CHOSEN)
def test_the_validators_take_the_machines_that_the_rule_chooses(
    said: dict[str, Any], name: str
) -> None:
    assert said[f"chosen {name}"]["message"] == WOULD, said[f"chosen {name}"]


@pytest.mark.parametrize("name", REFUSED)
def test_the_validators_refuse_what_they_should(said: dict[str, Any], name: str) -> None:
    error = failure("create-cluster", said[name], "")

    assert REFUSED[name][1] in error.message, said[name]


def test_a_template_is_made_of_the_configuration(said: dict[str, Any]) -> None:
    assert said["create"]["cluster"]["clusterStatus"] == "CREATE_IN_PROGRESS"


def test_a_cluster_is_described_in_the_words_that_the_client_reads(said: dict[str, Any]) -> None:
    found = said["describe"]

    assert found["clusterStatus"] == "CREATE_COMPLETE"
    assert found["computeFleetStatus"] == "RUNNING"
    assert found["headNode"]["privateIpAddress"].startswith("10.0.1.")
    assert "runspec:configuration" in {tag["key"] for tag in found["tags"]}


@pytest.mark.parametrize("name", CHANGES)
def test_an_update_goes_by_the_policy_of_the_service(said: dict[str, Any], name: str) -> None:
    assert kind(said[name]) == CHANGES[name][1], said[name]


@pytest.mark.parametrize("name", DRAINED)
def test_draining_is_what_makes_it_possible_while_machines_run(
    said: dict[str, Any], name: str
) -> None:
    assert kind(said[f"{name}, not drained"]) == "stop"


@pytest.mark.parametrize("name", TERMINATED)
def test_terminating_takes_machines_out_while_others_run(said: dict[str, Any], name: str) -> None:
    assert kind(said[f"{name}, terminated"]) == "may", said[f"{name}, terminated"]


def test_a_change_that_needs_a_stopped_fleet_is_accepted_after_stopping(
    said: dict[str, Any],
) -> None:
    changed = {change["parameter"] for change in said["update"]["changeSet"]}

    assert "Scheduling.SlurmQueues[cpu].ComputeResources" in changed, said["update"]
    assert said["start"]["status"] == "START_REQUESTED"


def test_the_tag_of_a_cluster_changes_with_it(said: dict[str, Any]) -> None:
    def tag(answer: dict[str, Any]) -> Any:
        return {one["key"]: one["value"] for one in answer["tags"]}["runspec:configuration"]

    assert tag(said["describe"]) != tag(said["updated"])
