"""What each method of the client does to an account: moto stands for AWS, in this process."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import pytest

from runspec_aws import client
from runspec_jobs.engine.apply import fill_request
from runspec_jobs.provider import File, MembershipChange, Request, State
from tests.support.aws.moto_account import QUEUE, MotoAccount, moto_account
from tests.support.aws.specs import spec

RUN = "n-abc123"
OUTPUT = {"name": "o", "path": "/job/o"}
ELASTIC: dict[str, object] = {}
USAGE: dict[str, object] = {}


class OneFile:
    """A folder with one file."""

    digest = "sha256:1"
    files = (File("a.txt", 5, False, "unused"),)

    def open(self, file: File) -> BinaryIO:
        return io.BytesIO(b"hello")


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[MotoAccount]:
    with moto_account(monkeypatch) as found:
        yield found


def test_the_poll_interval_is_that_of_the_timing(account: MotoAccount) -> None:
    assert account.client.poll_s == account.client.timing.poll_s


def test_call_sends_a_request_and_returns_what_it_names(account: MotoAccount) -> None:
    answers = account.submit(spec(), RUN)

    assert account.jobs[answers["job"]["jobId"]].job_name == RUN
    assert answers["record"] == {"Key": f"runspec/runs/{RUN}/record.json"}


def test_listen_sets_who_hears_what_a_build_says(
    account: MotoAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def build(_: object, asked: Any, __: object, tell: Any, ___: object) -> dict[str, str]:
        tell("STEP 1/2: FROM scratch")
        return {"image": f"{asked['image']}@sha256:1"}

    monkeypatch.setattr(client, "build_and_push", build)
    wanted = {"image": "registry.example.org/a", "file": None, "platform": "linux/amd64"}
    account.client.listen(said.append)

    found = account.client.stage(
        Request("registry", "build_image", wanted), OneFile(), lambda *_: None
    )

    assert said == ["STEP 1/2: FROM scratch"]
    assert found == {"image": "registry.example.org/a@sha256:1"}


def test_find_returns_a_submitted_job_and_nothing_before(account: MotoAccount) -> None:
    step = account.plan(spec(), RUN)["job"]
    before = account.client.find(step)
    answer = account.submit(spec(), RUN)["job"]

    assert before is None
    assert account.other_client().find(step) == answer


def test_a_queue_that_exists_has_settled(account: MotoAccount) -> None:
    made = Request("batch", "create_job_queue", {"jobQueueName": QUEUE})
    step = account.plan(spec(), RUN)["job"]._replace(do=made)

    assert account.client.settled(step)


def test_stage_uploads_a_folder(account: MotoAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request("s3", "put_object", {"Key": "runspec/blobs/1.tar"})
    uploaded = []
    # moto cannot take a body that is read in pieces when it runs in this process.
    put = lambda key, bundle, progress: uploaded.append((key, bundle.digest))  # noqa: E731
    monkeypatch.setattr(account.client.files, "put_folder", put)

    answer = account.client.stage(request, OneFile(), lambda done, whole: None)

    assert answer == {"Key": "runspec/blobs/1.tar"}
    assert uploaded == [("runspec/blobs/1.tar", "sha256:1")]


def test_a_running_job_is_told_as_running(account: MotoAccount) -> None:
    account.submit(spec(), RUN)

    assert account.client.state(RUN).state is State.RUNNING


def test_cancel_terminates_a_running_job_and_claims_its_run(account: MotoAccount) -> None:
    job = account.submit(spec(), RUN)["job"]["jobId"]

    account.client.cancel(RUN)

    assert account.ended() == [job]
    assert account.client.files.read("runs", RUN, "claim") == b"cancelled"


def test_cancel_terminates_an_array_that_waits(account: MotoAccount) -> None:
    job = account.submit(spec(sweep={"a": "1..3"}), RUN, "RUNNABLE")["job"]["jobId"]

    account.other_client().cancel(RUN)

    assert job in account.ended()


def test_stop_terminates_the_tasks_that_are_named(account: MotoAccount) -> None:
    job = account.submit(spec(sweep={"a": "1..3"}), RUN)["job"]["jobId"]

    account.client.stop(RUN, [1])

    assert account.ended() == [f"{job}:1"]
    assert account.client.files.read("runs", RUN, "stop", "1") == b""


def test_reconcile_ends_a_second_job_of_a_run(account: MotoAccount) -> None:
    first = account.submit(spec(), RUN)["job"]["jobId"]
    second = account.submit(spec(), RUN)["job"]["jobId"]
    account.client.files.put_new(first.encode(), "runs", RUN, "claim")

    said = account.other_client().reconcile(RUN)

    assert said == ["terminated 1 job of the same run"]
    assert account.ended() == [second]


def test_a_job_that_is_remembered_is_not_looked_for(account: MotoAccount) -> None:
    account.submit(spec(), RUN)
    second = account.submit(spec(), RUN)["job"]

    client = account.other_client()
    client.remember(RUN, {"job": second})

    assert client.jobs.job(RUN)["jobId"] == second["jobId"]  # type: ignore[index]


def test_changes_are_read_from_the_store(account: MotoAccount) -> None:
    account.submit(spec(cluster={"nodes": {"min": 1, "max": 2}}, **ELASTIC), RUN)
    change = MembershipChange(0, 1, 5.0, 0, 2, "began", None, None)._asdict()
    account.put_object(f"runspec/runs/{RUN}/elastic/0/changes/1", json.dumps(change).encode())

    assert [change.nodes for change in account.client.changes(RUN)] == [2]


def test_the_state_of_a_run_is_kept_and_read_and_its_run_listed(account: MotoAccount) -> None:
    account.client.keep_state(RUN, b"{}")

    assert account.client.kept_state(RUN) == b"{}"
    assert list(account.client.kept_runs()) == [RUN]


def test_find_orphans_names_a_job_of_no_run(account: MotoAccount) -> None:
    account.submit(spec(), RUN)

    orphans = {orphan.run for orphan in account.client.find_orphans([], [])}

    assert RUN in orphans
    assert RUN not in {orphan.run for orphan in account.client.find_orphans([RUN], [])}


def test_a_line_in_cloudwatch_is_in_the_stream_of_its_job(account: MotoAccount) -> None:
    job = account.submit(spec(), RUN)["job"]["jobId"]
    stream = str(account.jobs[job].log_stream_name)
    account.print_line(account.options.log_group, stream, "hello")

    streams = account.client.streams(RUN)
    chunk = account.client.read_timed(streams[0], None)

    assert chunk.chunk.data == b"hello\n"
    assert len(chunk.times) == 1


def test_outputs_of_a_run_are_listed_with_their_sizes(account: MotoAccount) -> None:
    account.submit(spec(outputs=[OUTPUT]), RUN)
    account.save_output(RUN, "o", "a.txt", b"abc")

    found = account.client.outputs(RUN)

    assert [(one.output, one.path, one.bytes) for one in found] == [("o", "a.txt", 3)]


def test_publish_gives_saved_files_their_plain_names(account: MotoAccount) -> None:
    account.submit(spec(outputs=[OUTPUT]), RUN)
    account.save_output(RUN, "o", "a.txt", b"abc")

    account.client.publish(RUN)

    assert account.client.files.read("runs", RUN, "outputs", "o", "0", "0", "a.txt") == b"abc"


def test_places_name_the_log_group_and_the_bucket(account: MotoAccount) -> None:
    places = account.client.places(RUN)

    assert places.logs.endswith(account.options.log_group)
    assert places.outputs == f"s3://jobs/runspec/runs/{RUN}/outputs"


def test_usage_of_a_node_is_read_from_the_store(account: MotoAccount) -> None:
    account.put_object(f"runspec/runs/{RUN}/usage/0/1/0", json.dumps(USAGE).encode())

    assert account.client.usage(RUN, None).total == 1


def test_undo_of_a_definition_deregisters_it(account: MotoAccount) -> None:
    answers = account.submit(spec(), RUN)
    undo = account.plan(spec(), RUN)["definition"].undo
    assert undo is not None

    account.client.call(fill_request(undo, answers))

    name = answers["definition"]["jobDefinitionName"]
    found = account.batch.describe_job_definitions(jobDefinitionName=name, status="ACTIVE")
    assert found["jobDefinitions"] == []


def test_a_task_that_found_the_request_to_stop_before_its_end_is_cancelled(
    account: MotoAccount,
) -> None:
    """Its agent left with 143, so that the service knows no reason: the run has not failed by it."""
    job = account.submit(spec(sweep={"a": "1..2"}), RUN)["job"]["jobId"]
    account.client.stop(RUN, [1])
    for name in (job, f"{job}:0", f"{job}:1"):
        account.jobs[name].status = "FAILED" if name != f"{job}:0" else "SUCCEEDED"
        code = 143 if name == f"{job}:1" else 0
        ended = {"container": {"exitCode": code}, "startedAt": 1000, "stoppedAt": 5000}
        account.jobs[name].attempts = [ended]
        account.jobs[name].job_stopped_reason = None
    account.put_object(f"runspec/runs/{RUN}/ends/0/1/0-0-program", b"{}")

    status = account.other_client().state(RUN)

    assert [node.state for node in status.nodes] == [State.SUCCEEDED, State.CANCELLED]
    assert status.state is State.SUCCEEDED


def test_a_released_node_is_noted_in_the_store(account: MotoAccount) -> None:
    account.submit(spec(cluster={"nodes": {"min": 1, "max": 2}}, **ELASTIC), RUN)

    released = account.client.release(RUN, [(0, 1)], [], lambda _: ())

    assert set(released.away) == {(0, 1)}
    assert account.client.files.read("runs", RUN, "released", "1") == b""
