"""Settings of the emulator: the nodes of its cluster, delays, and who may do what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runspec_emulators.frame.settings import EmulatorSettings

NODE: Mapping[str, Any] = {
    "cpu": "64",
    "memory": "256Gi",
    "ephemeral-storage": "1Ti",
    "pods": "1000",
}
"""What a node has, where nothing else is said."""


@dataclass(frozen=True)
class Settings(EmulatorSettings):
    """Times are in seconds. Those of the real service stand in comments, where documented."""

    FIXED = frozenset({"folder", "engine", "podman", "token", "nodes", "namespaces", "kueue"})

    token: str = ""
    """The bearer token of the user who may do all."""
    users: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Other users by name: `token`, and `rules` (verbs, apiGroups, resources, resourceNames, and a `namespace`)."""
    nodes: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {"node-1": {}, "node-2": {}}
    )
    """The nodes by name: `capacity` (resource -> quantity), `labels`, `taints`."""
    namespaces: tuple[str, ...] = ("default",)
    kueue: bool = False
    """Whether Kueue is there. It starts the jobs of the local queues that there are."""
    kueue_waits: str = ""
    """Why Kueue starts none, such as "couldn't assign flavors to pod set main: ..."; empty: it does."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """Claims that are there from the beginning: NAMESPACE/NAME -> the folder of this machine that stands for it.

    Those that are made have empty folders of the emulator's own.
    """
    bad_images: tuple[str, ...] = ("missing",)
    """Words: an image whose name has one of them cannot be pulled."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    """Priority classes that are there from the beginning."""

    version: str = "v1.36.2"
    start_s: float = 0.0  # a pod that is bound is started; seconds, where an image is pulled
    schedule_s: float = 0.0
    retry_s: float = 0.05
    """The first back-off of a failed pod: 10 s at the service; each further one is twice as long."""
    retry_most_s: float = 600.0  # MaxJobPodFailureBackOff in pkg/controller/job/job_controller.go
    unreachable_s: float = 0.2
    """How long a pod stays on a node that is lost, where it tolerates it for 300 s; shorter ones scale likewise."""
    grace_most_s: float = float("inf")
    """The most time that a pod has between SIGTERM and SIGKILL, whatever it asks for."""
    evict_s: float = 0.0
    """The grace of pods that their node evicts; 1 s at the service: immediateEvictionGracePeriodSeconds."""
    shutdown_s: float = 30.0
    """The grace of a node that shuts down: the least of it and of the pod's own."""
    log_bytes: int = 0
    """The size at which a log is rotated: 10 MiB at the service. 0: never."""
    watch_s: float = 0.0
    """How long a watch lives, where the client gives no time: 30 to 60 minutes at the service. 0: for ever."""
    bookmark_s: float = 1.0  # about a minute at the service
    history: int = 10_000
    """The changes that are kept for watches; older ones are Expired, as after five minutes at the service."""
    page: int = 0
    """The most items of a page, whatever limit a client gives; 0: its limit."""
