"""The client against the stand-in: what others use stays, links are renewed, no line is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_batchai import PROVIDER, logs, resources, status, timing
from runspec_batchai.naming import batchai, group
from runspec_emulators.batch_ai import BatchAI
from runspec_jobs.provider import (
    Conflict,
    CredentialsError,
    NoAnswer,
    RemoteError,
    Request,
    Spec,
    State,
    Unavailable,
    UsageError,
)
from tests.support.azure import batch_ai_specs
from tests.support.wait import until

pytestmark = pytest.mark.slow  # each has a service of its own


class Here:
    """A stand-in, and a client of it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.stand = BatchAI(folder, **settings)
        self.settings = {"arm_url": self.stand.url, "secrets": {"storage-key": "env:STORAGE_KEY"}}
        self.client: Any = PROVIDER.connect(
            batch_ai_specs.facts(batch_ai_specs.spec(), **self.settings)
        )

    def without_container(self) -> Any:
        """Give a client that keeps no states of runs, and so needs no store to take one away."""
        return PROVIDER.connect(
            batch_ai_specs.facts(batch_ai_specs.spec(), **self.settings, container=None)
        )

    def make(self, spec: Spec) -> None:
        for step in batch_ai_specs.planned(spec, **self.settings).steps:
            self.client.call(keyed(step.do))
            while not self.client.settled(step):
                time.sleep(0.01)

    def until(self, *states: State) -> Any:
        end = time.monotonic() + 60
        while (status := self.client.state("job-abc123")).state not in states:
            assert time.monotonic() < end, status
            time.sleep(0.02)
        return status


def keyed(request: Request) -> Request:
    """Put in what the core puts in."""
    from runspec_jobs.plan.model import fill

    known = {"$secret": {"env:STORAGE_KEY": "the-key"}}
    return request._replace(params=fill(request.params, known))


@pytest.fixture
def here(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Here]:
    quick = timing.Timing(poll_s=0.02, fresh_s=0.02, first_pause_s=0.01)
    monkeypatch.setattr(timing, "DEFAULT", quick)
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
        PROVIDER.connect(batch_ai_specs.facts(batch_ai_specs.spec(), arm_url=url))

    assert "31 March 2019" in told.value.message and "azure-batch" in told.value.message


def test_no_token_goes_over_a_line_that_is_not_encrypted() -> None:
    with pytest.raises(UsageError, match="not encrypted"):
        PROVIDER.connect(
            batch_ai_specs.facts(batch_ai_specs.spec(), arm_url="http://batchai.example")
        )


def test_a_group_that_was_there_is_never_deleted(here: Here) -> None:
    options = here.client.options
    here.client.call(group("ResourceGroups_CreateOrUpdate", options, {"location": "eastus"}))

    here.client.call(group("ResourceGroups_Delete", options))

    path = group("ResourceGroups_Get", options).params["path"]
    assert here.client.arm.look("ResourceGroups", path) is not None


def test_resources_with_jobs_of_others_are_not_deleted(here: Here) -> None:
    spec = batch_ai_specs.spec(run="sleep 600")
    here.make(spec)
    undo = {s.id: s.undo for s in batch_ai_specs.planned(spec, **here.settings).steps}

    for kept in ("cluster", "experiment", "workspace", "group"):
        with pytest.raises(Conflict):
            here.client.call(undo[kept])

    for gone in ("job", "experiment", "cluster", "workspace", "group"):
        here.without_container().call(undo[gone])
    assert here.client.state("job-abc123").state is State.GONE


def test_undo_deletes_each_resource_by_a_request_of_its_own(here: Here) -> None:
    spec = batch_ai_specs.spec()
    here.make(spec)
    here.until(State.SUCCEEDED)
    undo = [s.undo for s in reversed(batch_ai_specs.planned(spec, **here.settings).steps) if s.undo]

    for request in undo:
        here.without_container().call(request)

    calls = [c["operation"] for c in here.stand.control("GET", "calls")]
    assert [name for name in calls if name.endswith("_Delete")] == [
        "Jobs_Delete",
        "Experiments_Delete",
        "Clusters_Delete",
        "Workspaces_Delete",
        "ResourceGroups_Delete",
    ]


