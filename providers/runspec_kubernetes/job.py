"""The Job of a run, and what its pods need: a Secret, and a Service by which nodes have names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runspec_agent.base import image_entrypoint, limits
from runspec_jobs.provider import Mount, Request, Scope, Spec, Step
from runspec_kubernetes import store_layout
from runspec_kubernetes.decision import KILLED, Decision
from runspec_kubernetes.naming import QUEUE_LABEL, RUN_LABEL, create, delete, labels, literal
from runspec_kubernetes.options import KubernetesOptions

CONTAINER = "job"
READ_ENTRYPOINT = "read_entrypoint"  # the operation of the request
HOME = "/runspec"  # the volume of a pod for what runspec and the program write
AGENT_AT = "/runspec-agent"
CONFIG_AT = "/runspec-record"
SHARED = f"{HOME}-shared"  # where shared file systems are mounted in jobs
END_FILE = "/dev/termination-log"  # the agent writes to it how it has ended
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
# Variables with what only a pod knows: https://kubernetes.io/docs/concepts/workloads/pods/downward-api/
FIELDS: Mapping[str, str] = {
    "RUNSPEC_HOST": "status.podIP",
    "RUNSPEC_INDEX": f"metadata.annotations['{INDEX}']",
    "RUNSPEC_FAILED": f"metadata.annotations['{FAILURES}']",
    "RUNSPEC_IGNORED": f"metadata.annotations['{IGNORED}']",
}
# The folder of runspec in the volume claim that is the store.
CLAIM_MOUNT: dict[str, Any] = {
    "name": "store",
    "mountPath": f"{HOME}-store",
    "subPath": "runspec",
}
AGAIN, LEFT = 75, 143  # exit codes after which another attempt may follow
# The attempt is the number of pods of this index that have ended, plus one; a number that is 0 may be no annotation.
START = (
    "export RUNSPEC_ATTEMPT=$((1 + ${RUNSPEC_FAILED:-0} + ${RUNSPEC_IGNORED:-0})); "
    'mkdir -p "$HOME" 2>/dev/null; '
)
# Without a store, the agent uses a folder of the pod. It counts failures by files, of which those of the pods before
# are made here.
ALONE = (
    f'at="{HOME}/store/runs/$RUNSPEC_RUN"; of="$at/failures/${{RUNSPEC_INDEX:-0}}-0"; mkdir -p "$of" && '
    f'cp {CONFIG_AT}/{store_layout.RECORD} "$at/" || exit 2; '
    'n=0; while [ $n -lt "${RUNSPEC_FAILED:-0}" ]; do n=$((n + 1)); : >"$of/$n-1"; done; '
)
RUN = (
    "unset RUNSPEC_FAILED RUNSPEC_IGNORED; "
    "for p in python3 python; do command -v $p >/dev/null 2>&1 && "
    f"exec $p -IS {AGENT_AT}/{store_layout.AGENT} %s; done; "
    "echo 'runspec: this image has no python3' >&2; exit 127"
)


def steps(decision: Decision, spec: Spec, run: str) -> Iterator[Step]:
    """Yield the steps that make the objects of the run; the Job is the last one."""
    options = decision.options
    if spec.container.entrypoint:
        # No pod can read it: an image does not contain its configuration.
        machine = decision.selector.get("kubernetes.io/arch", "amd64")
        do = Request(
            "registry", READ_ENTRYPOINT, {"image": decision.image, "architecture": machine}
        )
        what = f"read the ENTRYPOINT of {decision.image} from its registry"
        yield Step("entrypoint", what, Scope.RUN, do)
    if values := _secret_values(spec, options):
        do = create(options, "secrets", run, run, type="Opaque", stringData=values)
        undo = delete(options, "secrets", run, run)
        yield Step("secret", f"make the Secret {run}", Scope.RUN, do, undo)
    if decision.nodes > 1:
        # Headless: pods have names of their own. Nodes meet while their pods are not ready, too.
        # https://kubernetes.io/docs/concepts/services-networking/service/#headless-services
        body = {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {RUN_LABEL: run},
        }
        do = create(options, "services", run, run, spec=body)
        undo = delete(options, "services", run, run)
        yield Step("service", f"make the Service {run}", Scope.RUN, do, undo)
    do = create(
        options,
        "jobs",
        run,
        run,
        metadata={"labels": _labels(options, run)},
        spec=_spec(decision, spec, run),
    )
    undo = delete(options, "jobs", run, run)
    yield Step("job", f"make the Job {run}{_count(decision)}", Scope.RUN, do, undo)


def _labels(options: KubernetesOptions, run: str) -> dict[str, str]:
    queue = {QUEUE_LABEL: options.queue} if options.queue else {}
    return {**labels(options, run), **queue}


def _count(decision: Decision) -> str:
    if decision.indexes == 1:
        return ""
    nodes = f" of {decision.nodes} nodes" if decision.nodes > 1 else ""
    tasks = f"{decision.tasks:,} tasks" if decision.tasks > 1 else "1 task"
    return f" with {decision.indexes:,} indexes: {tasks}{nodes}"


def _spec(decision: Decision, spec: Spec, run: str) -> dict[str, Any]:
    """Return the specification of the Job.

    https://kubernetes.io/docs/concepts/workloads/controllers/job/
    """
    body: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": decision.indexes,
        "parallelism": decision.parallelism,
        "backoffLimitPerIndex": decision.attempts - 1,
        "podFailurePolicy": {"rules": _rules(decision)},
        "template": {
            "metadata": {"labels": _pod_labels(decision, run), **_annotations(decision)},
            "spec": _pod(decision, spec, run),
        },
    }
    if decision.max_failed is not None:
        body["maxFailedIndexes"] = decision.max_failed - 1
    if decision.keep_s is not None:
        body["ttlSecondsAfterFinished"] = decision.keep_s
    if decision.options.queue:
        body["suspend"] = True
    return body


def _pod_labels(decision: Decision, run: str) -> dict[str, str]:
    """Return the labels of pods; by one of them, Azure gives a pod the identity of its service account.

    https://azure.github.io/azure-workload-identity/docs/topics/service-account-labels-and-annotations.html
    """
    options = decision.options
    by_identity = options.service_account and not options.store_keys
    azure = by_identity and (options.store or "").startswith("az:")
    return {**labels(options, run), **({"azure.workload.identity/use": "true"} if azure else {})}


def _annotations(decision: Decision) -> dict[str, Any]:
    annotations = decision.options.annotations
    return {"annotations": dict(annotations)} if annotations else {}


def _rules(decision: Decision) -> list[dict[str, Any]]:
    """Return the rules for pods that have failed: the first one that matches decides.

    A pod that was evicted is no failure of the job. The agent exits with a code of its own if another attempt is to
    follow; a signal that killed all of a container says nothing, so that an attempt follows if the spec has one. After
    the last attempt of a program, the agent exits with none of these codes.

    https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
    """
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    after_loss = "FailIndex" if decision.lost == "stop" else "Ignore"
    again = [AGAIN, KILLED, LEFT] if decision.repeats_killed else [AGAIN, LEFT]
    final = {"containerName": CONTAINER, "operator": "NotIn", "values": again}
    return [
        {"action": after_loss, "onPodConditions": disrupted},
        {"action": "FailIndex", "onExitCodes": final},
    ]


def _pod(decision: Decision, spec: Spec, run: str) -> dict[str, Any]:
    options = decision.options
    body: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # variables of other services of the namespace
        "terminationGracePeriodSeconds": limits.SERVICE_GRACE_S + limits.SAVE_S,
        "containers": [_container(decision, spec, run)],
        "volumes": _volumes(decision, run),
    }
    if decision.limit_s:
        body["activeDeadlineSeconds"] = decision.limit_s
    if decision.nodes > 1:
        body["subdomain"] = run
    if options.host_network:
        body |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if options.service_account:
        body["serviceAccountName"] = options.service_account
    if options.priority_class:
        body["priorityClassName"] = options.priority_class
    if options.pull_secrets:
        body["imagePullSecrets"] = [{"name": name} for name in options.pull_secrets]
    return body | confined_pod(options) | _placement(decision)


def confined_pod(options: KubernetesOptions) -> dict[str, Any]:
    """Return what a pod has of the pod security standard of the profile, besides that of its container.

    https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """
    context = {
        "runAsNonRoot": True,
        "runAsUser": options.user,
        "runAsGroup": options.user,
        "fsGroup": options.user,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {"securityContext": context} if options.security == "restricted" else {}


def confined(options: KubernetesOptions) -> dict[str, Any]:
    """Return what a container has of that standard."""
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {"securityContext": context} if options.security == "restricted" else {}


def _placement(decision: Decision) -> dict[str, Any]:
    """Return on which nodes the pods may run: https://kubernetes.io/docs/concepts/scheduling-eviction/"""
    body: dict[str, Any] = {}
    nodes: dict[str, Any] = {}
    if decision.selector:
        body["nodeSelector"] = dict(decision.selector)
    if decision.tolerations:
        body["tolerations"] = [dict(toleration) for toleration in decision.tolerations]
    if decision.preferred:
        term = {"weight": 100, "preference": _matching("In", decision.preferred)}
        nodes["preferredDuringSchedulingIgnoredDuringExecution"] = [term]
    if decision.avoided:
        terms = {"nodeSelectorTerms": [_matching("NotIn", decision.avoided)]}
        nodes["requiredDuringSchedulingIgnoredDuringExecution"] = terms
    return {**body, **({"affinity": {"nodeAffinity": nodes}} if nodes else {})}


