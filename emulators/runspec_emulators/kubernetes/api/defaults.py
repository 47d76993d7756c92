"""The defaults of jobs, pods and other objects, and what the server sets itself.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/,
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

Object = dict[str, Any]
NO_LIMIT = 2**31 - 1
TRACKING = "batch.kubernetes.io/job-tracking"
TOLERATED_S = 300  # DefaultTolerationSeconds
PREFIX = "batch.kubernetes.io/"


def set_pod(spec: Object) -> None:
    for name, value in {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
    }.items():
        spec.setdefault(name, value)
    for container in [*spec.get("containers", ()), *(spec.get("initContainers") or ())]:
        set_container(container)
    for volume in spec.get("volumes") or ():
        if not set(volume) - {"name"}:
            volume["emptyDir"] = {}
        for kind in ("configMap", "secret", "downwardAPI", "projected"):
            if kind in volume:
                volume[kind].setdefault("defaultMode", 0o644)


def set_container(container: Object) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container.get("image", "")
    tag = image.rpartition("/")[2].partition(":")[2]
    # A digest never changes its content, a tag `latest` does:
    # https://kubernetes.io/docs/concepts/containers/images/#imagepullpolicy-defaulting
    always = tag in ("", "latest") and "@" not in image
    container.setdefault("imagePullPolicy", "Always" if always else "IfNotPresent")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference:
            reference.setdefault("apiVersion", "v1")


def _set_requests(container: Object) -> None:
    """Give a container of a pod its requests; those of a template have what is said of them alone."""
    resources = container["resources"]
    if resources.get("limits"):
        # "If Requests is omitted for a container, it defaults to Limits if that is explicitly specified"
        requests = resources.setdefault("requests", {})
        for name, value in resources["limits"].items():
            requests.setdefault(name, value)


def set_job(value: Object) -> None:
    spec = value.setdefault("spec", {})
    # "When both are unset, both are defaulted to 1". With parallelism alone, completions stays unset,
    # which means a work queue: https://kubernetes.io/docs/concepts/workloads/controllers/job/#parallel-jobs
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    per_index = "backoffLimitPerIndex" in spec
    # With backoffLimitPerIndex, no number of failures of all indexes together ends the job:
    # JobSpec.
    spec.setdefault("backoffLimit", NO_LIMIT if per_index else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    # "When using podFailurePolicy, Failed is the only allowed value": JobSpec.
    policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", policy)
    for rule in spec.get("podFailurePolicy", {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern.setdefault("status", "True")
    template = spec.get("template")
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        set_pod(template.setdefault("spec", {}))
    # SetDefaults_Job in pkg/apis/batch/v1/defaults.go gives a job without labels those of its
    # template.
    if not value["metadata"].get("labels") and isinstance(template, dict):
        labels = template["metadata"].get("labels")
        if labels:
            value["metadata"]["labels"] = dict(labels)


def set_selector(value: Object) -> None:
    """Give a new job its selector, and the labels to its template: the server does so when it knows the uid."""
    spec, meta = value["spec"], value["metadata"]
    if spec.get("manualSelector") or "template" not in spec:
        return
    labels = spec["template"]["metadata"].setdefault("labels", {})
    # Each has an old name without a prefix, which selectors of users still have.
    for name, text in (("controller-uid", meta["uid"]), ("job-name", meta["name"])):
        labels[name] = labels[f"{PREFIX}{name}"] = text
    meta["labels"] = meta.get("labels") or dict(labels)
    spec["selector"] = {"matchLabels": {f"{PREFIX}controller-uid": meta["uid"]}}


def set_secret(value: Object) -> None:
    """ "The stringData field is provided for convenience. It is never output when reading from the API." """
    value.setdefault("type", "Opaque")
    data = value.setdefault("data", {})
    for name, text in value.pop("stringData", {}).items():
        data[name] = base64.b64encode(text.encode()).decode()
    if not data:
        del value["data"]


def set_service(value: Object) -> None:
    spec = value.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("clusterIP", "10.96.0.10")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def set_claim(value: Object) -> None:
    value.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    value.setdefault("status", {"phase": "Bound"})


def set_namespace(value: Object) -> None:
    value.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    value.setdefault("status", {"phase": "Active"})
    meta = value["metadata"]
    if meta.get("name"):
        meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta["name"]


def _set_pod_object(value: Object) -> None:
    spec = value.setdefault("spec", {})
    set_pod(spec)
    for container in [*spec.get("containers", ()), *(spec.get("initContainers") or ())]:
        _set_requests(container)
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    # The admission plugin DefaultTolerationSeconds:
    # https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#defaulttolerationseconds
    tolerations = spec.setdefault("tolerations", [])
    for name in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{name}"
        every = (
            t
            for t in tolerations
            if t.get("key") in (key, None) and t.get("effect") in ("NoExecute", None)
        )
        if not any(every):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": TOLERATED_S,
                }
            )


SETTERS: dict[str, Callable[[Object], None]] = {
    "Job": set_job,
    "Pod": _set_pod_object,
    "Secret": set_secret,
    "Service": set_service,
    "PersistentVolumeClaim": set_claim,
    "Namespace": set_namespace,
}


def set_defaults(kind: str, value: Object) -> None:
    if kind in SETTERS:
        SETTERS[kind](value)