def test_no_state_is_kept_where_only_the_service_can_read_the_key(here: Here) -> None:
    """No store answers here."""
    vault = "azure-kv:/subscriptions/s/resourceGroups/g/providers/Microsoft.KeyVault/vaults/v#https://v/k"
    settings = {**here.settings, "secrets": {"storage-key": vault}}
    client: Any = PROVIDER.connect(batch_ai_specs.facts(batch_ai_specs.spec(), **settings))

    client.keep_state("job-abc123", b"state")

    without = here.without_container()
    without.keep_state("job-abc123", b"state")
    assert (without.kept_state("job-abc123"), list(without.kept_runs())) == (None, [])


def test_a_workspace_that_was_there_is_never_deleted(here: Here) -> None:
    options = here.client.options
    here.client.call(group("ResourceGroups_CreateOrUpdate", options, {"location": "eastus"}))
    here.client.call(batchai("Workspaces_Create", options, body={"location": "eastus"}))

    here.client.call(batchai("Workspaces_Delete", options))

    path = batchai("Workspaces_Get", options).params["path"]
    assert here.client.arm.look("Workspaces", path) is not None


@pytest.mark.parametrize("kind", ["cluster", "file server"])
def test_a_workspace_that_holds_something_of_others_is_not_deleted(here: Here, kind: str) -> None:
    """Nobody's jobs are in it, and yet the service would take it all along."""
    options, arm = here.client.options, here.client.arm
    steps = {s.id: s for s in batch_ai_specs.planned(batch_ai_specs.spec(), **here.settings).steps}
    for name in ("group", "workspace"):
        here.client.call(steps[name].do)
    where = (options.resource_group, options.workspace, "theirs")
    user = {"adminUserName": "u", "adminUserPassword": "p"}
    if kind == "cluster":
        arm.maker.clusters.begin_create(
            *where, {"properties": {"vmSize": "STANDARD_D1_V2", "userAccountSettings": user}}
        ).result()
    else:
        disks = {"diskSizeInGB": 1, "diskCount": 1, "storageAccountType": "Standard_LRS"}
        body = {
            "vmSize": "STANDARD_D1_V2",
            "sshConfiguration": {"userAccountSettings": user},
            "dataDisks": disks,
        }
        arm.maker.file_servers.begin_create(*where, {"properties": body}).result()

    with pytest.raises(Conflict, match=f"this would also delete the {kind} theirs"):
        here.client.call(steps["workspace"].undo)


def test_a_group_of_ours_that_holds_something_of_others_is_not_deleted(here: Here) -> None:
    here.stand.control("PUT", "settings", {"others": ["Microsoft.Storage/storageAccounts/mine"]})
    (step,) = [
        s
        for s in batch_ai_specs.planned(batch_ai_specs.spec(), **here.settings).steps
        if s.id == "group"
    ]
    here.client.call(step.do)

    with pytest.raises(Conflict, match="storageAccounts mine"):
        here.client.call(step.undo)


def test_a_stream_goes_on_when_its_link_has_ended(here: Here) -> None:
    here.stand.control("PUT", "settings", {"link_minute_s": 0.001})
    here.make(batch_ai_specs.spec(run="echo one; sleep 0.3; printf 'two\\nlast without end'"))
    here.until(State.RUNNING, State.SUCCEEDED)

    (stream,) = until(lambda: here.client.streams("job-abc123"))
    data = until(lambda: stream.read(None).data)
    here.stand.control("PUT", "settings", {"link_minute_s": 1.0})
    here.until(State.SUCCEEDED)
    assert here.client.streams("job-abc123") == [stream]  # is told that it is over
    data += stream.read(str(len(data))).data

    assert data == b"one\ntwo\nlast without end"


