"""Azure Batch and Batch AI, rehearsed with real containers: an image on one node, and on two that talk."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_batchai import emulator
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.batch_ai import BatchAI
from runspec_jobs.cli.app import run
from tests.e2e.test_podman import (
    CANNOT_START,
    IMAGE,
    broken_image,
    podman as podman,
    with_entrypoint,
)
from tests.support import ends, open_registry
from tests.support.azure import emulated_account
from tests.support.azure.emulated_account import CONTAINER, Capture
from tests.support.profiles import own_profile
from tests.support.requirements import need

pytestmark = [pytest.mark.slow, pytest.mark.podman]

PULLED = "registry.example/train:1"  # a name that a registry could have; podman has the image
SHOWS = """
import os, sys
out = os.environ["RUNSPEC_OUTPUT_OUT"]
print(os.path.exists("/run/.containerenv"), os.listdir(os.environ["RUNSPEC_MOUNT_CODE"]))
open(os.path.join(out, "x.txt"), "w").write("here")
"""
# Nodes that find each other: the first one listens, all others say who they are.
MEETS = """
import os, socket, time
e = os.environ
rank = e.get("AZ_BATCHAI_TASK_INDEX") or e["RUNSPEC_RANK"]
first = e.get("RUNSPEC_LEADER") or e["AZ_BATCHAI_PYTORCH_INIT_METHOD"].split("/")[2].split(":")[0]
in_a_container = os.path.exists("/run/.containerenv")
if rank == "0":
    server = socket.create_server((first, 7017))
    met = server.accept()[0].recv(99).decode()
    print("met", met, in_a_container, flush=True)
else:
    for _ in range(600):
        try:
            link = socket.create_connection((first, 7017))
            break
        except OSError:
            time.sleep(0.1)
    link.sendall(f"{rank} {in_a_container}".encode())
