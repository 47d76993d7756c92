"""What each method of the client does to a cluster and a store, which are in this process."""

from __future__ import annotations

import base64
import io
import json
from typing import BinaryIO

import pytest

from runspec_images import image_registry
from runspec_images.image_registry import ImageConfig
from runspec_jobs.provider import (
    Conflict,
    Facts,
    File,
    MembershipChange,
    RemoteError,
    Request,
    State,
)
from runspec_jobs.provider.payload import pack_agent
from runspec_jobs.provider.streams.log_streams import Chunk, TimedChunk
from runspec_kubernetes import plan
from runspec_kubernetes.logs import PodStream
from runspec_kubernetes.naming import CANCELLED
from tests.unit.runspec_kubernetes.fake_cluster import RUN, Fakes
from tests.unit.runspec_kubernetes.plans import make_spec

RUNS = f"runs/{RUN}"


class OneFile:
    """A folder with one file."""

    digest = "sha256:1"
    files = (File("a.txt", 5, False, "unused"),)

    def open(self, file: File) -> BinaryIO:
        return io.BytesIO(b"hello")


def save_output(fakes: Fakes, content: bytes) -> None:
    """Save one file of the first node as an agent does."""
    base = f"{RUNS}/outputs/o/0/0/.runspec"
    size = len(content)
    file = {"path": "a.txt", "size": size, "mtime_ns": 5, "sha256": "", "object": "x-1"}
    save = {"number": 1, "at": 5, "files": [file]}
    manifest = {"format": "runspec.outputs/v2", "holder": "x", "saves": [save]}
    fakes.store[f"{base}/objects/x-1"] = content
    fakes.store[f"{base}/manifest.json"] = json.dumps(manifest).encode()


def test_the_code_of_an_entrypoint_is_what_a_pod_leaves_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod replaces $(NAME) and $$ in its variables."""
    config = ImageConfig("a@sha256:1", {"Entrypoint": ["/serve", "$(HOME)$$"]})
    monkeypatch.setattr(image_registry, "read_config", lambda image, architecture: config)
    asked = {"image": "a:1", "architecture": "amd64"}

    answer = Fakes().client.call(Request("registry", "read_entrypoint", asked))

    assert answer == {"image": "a@sha256:1", "code": "set -- /serve '$$(HOME)$$$$' \"$$@\""}


def test_an_entrypoint_that_may_have_been_read_is_read_again() -> None:
    """After a crash, and when another machine adopts the run: no object has it."""
    spec = make_spec(container={"image": "h.io/a:1", "entrypoint": "image"})
    steps = plan.steps(spec, RUN, Facts(Fakes().client.options))
    read = next(step for step in steps if step.id == "entrypoint")

    assert Fakes().client.find(read) is None


def test_call_makes_what_a_plan_says_and_find_finds_it() -> None:
    fakes = Fakes()
    steps = plan.steps(make_spec(), RUN, Facts(fakes.client.options))

    before = [fakes.client.find(step) for step in steps]
    answers = [fakes.client.call(step.do) for step in steps]

    assert [bool(answer) for answer in before] == [False, True, False]  # the record is there
    assert [fakes.client.find(step) for step in steps] == answers
    assert all(fakes.client.settled(step) for step in steps)
    agent = fakes.cluster.sent[0][2]["binaryData"]["inside.pyz"]
    assert base64.b64decode(agent) == pack_agent()


@pytest.mark.parametrize(
    ("version", "is_new"),
    [
        ({"gitVersion": "v1.20.2"}, False),
        ({"major": "1", "minor": "28+"}, False),
        ({"gitVersion": "v1.29.0-eks-1a2b"}, True),
        (None, True),  # this login may not ask
    ],
)
def test_nothing_is_made_on_a_server_that_drops_fields(
    version: dict[str, str] | None, is_new: bool
) -> None:
    fakes = Fakes()
    fakes.store.clear()
    if version is not None:
        fakes.cluster.objects["/version"] = {**version, "metadata": {}}

    for step in plan.steps(make_spec(), RUN, Facts(fakes.client.options)):
        if is_new:
            fakes.client.call(step.do)
        else:
            with pytest.raises(RemoteError, match=r"and jobs need 1\.29"):
                fakes.client.call(step.do)

    assert bool(fakes.cluster.sent) is bool(fakes.store) is is_new


def test_the_agent_of_another_version_is_not_sent() -> None:
    body = {"metadata": {"name": "a"}, "kind": "ConfigMap", "binaryData": {"$inside": "other"}}
    request = Request("kubernetes", "create", {"path": "/p", "query": {}, "body": body})

    with pytest.raises(Conflict, match="another version of runspec planned this run"):
        Fakes().client.call(request)


def test_stage_uploads_a_folder() -> None:
    fakes = Fakes()

    fakes.client.stage(
        Request("store", "put", {"key": "blobs/x", "body": {"$file": "x"}}),
        OneFile(),
        lambda *_: None,
    )

    assert b"hello" in fakes.store["blobs/x"]


def test_cancel_suspends_the_job_after_the_claim() -> None:
    fakes = Fakes()
    job = fakes.add_job()

    fakes.client.cancel(RUN)

    assert fakes.store[f"{RUNS}/claim"] == b"cancelled"
    assert job["spec"]["suspend"] is True
    assert CANCELLED in job["metadata"]["annotations"]
    assert fakes.client.state(RUN).state is State.CANCELLED


def test_what_nodes_have_stored_is_read() -> None:
    fakes = Fakes(elastic={"min": 1, "max": 2}, nodes=2, count=1)
    change = MembershipChange(0, 1, 5.0, 0, 2, "began", None, None)._asdict()
    fakes.store[f"{RUNS}/elastic/0/changes/1"] = json.dumps(change).encode()
    fakes.store[f"{RUNS}/usage/0/1/0"] = b"{}"
    save_output(fakes, b"abc")

    fakes.client.publish(RUN)

    assert [change.nodes for change in fakes.client.changes(RUN)] == [2]
    assert fakes.client.usage(RUN, None).total == 1
    found = fakes.client.outputs(RUN)
    assert [(file.output, file.path, file.bytes) for file in found] == [("o", "a.txt", 3)]
    assert fakes.store[f"{RUNS}/outputs/o/0/0/a.txt"] == b"abc"


def test_places_name_the_namespace_and_the_store() -> None:
    places = Fakes().client.places(RUN)

    assert places.logs.endswith("in the namespace default")
    assert places.outputs == f"s3://bucket/runspec/{RUNS}/outputs"


def test_the_state_of_a_run_is_kept_and_read_and_its_run_listed() -> None:
    fakes = Fakes()

    fakes.client.keep_state(RUN, b"{}")

    assert fakes.client.kept_state(RUN) == b"{}"
    assert list(fakes.client.kept_runs()) == [RUN]


def test_a_log_of_each_node_that_has_begun_is_read_with_its_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fakes = Fakes()
    fakes.add_job()
    fakes.add_pod(2, "Running")
    told = TimedChunk(Chunk(b"line\n", "1"), [(5, 5.0)])
    monkeypatch.setattr(PodStream, "timed", lambda self, position: told)

    streams = fakes.client.streams(RUN)

    assert [(stream.task, stream.rank) for stream in streams] == [(2, 0)]
    assert fakes.client.read_timed(streams[0], None) == told
