"""A node of a cluster of the tests: a program that runs the pods bound to it as processes, as root.

    python -m tests.support.kubernetes.node NAME FOLDER KUBECONFIG CERTIFICATE KEY AUTHORITY CALLERS

It registers the node, renews its lease, and answers what the API server asks a kubelet. Pods have one container, which
is not started again (restartPolicy: Never), and no images: they see the files of this machine.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from urllib3.exceptions import HTTPError

from runspec_emulators.frame.listening import HOST, Certificate
from tests.support.kubernetes.api import Api, Refused
from tests.support.kubernetes.node_pod import Machine, Pod, now
from tests.support.kubernetes.node_server import Server

Object = dict[str, Any]
FREE = {
    "cpu": "4",
    "memory": "8Gi",
    "pods": "110",
    "ephemeral-storage": "20Gi",
    "nvidia.com/gpu": "2",
}
BEAT_S, AGAIN_S, WATCH_S = 2.0, 0.2, 300
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def describe_node(name: str, port: int) -> Object:
    """Return the node whose kubelet's API listens on *port*."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    status: Object = {
        "capacity": FREE,
        "allocatable": FREE,
        "addresses": [
            {"type": "InternalIP", "address": HOST},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "conditions": [_ready()],
        "nodeInfo": _information(),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }


def _ready() -> Object:
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the node program runs",
        "lastHeartbeatTime": now(),
    }


def _information() -> Object:
    names = {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "kernelVersion": platform.release(),
        "osImage": "processes",
        "kubeletVersion": "v1.20.2",
        "kubeProxyVersion": "v1.20.2",
        "containerRuntimeVersion": "process://1",
    }
    return {**dict.fromkeys(("machineID", "systemUUID", "bootID"), ""), **names}


class Node:
    """Keeps the pods of the node *name* going, in *folder*."""

    def __init__(self, name: str, folder: Path, api: Api) -> None:
        shutil.rmtree(folder, ignore_errors=True)  # of pods that were lost with the node
        folder.mkdir(parents=True)
        self.name, self.api = name, api
        address = urlsplit(api.host)
        at = (address.hostname or HOST, address.port or 443)
        self.machine = Machine(api, folder, at, FREE)
        self.pods: dict[str, Pod] = {}
        self.number = os.getpid() * 50  # so that nodes give out different addresses, mostly
        self.lock = threading.Lock()

    def find(self, namespace: str, name: str) -> Pod | None:
        """Return the pod of this name; of several, the newest one."""
        with self.lock:
            pods = list(self.pods.values())
        return next((p for p in reversed(pods) if (p.namespace, p.name) == (namespace, name)), None)

    def register(self, port: int) -> None:
        body = describe_node(self.name, port)
        try:
            self.api.must("POST", "/api/v1/nodes", body)
        except Refused as exc:
            if exc.answer.status != 409:
                raise
            self.api.must("PATCH", f"/api/v1/nodes/{self.name}/status", {"status": body["status"]})

    def beat(self) -> None:
        """Say again and again that the node is alive.

        https://kubernetes.io/docs/concepts/architecture/nodes/#node-heartbeats
        """
        while True:
            try:
                self._renew()
            except (Refused, HTTPError):
                pass  # the API server is away or busy
            time.sleep(BEAT_S)

    def _renew(self) -> None:
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40}
        spec["renewTime"] = now().replace("Z", ".000000Z")
        answer = self.api.call(
            "PATCH", f"{LEASES}/{self.name}", {"spec": spec}, "application/merge-patch+json"
        )
        if answer.status == 404:
            self.api.call("POST", LEASES, {"metadata": {"name": self.name}, "spec": spec})
        status = {"status": {"conditions": [_ready()]}}
        kind = "application/strategic-merge-patch+json"
        self.api.call("PATCH", f"/api/v1/nodes/{self.name}/status", status, kind)

    def serve(self) -> None:
        """Follow the pods that are bound to this node, for ever."""
        while True:
            try:
                self._follow()
            except (Refused, HTTPError):
                time.sleep(AGAIN_S)

    def _follow(self) -> None:
        mine = {"fieldSelector": f"spec.nodeName={self.name}"}
        listed = self.api.get("/api/v1/pods", **mine)
        there = {pod["metadata"]["uid"] for pod in listed["items"]}
        for pod in listed["items"]:
            self._see(pod)
        for uid in {*self.pods} - there:
            self._forget(uid)
        version = listed["metadata"]["resourceVersion"]
        for event in self.api.watch("/api/v1/pods", WATCH_S, resourceVersion=version, **mine):
            if event["type"] == "ERROR":
                return
            if event["type"] == "DELETED":
                self._forget(event["object"]["metadata"]["uid"])
            else:
                self._see(event["object"])

    def _see(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self.pods:
            leaving = "deletionTimestamp" in pod["metadata"]
            if pod["status"].get("phase") in ("Succeeded", "Failed") and not leaving:
                return
            self.number += 1
            with self.lock:
                self.pods[uid] = Pod(self.machine, pod, self.number % 50_000)
            self.pods[uid].update(pod)
            self.pods[uid].start()
        self.pods[uid].update(pod)

    def _forget(self, uid: str) -> None:
        with self.lock:
            pod = self.pods.pop(uid, None)
        if pod is not None:
            pod.kill()


def main(name: str, folder: str, kubeconfig: str, *certificates: str) -> None:
    """Serve as the node *name*; without a last certificate, whoever is on this machine may ask it."""
    shown, key, authority, *callers = map(Path, certificates)
    node = Node(name, Path(folder), Api.opened(Path(kubeconfig)))
    server = Server(node.find, Certificate(shown, key, authority), *callers)
    server.begin()
    node.register(server.server_address[1])
    threading.Thread(target=node.beat, daemon=True).start()
    node.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