def test_bytes_of_a_stream_are_given_as_they_are_and_equal_positions_give_equal_bytes(
    here: Here,
) -> None:
    here.make(batch_ai_specs.spec(run="printf '\\346\\227\\245\\n'"))
    here.until(State.SUCCEEDED)
    (stream,) = here.client.streams("job-abc123")

    assert stream.read("1").data == b"\x97\xa5\n" == stream.read("1").data
    assert stream.read("4").data == b"" == stream.read("99").data


def test_the_end_of_a_log_is_asked_for_though_it_was_asked_for_just_now(
    here: Here, tmp_path: Path
) -> None:
    """And though another job goes on: what is asked for is shared by those that go on."""
    script = f"echo on; until test -e {tmp_path}/go-$RUNSPEC_TASK; do sleep 0.02; done; echo off"
    here.make(batch_ai_specs.spec(sweep={"n": ["0", "1"]}, max_parallel=2, run=script))
    until(lambda: len(here.client.streams("job-abc123")) == 2)
    stream, _ = here.client.streams("job-abc123")
    until(lambda: stream.read(None).data)
    here.client.files.turns.pause_s = 1000.0
    before = at_its_end(here)
    asked = [stream.read("3").data for _ in range(3)]
    (tmp_path / "go-0").touch()
    until(lambda: here.client.state("job-abc123").nodes[0].state is State.SUCCEEDED)

    same, _ = here.client.streams("job-abc123")

    assert (asked, same.read("3").data) == ([b""] * 3, b"off\n")
    assert same is stream
    assert at_its_end(here) - before == 1


def at_its_end(here: Here) -> int:
    """Count the reads of logs that had nothing new."""
    return sum(call["outcome"] == "416" for call in here.stand.control("GET", "calls"))


def test_a_log_on_a_busy_share_comes_later(here: Here) -> None:
    """A read without an answer says that there is more to come; only many of them in a row are an error."""
    here.make(batch_ai_specs.spec(run="echo on"))
    here.until(State.SUCCEEDED)
    (stream,) = here.client.streams("job-abc123")
    here.stand.control("PUT", "settings", {"throttle_files": 0.5})

    found = [stream.read(None) for _ in range(40)]

    assert {(chunk.data, chunk.more) for chunk in found} == {(b"on\n", False), (b"", True)}


def test_a_log_on_a_share_that_stays_busy_is_an_error(here: Here) -> None:
    here.make(batch_ai_specs.spec(run="echo on"))
    here.until(State.SUCCEEDED)
    (stream,) = here.client.streams("job-abc123")
    here.stand.control("PUT", "settings", {"throttle_files": 1.0})

    found = [stream.read(None).more for _ in range(logs.ATTEMPTS - 1)]

    assert all(found)
    with pytest.raises(NoAnswer, match="503"):
        stream.read(None)


def test_an_output_on_a_busy_share_is_asked_for_again(here: Here) -> None:
    here.make(batch_ai_specs.spec(run="echo on"))
    here.until(State.SUCCEEDED)
    path = here.client.path_of("job-abc123")
    found = here.client.files.link(path, logs.STDOUTERR, "stdout.txt")
    assert found is not None
    here.stand.control("PUT", "settings", {"throttle_files": 0.5})

    data = [here.client.files.patient_part(found.url, 0, 10) for _ in range(20)]

    assert data == [b"on\n"] * 20
    assert "503" in [call["outcome"] for call in here.stand.control("GET", "calls")]


def test_a_link_is_in_no_error() -> None:
    with pytest.raises(Exception, match="cannot read a file of the job") as told:
        logs.part("http://127.0.0.1:9/x?sig=very-secret", 0, 10)

    assert "very-secret" not in f"{told.value!r} {told.value.__cause__!r}"


def test_standard_error_is_a_stream_of_its_own(here: Here) -> None:
    here.make(batch_ai_specs.spec(run="echo out; echo err >&2"))
    here.until(State.SUCCEEDED)

    found = here.client.streams("job-abc123")

    assert [(s.rank, s.read(None).data) for s in found] == [(0, b"out\n"), (1000, b"err\n")]