def _matching(operator: str, wanted: Mapping[str, str]) -> dict[str, Any]:
    """Return the term for nodes by labels; `NotIn` holds for nodes without the label, too."""
    expressions = [
        {"key": key, "operator": operator, "values": [value]} for key, value in wanted.items()
    ]
    return {"matchExpressions": expressions}


def _container(decision: Decision, spec: Spec, run: str) -> dict[str, Any]:
    options = decision.options
    start = START + (RUN % "copy-log job" if options.store else ALONE + RUN % "job")
    container: dict[str, Any] = {
        "name": CONTAINER,
        # By the digest whose ENTRYPOINT was read: a tag may have moved since.
        "image": {"$ref": "entrypoint.image"} if spec.container.entrypoint else decision.image,
        "command": ["/bin/sh", "-c", literal(start)],
        "env": list(_environment(decision, spec, run)),
        "volumeMounts": list(_volume_mounts(decision, spec)),
        "workingDir": HOME,
        "terminationMessagePath": END_FILE,
    }
    resources = {"requests": dict(decision.requests), "limits": dict(decision.limits)}
    if any(resources.values()):
        container["resources"] = {key: value for key, value in resources.items() if value}
    return container | confined(options)


def _environment(decision: Decision, spec: Spec, run: str) -> Iterator[dict[str, Any]]:
    """Yield the variables of the container, each once."""
    secret = _secret_values(spec, decision.options)
    values = dict(_own_values(decision, run))
    if decision.options.security == "restricted":
        # The user of the pod has no name and no home in most images.
        values["HOME"] = f"{HOME}/home"
    values |= spec.program_env
    for name in secret:
        yield {"name": name, "valueFrom": {"secretKeyRef": {"name": run, "key": name}}}
    for name, value in values.items():
        if name not in secret:
            yield {"name": name, "value": literal(value)}
    if spec.container.entrypoint:
        yield {"name": image_entrypoint.VARIABLE, "value": {"$ref": "entrypoint.code"}}
    for name, field in FIELDS.items():
        yield {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def _own_values(decision: Decision, run: str) -> Mapping[str, str]:
    options = decision.options
    values = {
        "RUNSPEC_RUN": run,
        "RUNSPEC_JOB": run,
        "RUNSPEC_SCRATCH": HOME,
        "RUNSPEC_SHARED": SHARED,
        "RUNSPEC_END_FILE": END_FILE,
        "RUNSPEC_GRACE_S": str(limits.SERVICE_GRACE_S),
    }
    if options.store:
        values["RUNSPEC_LOG"] = f"{HOME}/log"
    return {**values, **store_variables(options)}


def store_variables(options: KubernetesOptions) -> dict[str, str]:
    """Return the variables by which the agent reaches the store, without credentials."""
    store = options.store or ""
    kind, _, place = store.partition("://")
    if kind == "s3":
        values = {"RUNSPEC_STORE": store, "RUNSPEC_REGION": options.region or "us-east-1"}
        values["RUNSPEC_PRINTABLE"] = "1"  # obstore lists no objects with other names
        return values | ({"AWS_ENDPOINT_URL_S3": options.store_url} if options.store_url else {})
    if kind == "az":
        account, _, rest = place.partition("/")
        end = (options.store_url or f"https://{account}.blob.core.windows.net").rstrip("/")
        return {"RUNSPEC_STORE": f"{end}/{rest}", "RUNSPEC_BLOB_URL": end}
    folder = f"{HOME}-store" if store.startswith("pvc:") else f"{HOME}/store"
    return {"RUNSPEC_STORE": f"file://{folder}"}


def _secret_values(spec: Spec, options: KubernetesOptions) -> dict[str, Any]:
    """Return the content of the Secret of the run, by variable: secrets of the spec, and the keys of the store."""
    values = {name: {"$secret": options.secrets[key]} for name, key in spec.secrets.items()}
    if (options.store or "").startswith("az:") and "AZURE_STORAGE_KEY" in options.store_keys:
        values["RUNSPEC_SAS"] = {"$signed": "racwdl"}
    elif options.store:
        # The program may have other keys of AWS, and does not get these.
        values |= {
            name.replace("AWS_", "RUNSPEC_S3_", 1): {"$secret": source}
            for name, source in options.store_keys.items()
        }
    return values


def _volumes(decision: Decision, run: str) -> list[dict[str, Any]]:
    options = decision.options
    volumes: list[dict[str, Any]] = [
        {"name": "work", "emptyDir": {}},
        {"name": "agent", "configMap": {"name": store_layout.agent_name()}},
    ]
    if options.store is None:
        volumes.append({"name": "record", "configMap": {"name": run}})
    elif options.store.startswith("pvc:"):
        claim = {"claimName": options.store.removeprefix("pvc:")}
        volumes.append({"name": "store", "persistentVolumeClaim": claim})
    if decision.shm_bytes or decision.gpus:
        # Data loaders share batches in /dev/shm, of which a container has 64 MiB.
        bound = {"sizeLimit": str(decision.shm_bytes)} if decision.shm_bytes else {}
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", **bound}})
    for name in decision.shared:
        claim = {"claimName": options.shared[name].removeprefix("pvc:")}
        volumes.append({"name": _volume(decision, name), "persistentVolumeClaim": claim})
    return volumes


def _volume(decision: Decision, name: str) -> str:
    """Return the name of the volume of a shared file system; names in the profile may be no names of volumes."""
    return f"shared-{[*decision.shared].index(name)}"


def _volume_mounts(decision: Decision, spec: Spec) -> Iterator[dict[str, Any]]:
    """Yield where volumes are mounted: the folders of mounts and outputs too, which the user of a pod cannot make.

    The kubelet gives the folder of a sub-path the mode of its volume, in which every user may write:
    https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kubelet_pods.go (makeMounts)
    """
    options = decision.options
    yield {"name": "work", "mountPath": HOME}
    yield {"name": "agent", "mountPath": AGENT_AT, "readOnly": True}
    if options.store is None:
        yield {"name": "record", "mountPath": CONFIG_AT, "readOnly": True}
    elif options.store.startswith("pvc:"):
        yield CLAIM_MOUNT
    if decision.shm_bytes or decision.gpus:
        yield {"name": "shm", "mountPath": "/dev/shm"}  # noqa: S108 - of the container
    for name, read_only in decision.shared.items():
        place = {"name": _volume(decision, name), "mountPath": f"{SHARED}/{name}"}
        yield {**place, "readOnly": True} if read_only else place
    for number, path in enumerate(decision.folders):
        yield {"name": "work", "mountPath": path, "subPath": f"folder-{number}"}
    for mount in spec.mounts:
        if mount.scheme == "shared":
            yield _shared_mount(decision, mount)


def _shared_mount(decision: Decision, mount: Mount) -> dict[str, Any]:
    name, _, folder = mount.place.partition("/")
    place: dict[str, Any] = {"name": _volume(decision, name), "mountPath": mount.target}
    if folder.strip("/"):
        place["subPath"] = folder.strip("/")
    return {**place, "readOnly": True} if mount.read_only else place
