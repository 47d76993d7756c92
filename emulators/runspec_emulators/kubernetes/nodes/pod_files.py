"""What a container finds of files: its mounts, and the file of its termination message."""

from __future__ import annotations

import contextlib
from pathlib import Path

from runspec_emulators.kubernetes.nodes.logs import Log
from runspec_emulators.kubernetes.nodes.volumes import Volumes
from runspec_emulators.kubernetes.world import Object

# "The total message length across all containers will be limited to 12kb" and 4096 bytes of each: its end, by
# ReadAtMost in pkg/util/tail/tail.go. https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
MOST_MESSAGE, MOST_OF_POD = 4096, 12 * 1024
FILES = {"configMap", "secret", "downwardAPI", "projected"}
"""Volumes that are mounted read-only: https://kubernetes.io/docs/concepts/storage/volumes/"""


class PodFiles:
    """The files of one pod, whose folder on this machine is *folder*."""

    def __init__(self, pod: Object, folder: Path, volumes: Volumes) -> None:
        self._pod, self._folder, self._volumes = pod, folder, volumes

    def mounts(self, container: Object) -> list[tuple[Path, str]]:
        mounts = []
        for mount in container.get("volumeMounts") or ():
            source = self._volumes.folders[mount["name"]]
            if mount.get("subPath"):
                source = source / mount["subPath"]
                if not source.exists():
                    source.mkdir(parents=True)
            mounts.append((source, mount["mountPath"]))
        message = self._message_file(container)
        message.parent.mkdir(parents=True, exist_ok=True)
        message.write_bytes(b"")
        mounts.append((message, container["terminationMessagePath"]))
        return mounts

    def read_only(self, container: Object) -> frozenset[str]:
        """Return where a container cannot write: mounts that say so, and files of the API server."""
        volumes = self._pod["spec"].get("volumes") or ()
        files = {v["name"] for v in volumes if v.keys() & FILES}
        mounts = container.get("volumeMounts") or ()
        return frozenset(m["mountPath"] for m in mounts if m.get("readOnly") or m["name"] in files)

    def _message_file(self, container: Object) -> Path:
        folder: Path = self._folder
        return folder / "messages" / str(container["name"]) / "termination-log"

    def message(self, container: Object, code: int, log: Log) -> str:
        """Return the termination message: of the file, or else the end of the log, if the policy says so.

        https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
        """
        content = b""
        with contextlib.suppress(FileNotFoundError):  # the pod was deleted meanwhile
            content = self._message_file(container).read_bytes()[-MOST_MESSAGE:]
        policy = container["terminationMessagePolicy"]
        if not content and policy == "FallbackToLogsOnError" and code != 0:
            # "Limited to 2048 bytes or 80 lines, whichever is smaller": terminationMessagePolicy.
            return log.last(80, 2048)
        spec = self._pod["spec"]
        count = len(spec["containers"]) + len(spec.get("initContainers") or ())
        return content[: MOST_OF_POD // count].decode(errors="replace")
