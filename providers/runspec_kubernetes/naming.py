"""The paths and names of objects, and requests in the words of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_jobs.provider import Request
from runspec_kubernetes.options import KubernetesOptions

RUN_LABEL = "runspec/run"
MANAGED = {"app.kubernetes.io/managed-by": "runspec"}
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
CANCELLED = "runspec/cancelled"  # an annotation of a Job that was cancelled
# The names and uids of what the API calls the kind of each collection.
KINDS: Mapping[str, tuple[str, str]] = {
    "configmaps": ("v1", "ConfigMap"),
    "secrets": ("v1", "Secret"),
    "services": ("v1", "Service"),
    "jobs": ("batch/v1", "Job"),
}
STRICT = {"fieldValidation": "Strict"}


def collection(namespace: str, kind: str) -> str:
    """Return the path of all objects of a kind in a namespace.

    https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris

    >>> collection("default", "jobs"), collection("ml", "pods")
    ('/apis/batch/v1/namespaces/default/jobs', '/api/v1/namespaces/ml/pods')
    """
    version = KINDS[kind][0] if kind in KINDS else "v1"
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{kind}"


def labels(options: KubernetesOptions, run: str | None = None) -> dict[str, str]:
    """Return the labels of an object of *run*, or of one of all runs, which must not depend on the profile of one."""
    return {**options.labels, **MANAGED, RUN_LABEL: run} if run else dict(MANAGED)


def create(
    options: KubernetesOptions, kind: str, name: str, run: str | None, **content: Any
) -> Request:
    """Return the request that makes an object, of *run* or of all runs."""
    version, called = KINDS[kind]
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": options.namespace,
        "labels": labels(options, run),
        **content.pop("metadata", {}),
    }
    body = {"apiVersion": version, "kind": called, "metadata": metadata, **content}
    params = {"path": collection(options.namespace, kind), "query": STRICT, "body": body}
    return Request("kubernetes", "create", params)


def delete(options: KubernetesOptions, kind: str, name: str, run: str | None = None) -> Request:
    """Return the request that deletes an object; the client adds its uid as a precondition.

    https://kubernetes.io/docs/concepts/architecture/garbage-collection/#foreground-deletion
    """
    params: dict[str, Any] = {
        "path": f"{collection(options.namespace, kind)}/{name}",
        "body": {"propagationPolicy": "Foreground"},
    }
    return Request("kubernetes", "delete", {**params, "run": run} if run else params)


def ending(job: Mapping[str, Any], why: str) -> dict[str, Any]:
    """Return the patch that marks a Job with *why*, and ends its pods with their grace; it never goes on.

    Kueue starts a suspended Job that it has admitted, so that a deadline ends one with a queue: a Job that has failed
    is finished for Kueue. One that waits begins when Kueue admits it, but has no pods until the deadline.

    https://github.com/kubernetes-sigs/kueue/blob/main/pkg/controller/jobframework/reconciler.go ("Job admitted,
    unsuspending", "handle job is finished"),
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#controlling-parallelism
    """
    queued = QUEUE_LABEL in (job["metadata"].get("labels") or {})
    return {
        "metadata": {"annotations": {CANCELLED: why}},
        "spec": {"activeDeadlineSeconds": 1, "parallelism": 0} if queued else {"suspend": True},
    }


def literal(text: str) -> str:
    """Return *text* as a pod must have it, which replaces `$(NAME)` and `$$` in commands and variables.

    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/

    >>> literal("cost: $5 $(HOME)")
    'cost: $$5 $$(HOME)'
    """
    return text.replace("$", "$$")
