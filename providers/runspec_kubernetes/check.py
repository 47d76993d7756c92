"""Problems of a spec that Kubernetes cannot run, each with a hint."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_jobs.provider import Capacity, Facts, Path, Problem, Spec
from runspec_jobs.provider.commands import tasks
from runspec_jobs.provider.spec_checks import (
    check_build,
    check_disk_tier,
    check_entrypoint,
    check_pulled,
    foreign_problems,
    lacking,
    not_in_profile,
    note_copies,
    refuse_growth,
    secret_problems,
)
from runspec_kubernetes import store_layout
from runspec_kubernetes.decision import OF_IMAGES, decide, folder_of, gpu_labels, replaces
from runspec_kubernetes.job import AGENT_AT, CONFIG_AT, HOME, SHARED, store_variables
from runspec_kubernetes.options import AZURE_KEY, S3_KEYS, KubernetesOptions

# With more completions, `maxFailedIndexes` is required, "and must be less than or equal to 10^4":
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobSpec
MOST_INDEXES = 100_000
# Of a ConfigMap: https://kubernetes.io/docs/concepts/configuration/configmap/#motivation
MOST_BYTES = 1 << 20
RUN = "a" * 47  # as long as the id of a run can be
MOUNTS = "/job"  # where specs usually have their files, and images have nothing
# Folders of a pod that are not for mounts and outputs.
OURS = tuple(
    f"{path}/"
    for path in (HOME, f"{HOME}-store", AGENT_AT, CONFIG_AT, SHARED, "/dev", "/proc", "/sys")
)
# How labels begin that the Job controller and runspec give to pods.
CONTROLLED = ("job-name", "controller-uid", "batch.kubernetes.io/", "runspec/")


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    options: KubernetesOptions = facts.options
    yield from _size(spec)
    yield from _container(spec)
    yield from _machines(spec)
    yield from _retry(spec)
    yield from note_copies(spec, "pods mount no objects of a store")
    yield from _environment(spec, options)
    yield from _variables(spec)
    yield from foreign_problems(spec, _identity(options), ", or set service_account in the profile")
    if facts.complete:
        yield from _profile(options)
        yield from _nodes(spec, options)
        yield from _queue(spec, options)
        yield from _shared(spec, options)
        yield from _store(spec, facts)
        yield from secret_problems(spec, options, "kubernetes", "env:{}", _secret)
        yield from _volumes(spec, facts)


def _identity(options: KubernetesOptions) -> tuple[str, ...]:
    """Return the schemes of stores for which a job has an identity: that of its service account."""
    return ("s3", "az") if options.service_account else ()


def _secret(at: Path, key: str, source: str) -> Iterator[Problem]:
    if not source.startswith(("env:", "file:")):
        what = f"a job on Kubernetes cannot read the profile's source of the secret '{key}'"
        yield Problem(
            at, what, "write env:NAME or file:/path: the run gets a Secret with its value"
        )


def _size(spec: Spec) -> Iterator[Problem]:
    count = len(tasks(spec)) * spec.cluster.nodes.max
    if count > MOST_INDEXES:
        at = ("sweep",) if spec.sweep else ("cluster", "nodes")
        message = (
            f"the job needs {count:,} indexes; a Job of Kubernetes has at most {MOST_INDEXES:,}"
        )
        yield Problem(at, message, "use fewer values, or several specs", at="key")


def _container(spec: Spec) -> Iterator[Problem]:
    at = ("container", "image")
    if replaces(spec):
        what = "the image is on this machine only: the job installs its requirements when it starts"
        yield Problem(at, what, severity="note")
    elif (image := spec.container.image) and image.startswith("localhost/"):
        what = "no registry has the image: the nodes must have it, as `kind load` puts it there"
        yield Problem(at, what, severity="note")
    elif image:
        yield from check_pulled(image)
    if spec.container.python:
        what = "the image has its own Python: make sure that it is one of these versions"
        yield Problem(("container", "python"), what, severity="note")
    yield from check_build(spec)
    if (spec.container.image or "").startswith("localhost/"):
        yield from check_entrypoint(spec, "no registry says which ENTRYPOINT the image has")
    for name in spec.ulimits.given:
        what = "pods have no ulimits of their own"
        hint = f"remove ulimits: {name}; the container runtime of the nodes sets them"
        yield Problem(("ulimits", name), what, hint, at="key")


def _machines(spec: Spec) -> Iterator[Problem]:
    cluster = spec.cluster
    if cluster.gpu_memory:
        what = "kubernetes does not know how much memory the GPUs of its nodes have"
        hint = (
            "write gpu_type: A100-80GB, with the labels of its nodes under gpu_types in the profile"
        )
        yield Problem(("cluster", "gpu_memory"), what, hint, at="key")
    if cluster.placement is not None:
        what = "kubernetes cannot place the nodes of a job close to each other"
        hint = "remove it, or name nodes of one rack by providers: {kubernetes: {node_selector: {...}}}"
        yield Problem(("cluster", "placement"), what, hint, at="key")
    yield from check_disk_tier(
        spec, (), "the disks of nodes are as the cluster has them", "remove tier"
    )


def _nodes(spec: Spec, options: KubernetesOptions) -> Iterator[Problem]:
    """Yield a problem for nodes whose labels the profile does not have."""
    cluster = spec.cluster
    if cluster.capacity is not Capacity.ON_DEMAND and options.cloud is None:
        what = "the label of spot nodes depends on what runs the cluster"
        hint = "add providers: {kubernetes: {cloud: gke}} (or eks, aks, karpenter)"
        yield Problem(("cluster", "capacity"), what, hint)
    if (kind := cluster.gpu_type) and not gpu_labels(spec, options):
        example = "{cloud.google.com/gke-accelerator: nvidia-tesla-a100}"
        entry = f"kubernetes: {{gpu_types: {{{kind}: {example}}}}}"
        at = ("cluster", "gpu_type")
        yield not_in_profile("label for GPUs of the type", at, kind, options.gpu_types, entry)
    elif kind and kind not in options.gpu_types:
        what = (
            f"the labels of '{cluster.gpu_model}' in the profile do not say how much memory it has"
        )
        yield Problem(("cluster", "gpu_type"), what, severity="note")


def _queue(spec: Spec, options: KubernetesOptions) -> Iterator[Problem]:
    """Yield a note for a job that Kueue admits whatever its quota is.

    https://kueue.sigs.k8s.io/docs/tasks/run/jobs/
    """
    if options.queue and not (spec.cluster.cpus and spec.cluster.memory):
        what = f"the queue '{options.queue}' counts the cpus and memory that a job asks for"
        yield Problem(("cluster",), what, severity="note")


def _retry(spec: Spec) -> Iterator[Problem]:
    yield from refuse_growth(spec, "all pods of a Job have the memory of one template")
    for number, rule in enumerate(spec.retry.on):
        if rule.reason == "image":
            what = "kubernetes pulls an image until it can, and counts no attempt"
            yield Problem(("retry", "on", number, "reason"), what, "remove the entry")


def _environment(spec: Spec, options: KubernetesOptions) -> Iterator[Problem]:
    """Yield a problem for each variable of the spec by which the agent reaches the store."""
    taken = store_variables(options)
    for field, names in (("env", spec.env), ("secrets", spec.secrets)):
        for name in names:
            if name in taken:
                what = f"runspec reaches the store of the profile by {name}"
                yield Problem((field, name), what, "rename it, or remove the key from the profile")


def _profile(options: KubernetesOptions) -> Iterator[Problem]:
    yield from _keys(options)
    if options.host_network and options.security == "restricted":
        what = "pods on the network of their node do not fulfil the standard `restricted`"
        yield Problem(("provider",), what, "add security: none, or remove host_network")
    for name in options.labels:
        if name.startswith(CONTROLLED):
            what = f"labels: the label '{name}' is that of a controller"
            yield Problem(("provider",), what, "give it another key")


def _keys(options: KubernetesOptions) -> Iterator[Problem]:
    """Yield what is wrong with the keys of the store."""
    kind = (options.store or "").partition(":")[0]
    wanted = {"s3": set(S3_KEYS[:2]), "az": {AZURE_KEY}}.get(kind, set())
    known = {*S3_KEYS} if kind == "s3" else wanted
    given = set(options.store_keys)
    if kind == "s3" and options.region is None and options.store_url is None:
        yield lacking("kubernetes", "region", "eu-central-1", "which a bucket of AWS needs")
    if extra := sorted(given - known):
        what = f"store_keys has {extra[0]}, which is no key for {options.store or 'a job without a store'}"
        yield Problem(("provider",), what, "remove it from the profile")
    elif given and (missing := sorted(wanted - given)):
        entry = f"store_keys: {{{missing[0]}: env:{missing[0]}}}"
        yield Problem(("provider",), f"store_keys has no {missing[0]}", f"add {entry}")


def _shared(spec: Spec, options: KubernetesOptions) -> Iterator[Problem]:
    for number, mount in enumerate(spec.mounts):
        if mount.scheme == "shared":
            key = mount.place.partition("/")[0]
            if key not in options.shared:
                at = ("mounts", number, "source")
                entry = f"kubernetes: {{shared: {{{key}: pvc:CLAIM}}}}"
                yield not_in_profile("shared file system", at, key, options.shared, entry)


def _volumes(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield a problem for each mount and output in whose place there can be no volume."""
    shared = {mount.target for mount in spec.mounts if mount.scheme == "shared"}
    volumes = shared.union(decide(spec, facts).folders)
    targets: list[tuple[Path, str]] = [
        *((("mounts", n, "target"), mount.target) for n, mount in enumerate(spec.mounts)),
        *((("outputs", n, "path"), output.path) for n, output in enumerate(spec.outputs)),
    ]
    for at, path in targets:
        volume = path if path in volumes else folder_of(path)
        if f"{path}/".startswith(OURS):
            what = f"{path} is a folder of runspec or of the kernel"
            yield Problem(at, what, f"write another path, such as /job/{path.rpartition('/')[2]}")
        elif volume in OF_IMAGES and volume in volumes:
            what = f"a volume at {volume} would hide what the image has there"
            hint = f"write /job/{path.rpartition('/')[2]}, or add security: none to the profile"
            yield Problem(at, what, hint)
        elif volume != path and volume in volumes and volume != MOUNTS:
            what = (
                f"the job sees nothing of what the image has in {volume}: a volume takes its place"
            )
            yield Problem(at, what, severity="note")