@pytest.mark.parametrize("here", [{"quotas": {"Clusters": 0}}], indirect=True)
def test_a_quota_is_asked_before_a_cluster_is_made(here: Here) -> None:
    with pytest.raises(RemoteError, match="Clusters: 1 more is needed, and 0 of 0 are in use"):
        here.make(batch_ai_specs.spec())

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

    resources.check_quota(body, {usage: (6, 30)})  # the name is one of the official example
    with pytest.raises(RemoteError, match="24 more are needed, and 7 of 30"):
        resources.check_quota(body, {usage: (7, 30)})


def test_a_job_that_waits_says_why(here: Here) -> None:
    here.stand.control("PUT", "settings", {"resize_s": 60.0})
    here.make(batch_ai_specs.spec())

    status = here.client.state("job-abc123")

    assert status.state is State.WAITING and "the cluster has" in status.reason


def cluster(current: int, state: str = "steady", **counts: int) -> Any:
    known = {f"{k}_node_count": counts.get(k, 0) for k in ("idle", "preparing")}
    return SimpleNamespace(
        errors=[],
        node_state_counts=SimpleNamespace(**known),
        current_node_count=current,
        allocation_state=state,
    )


@pytest.mark.parametrize(
    "found,words",
    [
        (cluster(1, preparing=1), "1 node is being prepared"),
        (cluster(3, preparing=2), "2 nodes are being prepared"),
        (cluster(1, "resizing"), "the cluster has 1 node, and is being resized"),
        (cluster(0, "resizing"), "the cluster has no nodes, and is being resized"),
        (cluster(0), "the cluster has no nodes yet"),
        (cluster(1), "the cluster has 1 node, which is in use"),
        (cluster(2), "the cluster has 2 nodes, all of them in use"),
        (cluster(2, idle=1), "the cluster has 2 nodes, 1 of them free: too few for this job"),
        (None, "its cluster has been deleted"),
    ],
)
def test_messages_count_nodes_in_singular_and_plural(found: Any, words: str) -> None:
    assert status.waits(found) == words


def test_another_machine_finds_the_jobs_of_a_sweep(here: Here) -> None:
    here.make(batch_ai_specs.spec(sweep={"n": ["0", "3"]}, command=["sh", "-c", "exit ${sweep.n}"]))

    status = here.until(State.SUCCEEDED, State.FAILED)

    assert [(node.task, node.exit_code) for node in status.nodes] == [(0, 0), (1, 3)]
    assert status.exit_code == 3


def asked_first(here: Here, spec: Spec) -> list[Any]:
    """Give what is said of *spec* when the service has been asked, as apply does."""
    facts = batch_ai_specs.facts(spec, **here.settings)
    found = facts._replace(survey=PROVIDER.survey(spec, facts.options))
    return [p for p in PROVIDER.check(spec, found) if p.severity == "error"]


@pytest.mark.parametrize("priority", ["Dedicated", "LowPriority"])
def test_above_a_quota_nothing_at_all_is_made(here: Here, priority: str) -> None:
    name = f"Total Cluster {priority} Regional vCPUs"
    here.stand.control("PUT", "settings", {"quotas": {name: 11}})
    capacity = "on-demand" if priority == "Dedicated" else "spot"
    spec = batch_ai_specs.spec(cluster={"nodes": 2, "gpus": 1, "capacity": capacity}, launch="mpi")

    (problem,) = [p for p in asked_first(here, spec) if "Regional" in p.what]

    assert problem.what == f"{name}: 12 more are needed, and 0 of 11 are in use"
    assert problem.hint and problem.path == ("cluster", "nodes")
    calls = [c["operation"] for c in here.stand.control("GET", "calls")]
    assert set(calls) == {"Clusters_Get", "Usages_List"}


