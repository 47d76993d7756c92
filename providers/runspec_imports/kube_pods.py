"""Import the pod of a Job of Kubernetes: its container, machine, variables and volumes.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

from __future__ import annotations

import re
import shlex

from runspec_imports.kube_cluster import (
    CLOUDS,
    KUBERNETES,
    NO_RIGHT,
    take_cluster_settings,
    take_rights,
    take_toleration,
)
from runspec_imports.kube_program import Beside, Program
from runspec_imports.kube_volumes import take_volumes
from runspec_jobs.provider.commands import literal
from runspec_jobs.provider.importing.documents import Text
from runspec_jobs.provider.importing.draft import Draft
from runspec_jobs.provider.importing.mapping import ForeignMap

SCALES = {
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(?:e(\d+))?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
GPUS = ("nvidia.com/gpu", "amd.com/gpu")
# What the provider kubernetes counts as GPUs, too.
DEVICE = re.compile(r"[\w.-]+/gpu|aws\.amazon\.com/neuron|google\.com/tpu")
# Labels of nodes that name a GPU, by the clouds and by NVIDIA's device plugin.
GPU_LABELS = (
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
GPU = re.compile(
    r"(?i)\b(A100|H100|H200|B200|V100|P100|T4G?|L40S?|L4|A10G?|MI300X)\b(?:.*?(\d+)GB)?"
)
SPOT_LABELS = {
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "cloud.google.com/gke-spot": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}
PLAIN_LABELS = (
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
)
PLAIN = ("linux", "amd64")
MACHINE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
# What changes nothing for a job of runspec, which starts each attempt in a container of its own.
NEEDLESS = (
    "restartPolicy dnsPolicy schedulerName enableServiceLinks automountServiceAccountToken "
    "setHostnameAsFQDN preemptionPolicy"
).split()
NEEDLESS_IN_CONTAINER = (
    "name imagePullPolicy terminationMessagePath terminationMessagePolicy stdin stdinOnce tty"
).split()
# Providers whose service runs the ENTRYPOINT itself.
NO_ENTRYPOINT = ("aws-batch", "azure-batch-ai")
GRACE_S = 30  # what a pod has by default


def take_pod(source: ForeignMap, program: Program, beside: Beside) -> None:
    """Add everything in *source*, the spec of a pod, to the draft of *program*."""
    draft = program.draft
    source.skip(*NEEDLESS)
    if source.text("runtimeClassName", "nvidia") != "nvidia":
        source.lose("runtimeClassName")
    if (seconds := source.number("terminationGracePeriodSeconds")) and seconds > GRACE_S:
        source.lose(
            "terminationGracePeriodSeconds",
            "the provider has a setting grace, or a time of its own",
        )
    if draft.provider == KUBERNETES:
        take_cluster_settings(source, draft)
    for key, hint in (
        ("serviceAccountName", "the profile says which role a job has"),
        ("imagePullSecrets", "the profile names the registry and its login"),
        ("priorityClassName", "the queue, share or partition under providers decides"),
    ):
        if key in source:
            source.lose(key, hint)
    containers = source.maps("containers")
    for other in containers[1:]:
        draft.notes.lose(f"container {other.text('name')}", "a job has one container", other.value)
        other.clear()
    main = containers[0] if containers else ForeignMap(None, "containers", draft.notes)
    draft.container["image"] = main.text("image")
    _take_sizes(main.map("resources"), draft)
    _take_nodes(source, draft)
    if draft.provider == KUBERNETES:
        take_rights(source, main, draft)
    for name, path in take_volumes(source, main, draft, beside).items():
        draft.notes.add(f"volume {name} is a folder of the container: {path}", main.value)
    _take_env(main, program, beside)
    _take_init(source, program)
    _take_container(main, program)


def _take_init(source: ForeignMap, program: Program) -> None:
    for one in source.maps("initContainers"):
        image, words = one.text("image"), [*one.texts("command"), *one.texts("args")]
        if image == program.draft.container["image"] and words:
            program.write_step(words)
            one.skip(*NEEDLESS_IN_CONTAINER, "resources", "volumeMounts", "env", "envFrom")
        else:
            why = "it has an image of its own: write it as a job before this one, or into run"
            program.draft.notes.lose(f"init container {one.text('name')}", why, one.value)
            one.clear()


def _take_container(source: ForeignMap, program: Program) -> None:
    draft = program.draft
    source.skip(*NEEDLESS_IN_CONTAINER)
    for port in source.maps("ports"):
        number = port.number("containerPort")
        port.skip("name", "protocol")
        if number and draft.cluster.get("nodes", 1) == 1 and "sweep" not in draft.spec:
            draft.spec.setdefault("ports", []).append(number)
    if folder := source.text("workingDir"):
        program.before.append(f"cd {shlex.quote(literal(folder))} || exit")
    rights = source.map("securityContext")
    for key in ("privileged", "readOnlyRootFilesystem", "runAsNonRoot"):
        if rights.truth(key):
            rights.lose(key, NO_RIGHT)
    rights.truth("allowPrivilegeEscalation")
    user = rights.text("runAsUser")
    if user and draft.provider == "aws-batch":
        draft.settings["user"] = user
    elif user:
        rights.lose("runAsUser", "the image says which user runs")
    at = source.find_key("args")
    command, args = source.texts("command"), source.texts("args")
    if command:
        program.write([*command, *args])
    elif (
        draft.container["image"]
        and draft.provider not in NO_ENTRYPOINT
        and not (program.before or any(map(program.needs_shell, args)))
    ):
        draft.container |= {"entrypoint": "image", "args": list(map(program.fill, args))}
    else:
        what = "the image's own program"
        why = "write command with the program that the image's Dockerfile names"
        draft.notes.lose(what, why, at)
        program.write(args or [Text("true")])


def _take_env(source: ForeignMap, program: Program, beside: Beside) -> None:
    draft = program.draft
    for entry in source.maps("envFrom"):
        prefix = entry.text("prefix")
        config, secret = entry.map("configMapRef"), entry.map("secretRef")
        name = config.text("name") or secret.text("name")
        found = beside.maps.get(name) if config.value else None
        keys = beside.secrets.get(name) if secret.value else None
        for key, value in (found or {}).items():
            program.add_env(prefix + key, value, value)
        for key in keys or ():
            draft.add_secret(prefix + key, at=entry.value)
        if found is None and keys is None:
            draft.notes.lose(
                f"variables of {name}", "the file does not say their names", entry.value
            )
        config.skip("optional")
        secret.skip("optional")
    for entry in source.maps("env"):
        name, origin = entry.text("name"), entry.map("valueFrom")
        if not origin.value:
            program.add_env(name, entry.text("value"), entry.value)
            continue
        secret, config = origin.map("secretKeyRef"), origin.map("configMapKeyRef")
        path = origin.map("fieldRef").text("fieldPath")
        known = beside.maps.get(config.text("name"), {}).get(config.text("key"))
        if secret.value:
            draft.add_secret(name, at=entry.value)
            secret.clear()
        elif known is not None:
            program.add_env(name, known, entry.value)
        elif path.endswith("job-completion-index']"):
            program.add_index(name)
        else:
            draft.notes.lose(f"variable {name}", "only the cluster knows its value", entry.value)
            origin.clear()


def _take_sizes(source: ForeignMap, draft: Draft) -> None:
    requests, limits = source.map("requests"), source.map("limits")
    sizes: dict[str, float] = {}
    devices = list(GPUS)
    if draft.provider == KUBERNETES:
        devices += filter(
            DEVICE.fullmatch, dict.fromkeys(requests.list_keys() + limits.list_keys())
        )
    for part in (requests, limits):
        for key in part.list_keys():
            known = key in ("cpu", "memory", "ephemeral-storage", *devices)
            match = QUANTITY.fullmatch(part.text(key)) if known else None
            if match is None:
                part.lose(
                    key, "it is no quantity" if known else "runspec asks for no such resource"
                )
                continue
            value = float(match[1]) * 10.0 ** int(match[2] or 0) * SCALES.get(match[3] or "", 1)
            # A job that is promised some memory may use more, up to the limit.
            sizes[key] = max(value, sizes.get(key, 0)) if key != "cpu" else sizes.get(key, value)
    if "cpu" in sizes:
        draft.cluster["cpus"] = max(1, int(-(-sizes["cpu"] // 1)))
    for key, name in (("memory", "memory"), ("ephemeral-storage", "disk")):
        if key in sizes:
            draft.cluster[name] = write_size(sizes[key])
    for key in dict.fromkeys(devices):
        if count := int(sizes.get(key, 0)):
            draft.cluster["gpus"] = draft.cluster.get("gpus", 0) + count
            if draft.provider == KUBERNETES and key != GPUS[0]:
                draft.settings["gpu_resource"] = key


def write_size(size: float) -> str:
    """Return a number of bytes as a spec has it, in whole MiB or GiB, rounded up.

    >>> write_size(16 * 2**30), write_size(1e9), write_size(1)
    ('16GiB', '954MiB', '1MiB')
    """
    if size % 2**30 == 0:
        return f"{size / 2**30:.0f}GiB"
    return f"{-(-size // 2**20):.0f}MiB"


def _take_nodes(source: ForeignMap, draft: Draft) -> None:
    labels = source.map("nodeSelector")
    for key in labels.list_keys():
        value = labels.text(key)
        if key in GPU_LABELS and draft.cluster.get("gpus") and (match := GPU.search(value)):
            kind = match[1].upper() + (f"-{match[2]}GB" if match[2] else "")
            draft.cluster["gpu_type"] = kind
            if draft.provider == KUBERNETES:
                draft.profile.setdefault("gpu_types", {}).setdefault(kind, {})[key] = value
        elif SPOT_LABELS.get(key, "") == value:
            draft.cluster["capacity"] = "spot"
            if draft.provider == KUBERNETES:
                draft.settings["cloud"] = CLOUDS[key]
        elif key in MACHINE_LABELS and draft.provider == "aws-batch":
            draft.settings["instance_types"] = [value]
        elif draft.provider == KUBERNETES:
            draft.settings.setdefault("node_selector", {})[key] = value
        elif key not in PLAIN_LABELS or value not in PLAIN:
            labels.lose(key, "write cluster, or settings of the provider, that choose the machine")
    for toleration in source.maps("tolerations"):
        key = toleration.text("key")
        if key in (*GPUS, *SPOT_LABELS):
            toleration.clear()  # the machines that a job asks for are its own
        elif draft.provider == KUBERNETES:
            take_toleration(toleration, key, draft)
        else:
            toleration.notes.lose(
                f"toleration {key}", "a job chooses no nodes by taints", toleration.value
            )
            toleration.clear()
