"""A running cluster and the official client of Kubernetes, which knows nothing of the emulator."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path
from typing import Any

from kubernetes import client, config, watch

from runspec_emulators.kubernetes import Kubernetes
from tests.emulators.kubernetes.bench import problems
from tests.support.wait import until as until


class Stand:
    """A server and its client."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.server = Kubernetes(folder, **settings)
        self._clients: list[Any] = []
        self.api = self.login()
        self.core: Any = client.CoreV1Api(self.api)
        self.batch: Any = client.BatchV1Api(self.api)

    def login(self, token: str | None = None) -> Any:
        """Return a client for the bearer of a token."""
        file = self.server.kubeconfig
        if token is not None:
            file = self.server.folder / "kubeconfig-other"
            self.server.write_kubeconfig(file, token)
        made: Any = config  # it has no types
        self._clients.append(made.new_client_from_config(str(file)))
        return self._clients[-1]

    def run(self, script: str, name: str = "p", **spec: Any) -> None:
        """Create a pod that runs a script of the shell."""
        container: dict[str, Any] = {
            "name": "job",
            "image": "x",
            "command": ["/bin/sh", "-c", script],
        }
        container |= spec.pop("container", {})
        body: dict[str, Any] = {"metadata": {"name": name}}
        body["spec"] = {"restartPolicy": "Never", "containers": [container], **spec}
        self.core.create_namespaced_pod("default", body)

    def pod(self, name: str = "p") -> Any:
        """Return a pod in the words of JSON."""
        found_pod = self.core.read_namespaced_pod(name, "default")
        return self.api.sanitize_for_serialization(found_pod)

    def ended(self, name: str = "p") -> Any:
        """Wait until a pod has ended; return it."""
        until(lambda: self.pod(name)["status"]["phase"] in ("Succeeded", "Failed"))
        return self.pod(name)

    def running(self, name: str = "p") -> Any:
        until(lambda: self.pod(name)["status"]["phase"] == "Running")
        return self.pod(name)

    def state(self, name: str = "p") -> Any:
        """Return how the container of a pod ended."""
        return self.ended(name)["status"]["containerStatuses"][0]["state"]["terminated"]

    def job(self, name: str = "j") -> Any:
        kept = self.batch.read_namespaced_job(name, "default")
        return self.api.sanitize_for_serialization(kept)

    def log(self, name: str = "p", **options: Any) -> str:
        answer = self.core.read_namespaced_pod_log(
            name, "default", _preload_content=False, **options
        )
        text = answer.data.decode()
        answer.release_conn()
        return str(text)

    def tell(self, method: str, what: str, value: Any = None) -> Any:
        return self.server.control(method, what, value)

    def close(self) -> None:
        for api in self._clients:
            api.rest_client.pool_manager.clear()
        self.server.close()
        assert problems(self.server.world) == []
        with warnings.catch_warnings():  # the client leaves websockets and broken connections open
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


def new_watch() -> Any:
    untyped: Any = watch
    return untyped.Watch()