def test_a_cluster_that_is_there_needs_nothing_more_of_a_quota(here: Here) -> None:
    here.make(batch_ai_specs.spec())
    whole = "Total Cluster Dedicated Regional vCPUs"
    here.stand.control("PUT", "settings", {"quotas": {"Clusters": 1, whole: 600}})

    assert asked_first(here, batch_ai_specs.spec(name="other")) == []
    assert [p.what for p in asked_first(here, batch_ai_specs.spec(cluster={"cpus": 4}))] == [
        "Clusters: 1 more is needed, and 1 of 1 are in use"
    ]


def test_quotas_are_left_out_where_nobody_can_be_asked(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in here.stand.env:
        monkeypatch.delenv(name)
    spec = batch_ai_specs.spec()

    assert PROVIDER.survey(spec, batch_ai_specs.facts(spec, **here.settings).options) == {}
    assert PROVIDER.survey(spec, batch_ai_specs.facts(spec).options) == {}


def test_a_refused_login_has_a_hint_of_this_provider(here: Here) -> None:
    here.stand.control("PUT", "faults", [{"kind": "expired", "times": 1, "operation": "Jobs_Get"}])

    with pytest.raises(CredentialsError) as told:
        here.client.state("job-abc123")

    assert told.value.hint == "log in again (az login); then repeat the command, which continues"


def test_a_key_of_storage_that_is_not_there_is_told_by_its_name_in_the_profile(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STORAGE_KEY", raising=False)

    with pytest.raises(CredentialsError) as told:
        here.client.store.has("runspec/files/x/")

    assert (
        told.value.hint == "check that secrets: {storage-key: env:STORAGE_KEY} is the key of acct"
    )


def test_a_job_whose_node_was_taken_away_is_said_to_be_queued_again(here: Here) -> None:
    here.make(batch_ai_specs.spec(run="sleep 600", cluster={"capacity": "spot"}))
    here.until(State.RUNNING)
    here.stand.control("PUT", "settings", {"resize_s": 60.0})

    here.stand.control("POST", "preempt", {"job": "job-abc123"})
    status = here.until(State.WAITING)

    words = "a node was reclaimed, and Batch AI has queued the job again"
    assert status.reason.startswith(f"{words}; ")  # then where the cluster is, which changes
    assert [node.reason for node in status.nodes] == [words]


def test_another_process_sees_by_the_times_of_a_job_that_it_was_queued_again() -> None:
    def job(state: str, queued_s: int) -> Any:
        made = datetime(2019, 1, 1, tzinfo=UTC)
        since = made + timedelta(seconds=queued_s)
        return SimpleNamespace(
            creation_time=made, execution_state=state, execution_state_transition_time=since
        )

    assert status.requeued(job("queued", 3600))
    assert not status.requeued(job("queued", 5))
    assert not status.requeued(job("running", 3600))


@pytest.mark.parametrize("half", ["2", "x y", "1 2 3", ""])
def test_a_row_that_is_no_try_is_left_out(here: Here, half: str) -> None:
    """The file may be seen while its shell writes it, and what a job prints there is the job's own."""
    text = f'printf "%s\\n" "{half}" >> "$AZ_BATCHAI_STDOUTERR_DIR/runspec-tries"; exit 3'
    here.make(batch_ai_specs.spec(run=text, retry={"attempts": 2}))

    status = here.until(State.FAILED, State.SUCCEEDED)

    assert [(past.number, past.exit_code) for past in status.nodes[0].attempts] == [(1, 3), (2, 3)]
    assert status.nodes[0].exit_code == 3


def test_a_code_that_is_half_written_is_none_yet(here: Here) -> None:
    text = 'printf "1 1" > "$AZ_BATCHAI_STDOUTERR_DIR/runspec-tries"; sleep 300'
    here.make(batch_ai_specs.spec(run=text))
    path = here.client.path_of("job-abc123")
    until(lambda: here.client.files.link(path, "stdouterr", "runspec-tries"))

    assert logs.ends(here.client.files, path) == {}
