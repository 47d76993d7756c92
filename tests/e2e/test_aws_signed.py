"""AWS Batch without a job role and without Python in the image: signed URLs and a shell, the whole life of a job."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_aws import timing
from runspec_emulators.aws.region import Objects, Region
from runspec_jobs.cli.app import run
from tests.e2e.test_podman import CONFIGURATION, STORAGE
from tests.support.aws import emulated_account
from tests.support.aws.emulated_account import (
    REGION,
    Capture,
    await_job,
    calls,
    ended,
    jobs,
    left,
    write,
)
from tests.support.profiles import own_profile
from tests.support.requirements import lack, need, need_root

pytestmark = pytest.mark.slow

IMAGE = "localhost/without-python:1"
APPLETS = "sh cat cp echo env ln mkdir rm sleep tar wc wget sort ls test".split()
OUTPUT = {"name": "model", "path": "/job/model"}


def stand(
    objects: Objects, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> Region:
    monkeypatch.setattr(timing, "DEFAULT", timing.Timing(settle_s=1.0, quiet_s=0.2))
    found = Region(folder / "region", REGION, objects, terminate_grace_s=3.0, **settings)
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    profile(folder)
    return found


def profile(folder: Path, **more: Any) -> None:
    emulated_account.profile(folder, **{"files": "signed", "job_role": None, **more})
    path = own_profile()
    found = json.loads(path.read_text())
    found["providers"]["aws-batch"].pop("job_role")
    path.write_text(json.dumps(found))


@pytest.fixture
def region(objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Region]:
    found = stand(objects, tmp_path, monkeypatch)
    yield found
    found.close()


def test_the_whole_life_of_a_job_and_no_url_is_kept(
    region: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Signatures are in the request and in the bucket, and nowhere on this machine."""
    home = tmp_path / "home"
    monkeypatch.setenv("RUNSPEC_HOME", str(home))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "Łódź.txt").write_text("here")
    job = write(
        'cat "${mounts.code}/Łódź.txt"; env; cp ${mounts.code}/* ${outputs.model}; mkdir ${outputs.model}/d\n'
        "echo deep > ${outputs.model}/d/e",
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[OUTPUT],
    )

    assert run(["plan", job, "--json"]) == 0
    said = capsys.readouterr().out
    assert run(["apply", job]) == 0
    assert run(["plan", job, "--json"]) == 0
    assert run(["logs", "job"]) == 0
    assert run(["status", "job", "--json"]) == 0
    assert run(["fetch", "job", "out"]) == 0
    told = capsys.readouterr()

    assert "here" in told.out
    assert (tmp_path / "out/model/Łódź.txt").read_text() == "here"
    assert (tmp_path / "out/model/d/e").read_text() == "deep\n"
    sent = json.dumps(calls(region, "SubmitJob"))
    signatures = re.findall(r"X-Amz-Signature=([0-9a-f]{64})", sent)
    assert len(signatures) == 1
    assert "X-Amz-" not in said + told.out + told.err
    kept = [p for p in home.rglob("*") if p.is_file()]
    assert kept
    assert not any(
        b"X-Amz-" in p.read_bytes() or signatures[0].encode() in p.read_bytes() for p in kept
    )
    assert "jobRoleArn" not in json.dumps(calls(region, "RegisterJobDefinition"))
    assert run(["destroy", "job"]) == 0
    assert run(["destroy", "--site"]) == 0
    assert left(region, tmp_path) == []


def test_the_exit_code_is_the_jobs_and_its_outputs_are_saved(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    found = ended(capsys, write("echo so > ${outputs.model}/a; exit 9", outputs=[OUTPUT]))

    assert (found["state"], found["exit_code"]) == ("failed", 9)
    assert run(["fetch", "job", "out"]) == 0
    assert (tmp_path / "out/model/a").read_text() == "so\n"


def test_a_failure_is_tried_again_and_finds_what_was_saved(region: Region, capsys: Capture) -> None:
    script = 'f=${outputs.model}/n; echo "found $(cat $f)"; echo $RUNSPEC_ATTEMPT > $f; exit 4'
    found = ended(capsys, write(script, outputs=[OUTPUT], retry={"attempts": 3}))

    assert (found["state"], found["exit_code"]) == ("failed", 4)
    assert [a["exitCode"] for a in jobs(region)[0]["attempts"]] == [4, 4, 4]
    capsys.readouterr()
    run(["logs", "job"])
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("found")]
    assert said == ["found ", "found 1", "found 2"]


