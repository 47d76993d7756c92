"""Mounts that are no folders: they come to every kind of job, on this machine and rehearsed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest

from runspec_aws.emulator import fill
from runspec_emulators.aws.region import KEYS, Objects
from runspec_jobs.cli.app import run
from runspec_jobs.provider.types import Emulation
from tests.support.profiles import own_profile
from tests.support.requirements import need
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.process
CLOUDS: Mapping[str, Mapping[str, Any]] = {
    "aws-batch": {},
    "aws-batch signed": {"files": "signed", "job_role": None},
    "azure-batch": {},
    "azure-batch signed": {"files": "signed"},
    "azure-batch-ai": {},
    "parallelcluster": {
        "region": "us-east-1",
        "key_pair": "my-key",
        "subnets": ["subnet-0123456789abcdef0"],
    },
    "slurm": {},
}
JOB: Mapping[str, Any] = {
    "apiVersion": "runspec/v1",
    "name": "files",
    "mounts": [
        {"name": "code", "source": "./code", "target": "/job/code"},
        {"name": "train", "source": "./train.sh", "target": "/job/train"},
        {"name": "config", "source": "./config.json", "target": "/job/config.json"},
    ],
    "outputs": [{"name": "seen", "path": "/seen"}],
    "run": "sh ${mounts.train} ${mounts.config} ${mounts.code} >${outputs.seen}/seen\n"
    "stat -c '%a %Y' ${mounts.train} >${outputs.seen}/stat",
}


def seen(provider: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what the job printed about its files, and the mode and time of the first."""
    monkeypatch.chdir(folder)
    (folder / "code").mkdir()
    (folder / "code" / "a").write_text("a\n")
    (folder / "train.sh").write_text('cat "$1" "$2/a"\n')
    (folder / "train.sh").chmod(0o755)
    os.utime(folder / "train.sh", (10**9, 10**9))
    (folder / "config.json").write_text("{}\n")
    (folder / "job.yaml").write_text(json.dumps({**JOB, "provider": provider.split(maxsplit=1)[0]}))
    out = folder / "kept"
    if provider == "local":
        assert run(["apply", "job.yaml"]) == 0
        assert run(["fetch", "files", str(out / "outputs")]) == 0
    else:
        settings = {k: v for k, v in CLOUDS[provider].items() if v is not None}
        own_profile().write_text(
            json.dumps({"providers": {provider.split(maxsplit=1)[0]: settings}})
        )
        assert run(["rehearse", "job.yaml", "--folder", str(out)]) == 0
    files = [path for path in (out / "outputs").rglob("*") if path.is_file()]
    return [path.read_text() for path in sorted(files, key=lambda path: path.name)]


def test_files_come_to_a_job_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen("local", tmp_path, monkeypatch) == ["{}\na\n", "555 1000000000\n"]


