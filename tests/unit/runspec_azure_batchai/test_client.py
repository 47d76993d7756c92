"""The client against the stand-in: what others use stays, links are renewed, no line is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec.provider import Conflict, RemoteError, Request, Spec, State, Unavailable, UsageError
from runspec_azure.batchai import PROVIDER, quota, streams
from runspec_azure.batchai.naming import group
from runspec_rehearsal.azure.batchai import BatchAI
from tests.unit.runspec_azure_batchai import jobs


class Here:
    """A stand-in, and a client of it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.stand = BatchAI(folder, **settings)
        self.settings = {"arm_url": self.stand.url, "secrets": {"storage-key": "env:STORAGE_KEY"}}
        self.client: Any = PROVIDER.connect(jobs.facts(jobs.spec(), **self.settings))

    def make(self, spec: Spec) -> None:
        for step in jobs.planned(spec, **self.settings).steps:
            self.client.call(keyed(step.do))
            while not self.client.settled(step):
                time.sleep(0.01)

    def until(self, *states: State) -> Any:
        end = time.monotonic() + 20
        while (status := self.client.state("job-abc123")).state not in states:
            assert time.monotonic() < end, status
            time.sleep(0.02)
        return status


def keyed(request: Request) -> Request:
    """Put in what the core puts in."""
    from runspec.plan import fill

    known = {"$secret": {"env:STORAGE_KEY": "the-key"}}
    return request._replace(params=fill(request.params, known))


@pytest.fixture
def here(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Here]:
    found = Here(tmp_path, **getattr(request, "param", {}))
    for name, value in found.stand.env.items():
        monkeypatch.setenv(name, value)
    yield found
    found.stand.close()


@pytest.mark.parametrize(
    "url", [None, "https://management.azure.com", "https://management.azure.com:443/"]
)
def test_the_public_endpoint_is_said_to_be_gone_and_the_way_on_is_named(url: str | None) -> None:
    with pytest.raises(Unavailable) as told:
        PROVIDER.connect(jobs.facts(jobs.spec(), arm_url=url))

    assert "31 March 2019" in told.value.message and "azure-batch" in told.value.message


def test_no_token_goes_over_a_line_that_is_not_encrypted() -> None:
    with pytest.raises(UsageError, match="not encrypted"):
        PROVIDER.connect(jobs.facts(jobs.spec(), arm_url="http://batchai.example"))


def test_a_group_that_was_there_is_never_deleted(here: Here) -> None:
    options = here.client.options
    here.client.call(group("ResourceGroups_CreateOrUpdate", options, {"location": "eastus"}))

    here.client.call(group("ResourceGroups_Delete", options))

    path = group("ResourceGroups_Get", options).params["path"]
    assert here.client.arm.look("ResourceGroups", path) is not None


def test_what_holds_jobs_of_others_is_not_deleted(here: Here) -> None:
    spec = jobs.spec(run="sleep 600")
    here.make(spec)
    undo = {s.id: s.undo for s in jobs.planned(spec, **here.settings).steps}

    for kept in ("cluster", "experiment", "workspace", "group"):
        with pytest.raises(Conflict):
            here.client.call(undo[kept])

    for gone in ("job", "experiment", "cluster", "workspace", "group"):
        here.client.call(undo[gone])
    assert here.client.state("job-abc123").state is State.GONE


def test_a_stream_goes_on_when_its_link_has_ended(here: Here) -> None:
    here.stand.control("PUT", "settings", {"link_minute_s": 0.001})
    here.make(jobs.spec(run="echo one; sleep 0.3; printf 'two\\nlast without end'"))
    here.until(State.RUNNING, State.SUCCEEDED)

    stream: Any = None
    data = b""
    while b"without end" not in data:
        found = here.client.streams("job-abc123")
        stream = stream or (found[0] if found else None)
        here.stand.control("PUT", "settings", {"link_minute_s": 1.0})
        data += stream.read(str(len(data))).data if stream else b""
        if here.client.state("job-abc123").state.terminal and stream:
            data += stream.read(str(len(data))).data
            break

    assert data == b"one\ntwo\nlast without end"


def test_bytes_of_a_stream_are_given_as_they_are_and_equal_positions_give_equal_bytes(
    here: Here,
) -> None:
    here.make(jobs.spec(run="printf '\\346\\227\\245\\n'"))
    here.until(State.SUCCEEDED)
    (stream,) = here.client.streams("job-abc123")

    assert stream.read("1").data == b"\x97\xa5\n" == stream.read("1").data
    assert stream.read("4").data == b"" == stream.read("99").data


def test_a_link_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)

    with pytest.raises(Exception, match="cannot be read") as told:
        streams.part("http://127.0.0.1:9/x?sig=very-secret", 0, 10)

    assert "very-secret" not in f"{told.value!r} {told.value.__cause__!r}"


def test_what_is_printed_as_an_error_is_a_stream_of_its_own(here: Here) -> None:
    here.make(jobs.spec(run="echo out; echo err >&2"))
    here.until(State.SUCCEEDED)

    found = here.client.streams("job-abc123")

    assert [(s.rank, s.read(None).data) for s in found] == [(0, b"out\n"), (1000, b"err\n")]


@pytest.mark.parametrize("here", [{"quotas": {"Clusters": 0}}], indirect=True)
def test_a_quota_is_asked_before_a_cluster_is_made(here: Here) -> None:
    with pytest.raises(RemoteError, match="Clusters: 1 more are needed, and 0 of 0 are in use"):
        here.make(jobs.spec())

    calls = here.stand.control("GET", "calls")
    assert [c for c in calls if c["operation"] == "Clusters_Create"] == []


@pytest.mark.parametrize(
    "priority,name", [("lowpriority", "LowPriority"), ("dedicated", "Dedicated")]
)
def test_the_quota_of_the_kind_of_machine_counts(priority: str, name: str) -> None:
    scale = {"autoScale": {"minimumNodeCount": 0, "maximumNodeCount": 4}}
    body = {
        "properties": {"vmSize": "Standard_NC6", "vmPriority": priority, "scaleSettings": scale}
    }
    usage = f"Standard NC Family Cluster {name} vCPUs"

    quota.check(body, {usage: (6, 30)})
    with pytest.raises(RemoteError, match="24 more are needed, and 7 of 30"):
        quota.check(body, {usage: (7, 30)})


def test_a_job_that_waits_says_why(here: Here) -> None:
    here.stand.control("PUT", "settings", {"resize_s": 60.0})
    here.make(jobs.spec())

    status = here.client.state("job-abc123")

    assert status.state is State.WAITING and "the cluster has" in status.reason


def test_another_machine_finds_the_jobs_of_a_sweep(here: Here) -> None:
    here.make(jobs.spec(sweep={"n": ["0", "3"]}, command=["sh", "-c", "exit ${sweep.n}"]))

    status = here.until(State.SUCCEEDED, State.FAILED)

    assert [(node.task, node.exit_code) for node in status.nodes] == [(0, 0), (1, 3)]
    assert status.exit_code == 3
