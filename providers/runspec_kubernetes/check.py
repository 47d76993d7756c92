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
from runspec_kubernetes.options import KubernetesOptions

# https://kubernetes.io/docs/concepts/workloads/controllers/job/#backoff-limit-per-index: with a back-off limit for
# each index, at most 100,000 completions, and at most 10,000 pods at once if there are more than 10,000.
MOST_INDEXES = 100_000
MOST_PARALLEL = 10_000
# Folders of images in which a file cannot have a volume of its own.
OF_IMAGES = frozenset(
    "/ /bin /boot /dev /etc /home /lib /lib64 /opt /proc /root /run /sbin /sys /tmp /usr /var".split()
)


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    options: KubernetesOptions = facts.options
    yield from _size(spec)
    yield from _container(spec)
    yield from _machines(spec, options)
    yield from _retry(spec)
    yield from _mounts(spec, facts)
    yield from options.login_problems()
    yield from foreign_problems(spec, _identity(options), ", or set service_account in the profile")
    if facts.complete:
        yield from _store(spec, options)
        yield from secret_problems(spec, options, "kubernetes", "env:{}", _secret)


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
    elif (
        count > MOST_PARALLEL
        and (spec.max_parallel or count) * spec.cluster.nodes.max > MOST_PARALLEL
    ):
        message = (
            f"a Job with more than {MOST_PARALLEL:,} indexes runs at most {MOST_PARALLEL:,} at once"
        )
        yield Problem(("sweep",), message, f"write max_parallel: {MOST_PARALLEL}", at="key")


def _container(spec: Spec) -> Iterator[Problem]:
    if spec.container.image:
        yield from check_pulled(spec.container.image)
    yield from check_build(spec)
    yield from check_entrypoint(spec, "the agent takes the place of the ENTRYPOINT in a pod")
    if spec.container.conda:
        what = "kubernetes makes no conda environments"
        yield Problem(("container", "conda"), what, "use an image that has it", at="key")
    for name in spec.ulimits.given:
        what = "pods have no ulimits of their own"
        hint = f"remove ulimits: {name}; the container runtime of the nodes sets them"
        yield Problem(("ulimits", name), what, hint, at="key")


def _machines(spec: Spec, options: KubernetesOptions) -> Iterator[Problem]:
    cluster = spec.cluster
    if cluster.capacity is not Capacity.ON_DEMAND and options.cloud is None:
        what = "the label of spot nodes depends on what runs the cluster"
        hint = "add providers: {kubernetes: {cloud: gke}} (or eks, aks, karpenter)"
        yield Problem(("cluster", "capacity"), what, hint)
    if cluster.gpu_gib:
        what = "kubernetes does not know how much memory the GPUs of its nodes have"
        yield Problem(
            ("cluster", "gpu_memory"),
            what,
            "write gpu_type, and gpu_types in the profile",
            at="key",
        )
    if cluster.gpu_model and cluster.gpu_model not in options.gpu_types:
        example = "{cloud.google.com/gke-accelerator: nvidia-tesla-a100}"
        entry = f"kubernetes: {{gpu_types: {{{cluster.gpu_model}: {example}}}}}"
        at = ("cluster", "gpu_type")
        yield not_in_profile(
            "label for GPUs of the type", at, cluster.gpu_model, options.gpu_types, entry
        )
    if cluster.placement is not None:
        what = "kubernetes cannot place the nodes of a job close to each other"
        yield Problem(("cluster", "placement"), what, "remove it, or write node_selector", at="key")
    yield from check_disk_tier(
        spec, (), "the disks of nodes are as the cluster has them", "remove tier"
    )


def _retry(spec: Spec) -> Iterator[Problem]:
    yield from refuse_growth(spec, "all pods of a Job have the memory of one template")
    for number, rule in enumerate(spec.retry.on):
        if rule.reason == "image":
            what = "kubernetes pulls an image until it can, and counts no attempt"
            yield Problem(("retry", "on", number, "reason"), what, "remove the entry")


def _mounts(spec: Spec, facts: Facts) -> Iterator[Problem]:
    options: KubernetesOptions = facts.options
    yield from note_copies(spec, "pods mount no objects of a store")
    for number, mount in enumerate(spec.mounts):
        if mount.scheme == "shared" and facts.complete:
            key = mount.place.partition("/")[0]
            if key not in options.shared:
                at = ("mounts", number, "source")
                entry = f"kubernetes: {{shared: {{{key}: pvc:CLAIM}}}}"
                yield not_in_profile("shared file system", at, key, options.shared, entry)
        source = facts.sources.get(mount.name)
        if source is not None and source.is_file and folder_of(mount.target) in OF_IMAGES:
            what = (
                f"a file cannot be mounted in {folder_of(mount.target)}, which belongs to the image"
            )
            yield Problem(
                ("mounts", number, "target"), what, f"write target: /job/{mount.name}/NAME"
            )


def folder_of(path: str) -> str:
    """Return the folder that contains *path*."""
    return path.rstrip("/").rpartition("/")[0] or "/"


def _store(spec: Spec, options: KubernetesOptions) -> Iterator[Problem]:
    """Yield the problem of a job that needs a store, for a profile without one."""
    if options.store is not None:
        return
    needs = {
        "inputs": any(m.scheme in ("file", "store", "run") for m in spec.mounts),
        "outputs": bool(spec.outputs),
        "nodes that meet": spec.cluster.nodes.max > 1,
    }
    for what, needed in needs.items():
        if needed:
            yield lacking("kubernetes", "store", "s3://BUCKET/PREFIX", f"which {what} need")
            return
