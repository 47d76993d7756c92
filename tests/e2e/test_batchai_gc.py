"""What nobody remembers at Batch AI and in its container; and what is not made, or taken away, by the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.batch_ai import BatchAI
from runspec_jobs.cli.app import run
from tests.support.azure.emulated_batch_ai import operations, subscription, write
from tests.support.profiles import own_profile
from tests.support.requirements import need

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]
FIELDS = {
    "mounts": [{"name": "code", "source": "./code", "target": "/job/code"}],
    "outputs": [{"name": "model", "path": "/job/model"}],
}


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blobs]:
    need("azurite")
    found = Blobs(tmp_path_factory.mktemp("blobs"), "acct")
    found.make_container("jobs")
    yield found
    found.close()


@pytest.fixture
def stand(blobs: Blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchAI]:
    """A subscription whose containers are Azurite's."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code/hello").write_text("hello")
    monkeypatch.setattr("tests.support.azure.emulated_batch_ai.KEY", blobs.key)
    where: dict[str, Any] = {"container": "jobs", "blob_url": blobs.url, "prefix": tmp_path.name}
    stands = {"blob_url": blobs.url.replace("acct", "{account}")}
    with subscription(tmp_path, monkeypatch, stands=stands, **where) as found:
        yield found


def collected(capsys: Capture, *words: str) -> list[str]:
    capsys.readouterr()
    assert run(["gc", "azure-batch-ai", *words]) == 0
    rows = capsys.readouterr().out.splitlines()
    return [" ".join(row.replace("/", " ").replace("-", " ").split()[:3]) for row in rows]


def test_gc_spares_runs_on_record_and_deletes_all_of_others(
    stand: BatchAI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    spec = write(run='cat "${mounts.code}/hello" > "${outputs.model}/x"', **FIELDS)
    assert run(["apply", spec]) == 0
    assert collected(capsys) == []
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))
    kinds = ["run job", "experiment runspec", "cluster runspec", f"upload {tmp_path.name[:4]}"]

    found, removed = collected(capsys), collected(capsys, "--yes")

    for rows, word in ((found, "found"), (removed, "removed")):
        assert [row.split()[0] for row in rows] == [word] * 4
        assert [row.split()[1] for row in rows] == [kind.split()[0] for kind in kinds]
    assert collected(capsys) == []
    assert stand.control("GET", "jobs") == []


def test_a_live_run_that_nobody_here_knows_is_spared_with_all_it_needs(
    stand: BatchAI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    assert run(["apply", write(run="sleep 600"), "--detach"]) == 0
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "another"))

    rows = collected(capsys, "--yes")

    assert [row.split()[0] for row in rows] == ["found"] * 3
    assert [job["state"] in ("queued", "running") for job in stand.control("GET", "jobs")] == [True]
    assert [row.split()[0] for row in collected(capsys, "--yes", "--alive")] == ["removed"] * 3
    assert stand.control("GET", "jobs") == []


def test_above_a_quota_nothing_is_made_and_the_line_of_the_spec_is_named(
    stand: BatchAI, capsys: Capture
) -> None:
    name = "Total Cluster Dedicated Regional vCPUs"
    stand.control("PUT", "settings", {"quotas": {name: 1}})
    spec = write(cluster={"cpus": 2}, run="true")

    code = run(["apply", spec])

    told = capsys.readouterr().err
    assert code == 2
    assert "job.yaml:1:" in told and f"{name}: 2 more are needed, and 0 of 1 are in use" in told
    assert [name for name in operations(stand) if "Create" in name] == []
    assert run(["list"]) == 0 and "job-" not in capsys.readouterr().out


def test_destroy_deletes_in_order_and_spares_what_existed_before(stand: BatchAI) -> None:
    assert run(["apply", write(run="true")]) == 0

    assert run(["destroy", "job"]) == 0
    stand.control("PUT", "settings", {"others": ["Microsoft.Storage/storageAccounts/mine"]})
    refused = run(["destroy", "--site"])
    stand.control("PUT", "settings", {"others": []})
    assert (refused, run(["destroy", "--site"])) == (4, 0)

    assert [name.partition("_")[0] for name in operations(stand) if "_Delete" in name] == [
        "Jobs",
        "Experiments",
        "Clusters",
        "Workspaces",
        "ResourceGroups",
    ]


def test_clusters_of_several_specs_all_go(stand: BatchAI) -> None:
    """The newest run names the workspace, and an older one the other cluster in it."""
    assert run(["apply", write(run="true")]) == 0
    assert run(["apply", write(name="large", cluster={"cpus": 4}, run="true")]) == 0
    assert run(["destroy", "job"]) == run(["destroy", "large"]) == 0

    assert run(["destroy", "--site"]) == 0

    assert stand.control("GET", "nodes") == []
    assert operations(stand).count("ResourceGroups_Delete") == 1


@pytest.mark.parametrize("url", ["https://management.azure.com", ""])
def test_the_public_endpoint_is_said_to_be_gone_in_one_sentence(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with subscription(tmp_path, monkeypatch) as stand:
        profile = own_profile()
        old = f'"arm_url": "{stand.url}", '
        assert old in profile.read_text()
        profile.write_text(profile.read_text().replace(old, f'"arm_url": "{url}", ' if url else ""))

        code = run(["apply", write(run="true")])

        told = capsys.readouterr().err
        (said,) = [row for row in told.splitlines() if "retired" in row]
        assert code == 69
        assert "retired on 31 March 2019" in said and "provider: azure-batch runs the same" in said
        assert ". " not in said, told
        assert operations(stand) == []