def _variables(spec: Spec) -> Iterator[Problem]:
    """Yield the problem of variables that no Job can hold: the limit is that of an object, 1.5 MiB."""
    size = sum(len(name) + len(value.encode()) for name, value in spec.program_env.items())
    if size > MOST_BYTES:
        what = f"the variables have {size:,} bytes, and a Job of Kubernetes takes about a mebibyte"
        yield Problem(("env",), what, "put the text into a file of a mounted folder", at="key")


def _store(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield the problem of a job that needs a store, for a profile without one."""
    if facts.options.store is not None:
        return
    needs = {
        "inputs": any(m.scheme in ("file", "store", "run") for m in spec.mounts),
        "outputs": bool(spec.outputs),
        "nodes that meet": spec.cluster.nodes.max > 1,
        "tasks that end early": spec.metric is not None and spec.metric.stop is not None,
    }
    for what, needed in needs.items():
        if needed:
            why = f"which {what} need: a bucket or, with pvc:CLAIM, a volume claim"
            yield lacking("kubernetes", "store", "s3://BUCKET/PREFIX", why)
            return
    if len(store_layout.describe(decide(spec, facts), spec, RUN, facts)) > MOST_BYTES:
        why = "because the job is too large for a ConfigMap"
        yield lacking("kubernetes", "store", "s3://BUCKET/PREFIX", why)
