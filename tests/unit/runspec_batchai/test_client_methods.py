"""What each method of the client sends to Batch AI and to Blob storage, which a server of answers stands for."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from runspec_jobs.provider import File, Request, State
from tests.drawn.azure_arm import RUN, SINCE, Workspace
from tests.drawn.azure_table import operation_of
from tests.support.http_server import Server

pytestmark = pytest.mark.process


class OneFile:
    """A folder with one file."""

    digest = "sha256:1"
    files = (File("a.txt", 5, False, "unused"),)

    def open(self, file: File) -> BinaryIO:
        return io.BytesIO(b"hello")


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """A workspace with a job that runs."""
    monkeypatch.setenv("STORAGE_KEY", "c2VjcmV0IGtleQ==")
    with Server() as server:
        yield Workspace(server, "running")


def sent(workspace: Workspace) -> list[str]:
    """Return the operations that the service was asked for, in order."""
    return [name for asked in workspace.server.asked if (name := operation_of(asked))]


def test_call_makes_a_job_and_returns_its_name(workspace: Workspace) -> None:
    answer = workspace.client().call(workspace.steps["job"].do)

    assert answer["jobName"] == workspace.steps["job"].do.params["path"]["jobName"]
    assert sent(workspace) == ["Jobs_Create"]


def test_call_of_a_deletion_waits_until_the_job_is_gone_and_forgets_its_state(
    workspace: Workspace,
) -> None:
    client = workspace.client()
    undo = workspace.steps["job"].undo
    assert undo is not None
    run = undo.params["path"]["jobName"] if "path" in undo.params else RUN
    client.keep_state(run, b"{}")

    client.call(undo)

    assert sent(workspace).index("Jobs_Delete") < len(sent(workspace)) - 1
    assert client.kept_state(run) is None


def test_find_returns_a_cluster_that_exists(workspace: Workspace) -> None:
    name = workspace.steps["cluster"].do.params["path"]["clusterName"]

    found = workspace.client().find(workspace.steps["cluster"])

    assert found is not None
    assert found["clusterName"] == name


def test_a_cluster_that_is_being_made_has_not_settled(workspace: Workspace) -> None:
    made = workspace.truths()["Clusters_Get"]
    settled = workspace.client().settled(workspace.steps["cluster"])
    made["properties"]["provisioningState"] = "creating"
    workspace.cloud.says("Clusters_Get", made)

    assert settled is True
    assert workspace.client().settled(workspace.steps["cluster"]) is False


def test_stage_uploads_the_files_of_a_folder(workspace: Workspace) -> None:
    request = Request("blob", "upload_folder", {"path": {"prefix": "runspec/blobs/1/"}})

    answer = workspace.client().stage(request, OneFile(), lambda done, whole: None)

    assert answer == {"prefix": "runspec/blobs/1/"}
    assert "runspec/blobs/1/a.txt" in workspace.cloud.blobs


def test_the_jobs_of_a_sweep_are_remembered_by_their_names(workspace: Workspace) -> None:
    client = workspace.client()
    client.remember(RUN, {"job-0": {"jobName": f"{RUN}-00000"}})
    job = {**workspace.truths()["Jobs_Get"], "name": f"{RUN}-00000"}
    workspace.cloud.says("Jobs_ListByExperiment", {"value": [job]})

    client.state(RUN)

    assert sent(workspace)[0] == "Jobs_ListByExperiment"


def test_the_state_of_a_running_job_is_running(workspace: Workspace) -> None:
    assert workspace.client().state(RUN).state is State.RUNNING


def test_cancel_terminates_a_running_job(workspace: Workspace) -> None:
    workspace.client().cancel(RUN)

    assert sent(workspace)[-1] == "Jobs_Terminate"


def test_the_state_of_a_run_is_kept_and_read_and_its_run_listed(workspace: Workspace) -> None:
    workspace.client().keep_state(RUN, b"{}")

    assert workspace.client().kept_state(RUN) == b"{}"
    assert list(workspace.client().kept_runs()) == [RUN]


def test_find_orphans_names_a_job_of_a_run_without_a_record(workspace: Workspace) -> None:
    assert RUN in {orphan.run for orphan in workspace.client().find_orphans([], [])}


def test_places_name_the_container(workspace: Workspace) -> None:
    assert RUN in workspace.client().places(RUN).outputs


def test_files_of_an_output_directory_are_outputs(workspace: Workspace) -> None:
    job = workspace.truths()["Jobs_Get"]
    job["properties"]["outputDirectories"] = [{"id": "MODEL", "pathPrefix": "$AZ/x"}]
    workspace.cloud.says("Jobs_Get", job)
    file = {
        "name": "a.txt",
        "downloadUrl": f"{workspace.server.url}/acct/jobs/a.txt?sig=eyJ",
        "fileType": "file",
        "properties": {"contentLength": 3, "lastModified": SINCE},
    }
    workspace.cloud.says("Jobs_ListOutputFiles", {"value": [file]})

    outputs = workspace.client().outputs(RUN)

    assert [(one.output, one.path, one.bytes) for one in outputs] == [("model", "a.txt", 3)]
