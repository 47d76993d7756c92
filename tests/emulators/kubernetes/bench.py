"""A cluster without a server and without processes: requests are answered, and controllers look when a test says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runspec_emulators.frame.errors import ServiceError
from runspec_emulators.kubernetes import service
from runspec_emulators.kubernetes.api import access, requests, schema
from runspec_emulators.kubernetes.cluster import Cluster
from runspec_emulators.kubernetes.errors import status_of
from runspec_emulators.kubernetes.resources import PODS, RESOURCES
from runspec_emulators.kubernetes.settings import Settings
from runspec_emulators.kubernetes.world import Object, World, set_condition

PODS_PATH = "/api/v1/namespaces/default/pods"
JOBS_PATH = "/apis/batch/v1/namespaces/default/jobs"
MAPS_PATH = "/api/v1/namespaces/default/configmaps"
ADMIN = access.User(access.ADMIN, access.ALL)


class Bench:
    """The cluster and what answers requests to it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.cluster = Cluster(
            Settings(folder, token="t", **{"retry_s": 0.0, **settings}), "http://x"
        )
        for name in self.cluster.settings.nodes:
            self.cluster.kubelet.lose(name)  # pods are bound, and nothing starts them

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        kind: str = "application/json",
        user: access.User = ADMIN,
    ) -> tuple[int, Any]:
        """Return the status and the value that a request is answered with."""
        data = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        try:
            request = requests.read(
                method, path, {"content-type": kind}, data, self.cluster.settings.kueue
            )
            access.authorize(user, request)
            answer = service.answer(self.cluster, request, user)
        except ServiceError as exc:
            return exc.status, status_of(exc)
        return answer.status, answer.value

    def make(self, path: str, body: Any) -> Object:
        status, value = self.call("POST", f"{path}?fieldValidation=Strict", body)
        assert status == 201, value
        return dict(value)

    def get(self, path: str) -> Object:
        status, value = self.call("GET", path)
        assert status == 200, value
        return dict(value)

    def step(self, rounds: int = 4) -> None:
        for _ in range(rounds):
            self.cluster.step()

    def pods(self) -> list[Object]:
        return list(self.get(PODS_PATH)["items"])

    def end(self, pod: Object, code: int = 0, *conditions: str, phase: str = "") -> None:
        """Have a pod end with an exit code, and conditions that say why."""
        name = pod["metadata"]["name"]

        def mark(changed: Object) -> None:
            status = changed["status"]
            status["phase"] = phase or ("Failed" if code else "Succeeded")
            state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
            more = {"image": "x", "imageID": "x", "ready": False, "restartCount": 0}
            status["containerStatuses"] = [{"name": "job", "state": state, **more}]
            for kind in conditions:
                set_condition(status, kind, "True", "Test")

        with self.cluster.lock:
            self.cluster.change(PODS, "default", name, mark)
        self.step()

    def close(self) -> None:
        self.cluster.close()
        if wrong := problems(self.cluster):
            raise AssertionError(wrong)


def problems(world: World) -> list[str]:
    """Return what the schemas of the server have against the objects of a cluster and of its last changes."""
    plain = {resource.names.resource: resource for resource in RESOURCES}
    kept = [(r, v) for r in RESOURCES for v in world.all(r)]
    kept += [(plain[change.resource], change.value) for change in world.changes]
    wrong = []
    for resource, value in kept:
        decoder = schema.Decoder(resource.names.kind, resource.version)
        decoder.decode(value)
        wrong += [*decoder.unknown, *(f"{c.field}: {c.message}" for c in decoder.causes)]
    return sorted(set(wrong))


def job(name: str = "j", **spec: Any) -> Object:
    """Return a job whose container is called `job`."""
    container = {"name": "job", "image": "x", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def indexed(name: str = "j", completions: int = 3, **spec: Any) -> Object:
    more = {"completions": completions, "parallelism": completions, "completionMode": "Indexed"}
    return job(name, **{**more, **spec})


def pod(name: str = "p", **container: Any) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "job", "image": "x", **container}],
        },
    }