def test_a_sweep_is_one_call_and_each_task_has_its_values_and_outputs(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    script = 'echo "${sweep.lr} ${sweep.seed}" > ${outputs.model}/a'
    sweep = {"lr": ["0.1", "two words"], "seed": "1..2"}

    assert run(["apply", write(script, sweep=sweep, outputs=[OUTPUT])]) == 0

    assert len(calls(region, "SubmitJob")) == 1
    assert run(["fetch", "job", "out"]) == 0
    found = sorted(p.read_text() for p in (tmp_path / "out").rglob("a"))
    assert found == ["0.1 1\n", "0.1 2\n", "two words 1\n", "two words 2\n"]


def test_cancel_ends_the_job_and_what_it_wrote_is_there(region: Region, tmp_path: Path) -> None:
    job = write("echo on > ${outputs.model}/a; sleep 60", outputs=[OUTPUT])
    assert run(["apply", job, "--detach"]) == 0
    await_job(region)
    end = time.monotonic() + 90
    while not list(tmp_path.glob("region/**/job/model/a")) and time.monotonic() < end:
        time.sleep(0.05)

    assert run(["cancel", "job"]) == 0

    assert [j["status"] for j in jobs(region)] == ["FAILED"]
    assert run(["fetch", "job", "out"]) == 0
    assert (tmp_path / "out/model/a").read_text() == "on\n"


def test_a_job_without_a_role_is_refused_with_both_ways_out(
    region: Region, tmp_path: Path, capsys: Capture
) -> None:
    profile(tmp_path, files="role")

    assert run(["apply", write("echo a")]) == 2

    told = capsys.readouterr().err
    assert "job_role" in told
    assert "files: signed" in told


# In an image without Python


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """Give the words for a podman with a storage of its own, and IMAGE in it: busybox, and curl apart."""
    need_root()
    need("podman", "busybox", "runc", "tar", "curl", "ldd")
    folder = tmp_path_factory.mktemp("podman")
    (folder / "containers.conf").write_text(CONFIGURATION)
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    env = {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }
    found = ("env", *(f"{k}={v}" for k, v in env.items()), "podman")
    for name, more in ((IMAGE, ()), (f"{IMAGE}-curl", ("curl",))):
        tree = folder / f"tree{len(more)}"
        filled(tree, more)
        tar = tree.with_suffix(".tar")
        subprocess.run(["tar", "-cf", tar, "-C", tree, "."], check=True)
        line = [*found, "import", "--quiet", "--change", "ENV PATH=/bin", str(tar), name]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            lack(f"a working podman import: {done.stderr[-500:]}")
    yield found
    subprocess.run([*found, "rm", "--all", "--force"], capture_output=True, check=False)
    subprocess.run([*found, "rmi", "--all", "--force"], capture_output=True, check=False)


def filled(tree: Path, more: tuple[str, ...]) -> None:
    """Make a root of busybox and *more* programs with their libraries. No /tmp, no python3."""
    (tree / "bin").mkdir(parents=True)
    shutil.copy(str(shutil.which("busybox")), tree / "bin" / "busybox")
    for name in APPLETS:
        (tree / "bin" / name).symlink_to("busybox")
    for name in more:
        program = str(shutil.which(name))
        shutil.copy(program, tree / "bin" / name)
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+) \(0x", said):
            (tree / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, tree / library[1:])


@pytest.fixture
def boxed(
    podman: tuple[str, ...], objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Region]:
    # A definition names an image of a registry; these are on this machine alone, so tests put them in.
    found = stand(
        objects,
        tmp_path,
        monkeypatch,
        engine="podman",
        podman=podman,
        machine_env={"PATH": "/bin", "RUNSPEC_BELOW": "/"},
    )
    yield found
    found.close()


@pytest.mark.podman
def test_an_image_with_busybox_and_curl_is_enough(
    boxed: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("runspec_aws.job.image", lambda *_: f"{IMAGE}-curl")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / ("n" * 120)).write_text("here\n")
    job = write(
        "cat /job/code/*; ls /bin/python3 || true; cp /job/code/* /job/model/; echo $RUNSPEC_MOUNT_CODE; exit 3",
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
        outputs=[OUTPUT],
        container={"image": "registry.example/any:1"},
    )

    found = ended(capsys, job)

    assert (found["state"], found["exit_code"]) == ("failed", 3)
    run(["logs", "job"])
    told = capsys.readouterr().out
    assert "here\n" in told
    assert "/bin/python3: No such file" in told
    assert "\n/job/code\n" in told
    assert run(["fetch", "job", "out"]) == 0
    assert (tmp_path / "out/model" / ("n" * 120)).read_text() == "here\n"


@pytest.mark.podman
def test_busybox_alone_says_what_it_cannot(
    boxed: Region, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("runspec_aws.job.image", lambda *_: IMAGE)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "x").write_text("here\n")
    mounts = [{"name": "code", "source": "./code", "target": "/job/code"}]

    without = ended(capsys, write("cat /job/code/x", mounts=mounts))
    run(["logs", "job"])
    said = capsys.readouterr().out
    found = ended(capsys, write("cat /job/code/x", mounts=mounts, outputs=[OUTPUT], name="more"))
    run(["logs", "more"])

    assert without["exit_code"] == 69
    assert "this wget cannot record how the job ends" in said and "here\n" not in said
    assert found["exit_code"] == 69
    assert "outputs need curl, python3 or GNU wget" in capsys.readouterr().out


@pytest.mark.parametrize("code", [75, pytest.param(143, marks=pytest.mark.matrix)])
def test_the_exit_code_of_a_program_on_spot_is_its_own(
    code: int, region: Region, capsys: Capture
) -> None:
    """No machine was reclaimed, so that no other attempt follows."""
    run(["apply", write(f"exit {code}", cluster={"capacity": "spot"})])
    capsys.readouterr()

    run(["status", "job", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["exit_code"]) == ("failed", code)
    assert len(found["nodes"][0]["attempts"]) == 1
