"""AWS Batch by the services' own names over TLS: no endpoint option is set anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from runspec_aws.emulator import ACCOUNT, SETTINGS
from runspec_aws.naming import partition
from tests.faults.chosen import ALL
from tests.realnames import aws
from tests.realnames.world import Request, World
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.root import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.root]

REGION, BUCKET, DOTTED = "eu-central-1", "jobs", "my.jobs"
REGIONS = {
    REGION: [BUCKET, DOTTED],
    "cn-north-1": ["jobs-cn"],
    "us-gov-west-1": ["jobs.gov", "jobs-gov"],
}
LARGE = (100 if ALL else 25) << 20
MANY = 5_000 if ALL else 500
# Nobody is cut off (0), redirected, refused or misdirected. Things and streams that are not there yet are asked for.
ANSWERS = (200, 204, 206, 400, 404, 412)
LINKS = {"169.254.169.254", "169.254.170.2"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    with World(folder, aws.SERVICES, aws.names(REGIONS), regions=REGIONS) as found:
        yield found


@pytest.fixture(autouse=True)
def _here(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    world.begin()
    profile(tmp_path)


def profile(
    folder: Path,
    region: str = REGION,
    bucket: str = BUCKET,
    place: Path | None = None,
    **more: Any,
) -> None:
    roles = {
        name: str(value).replace("arn:aws:", f"arn:{partition(region).id}:")
        for name, value in SETTINGS.items()
        if name.endswith("_role")
    }
    own = {**SETTINGS, **roles, "region": region, "bucket": bucket, "prefix": folder.name, **more}
    given = {name: value for name, value in own.items() if value is not None}
    settings = {"providers": {"aws-batch": given}}
    (place or own_profile()).write_text(json.dumps(settings))


def write(text: str, folder: Path | None = None, **fields: Any) -> str:
    spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "aws-batch", "run": text}
    ((folder or Path()) / "job.yaml").write_text(json.dumps({**spec, **fields}))
    return "job.yaml"


def small(folder: Path, **fields: Any) -> str:
    """Write a job that copies a word from a folder to an output, and says it."""
    (folder / "code").mkdir()
    (folder / "code" / "word").write_text("hello\n")
    return write(
        "cat ${mounts.code}/word | tee ${outputs.model}/'a copy+ü'",
        folder,
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[{"name": "model", "path": "/job/model"}],
        **fields,
    )


def done(world: World, *words: str, env: Mapping[str, str] | None = None) -> str:
    """Run `runspec` to a good end; return what it said on stdout."""
    found = world.runspec(*words, env=env)
    assert found.code == 0, (words, found)
    return found.out


def asked(
    world: World, region: str = REGION, requests: list[Request] | None = None
) -> list[Request]:
    """Return what was asked, all of it by https and signed for the region and the service that it went to."""
    all_of_them = world.requests() if requests is None else requests
    found = [request for request in all_of_them if request.host not in LINKS]
    assert {request.scheme for request in found} == {"https"}
    assert [request for request in found if request.status not in ANSWERS] == []
    for request in found:
        signed_for, service = request.scope.split("/")[1:3]
        assert signed_for == region
        assert f"{service}." in request.host
    return found


def await_line(world: World, text: str) -> None:
    end = time.monotonic() + 120
    while text not in world.runspec("logs", "job").out:
        assert time.monotonic() < end, f"nobody says {text!r}"
        time.sleep(0.3)


def test_the_whole_life_of_a_run(world: World, tmp_path: Path) -> None:
    """Many files, and one that goes up in parts; nothing is left in the bucket, nor at AWS Batch."""
    (tmp_path / "many").mkdir()
    for number in range(MANY):
        (tmp_path / "many" / f"{number}.txt").write_text(str(number))
    (tmp_path / "data").mkdir()
    content = os.urandom(LARGE)
    (tmp_path / "data" / "large.bin").write_bytes(content)
    write(
        "cat ${mounts.many}/*.txt | wc -c; sha256sum < ${mounts.data}/large.bin; "
        "cp ${mounts.data}/large.bin ${outputs.model}/weights",
        mounts=[
            {"name": "many", "source": "./many", "target": "/job/many"},
            {"name": "data", "source": "./data", "target": "/job/data"},
        ],
        outputs=[{"name": "model", "path": "/job/model"}],
    )

    said = done(world, "apply", "job.yaml")

    assert hashlib.sha256(content).hexdigest() in said
    assert str(sum(len(str(number)) for number in range(MANY))) in said
    assert "succeeded" in done(world, "status", "job")
    assert done(world, "logs", "job") == said
    done(world, "fetch", "job", "out")
    assert Path("out/model/weights").read_bytes() == content
    requests = asked(world)
    parts = [r for r in requests if "partNumber=" in r.target]
    assert len(parts) >= LARGE // (8 << 20)
    hosts = {request.host.removesuffix(f".{REGION}.amazonaws.com") for request in requests}
    assert hosts == {"batch", "logs", f"{BUCKET}.s3", "s3"}  # the job's part asks by path
    assert {r.host for r in world.requests()} >= LINKS
    done(world, "destroy", "job")
    done(world, "destroy", "--site")
    assert world.tell("left", REGION) == []
    assert world.tell("keys", REGION, BUCKET, f"{tmp_path.name}/") == []


def test_a_job_is_cancelled_and_what_nobody_remembers_goes(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("echo begun; exec sleep 600")
    done(world, "apply", "job.yaml", "--detach")
    await_line(world, "begun")

    done(world, "cancel", "job")

    assert "cancelled" in done(world, "status", "job")
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))
    assert "removed run job-" in done(world, "gc", "aws-batch", "--yes")
    asked(world)
    assert world.tell("left", REGION) == []
    assert world.tell("keys", REGION, BUCKET, f"{tmp_path.name}/") == []


@pytest.mark.parametrize(
    ("region", "bucket"),
    [(REGION, BUCKET), ("cn-north-1", "jobs-cn"), ("us-gov-west-1", "jobs-gov")],
)
def test_doctor_asks_every_service(world: World, tmp_path: Path, region: str, bucket: str) -> None:
    own = partition(region)
    image = f"{ACCOUNT}.dkr.ecr.{region}.{own.domain}/train:1"
    profile(tmp_path, region, bucket, image=image, **world.tell("account", region))

    said = world.runspec("doctor", "aws-batch").out

    assert f"ok  aws-batch: bucket {bucket}" in said
    if (
        own.id != "aws-us-gov"
    ):  # moto takes the partition from the host, and knows none in iam.us-gov
        assert "ok  aws-batch: job_role job" in said
    hosts = {r.host for r in world.requests()} - LINKS
    prefixes = {"sts", f"{bucket}.s3", "ec2", "api.ecr", "servicequotas", "batch"}
    assert hosts == {aws.IAM[own.id], *(f"{p}.{region}.{own.domain}" for p in prefixes)}


PLACES = [
    (REGION, DOTTED),
    ("cn-north-1", "jobs-cn"),
    ("us-gov-west-1", "jobs-gov"),
    ("us-gov-west-1", "jobs.gov"),
]


def test_a_store_copies_and_deletes_by_its_name(world: World) -> None:
    """The front verifies each signature, of the header that names a source, too."""
    env = {"RUNSPEC_STORE": f"s3://{BUCKET}/copies of ours", "RUNSPEC_REGION": REGION}

    done = world.run(sys.executable, "-m", "tests.realnames.copies", env=env, cwd=ROOT)

    assert (done.out, done.code) == ("copied and deleted\n", 0), done
    assert asked(world)


@pytest.mark.matrix
def test_buckets_with_dots_and_other_partitions(world: World, tmp_path: Path) -> None:
    with ThreadPoolExecutor(len(PLACES)) as pool:
        list(pool.map(lambda place: lived(world, tmp_path / place[1], *place), PLACES))

    hosts = {request.host for request in world.requests() if ".s3." in f".{request.host}"}
    assert hosts == {
        "s3.eu-central-1.amazonaws.com",
        "s3.cn-north-1.amazonaws.com.cn",
        "jobs-cn.s3.cn-north-1.amazonaws.com.cn",
        "s3.us-gov-west-1.amazonaws.com",
        "jobs-gov.s3.us-gov-west-1.amazonaws.com",
    }
    for region in {region for region, _ in PLACES}:
        own = f".{region}.{partition(region).domain}"
        asked(world, region, [r for r in world.requests() if r.host.endswith(own)])


def lived(world: World, folder: Path, region: str, bucket: str) -> None:
    """Take a small job through its life, as a user of their own."""
    folder.mkdir()
    own = {"RUNSPEC_HOME": str(folder / "home"), "RUNSPEC_PROFILE": str(folder / "profile.yaml")}
    # Of these regions the table knows no types, and moto has no offers.
    types = {} if region == REGION else {"instance_types": ["m7i.large"]}
    profile(folder, region, bucket, place=folder / "profile.yaml", **types)
    small(folder)
    for words in ("apply job.yaml", "fetch job out", "destroy job", "destroy --site"):
        found = world.runspec(*words.split(), env=own, cwd=folder)
        assert found.code == 0, (words, found)
    assert (folder / "out" / "model" / "a copy+ü").read_text() == "hello\n"
    assert world.tell("keys", region, bucket, f"{folder.name}/") == []


def test_all_requests_go_through_the_proxy(world: World, tmp_path: Path) -> None:
    assert done(world, "apply", small(tmp_path, env=world.proxy), env=world.proxy) == "hello\n"

    assert done(world, "logs", "job", env=world.proxy) == "hello\n"
    assert all(request.proxied for request in asked(world))


def test_a_store_of_ones_own_by_https(world: World, tmp_path: Path) -> None:
    end = {"AWS_ENDPOINT_URL_S3": f"https://{aws.CUSTOM}"}

    assert done(world, "apply", small(tmp_path, env=end), env=end) == "hello\n"

    done(world, "fetch", "job", "out", env=end)
    assert Path("out/model/a copy+ü").read_text() == "hello\n"
    assert {r.host for r in world.requests() if "s3" in r.host} == {aws.CUSTOM}


@pytest.mark.parametrize("bucket", [BUCKET, DOTTED])
def test_signed_urls(world: World, tmp_path: Path, bucket: str) -> None:
    need("curl")
    profile(tmp_path, REGION, bucket, files="signed", job_role=None)

    assert done(world, "apply", small(tmp_path)) == "hello\n"

    done(world, "fetch", "job", "out")
    assert Path("out/model/a copy+ü").read_text() == "hello\n"
    s3 = {request.host for request in asked(world) if ".s3." in f".{request.host}"}
    assert s3 == {
        f"{BUCKET}.s3.{REGION}.amazonaws.com" if bucket == BUCKET else f"s3.{REGION}.amazonaws.com"
    }


def test_a_machine_tells_of_its_end_at_its_own_address(world: World, tmp_path: Path) -> None:
    write(
        'echo "try $RUNSPEC_ATTEMPT"; trap "echo told; exit 0" TERM; [ "$RUNSPEC_ATTEMPT" = 2 ] || '
        "while :; do sleep 0.1; done",
        cluster={"capacity": "spot"},
        env={"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": ""},  # so those of the machine are taken
    )
    done(world, "apply", "job.yaml", "--detach")
    await_line(world, "try 1")
    (job,) = [j["id"] for j in world.tell("control", REGION, "GET", "jobs") if j["running"]]

    world.tell("control", REGION, "POST", "reclaim", {"jobId": job, "notice_s": 60})

    said = done(world, "logs", "-f", "job")
    assert re.search(r"try 1\n(.*\n)*told\n(.*\n)*try 2", said)
    links = [r.target for r in world.requests() if r.host == "169.254.169.254"]
    assert "/latest/meta-data/spot/instance-action" in links


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Give a world whose authority stands in no bundle: it is named by variables."""
    folder = tmp_path_factory.mktemp("company")
    regions = {REGION: [BUCKET]}
    with World(folder, aws.SERVICES, aws.names(regions), "variables", regions=regions) as found:
        yield found


def test_the_variables_of_a_company_are_enough(company: World, tmp_path: Path) -> None:
    assert done(company, "apply", small(tmp_path)) == "hello\n"

    done(company, "fetch", "job", "out")
    assert Path("out/model/a copy+ü").read_text() == "hello\n"
    asked(company)


def test_the_error_names_the_variable_that_is_missing(company: World, tmp_path: Path) -> None:
    """boto3 reads the first, and then the second."""
    missing = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")

    failed = company.runspec("apply", small(tmp_path), env=dict.fromkeys(missing))

    assert failed.code == 69
    assert "does not trust the server's certificate" in failed.err
    assert "set AWS_CA_BUNDLE to the file" in failed.err
