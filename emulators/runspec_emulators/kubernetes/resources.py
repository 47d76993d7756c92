"""The resources of the emulator, by group and plural: their kinds and verbs."""

from __future__ import annotations

from typing import NamedTuple

from runspec_emulators.kubernetes.errors import Names


class Resource(NamedTuple):
    """A resource of a group and version."""

    names: Names
    version: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    stored: bool = True
    """Whether its objects are kept; reviews are answered and forgotten."""
    schema: str = ""
    """The schema, where it is not that of the kind."""

    @property
    def api_version(self) -> str:
        return f"{self.names.group}/{self.version}" if self.names.group else self.version

    @property
    def list_kind(self) -> str:
        return f"{self.names.kind}List"


def _core(plural: str, kind: str, *short: str, namespaced: bool = True) -> Resource:
    return Resource(Names("", plural, kind), "v1", namespaced, short)


AUTHORIZATION = "authorization.k8s.io"
KUEUE = "kueue.x-k8s.io"
PODS = _core("pods", "Pod", "po")
NODES = _core("nodes", "Node", "no", namespaced=False)
NAMESPACES = _core("namespaces", "Namespace", "ns", namespaced=False)
SECRETS = _core("secrets", "Secret")
CONFIG_MAPS = _core("configmaps", "ConfigMap", "cm")
EVENTS = _core("events", "Event", "ev")
CLAIMS = _core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc")
QUOTAS = _core("resourcequotas", "ResourceQuota", "quota")
LIMITS = _core("limitranges", "LimitRange", "limits")
ACCOUNTS = _core("serviceaccounts", "ServiceAccount", "sa")
JOBS = Resource(Names("batch", "jobs", "Job"), "v1")
PRIORITIES = Resource(
    Names("scheduling.k8s.io", "priorityclasses", "PriorityClass"), "v1", False, ("pc",)
)
ACCESS_REVIEWS = Resource(
    Names(AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    "v1",
    False,
    stored=False,
)
RULES_REVIEWS = Resource(
    Names(AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    "v1",
    False,
    stored=False,
)
WORKLOADS = Resource(Names(KUEUE, "workloads", "Workload"), "v1beta1", True, ("wl",))
LOCAL_QUEUES = Resource(Names(KUEUE, "localqueues", "LocalQueue"), "v1beta1", True, ("lq",))

RESOURCES = (
    PODS,
    NODES,
    NAMESPACES,
    SECRETS,
    CONFIG_MAPS,
    EVENTS,
    CLAIMS,
    QUOTAS,
    LIMITS,
    ACCOUNTS,
    _core("services", "Service", "svc"),
    JOBS,
    PRIORITIES,
    ACCESS_REVIEWS,
    RULES_REVIEWS,
    WORKLOADS,
    LOCAL_QUEUES,
)

SUBRESOURCES = {
    "pods": ("log", "exec", "portforward", "eviction", "status", "binding"),
    "jobs": ("status",),
    "nodes": ("status",),
    "namespaces": ("status",),
    "persistentvolumeclaims": ("status",),
    "resourcequotas": ("status",),
    "workloads": ("status",),
}


def find(group: str, version: str, plural: str) -> Resource | None:
    """Return the resource of a path, if there is one."""
    for resource in RESOURCES:
        if (resource.names.group, resource.version, resource.names.plural) == (
            group,
            version,
            plural,
        ):
            return resource
    return None
