"""Jobs of Kubernetes beside what `runspec import` makes of them: on one cluster, with equal logs and ends."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from runspec_emulators.kubernetes.emulator import Kubernetes
from runspec_emulators.kubernetes.resources import JOBS, PODS
from runspec_jobs.cli.app import run
from runspec_kubernetes import timing
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.session import Session
from tests.support.azure.emulated_account import wait
from tests.support.http_server import HOST, ReceivedRequest, Reply, Server
from tests.support.kubernetes.emulated_cluster import (
    Capture,
    cluster as cluster,  # a fixture
    listed,
    objects as objects,  # a fixture
    said,
)
from tests.support.profiles import own_profile

pytestmark = pytest.mark.slow
IMAGE = "registry.example/base:1"
SHOWS = 'echo "$A: $*"; id -u; cat /config/words 2>/dev/null; true'
VARIABLES = [{"name": "B", "value": "$(A)-$$(A)-$(none)"}, {"name": "A", "value": "a  b"}]
INDEXED = {"completionMode": "Indexed", "completions": 3, "parallelism": 2}
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "texts"},
    "data": {"words": "one\ntwo\n"},
}
MOUNTED = {"volumes": [{"name": "texts", "configMap": {"name": "texts"}}]}


def job(container: dict[str, Any], pod: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    main = {"name": "main", "image": IMAGE, **container}
    template = {"spec": {"restartPolicy": "Never", "containers": [main], **pod}}
    body = {"backoffLimit": 0, "template": template, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "shown"}, "spec": body}


def run_as_it_is(cluster: Kubernetes, things: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """Make the objects as kubectl does; return how the Job ends, and the lines of all pods in order."""
    session = Session(KubernetesOptions(), timing.DEFAULT, timing.CLOCK)
    for thing in things:
        group = "api/v1" if thing["kind"] == "ConfigMap" else "apis/batch/v1"
        path = f"/{group}/namespaces/default/{thing['kind'].lower()}s"
        session.send("POST", path, {}, thing, action="make it")

    def conditions() -> set[str]:
        (found,) = listed(cluster, JOBS)
        return {c["type"] for c in found["status"].get("conditions", ())}

    wait(lambda: bool(conditions() & {"Complete", "Failed"}), "the Job ends")
    ended = "succeeded" if "Complete" in conditions() else "failed"
    lines: list[str] = []
    for pod in listed(cluster, PODS):
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/log"
        lines += session.opened(path, {}, "read the log").read().decode().splitlines()
    session.send("DELETE", "/apis/batch/v1/namespaces/default/jobs/shown", action="delete it")
    return ended, sorted(lines)


def add_to_profile(imported: Path) -> None:
    """Add the settings of an imported profile to that of the test, which alone knows the cluster."""
    settings = yaml.safe_load(imported.read_text())["providers"]["kubernetes"] or {}
    imported.unlink()
    known = json.loads(own_profile().read_text())
    known["providers"]["kubernetes"] |= settings
    own_profile().write_text(json.dumps(known))


@pytest.mark.parametrize(
    ("things", "end"),
    [
        (
            [job({"command": ["sh", "-c", SHOWS, "x", "$(B)"], "env": VARIABLES}, {}, {})],
            "succeeded",
        ),
        (
            [job({"command": ["sh", "-c"], "args": ["echo $JOB_COMPLETION_INDEX"]}, {}, INDEXED)],
            "succeeded",
        ),
        ([job({"command": ["sh", "-c", "echo try; exit 3"]}, {}, {"backoffLimit": 1})], "failed"),
        (
            [job({"command": ["sh", "-c", SHOWS]}, {"securityContext": {"runAsUser": 1234}}, {})],
            "succeeded",
        ),
        (
            [
                CONFIG,
                job(
                    {
                        "command": ["sh", "-c", SHOWS],
                        "volumeMounts": [{"name": "texts", "mountPath": "/config"}],
                    },
                    MOUNTED,
                    {},
                ),
            ],
            "succeeded",
        ),
    ],
    ids=["variables", "indexes", "failures", "user", "files"],
)
def test_an_import_does_what_its_job_does(
    things: list[dict[str, Any]], end: str, cluster: Kubernetes, capsys: Capture
) -> None:
    Path("job.txt").write_text(yaml.safe_dump_all(things))
    wanted = run_as_it_is(cluster, things)
    assert wanted[0] == end

    assert run(["import", "job.txt", "--to", "."]) == 0
    add_to_profile(Path("runspec-profile.yaml"))
    found = said(capsys, "apply", "job.yaml")
    capsys.readouterr()
    run(["logs", found["run"]])
    shown = capsys.readouterr().out.splitlines()
    lines = [line.partition("] ")[2] or line for line in shown if not line.startswith("runspec:")]
    assert (found["state"], sorted(lines)) == wanted


def test_arguments_alone_go_to_the_entrypoint_that_the_registry_says(
    cluster: Kubernetes, capsys: Capture
) -> None:
    runs = {"Entrypoint": ["/bin/sh", "-c", "pwd; echo \"$0 $*\" '$$'"], "WorkingDir": "/usr"}
    kept: dict[str, bytes] = {"config": json.dumps({"config": runs}).encode()}
    digests = {name: f"sha256:{hashlib.sha256(body).hexdigest()}" for name, body in kept.items()}
    manifest = json.dumps({"config": {"digest": digests["config"]}, "layers": []}).encode()
    kept = {"1": manifest, digests["config"]: kept["config"]}

    def answer(request: ReceivedRequest) -> Reply:
        body = kept.get(request.path.rpartition("/")[2])
        return Reply(404) if body is None else Reply(200, {}, body)

    with Server() as registry:
        registry.answering = answer
        image = f"{HOST}:{registry.port}/team/jobs"
        thing = job({"image": f"{image}:1", "args": ["a  b", "c"]}, {}, {})
        Path("job.txt").write_text(yaml.safe_dump(thing))
        assert run(["import", "job.txt", "--to", "."]) == 0
        add_to_profile(Path("runspec-profile.yaml"))
        found = said(capsys, "apply", "job.yaml")

    assert found["state"] == "succeeded"
    run(["logs", found["run"]])
    assert capsys.readouterr().out.splitlines() == ["/usr", "a  b c $$"]
    (pod,) = listed(cluster, PODS)
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    assert pod["spec"]["containers"][0]["image"] == f"{image}@{digest}"