@pytest.mark.slow
@pytest.mark.parametrize("provider", CLOUDS)
def test_files_come_to_a_job_of_each_service(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under their new names; those of Batch AI are blobs, which have no modes and times."""
    need("azurite", *PROGRAMS)

    text, stat = seen(provider, tmp_path, monkeypatch)

    assert text == "{}\na\n"
    assert provider == "azure-batch-ai" or stat == "755 1000000000\n"


OTHERS: Mapping[str, Any] = {
    "apiVersion": "runspec/v1",
    "name": "others",
    "outputs": [{"name": "seen", "path": "/seen"}],
    "run": "cd ${mounts.set} && cat a deep/b ${mounts.one} >${outputs.seen}/seen",
}


def others(url: str, folder: Path, **more: Any) -> list[dict[str, Any]]:
    """Return mounts of a folder and of a file in the store of another owner, and make its files in *folder*."""
    for name in ("a", "deep/b"):
        path = folder / "others" / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    return [
        {"name": "set", "source": f"{url}/set", "target": "/job/set", **more},
        {"name": "one", "source": f"{url}/set/a", "target": "/job/one", "anonymous": True},
    ]


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["aws-batch", "azure-batch"])
def test_a_store_of_another_owner_is_read_on_a_cloud(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On AWS by the role of the job, in another region, and anonymously; in Azure anonymously."""
    need("azurite")
    monkeypatch.chdir(tmp_path)
    mounts = others("s3://others", tmp_path)
    if provider == "azure-batch":
        mounts = others("az://account/others", tmp_path, anonymous=True)
    Path("job.yaml").write_text(json.dumps({**OTHERS, "provider": provider, "mounts": mounts}))

    code = run(["rehearse", "job.yaml", "--folder", "kept", "--container", "others=others"])

    assert code == 0
    assert [p.read_text() for p in Path("kept/outputs").rglob("seen") if p.is_file()] == [
        "a\ndeep/b\na\n"
    ]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Make a bucket of another owner; return the variables of a job that reads it, with keys in a file."""
    objects = Objects(tmp_path / "objects")
    keys = "\n".join(["[default]", *(f"{name}={value}" for name, value in KEYS.items())])
    (tmp_path / "keys").write_text(keys)
    emulated = Emulation({**KEYS, "AWS_ENDPOINT_URL": objects.url}, {"region": "us-east-1"})
    others("", tmp_path)
    fill(emulated, "others", tmp_path / "others")
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    yield {
        "AWS_ENDPOINT_URL_S3": objects.url,
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "keys"),
    }
    objects.close()


@pytest.mark.parametrize("provider", ["local", pytest.param("slurm", marks=pytest.mark.slow)])
def test_a_bucket_of_another_owner_is_read_with_the_keys_of_the_job(
    provider: str, bucket: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mounts = others("s3://others", tmp_path)
    job = {**OTHERS, "provider": provider, "mounts": mounts, "env": bucket}
    Path("job.yaml").write_text(json.dumps(job))
    if provider == "local":
        assert run(["apply", "job.yaml"]) == 0
        assert run(["fetch", "others", "kept/outputs"]) == 0
    else:
        need(*PROGRAMS)
        own_profile().write_text("providers: {slurm: {}}")
        assert run(["rehearse", "job.yaml", "--folder", "kept"]) == 0

    assert [p.read_text() for p in Path("kept/outputs").rglob("seen") if p.is_file()] == [
        "a\ndeep/b\na\n"
    ]


def test_a_missing_bucket_is_named_on_this_machine(
    bucket: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    mounts = others("s3://nobodys", tmp_path)
    job = {**OTHERS, "provider": "local", "mounts": mounts, "env": bucket}
    Path("job.yaml").write_text(json.dumps(job))

    assert run(["apply", "job.yaml"]) != 0
    assert "s3://nobodys/set: there is no such bucket (404)" in capsys.readouterr().err


# Waits until the public bucket `others` has an object.
LOOK = """
import sys, time, urllib.request

url = f"{sys.argv[1]}/others?list-type=2&prefix={sys.argv[2]}"
for _ in range(300):
    if b"<Key>" in urllib.request.urlopen(url).read():
        sys.exit(0)
    time.sleep(0.1)
sys.exit(9)
"""


def written(url: str, address: str) -> dict[str, str]:
    """Return the objects of a bucket, by their keys."""
    client = boto3.client(
        "s3",
        "eu-central-1",
        endpoint_url=address,
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
    )
    name, _, prefix = url.removeprefix("s3://").partition("/")
    listed = client.list_objects_v2(Bucket=name, Prefix=prefix).get("Contents", [])
    keys = [entry["Key"] for entry in listed]
    return {
        key.removeprefix(prefix): client.get_object(Bucket=name, Key=key)["Body"].read().decode()
        for key in keys
    }


@pytest.mark.parametrize("provider", ["local", pytest.param("slurm", marks=pytest.mark.slow)])
def test_an_output_goes_to_a_bucket_of_another_owner_while_the_job_runs(
    provider: str, bucket: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task sees the first file of its own in the bucket before it ends."""
    monkeypatch.chdir(tmp_path)
    url = "s3://others/results/"
    look = f"{sys.executable} {tmp_path}/look.py {bucket['AWS_ENDPOINT_URL_S3']}"
    (tmp_path / "look.py").write_text(LOOK)
    job = {
        "apiVersion": "runspec/v1",
        "name": "target",
        "provider": provider,
        "env": bucket,
        "sweep": {"n": ["x", "y"]},
        "outputs": [{"name": "out", "path": "/out", "sync": "1s", "target": url}],
        "run": "mkdir ${outputs.out}/a\necho ${sweep.n} >${outputs.out}/a/first\n"
        f"{look} results/task-$RUNSPEC_TASK/a/first || exit 9\necho late >${{outputs.out}}/last",
    }
    Path("job.yaml").write_text(json.dumps(job))
    if provider == "local":
        assert run(["apply", "job.yaml"]) == 0
    else:
        need(*PROGRAMS)
        own_profile().write_text("providers: {slurm: {}}")
        assert run(["rehearse", "job.yaml", "--folder", "kept"]) == 0

    assert written(url, bucket["AWS_ENDPOINT_URL_S3"]) == {
        f"task-{task}/{name}": text
        for task, value in enumerate("xy")
        for name, text in (("a/first", f"{value}\n"), ("last", "late\n"))
    }


def test_an_output_that_the_bucket_refuses_fails_the_job(
    bucket: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The run has it all the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "home"))
    output = {"name": "out", "path": "/out", "target": "s3://nobodys/results"}
    job = {**OTHERS, "provider": "local", "env": bucket, "outputs": [output]}
    Path("job.yaml").write_text(json.dumps({**job, "run": "echo a >${outputs.out}/a"}))

    assert run(["apply", "job.yaml"]) != 0
    assert "output 'out' was not saved" in capsys.readouterr().err
    assert run(["fetch", "others", "kept"]) == 0
    assert [path.read_text() for path in Path("kept").rglob("a")] == ["a\n"]
    (log,) = (tmp_path / "home").rglob("supervisor.log")
    assert "s3://nobodys/results: there is no such bucket (404)" in log.read_text()


@pytest.mark.slow
def test_an_output_goes_to_a_bucket_of_another_owner_by_the_role_of_a_job_on_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    others("s3://others", tmp_path)
    look = f"{sys.executable} {tmp_path}/look.py $AWS_ENDPOINT_URL_S3 results/a"
    (tmp_path / "look.py").write_text(LOOK)
    output = {"name": "out", "path": "/out", "sync": "1s", "target": "s3://others/results"}
    job = {**OTHERS, "provider": "aws-batch", "outputs": [output]}
    script = f"echo a >${{outputs.out}}/a\n{look}"
    Path("job.yaml").write_text(json.dumps({**job, "run": script}))

    code = run(["rehearse", "job.yaml", "--folder", "kept", "--container", "others=others"])

    assert code == 0
