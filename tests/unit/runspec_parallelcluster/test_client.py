"""The cluster is asked for by `pcluster`, and all that is of jobs goes to the Slurm of its head node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runspec_jobs.provider import (
    MembershipChange,
    NoAnswer,
    Released,
    RemoteError,
    Request,
    Scope,
    State,
    Status,
    Step,
    Unavailable,
)
from runspec_jobs.provider.streams.log_streams import Chunk, TimedChunk
from runspec_parallelcluster import PROVIDER
from runspec_parallelcluster.client import ParallelClusterClient
from runspec_parallelcluster.job import access
from runspec_parallelcluster.lookup import Clusters
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_slurm.logs import LogStream
from runspec_slurm.timing import Clock
from tests.support.slurm.parallelcluster_specs import (
    RUN,
    Pcluster,
    facts,
    options,
    spec,
    up,
)

SHARED = {"workspace": {"mount": "/workspace", "data": "s3://bucket/prefix"}}
CHANGE = MembershipChange(0, 2, 5.0, 1, 2, "", 1.5, 0)
PUT = Request("folder", "put", {"key": "inside/x.pyz", "content": "x"})


class Done(NamedTuple):
    code: int
    out: bytes
    err: str


class Slurm:
    """A client of Slurm that notes what it was asked; it answers at one address."""

    def __init__(self, reached: Any, world: World) -> None:
        self.reached, self.world, self.way = reached, world, self
        world.reached.append(reached)

    def _up(self) -> None:
        if self.reached.host.rpartition("@")[2] != self.world.address:
            raise Unavailable(f"{self.reached.host} does not answer")

    def call(self, request: Request) -> dict[str, Any]:
        self._up()
        self.world.calls.append(request.operation)
        return {"key": "there"}

    def find(self, step: Step) -> None:
        self._up()

    def state(self, run: str) -> Status:
        self._up()
        return Status(State.RUNNING)

    def cancel(self, run: str) -> None:
        self._up()
        self.world.calls.append("cancel")

    def changes(self, run: str) -> list[MembershipChange]:
        self._up()
        return [CHANGE]

    def release(self, run: str, away: Any, back: Any, submits: Any) -> Released:
        self._up()
        return Released(away, back)

    def shell(self, run: str, task: int, rank: int, words: Any, *, terminal: bool) -> str:
        self._up()
        return f"shell of {run}"

    def tunnel(self, run: str, task: int, rank: int, port: int) -> str:
        self._up()
        return f"way to {port}"

    def remember(self, run: str, answers: Any) -> None:
        self.world.remembered.append(run)

    def kept_runs(self) -> list[str]:
        self._up()
        return [RUN]

    def kept_state(self, run: str) -> bytes:
        self._up()
        return run.encode()

    def find_orphans(self, runs: Any, made: Any) -> tuple[()]:
        self._up()
        return ()

    def run(self, script: str, args: Sequence[str], timeout_s: float) -> Done:
        self.world.calls.append(f"archive {args[0]}")
        return Done(0, b"0\n", "")


class World:
    def __init__(self) -> None:
        self.address, self.pcluster = "192.0.2.7", Pcluster()
        self.reached: list[Any] = []
        self.calls: list[str] = []
        self.remembered: list[str] = []

    def client(self, **settings: Any) -> ParallelClusterClient:
        made = Clusters(self.pcluster, lambda line: None, clock=Clock(sleep=lambda seconds: None))
        reach: Any = lambda reached: Slurm(reached, self)  # noqa: E731
        return ParallelClusterClient(options(**settings), made, reach)


@pytest.fixture
def world() -> World:
    return World()


def steps(**settings: Any) -> dict[str, Step]:
    of = spec()
    return {step.id: step for step in PROVIDER.plan(of, RUN, facts(of, **settings))}


def test_a_cluster_is_made_and_its_head_node_reached(world: World) -> None:
    client, plan = world.client(cluster="training", os="ubuntu2204"), steps(cluster="training")

    client.call(plan["cluster"].do)
    assert client.call(plan["head"].do) == {"cluster": "training", "host": "192.0.2.7"}
    client.call(PUT)

    assert world.reached[0].host == "ubuntu@192.0.2.7"
    assert world.calls == ["put"]


def test_a_head_node_that_was_described_anew_is_reached_at_its_address(world: World) -> None:
    """At once, and by one connection as long as it is the same: each login costs seconds."""
    client, plan = world.client(cluster="training"), steps(cluster="training")
    client.remember(RUN, {"head": {"cluster": "training", "host": "192.0.2.99"}})
    world.pcluster.there["training"] = up()

    for _ in range(2):
        client.call(plan["head"].do)
        client.call(PUT)

    assert [reached.host.rpartition("@")[2] for reached in world.reached] == ["192.0.2.7"]
    assert world.calls == ["put", "put"]


def test_a_run_on_record_needs_no_pcluster(world: World) -> None:
    client = world.client()
    client.remember(RUN, {"head": {"cluster": "runspec-0123", "host": "192.0.2.7"}})

    assert client.state(RUN).state is State.RUNNING

    assert world.pcluster.calls == []
    assert world.remembered == [RUN]


def test_runs_to_adopt_are_on_the_cluster_that_the_profile_names(world: World) -> None:
    world.pcluster.there["training"] = up()
    client = world.client(cluster="training")

    assert (list(client.kept_runs()), client.kept_state(RUN)) == ([RUN], RUN.encode())


def test_runs_to_adopt_cannot_be_looked_for_where_the_profile_names_no_cluster(
    world: World,
) -> None:
    client = world.client()

    assert client.kept_state(RUN) is None
    with pytest.raises(Unavailable, match="does not name the cluster"):
        client.kept_runs()


def test_a_head_node_that_has_another_address_is_asked_for(world: World) -> None:
    client = world.client()
    client.remember(RUN, {"head": {"cluster": "runspec-0123", "host": "192.0.2.99"}})
    world.pcluster.there["runspec-0123"] = up()

    assert client.state(RUN).state is State.RUNNING


def test_a_head_node_that_does_not_answer_at_its_address_is_not_there_now(world: World) -> None:
    client = world.client()
    client.remember(RUN, {"head": {"cluster": "runspec-0123", "host": "192.0.2.7"}})
    world.pcluster.there["runspec-0123"] = up()
    world.address = "nowhere"

    with pytest.raises(Unavailable):
        client.state(RUN)


def test_a_deleted_cluster_has_no_jobs_and_needs_no_requests(world: World) -> None:
    client = world.client()
    client.remember(RUN, {"head": {"cluster": "runspec-0123", "host": "192.0.2.7"}})
    world.address = "nowhere"

    assert client.state(RUN).state is State.GONE
    client.cancel(RUN)
    for operation in ("remove", "remove_run", "scancel"):
        assert client.call(Request("folder", operation, {"key": "x"})) == {}
    assert client.find(Step("inside", "", Scope.SITE, PUT)) is None
    assert list(client.find_orphans((), ())) == []
    assert (list(client.kept_runs()), client.kept_state(RUN)) == ([], None)
    assert client.changes(RUN) == ()
    with pytest.raises(RemoteError, match="there is no cluster"):
        client.call(PUT)


def test_a_step_says_which_cluster_it_is_of(world: World) -> None:
    """So a client that made nothing and remembers nothing finds its way."""
    client, step = world.client(), steps()["inside"]
    world.pcluster.there[str(step.do.params["clusterName"])] = up()

    assert client.find(step) is None
    client.call(step.do)

    assert world.calls == ["put"]


def test_a_shell_and_a_tunnel_go_through_the_head_node(world: World) -> None:
    client: Any = world.client(cluster="training")
    with pytest.raises(Unavailable, match="there is no cluster"):
        client.shell(RUN, 0, 0, (), terminal=True)
    world.pcluster.there["training"] = up()

    assert client.shell(RUN, 0, 0, (), terminal=True) == f"shell of {RUN}"
    assert client.tunnel(RUN, 0, 0, 8888) == "way to 8888"


def test_changes_of_nodes_are_those_that_the_head_node_knows(world: World) -> None:
    client = world.client(host="192.0.2.7")

    assert client.changes(RUN) == [CHANGE]


def test_the_head_node_releases_nodes(world: World) -> None:
    client = world.client(host="192.0.2.7")

    assert client.release(RUN, [(0, 1)], [(0, 2)], lambda _: ()) == Released([(0, 1)], [(0, 2)])


def test_a_run_that_never_had_a_cluster_is_gone(world: World) -> None:
    assert world.client().state(RUN).state is State.GONE


def test_where_nobody_can_be_asked_what_was_begun_may_be_there(world: World) -> None:
    client = world.client(cluster="training")
    world.pcluster.refuse["describe-cluster"] = [Unavailable("no network")]

    with pytest.raises(NoAnswer):
        client.find(steps(cluster="training")["cluster"])


def test_the_host_of_the_settings_is_taken_as_it_is(world: World) -> None:
    world.address = "bastion"
    client = world.client(host="me@bastion", manage=False)

    client.call(PUT)

    assert world.reached[0].host == "me@bastion"
    assert world.pcluster.calls == []


def test_the_files_of_jobs_are_on_the_first_file_system(world: World) -> None:
    client = world.client(cluster="training", storage=SHARED)
    world.pcluster.there["training"] = up()

    client.call(PUT)

    assert world.reached[0].workspace == "/workspace/runspec"
    assert world.reached[0].shared == {"workspace": "/workspace"}


def test_a_run_whose_options_were_kept_is_looked_for_where_its_files_are() -> None:
    """The record of a run has every option, also those that nobody set."""
    given = options(cluster="training", storage=SHARED)
    kept = ParallelClusterOptions.model_validate(given.model_dump(mode="json", exclude_none=True))
    elsewhere = given.model_copy(update={"workspace": "/home/me/jobs"})

    assert access(kept).workspace == access(given).workspace == "/workspace/runspec"
    assert access(elsewhere).workspace == "/home/me/jobs"


def test_a_key_is_given_to_ssh_and_no_other_is_tried(world: World) -> None:
    client = world.client(cluster="training", ssh_key="~/.ssh/cluster")
    world.pcluster.there["training"] = up()

    client.call(PUT)

    key = Path("~/.ssh/cluster").expanduser()
    assert world.reached[0].ssh_options == (f"IdentityFile={key}", "IdentitiesOnly=yes")


def test_only_a_host_that_is_known_is_believed_unless_it_is_said_otherwise(world: World) -> None:
    world.pcluster.there["training"] = up()

    world.client(cluster="training").call(PUT)
    world.client(cluster="training", host_keys="first-seen").call(PUT)

    strict, first = (" ".join(reached.ssh_options) for reached in world.reached)
    assert "StrictHostKeyChecking" not in strict
    assert "StrictHostKeyChecking=accept-new" in first and "training.known_hosts" in first


def test_the_archive_is_whole_before_the_cluster_goes(world: World) -> None:
    client, plan = (
        world.client(cluster="training", storage=SHARED),
        steps(cluster="training", storage=SHARED),
    )
    client.call(plan["cluster"].do)
    undo = plan["cluster"].undo
    assert undo is not None

    client.call(undo)

    assert world.calls == ["archive /workspace"]
    assert world.pcluster.changes()[-1] == ("delete-cluster", "training")
    client.call(undo)  # content when there is none
    assert world.calls == ["archive /workspace"]


def test_an_archive_that_fails_keeps_the_cluster(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, plan = (
        world.client(cluster="training", storage=SHARED),
        steps(cluster="training", storage=SHARED),
    )
    client.call(plan["cluster"].do)
    monkeypatch.setattr(Slurm, "run", lambda *a, **k: Done(1, b"", "no lfs"))
    undo = plan["cluster"].undo
    assert undo is not None

    with pytest.raises(RemoteError, match="no lfs"):
        client.call(undo)

    assert "training" in world.pcluster.there


def test_a_cluster_that_never_came_up_has_nothing_to_archive(world: World) -> None:
    plan = steps(cluster="training", storage=SHARED)
    client = world.client(cluster="training", storage=SHARED)
    world.pcluster.there["training"] = up(clusterStatus="CREATE_FAILED", headNode=None)
    undo = plan["cluster"].undo
    assert undo is not None

    client.call(undo)

    assert world.calls == [] and world.pcluster.there == {}


def test_an_operation_that_there_is_not_is_refused(world: World) -> None:
    with pytest.raises(RemoteError, match="no operation 'explode'"):
        world.client().call(Request("parallelcluster", "explode", {"clusterName": "x"}))


class Answering:
    """A client of Slurm that answers each method with its name and its arguments."""

    def __init__(self, reached: Any) -> None:
        self.way = self

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **named: (name, args, named)


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("stage", (PUT, "a folder", "progress")),
        ("reconcile", (RUN,)),
        ("streams", (RUN,)),
        ("publish", (RUN,)),
        ("outputs", (RUN,)),
        ("usage", (RUN, 3)),
        ("kept_state", (RUN,)),
        ("find", (Step("inside", "", Scope.SITE, PUT),)),
    ],
)
def test_slurm_of_the_head_node_answers_for_a_run(method: str, args: Any, world: World) -> None:
    client = ParallelClusterClient(
        options(host="10.0.0.5"),
        Clusters(world.pcluster, lambda line: None, clock=Clock(sleep=lambda seconds: None)),
        Answering,  # type: ignore[arg-type]
    )

    assert getattr(client, method)(*args) == (method, args, {})


def test_stop_cancel_and_keep_state_reach_slurm_of_the_head_node(world: World) -> None:
    calls: list[Any] = []

    class Noting(Answering):
        def __getattr__(self, name: str) -> Any:
            return lambda *args, **named: calls.append((name, args))

    client = ParallelClusterClient(
        options(host="10.0.0.5"),
        Clusters(world.pcluster, lambda line: None, clock=Clock(sleep=lambda seconds: None)),
        Noting,  # type: ignore[arg-type]
    )

    client.stop(RUN, [1])
    client.cancel(RUN)
    client.keep_state(RUN, b"{}")

    assert calls == [("stop", (RUN, [1])), ("cancel", (RUN,)), ("keep_state", (RUN, b"{}"))]


def test_places_name_the_host_and_the_workspace(world: World) -> None:
    places = world.client(host="10.0.0.5").places(RUN)

    assert places.outputs.endswith(f"/runs/{RUN}/outputs")
    assert places.outputs.startswith("10.0.0.5:")


def test_a_log_is_read_with_its_times(world: World) -> None:
    stream = object.__new__(LogStream)
    chunk = TimedChunk(Chunk(b"a line\n", "7"), ())
    stream.timed = lambda position: chunk  # type: ignore[method-assign]

    assert world.client(host="10.0.0.5").read_timed(stream, "5") == chunk


def test_the_client_reports_progress_of_long_operations(world: World) -> None:
    told: list[str] = []
    client = world.client(host="10.0.0.5")
    client.listen(told.append)

    client.tell("waiting")

    assert told == ["waiting"]


def test_a_step_has_settled(world: World) -> None:
    assert world.client(host="10.0.0.5").settled(steps()["head"])
