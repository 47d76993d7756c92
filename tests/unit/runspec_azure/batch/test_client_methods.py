"""What each method of the client sends to Azure Batch and to Blob storage, which a server of answers stands for."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import obstore
import pytest

from runspec_azure import store
from runspec_jobs.provider import Conflict, File, MembershipChange, Request, State
from runspec_jobs.provider.elastic_tasks import ELASTIC
from tests.drawn.azure_batch import RUN, TEXT, Account, task
from tests.drawn.azure_cloud import ranged
from tests.drawn.azure_table import operation_of
from tests.support.http_server import Server

pytestmark = pytest.mark.process
BASE = f"runspec/runs/{RUN}"


class OneFile:
    """A folder with one file."""

    digest = "sha256:1"
    files = (File("a.txt", 5, False, "unused"),)

    def open(self, file: File) -> BinaryIO:
        return io.BytesIO(b"hello")


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """An account with a run of two tasks, one of which runs."""
    monkeypatch.setenv("KEY", "c2VjcmV0IGtleQ==")
    with Server() as server:
        yield Account(server, "running")


def sent(account: Account) -> list[str]:
    """Return the operations that the service was asked for, in order."""
    return [name for asked in account.server.asked if (name := operation_of(asked))]


def test_the_poll_interval_is_that_of_the_timing(account: Account) -> None:
    assert account.client().poll_s == account.client().timing.poll_s


def test_call_adds_a_job(account: Account) -> None:
    assert account.client().call(account.steps["job"].do) == {"id": RUN}
    assert sent(account) == ["Job_Add"]


def test_call_of_a_deletion_waits_until_the_job_is_gone(account: Account) -> None:
    undo = account.steps["job"].undo
    assert undo is not None

    account.client().call(undo)

    assert sent(account) == ["Job_Delete", "Job_Get"]


def test_a_pool_with_another_job_is_not_deleted(account: Account) -> None:
    undo = account.steps["pool"].undo
    assert undo is not None

    with pytest.raises(Conflict, match="its job n-abc123 is active"):
        account.client().call(undo)

    assert "Pool_Delete" not in sent(account)


def test_a_pool_of_the_resource_manager_is_found_by_its_size(account: Account) -> None:
    name = account.steps["pool"].do.params["body"]["id"]
    account.cloud.says("Pool_Get", {"id": name, "state": "active", "vmSize": "standard_d2s_v3"})
    body = {"properties": {"vmSize": "Standard_D4s_v3"}, "identity": {"userAssignedIdentities": {}}}
    params = {"path": {"poolName": name}, "body": body}
    step = account.steps["pool"]._replace(do=Request("arm", "Pool_Create", params))

    with pytest.raises(Conflict, match="exists already with a different vmSize"):
        account.client().find(step)


def test_a_pool_accepts_jobs_at_once(account: Account) -> None:
    assert account.client().settled(account.steps["pool"])


def test_stage_uploads_a_folder(account: Account) -> None:
    request = Request("blob", "BlockBlob_Upload", {"path": {"blob": "runspec/blobs/1.tar"}})

    answer = account.client().stage(request, OneFile(), lambda done, whole: None)

    assert answer == {"blob": "runspec/blobs/1.tar"}
    assert "runspec/blobs/1.tar" in account.cloud.blobs


def test_cancel_terminates_the_job_and_claims_its_run(account: Account) -> None:
    account.client().cancel(RUN)

    assert "Job_Terminate" in sent(account)
    assert account.cloud.blobs[f"{BASE}/claim"] == b"cancelled"


def test_stop_terminates_the_tasks_that_are_named(account: Account) -> None:
    account.client().stop(RUN, [1])

    terminated = [a.path for a in account.server.asked if operation_of(a) == "Task_Terminate"]
    assert [path.split("/")[-2] for path in terminated] == ["task-00001"]


def test_changes_are_read_from_the_store(account: Account) -> None:
    record = json.loads(account.cloud.blobs[f"{BASE}/record.json"])
    elastic = {**record, "sweep": [], "elastic": {"min": 1, "max": 2}}
    account.cloud.blobs[f"{BASE}/record.json"] = json.dumps(elastic).encode()
    change = MembershipChange(0, 1, 5.0, 0, 2, "began", None, None)._asdict()
    account.cloud.blobs[f"{BASE}/elastic/0/changes/1"] = json.dumps(change).encode()

    assert [one.nodes for one in account.client().changes(RUN)] == [2]


def test_the_state_of_a_run_is_kept_and_read_and_its_run_listed(account: Account) -> None:
    account.client().keep_state(RUN, b"{}")

    assert account.client().kept_state(RUN) == b"{}"
    assert list(account.client().kept_runs()) == [RUN]


def test_find_orphans_names_the_job_of_a_run_without_a_record(account: Account) -> None:
    assert RUN in {orphan.run for orphan in account.client().find_orphans([], [])}


def test_the_log_of_a_task_is_read_with_its_times(account: Account) -> None:
    read = account.cloud.truth["File_GetFromTask"]
    index = f"{len(TEXT)} 1795400746.5\n".encode()
    account.cloud.truth["File_GetFromTask"] = lambda asked: (
        ranged(index, asked.headers.get("ocp-range"))._replace(status=200)
        if "time" in asked.path
        else read(asked)
    )
    client = account.client()
    stream = client.streams(RUN)[0]

    chunk = client.read_timed(stream, None)

    assert (chunk.chunk.data, chunk.times) == (TEXT, [(len(TEXT), 1795400746.5)])


def test_outputs_are_listed_and_published(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = f"{BASE}/outputs/o/0/0/.runspec"
    file = {"path": "a.txt", "size": 3, "mtime_ns": 5, "sha256": "", "object": "x-1"}
    save = {"number": 1, "at": 5, "files": [file]}
    manifest = {"format": "runspec.outputs/v2", "holder": "x", "saves": [save]}
    account.cloud.blobs[f"{base}/objects/x-1"] = b"abc"
    account.cloud.blobs[f"{base}/manifest.json"] = json.dumps(manifest).encode()

    blobs = account.cloud.blobs
    copy_blob = lambda _, copy, pause: blobs.update({copy.target: blobs[copy.source]})  # noqa: E731
    monkeypatch.setattr(store, "copy_blob", copy_blob)

    listed = account.client().outputs(RUN)
    account.client().publish(RUN)

    assert [(one.path, one.bytes) for one in listed] == [("a.txt", 3)]
    assert account.cloud.blobs[f"{BASE}/outputs/o/0/0/a.txt"] == b"abc"


def test_a_manifest_that_is_replaced_while_it_is_read_is_whole(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of obstore asks for the size first: it would return the beginning of the longer one."""
    key = f"{BASE}/outputs/o/0/0/.runspec/manifest.json"
    file = {"path": "a.txt", "size": 3, "mtime_ns": 5, "sha256": "", "object": "x-1"}
    saved = {"saves": [{"number": 1, "at": 5, "files": [file]}]}
    manifest = {"format": "runspec.outputs/v2", "holder": "x", "saves": []}
    account.cloud.blobs[key] = json.dumps(manifest).encode()
    real = obstore.open_reader

    def open_reader(container: Any, name: str) -> Any:
        found = real(container, name)
        account.cloud.blobs[key] = json.dumps({**manifest, **saved}).encode()
        return found

    monkeypatch.setattr(obstore, "open_reader", open_reader)

    assert account.client().outputs(RUN) == []


