"""A pod of one container on a node: what happens to it, and what its status says of that.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

import datetime
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from runspec_emulators.kubernetes.nodes.logs import Log
from tests.support.kubernetes.api import Api, Refused
from tests.support.kubernetes.node_container import (
    END_FILE,
    Place,
    Running,
    base_environment,
    user_words,
)
from tests.support.kubernetes.node_values import (
    Missing,
    environment,
    expand,
    volume_files,
    write_files,
)

Object = dict[str, Any]
AGAIN_S, LOOK_S = 0.5, 0.05
STRATEGIC = "application/strategic-merge-patch+json"
NO_IMAGE = "missing"  # an image whose name has this word cannot be pulled
MESSAGE_BYTES, LAST_LINES, LAST_BYTES = 4096, 80, 2048


class Machine(NamedTuple):
    """What pods of a node share."""

    api: Api
    folder: Path
    address: tuple[str, int]
    """Of the API server."""
    free: Mapping[str, str]
    """What the node has, by resource."""


class Gone(Exception):
    """The pod is to be deleted before its container has started."""


def now() -> str:
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"


class Pod(threading.Thread):
    """Runs a pod that is bound to this node until it has ended or is deleted."""

    def __init__(self, machine: Machine, pod: Object, number: int) -> None:
        super().__init__(name=pod["metadata"]["name"], daemon=True)
        self.machine, self.pod = machine, pod
        self.container: Object = pod["spec"]["containers"][0]
        self.uid: str = pod["metadata"]["uid"]
        self.namespace: str = pod["metadata"]["namespace"]
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self.folder: Path = machine.folder / self.uid
        self.folder.mkdir()
        self.log = Log(self.folder / "log")
        self.ip = f"127.77.{number // 250}.{number % 250 + 1}"
        self.begun = self.started = ""
        self.running: Running | None = None
        self.waits = "ContainerCreating"
        self.leaving = threading.Event()
        self.grace_s = 0.0

    def update(self, pod: Object) -> None:
        """Hear of a change of the pod: of its deletion, or of a shorter grace."""
        self.pod = pod
        if "deletionTimestamp" in pod["metadata"]:
            self.grace_s = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            self.leaving.set()

    def kill(self) -> None:
        """End it at once: it is there no more."""
        self.grace_s = 0.0
        self.leaving.set()

    def run(self) -> None:
        try:
            self._run()
        except Gone:
            pass
        self.log.end()
        self.leaving.wait()
        self._delete()

    def _run(self) -> None:
        self.begun = now()
        if self.pod.get("status", {}).get("phase") == "Running":  # the node was lost, and is back
            lost = "The container could not be located when the pod was terminated"
            self._end(137, 0, "ContainerStatusUnknown", lost)
            return
        self._write("Pending", self._wait_for("ContainerCreating"))
        self.running = running = self._start()
        self.started = now()
        self._write("Running", {"running": {"startedAt": self.started}}, ready=True)
        threading.Thread(target=self._stop, args=(running,), daemon=True).start()
        code, number = running.wait()
        self._end(code, number, "Completed" if code == 0 else "Error", self._message(code))

    def _start(self) -> Running:
        """Start the container as soon as all it needs is there."""
        said = ""
        while True:
            if self.leaving.is_set():
                raise Gone
            try:
                if NO_IMAGE in self.container["image"]:
                    raise NoImage(f'Back-off pulling image "{self.container["image"]}"')
                return self._begin()
            except Missing as exc:
                if str(exc) != said:
                    said = str(exc)
                    self._write("Pending", self._wait_for(exc.reason, said))
            self.leaving.wait(AGAIN_S)

    def _begin(self) -> Running:
        host = self.pod["spec"].get("hostname") or self.name
        self.pod.setdefault("status", {}).update(
            podIP=self.ip, podIPs=[{"ip": self.ip}], hostIP="127.0.0.1"
        )
        env = base_environment(host, self.machine.address)
        env |= environment(self.pod, self.container, self._read, self.machine.free)
        volumes = {
            volume["name"]: self._volume(volume) for volume in self.pod["spec"].get("volumes", ())
        }
        place = Place(self.folder / "container", self.ip, host)
        paths, read_only = self._mounts(volumes, env)
        mounts = place.mounts(paths, self.container.get("terminationMessagePath", END_FILE))
        words = [
            expand(word, env) for key in ("command", "args") for word in self.container.get(key, ())
        ]
        folder = self.container.get("workingDir") or "/"
        user = user_words(self.pod, self.container)
        return Running(place, self.log, mounts, read_only, env, folder, user, words)

    def _mounts(
        self, volumes: Mapping[str, Path], env: Mapping[str, str]
    ) -> tuple[dict[str, Path], list[str]]:
        paths, read_only = {}, []
        for mount in self.container.get("volumeMounts", ()):
            source, path = volumes[mount["name"]], mount["mountPath"]
            if below := mount.get("subPath") or expand(mount.get("subPathExpr", ""), env):
                source /= below
                if not source.exists():
                    source.mkdir(parents=True)
                    source.chmod(0o777)
            paths[path] = source
            kinds = next(v for v in self.pod["spec"]["volumes"] if v["name"] == mount["name"])
            if mount.get("readOnly") or {"configMap", "secret", "projected", "downwardAPI"} & {
                *kinds
            }:
                read_only.append(path)
        return paths, read_only

    def _volume(self, volume: Object) -> Path:
        """Return the folder of a volume. Raises Missing."""
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        if "persistentVolumeClaim" in volume:
            return self._claimed(volume["persistentVolumeClaim"]["claimName"])
        folder: Path = self.folder / "volumes" / str(volume["name"])
        folder.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume:
            folder.chmod(0o777)
        try:
            for files, mode in volume_files(self.pod, volume, self._read):
                write_files(folder, files, mode)
        except Missing as exc:
            exc.reason = "ContainerCreating"  # a volume is mounted before the container is created
            raise
        return folder

    def _claimed(self, claim: str) -> Path:
        """Return the folder of the volume to which a claim is bound."""
        found = self._read("persistentvolumeclaims", claim) or {"spec": {}}
        name = found["spec"].get("volumeName")
        if not name:
            raise Missing(f'persistentvolumeclaim "{claim}" is not bound')
        volume = self.machine.api.get(f"/api/v1/persistentvolumes/{name}")
        return Path(volume["spec"]["hostPath"]["path"])

    def _read(self, resource: str, name: str) -> Object | None:
        answer = self.machine.api.call(
            "GET", f"/api/v1/namespaces/{self.namespace}/{resource}/{name}"
        )
        return answer.body if answer.status == 200 else None

    def _stop(self, running: Running) -> None:
        """Wait until the pod is to go, give its container the grace, and kill it then."""
        self.leaving.wait()
        running.signal(signal.SIGTERM)
        begun = time.monotonic()
        while running.process.poll() is None:
            if time.monotonic() > begun + self.grace_s:
                running.kill()
            time.sleep(LOOK_S)

    def _message(self, code: int) -> str:
        """Return what the container left: https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/"""
        text: str = (self.folder / "container" / "end").read_text(errors="replace")[-MESSAGE_BYTES:]
        policy = self.container.get("terminationMessagePolicy")
        if not text and code != 0 and policy == "FallbackToLogsOnError":
            return self.log.last(LAST_LINES, LAST_BYTES)
        return text

    def _end(self, code: int, number: int, reason: str, message: str) -> None:
        ended: Object = {"exitCode": code, "reason": reason, "startedAt": self.started or None}
        ended |= {"finishedAt": now(), "containerID": f"process://{self.uid}"}
        if number:
            ended["signal"] = number
        if message:
            ended["message"] = message
        self._write("Failed" if code else "Succeeded", {"terminated": ended})

    def _wait_for(self, reason: str, message: str = "") -> Object:
        self.waits = reason
        return {"waiting": {"reason": reason, **({"message": message} if message else {})}}

    def _write(self, phase: str, state: Object, ready: bool = False) -> None:
        """Write the status of the pod; what has been deleted meanwhile has none."""
        truth = "True" if ready else "False"
        conditions = [
            {"type": kind, "status": status, "lastTransitionTime": now()}
            for kind, status in (
                ("Initialized", "True"),
                ("Ready", truth),
                ("ContainersReady", truth),
            )
        ]
        if phase == "Succeeded":
            conditions = [{**each, "reason": "PodCompleted"} for each in conditions]
        entry = {
            "name": self.container["name"],
            "image": self.container["image"],
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
            "containerID": f"process://{self.uid}" if "waiting" not in state else "",
        }
        status: Object = {"phase": phase, "conditions": conditions, "containerStatuses": [entry]}
        status |= {"hostIP": "127.0.0.1", "startTime": self.begun}
        if "waiting" not in state:
            status |= {"podIP": self.ip, "podIPs": [{"ip": self.ip}]}
        body = {"metadata": {"uid": self.uid}, "status": status}
        answer = self.machine.api.call("PATCH", f"{self.path}/status", body, STRATEGIC)
        if answer.status not in (200, 404, 409):  # 409: another pod has this name by now
            raise Refused(f"PATCH {self.path}/status", answer)

    def _delete(self) -> None:
        """Take the pod away from the API server, now that nothing of it runs."""
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        answer = self.machine.api.call("DELETE", self.path, options)
        if answer.status not in (200, 404, 409):
            raise Refused(f"DELETE {self.path}", answer)


class NoImage(Missing):
    """The image of a container cannot be pulled."""

    reason = "ImagePullBackOff"