"""


@pytest.fixture
def blobs(
    podman: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Blobs]:
    need("azurite")
    for name, value in podman.items():
        monkeypatch.setenv(name, value)
    subprocess.run(["podman", "tag", IMAGE, PULLED], check=True, capture_output=True)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "shows.py").write_text(SHOWS)
    (tmp_path / "code" / "meets.py").write_text(MEETS)
    with Blobs(tmp_path / "blobs") as found:
        found.make_container(CONTAINER)
        yield found


@pytest.fixture
def batch(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureBatch]:
    yield from emulated_account.prepared(blobs, tmp_path, monkeypatch, engine="podman")


@pytest.fixture
def batch_ai(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchAI]:
    url = blobs.url.replace(blobs.account, "{account}")
    account = {blobs.account: blobs.key}
    with BatchAI(tmp_path / "cloud", engine="podman", blob_url=url, accounts=account) as found:
        for name, value in {**found.env, emulator.KEY: blobs.key}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        settings = {**emulator.SETTINGS, "container": CONTAINER}
        settings |= emulator.ways(found.url, blobs, settings)
        own_profile().write_text(json.dumps({"providers": {"azure-batch-ai": settings}}))
        yield found


def spec(provider: str, script: str, **fields: Any) -> str:
    found = {
        "apiVersion": "runspec/v1",
        "name": "job",
        "provider": provider,
        "container": {"image": PULLED},
        "mounts": [{"name": "code", "source": "./code", "target": "/job/code"}],
        "outputs": [{"name": "out", "path": "/job/out"}],
        "command": ["python3", "${mounts.code}/" + script],
        **fields,
    }
    Path("job.yaml").write_text(json.dumps(found))
    return "job.yaml"


def running() -> str:
    line = ["podman", "ps", "--all", "--quiet"]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("provider", ["azure-batch", "azure-batch-ai"])
def test_a_job_runs_in_its_image_and_its_output_comes_back(
    provider: str, request: pytest.FixtureRequest, tmp_path: Path, capsys: Capture
) -> None:
    request.getfixturevalue(provider.replace("azure-", "").replace("-", "_"))

    code = run(["apply", spec(provider, "shows.py")])

    told = capsys.readouterr()
    assert (code, told.out) == (0, "True ['meets.py', 'shows.py']\n"), told.err
    assert run(["fetch", "job", "got"]) == 0
    assert (tmp_path / "got" / "out" / "x.txt").read_text() == "here"
    assert running() == ""


def test_a_job_makes_its_folders_in_a_container_and_on_the_large_disk(
    batch: AzureBatch, tmp_path: Path, capsys: Capture
) -> None:
    """The image has no /job, and nobody but root may make it. And a value may have lines."""
    lines = 'echo "$LINES"; cp /job/code/shows.py /job/out/x; cd /job/out; pwd -P'
    more = {"command": ["sh", "-c", lines], "env": {"LINES": "two\nlines"}}

    assert run(["apply", spec("azure-batch", "", **more)]) == 0

    *said, where = capsys.readouterr().out.splitlines()
    assert said == ["two", "lines"]
    assert where.startswith(str(tmp_path / "account")) and where.endswith("/wd/job/out")
    assert run(["fetch", "job", "got"]) == 0
    assert (tmp_path / "got" / "out" / "x").read_text() == SHOWS


@pytest.mark.parametrize(
    "provider", ["azure-batch", pytest.param("azure-batch-ai", marks=pytest.mark.matrix)]
)
def test_two_nodes_in_containers_of_their_own_meet(
    provider: str, request: pytest.FixtureRequest, capsys: Capture
) -> None:
    """By the toolkit pytorch on Batch AI: of its kinds, it needs no MPI in the image."""
    request.getfixturevalue(provider.replace("azure-", "").replace("-", "_"))
    toolkit = {"toolkit": "pytorch", "toolkit_settings": {"communicationBackend": "TCP"}}
    more = {"cluster": {"nodes": 2}, "providers": {"azure-batch-ai": toolkit}}

    code = run(["apply", spec(provider, "meets.py", **more)])

    told = capsys.readouterr()
    assert code == 0, told.err + told.out
    assert "met 1 True True\n" in told.out
    assert running() == ""


@pytest.mark.parametrize("files", ["agent", "signed"])
def test_the_program_runs_whatever_the_entrypoint_of_its_image(
    files: str, batch: AzureBatch, capsys: Capture
) -> None:
    """Runspec replaces it."""
    image = with_entrypoint("registry.example/entry:1", ["/usr/bin/bash", "-c"])
    emulated_account.write(
        "echo the program runs; exit 3",
        container={"image": image},
        providers={"azure-batch": {"files": files}},
    )

    found = emulated_account.said(capsys, "apply", "job.yaml")

    assert (found["state"], found["exit_code"]) == ("failed", 3)
    run(["logs", "job"])
    assert "the program runs" in capsys.readouterr().out


@pytest.mark.parametrize("files", ["agent", pytest.param("signed", marks=pytest.mark.matrix)])
def test_the_entrypoint_of_an_image_is_read_from_its_registry(
    files: str,
    batch: AzureBatch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    """Its program, folder and words are those of the image, whose end is proven as that of any command."""
    need("docker-registry")
    (tmp_path / "registry").mkdir()
    serve = 'echo "in $PWD: $0 $*"\nexit 3'
    with open_registry.open_registry(tmp_path / "registry") as host:
        open_registry.write_login(host, tmp_path / "login.json")
        monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "login.json"))
        image = with_entrypoint(
            f"{host}/team/serve:1", ["sh", "-c", serve, "it's"], "WORKDIR /usr/lib"
        )
        push = ["podman", "push", "--quiet", "--tls-verify=false", image]
        subprocess.run(push, check=True, capture_output=True)
        content = {
            "apiVersion": "runspec/v1",
            "name": "job",
            "provider": "azure-batch",
            "container": {"image": image, "entrypoint": "image", "args": ["a  b", "$HOME"]},
            "providers": {"azure-batch": {"files": files}},
        }
        Path("job.yaml").write_text(json.dumps(content))

        found = emulated_account.said(capsys, "apply", "job.yaml")

    assert (found["state"], found["exit_code"]) == ("failed", 3)
    run(["logs", "job"])
    assert "in /usr/lib: it's a  b $HOME\n" in capsys.readouterr().out


@pytest.mark.matrix
@pytest.mark.parametrize("end", CANNOT_START)
def test_a_job_whose_image_cannot_start_ends_as_recorded(
    batch: AzureBatch, tmp_path: Path, capsys: Capture, end: str
) -> None:
    image = broken_image(end, "registry.example/broken:1", tmp_path)
    job = ends.spec("azure-batch", [end], timeout="10m", container={"image": image})
    Path("job.yaml").write_text(json.dumps(job))

    run(["apply", "job.yaml"])

    ends.check("azure-batch", ends.rows(emulated_account.said(capsys, "status", "job"), [end]))
