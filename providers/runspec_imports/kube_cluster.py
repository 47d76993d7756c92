"""What only the provider `kubernetes` has of a Job: the settings of its cluster, its namespace and its pods' rights.

https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

from runspec_jobs.provider.importing.draft import Draft
from runspec_jobs.provider.importing.mapping import ForeignMap

KUBERNETES = "kubernetes"
# https://kueue.sigs.k8s.io/docs/tasks/run/jobs/
QUEUE = "kueue.x-k8s.io/queue-name"
# What pods of runspec fulfil by themselves, and what they ask for with `security: restricted`.
RESTRICTED = ("allowPrivilegeEscalation", "seccompProfile", "fsGroupChangePolicy")
# Labels and annotations that controllers and kubectl write, or that only describe.
PLAIN_LABELS = (
    "app",
    "app.kubernetes.io/",
    "name",
    "component",
    "job-name",
    "batch.kubernetes.io/",
    "controller-uid",
    "kubectl.kubernetes.io/last-applied-configuration",
)
CLOUDS = {
    "cloud.google.com/gke-spot": "gke",
    "eks.amazonaws.com/capacityType": "eks",
    "kubernetes.azure.com/scalesetpriority": "aks",
    "karpenter.sh/capacity-type": "karpenter",
}
NO_RIGHT = "a job of runspec has no such right"
AS_ROOT = "the job runs as the user of its image, which must be root: security: none in the profile"
AS_OURS = "the job runs as user 1000 and not as that of its image: set user to another one"


def take_labels(labels: ForeignMap, draft: Draft) -> None:
    """Take the queue of an object, and its other *labels*, which do more than describe it."""
    if queue := labels.text(QUEUE):
        draft.settings["queue"] = queue
    for key in labels.list_keys():
        draft.settings.setdefault("labels", {})[key] = labels.text(key)


def take_cluster_settings(source: ForeignMap, draft: Draft) -> None:
    """Take what a pod says about its cluster; *source* is its spec."""
    of_old_name = source.text("serviceAccount")  # which a server gives every pod, too
    if account := source.text("serviceAccountName") or of_old_name:
        draft.profile["service_account"] = account
    if secrets := [
        name for entry in source.maps("imagePullSecrets") if (name := entry.text("name"))
    ]:
        draft.profile["pull_secrets"] = secrets
    if priority := source.text("priorityClassName"):
        draft.settings["priority_class"] = priority
    if source.truth("hostNetwork"):
        draft.profile["host_network"] = True


def take_rights(pod: ForeignMap, container: ForeignMap, draft: Draft) -> None:
    """Take the user of the container. A pod that names none runs as its image says, and not as our user does."""
    user: int | None = None
    at: object = None
    restricted = False
    for source in (pod.map("securityContext"), container.map("securityContext")):
        for key in ("privileged", "readOnlyRootFilesystem"):
            if source.truth(key):
                source.lose(key, NO_RIGHT)
        if source.truth("runAsNonRoot"):
            restricted, at = True, source.find_key("runAsNonRoot")
        source.skip(*RESTRICTED)
        source.map("capabilities").skip("drop")
        asked = source.number("runAsUser")
        if asked is not None:
            user, at = asked, source.find_key("runAsUser")
        for key in ("runAsGroup", "fsGroup"):
            if source.number(key) not in (None, user):
                source.notes.lose(
                    f"{source.path}.{key}", "the group is that of the user", source.value
                )
    on_host = bool(draft.profile.get("host_network"))
    if user and not on_host:
        draft.settings["user"] = user
        return
    if user:
        draft.notes.lose("runAsUser", "pods with hostNetwork run as their image says", pod.value)
    if user == 0:
        draft.notes.add(AS_ROOT, at)
    if user is not None or on_host or not restricted:
        draft.profile["security"] = "none"
    else:
        draft.notes.add(AS_OURS, at)


def take_toleration(source: ForeignMap, key: str, draft: Draft) -> None:
    """Take a toleration of *key*, whose operator is Equal unless it says Exists."""
    kept = {"key": key, "operator": source.text("operator", "Equal" if key else "Exists")}
    kept |= {name: source.text(name) for name in ("value", "effect")}
    kept = {name: text for name, text in kept.items() if text}
    draft.settings.setdefault("tolerations", []).append(kept)


def needs_store(draft: Draft) -> bool:
    """Return whether the job reads files of this machine, or has nodes that meet: both go by a store."""
    mounts = draft.spec.get("mounts", ())
    return "nodes" in draft.cluster or any(not m["source"].startswith("shared:") for m in mounts)
