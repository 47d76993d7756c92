"""One pod on its node: volumes, images, containers one after the other, and how they ended."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable

from runspec_emulators.kubernetes.nodes import environment, pod_status
from runspec_emulators.kubernetes.nodes.container import (
    NOT_STARTED,
    Container,
    Launch,
    NotStarted,
)
from runspec_emulators.kubernetes.nodes.environment import Missing
from runspec_emulators.kubernetes.nodes.logs import Log
from runspec_emulators.kubernetes.nodes.pod_files import PodFiles
from runspec_emulators.kubernetes.nodes.volumes import Volumes
from runspec_emulators.kubernetes.resources import PODS
from runspec_emulators.kubernetes.world import Object, World, now, set_condition

# https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/active_deadline.go
OVERDUE = (
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
)
WAIT_S = 0.1
"""How often the kubelet looks whether what was missing is there."""


class PodRun:
    """A pod that runs in threads of its own."""

    def __init__(self, world: World, pod: Object, address: str) -> None:
        self._world, self.pod, self.address = world, pod, address
        meta = pod["metadata"]
        self.uid: str = meta["uid"]
        self.node: str = pod["spec"]["nodeName"]
        self.folder = world.settings.folder / "pods" / self.uid
        self._key = (meta["namespace"], meta["name"])
        self._volumes = Volumes(world, pod, self.folder / "volumes", address)
        self._files = PodFiles(pod, self.folder, self._volumes)
        self.containers: dict[str, Container] = {}
        self.logs: dict[str, Log] = {}
        self.previous: dict[str, Log] = {}
        self._stop = threading.Event()
        self.done = threading.Event()
        self.silent = False
        """Whether its node reports nothing any more."""
        self.cause: tuple[str, str] | None = None
        """Reason and message of a pod that its node ends."""
        self.disruption = ""
        """The message of a disruption, which is reported when all containers have ended, as by mergePodStatus."""
        self.oom = False
        self.stopping = False
        self._grace_s = float("inf")
        self._restarts: dict[str, int] = {}
        self._failed = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    # What others ask of it.

    def stop(self, grace_s: float) -> None:
        """End its containers: SIGTERM, and SIGKILL when *grace_s* have passed. Only a shorter time changes anything."""
        grace_s = min(grace_s, self._world.settings.grace_most_s)
        if grace_s >= self._grace_s:
            return
        begins, self._grace_s, self.stopping = not self.stopping, grace_s, True
        self._stop.set()
        if begins and grace_s > 0:
            for container in list(self.containers.values()):
                container.terminate()
        self._world.timers.after(max(grace_s, 0), self._kill_later)

    def _kill_later(self) -> None:
        if not self.done.is_set():
            threading.Thread(target=self.kill, daemon=True).start()

    def _stop_overdue(self) -> None:
        if not self.done.is_set() and not self.stopping:
            self.cause = OVERDUE
            self._say("Normal", *OVERDUE)
            self.stop(self.pod["spec"]["terminationGracePeriodSeconds"])

    def kill(self) -> None:
        self.stopping = True
        self._stop.set()
        for container in list(self.containers.values()):
            container.kill()

    def kill_for_memory(self) -> None:
        """Have the first container end as one that used more memory than it may."""
        self.oom = True
        for container in list(self.containers.values()):
            container.end_all()

    # Its life.

    def _run(self) -> None:
        try:
            if self._prepare():
                self._run_all()
        finally:
            for log in self.logs.values():
                log.end()
            self._end()
            self.done.set()
            with self._world.lock:
                self._world.wake_in(0)

    def _prepare(self) -> bool:
        """Make volumes and get images; return whether containers can be started."""
        self._report(self._creating)
        if limit := self.pod["spec"].get("activeDeadlineSeconds"):
            with self._world.lock:
                self._world.timers.after(limit, self._stop_overdue)
        self._stop.wait(self._world.settings.start_s)
        if not self._until(self._mount) or not self._until(self._pull):
            return False
        return not self._stop.is_set()

    def _creating(self, status: Object) -> None:
        status.setdefault("startTime", now())
        status["hostIP"] = "127.0.0.1"
        inits = self.pod["spec"].get("initContainers") or ()
        set_condition(status, "PodReadyToStartContainers", "False")
        set_condition(status, "Initialized", "False" if inits else "True")
        for kind in ("Ready", "ContainersReady"):
            set_condition(status, kind, "False", "ContainersNotReady")
        for group, containers in (
            ("containerStatuses", self.pod["spec"]["containers"]),
            ("initContainerStatuses", inits),
        ):
            for container in containers:
                state = pod_status.waiting("PodInitializing" if inits else "ContainerCreating")
                fresh = pod_status.container_status(container, self.uid, state, 0)
                pod_status.set_state(status, group, container["name"], fresh)

    def _until(self, attempt: Callable[[], bool]) -> bool:
        while not self._stop.is_set():
            if attempt():
                return True
            self._stop.wait(WAIT_S)
        return False

    def _mount(self) -> bool:
        with self._world.lock:
            try:
                self._volumes.set_up()
            except Missing as exc:
                self._say("Warning", "FailedMount", str(exc))
                return False
        return True

    def _pull(self) -> bool:
        bad = next((c for c in self._all() if not self._has_image(c["image"])), None)
        if bad is None:
            return True
        image, name = bad["image"], bad["name"]
        why = f'failed to pull and unpack image "{image}": not found'
        if self._state_reason(name) not in ("ErrImagePull", "ImagePullBackOff"):
            self._say("Normal", "Pulling", f'Pulling image "{image}"')
            self._say("Warning", "Failed", f'Failed to pull image "{image}": {why}')
            self._say("Warning", "Failed", "Error: ErrImagePull")
            self._set(bad, pod_status.waiting("ErrImagePull", why))
        else:
            said = f'Back-off pulling image "{image}"'
            self._say("Normal", "BackOff", said)
            self._set(bad, pod_status.waiting("ImagePullBackOff", f"{said}: ErrImagePull: {why}"))
        return False

    def _state_reason(self, name: str) -> str:
        with self._world.lock:
            pod = self._world.get(PODS, *self._key) or {"status": {}}
        for status in pod["status"].get("containerStatuses") or ():
            if status["name"] == name:
                return str(status["state"].get("waiting", {}).get("reason", ""))
        return ""

    def _has_image(self, image: str) -> bool:
        settings = self._world.settings
        if any(word in image for word in settings.bad_images):
            return False
        if settings.engine != "podman":
            return True
        for words in (["image", "exists", image], ["pull", "--quiet", image]):
            line = [*settings.podman, *words]
            done = subprocess.run(line, check=False, stdin=subprocess.DEVNULL, capture_output=True)
            if done.returncode == 0:
                return True
        return False

    def _all(self) -> list[Object]:
        spec = self.pod["spec"]
        return [*(spec.get("initContainers") or ()), *spec["containers"]]

    def _run_all(self) -> None:
        for container in self.pod["spec"].get("initContainers") or ():
            if self._run_container(container, "initContainerStatuses") != 0:
                return
        self._report(_initialized)
        threads = [
            threading.Thread(target=self._run_container, args=(c,), daemon=True)
            for c in self.pod["spec"]["containers"]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run_container(self, container: Object, group: str = "containerStatuses") -> int:
        """Run a container, again and again where the pod's policy says so; return its last exit code."""
        name, policy = container["name"], self.pod["spec"]["restartPolicy"]
        while True:
            started, reason = now(), ""
            try:
                code = self._run_once(container, group)
                if name not in self.logs:
                    return code  # the pod was told to end before
                message = self._files.message(container, code, self.logs[name])
            except NotStarted as exc:
                code, reason, message = NOT_STARTED, "StartError", str(exc)
            if self._stop.is_set() and name not in self.containers:
                return code  # it never began
            if self.oom and code != 0:
                # 128 + SIGKILL, by which the kernel ends such a process.
                code, reason, self.oom = 137, "OOMKilled", False
            again = policy == "Always" or (policy == "OnFailure" and code != 0)
            again = (
                again and not self._stop.is_set() and (code != 0 or group == "containerStatuses")
            )
            self._failed |= code != 0 and not again
            state = pod_status.terminated(
                code, started, reason=reason, message=message, sandbox=f"{self.uid}-{name}"
            )
            self._set(container, state, group)
            if not again:
                return code
            self._restarts[name] = self._restarts.get(name, 0) + 1
            # The kubelet keeps the log of the attempt before, for `previous=true`, and no older
            # one.
            self.previous[name] = self.logs[name]
            self._stop.wait(self._world.settings.retry_s)

    def _run_once(self, container: Object, group: str) -> int:
        name = container["name"]
        launch = self._launch(container)
        if launch is None:
            return NOT_STARTED
        log = self.logs[name] = Log(
            self.folder / "logs" / name / f"{self._restarts.get(name, 0)}.log",
            self._world.settings.log_bytes,
        )
        folder = self.folder / "containers" / name
        folder.mkdir(parents=True, exist_ok=True)
        settings = self._world.settings
        made = Container(settings, folder, f"{self.uid}-{name}", launch, log)
        self.containers[name] = made
        if self._stop.is_set():
            made.killed = True
        made.start()
        self._set(container, {"running": {"startedAt": now()}}, group)
        self._say("Normal", "Started", f"Started container {name}")
        if group == "containerStatuses":
            self._report(lambda status: pod_status.set_running(status, self.address))
        return made.wait()

    def _launch(self, container: Object) -> Launch | None:
        """Return what a container is started with, when all that it needs is there."""
        env: dict[str, str] | None = None
        while not self._stop.is_set():
            with self._world.lock:
                try:
                    env = environment.variables(self._world, self.pod, container, self.address)
                except Missing as exc:
                    why = str(exc)
                else:
                    break
            self._say("Warning", "Failed", f"Error: {why}")
            self._set(container, pod_status.waiting("CreateContainerConfigError", why))
            self._stop.wait(WAIT_S)
        if env is None:
            return None
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        host = self.pod["spec"].get("hostname") or self._key[1]
        full = {"PATH": environment.PATH, "HOSTNAME": host[:63], **env}
        return Launch(
            container["name"],
            container["image"],
            [environment.expand(w, env) for w in words],
            full,
            container.get("workingDir") or "/",
            self._files.mounts(container),
            self._files.read_only(container),
        )

    def _end(self) -> None:
        """Report how the pod ended, unless nothing is reported any more.

        One that succeeds has succeeded also where its node ends it, unless that is at its deadline:
        https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_pods.go (generateAPIPodStatus)
        """
        spec = self.pod["spec"]

        def mark(status: Object) -> None:
            group = [
                *(status.get("containerStatuses") or ()),
                *(status.get("initContainerStatuses") or ()),
            ]
            for entry in group:
                if "terminated" not in entry["state"]:
                    entry["state"] = pod_status.located_nowhere()
                    entry["ready"] = entry["started"] = False
                    self._failed = True
            failed = self._failed or self.cause == OVERDUE or not group
            reason, message = (failed and self.cause) or ("", "")
            if self.disruption:
                why = ("TerminationByKubelet", self.disruption)
                set_condition(status, "DisruptionTarget", "True", *why)
            pod_status.set_ended(status, "Failed" if failed else "Succeeded", reason, message)

        # A pod that is restarted for ever has no last phase.
        if self.stopping or spec["restartPolicy"] != "Always":
            self._report(mark)

    # Reports.

    def _set(self, container: Object, state: Object, group: str = "containerStatuses") -> None:
        name = container["name"]
        fresh = pod_status.container_status(container, self.uid, state, self._restarts.get(name, 0))
        self._report(lambda status: pod_status.set_state(status, group, name, fresh))

    def _report(self, how: Callable[[Object], None]) -> None:
        """Change the status of the pod, if it is still the same pod and its node is there."""
        with self._world.lock:
            pod = self._world.get(PODS, *self._key)
            if (
                pod is None
                or pod["metadata"]["uid"] != self.uid
                or self.silent
                or self._world.closed
            ):
                return
            self._world.change(PODS, *self._key, lambda changed: how(changed["status"]))

    def _say(self, kind: str, reason: str, message: str) -> None:
        with self._world.lock:
            if not self.silent and not self._world.closed:
                self._world.add_event(self.pod, PODS, kind, reason, message, "kubelet")


def _initialized(status: Object) -> None:
    set_condition(status, "Initialized", "True")