def test_places_name_the_folders_of_the_run(account: Account) -> None:
    places = account.client().places(RUN)

    assert places.logs.endswith(f"{BASE}/logs")
    assert places.outputs.endswith(f"{BASE}/outputs")


def test_usage_of_a_node_is_read_from_the_store(account: Account) -> None:
    account.cloud.blobs[f"{BASE}/usage/0/1/0"] = b"{}"

    assert account.client().usage(RUN, None).total == 1


def test_reconcile_ends_a_task_that_waits_while_its_elastic_job_is_over(
    account: Account,
) -> None:
    tasks = [task(0, "completed", result="success", exitCode=0), task(1, "active")]
    account.cloud.says("Task_List", {"value": tasks})
    record = json.loads(account.cloud.blobs[f"{BASE}/record.json"])
    record = {**record, "sweep": [], "nodes": 1, "count": 2, "elastic": {"min": 1, "max": 2}}
    done = {"format": ELASTIC, "phase": "done", "code": 0, "why": ""}
    account.cloud.blobs[f"{BASE}/record.json"] = json.dumps(record).encode()
    account.cloud.blobs[f"{BASE}/elastic/0/state"] = json.dumps(done).encode()

    said = account.client().reconcile(RUN)

    assert [line.partition(" that")[0] for line in said] == ["terminated 1 task"]


def test_the_state_of_a_running_job_is_running(account: Account) -> None:
    assert account.client().state(RUN).state is State.RUNNING


def test_a_released_node_is_noted_in_the_store(account: Account) -> None:
    record = json.loads(account.cloud.blobs[f"{BASE}/record.json"])
    elastic = {**record, "nodes": 2, "count": 2, "sweep": [], "elastic": {"min": 1, "max": 2}}
    account.cloud.blobs[f"{BASE}/record.json"] = json.dumps(elastic).encode()

    released = account.client().release(RUN, [(0, 0)], [], lambda _: ())

    assert set(released.away) == {(0, 0)}
    assert account.cloud.blobs[f"{BASE}/released/0"] == b""


def test_a_node_whose_task_was_deleted_and_not_added_again_is_away(account: Account) -> None:
    """A command was killed in between, maybe on another machine."""
    record = json.loads(account.cloud.blobs[f"{BASE}/record.json"])
    elastic = {**record, "nodes": 1, "count": 3, "sweep": [], "elastic": {"min": 1, "max": 3}}
    account.cloud.blobs[f"{BASE}/record.json"] = json.dumps(elastic).encode()
    account.cloud.blobs[f"{BASE}/returned/2"] = b""

    released = account.client().release(RUN, (), (), lambda _: ())

    assert set(released.away) == {(0, 2)}
