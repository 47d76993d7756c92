"""What ParallelCluster cannot do of a spec, each with a way out; then what Slurm cannot."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_jobs.provider import Facts, Problem, Spec, did_you_mean
from runspec_slurm.parallelcluster.check import queues as check_queues, storage
from runspec_slurm.parallelcluster.infrastructure import queues as machines
from runspec_slurm.parallelcluster.naming import VERSION, at
from runspec_slurm.parallelcluster.options import ParallelClusterOptions
from runspec_slurm.parallelcluster.resources import GPU_TYPES

# https://docs.aws.amazon.com/parallelcluster/latest/ug/Image-section.html, and the user of each:
# https://docs.aws.amazon.com/parallelcluster/latest/ug/ssh-v3.html
USERS = {
    "alinux2023": "ec2-user",
    "ubuntu2204": "ubuntu",
    "ubuntu2404": "ubuntu",
    "rhel8": "ec2-user",
    "rhel9": "ec2-user",
    "rocky8": "rocky",
    "rocky9": "rocky",
}
# https://docs.aws.amazon.com/parallelcluster/latest/ug/Image-section.html: no AMI of these is given out.
WITHOUT_AMI = ("rocky8", "rocky9")
# https://docs.aws.amazon.com/tag-editor/latest/userguide/tagging.html
RESERVED_TAGS = ("aws:", "parallelcluster:", "runspec:")


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield all problems; those of the cluster's settings only where they are known."""
    options: ParallelClusterOptions = facts.options
    if facts.complete and not options.manage and not (options.cluster or options.host):
        what = "manage: false, and nobody says which cluster is there"
        yield Problem(at(spec, "manage"), what, "name it: cluster: NAME, or host: ADDRESS")
    if not (facts.complete and options.manage):
        return
    yield from _profile(options)
    yield from _settings(spec, options)
    yield from _machines(spec, options)
    yield from check_queues.problems(spec, options)
    yield from storage.problems(spec, options)
    yield from _schema(facts)


def _profile(options: ParallelClusterOptions) -> Iterator[Problem]:
    wanted = {"region": "us-east-1", "subnets": "[subnet-...]", "key_pair": "NAME"}
    for key, example in wanted.items():
        if not getattr(options, key):
            hint = f"add providers: {{parallelcluster: {{{key}: {example}}}}} to the profile"
            yield Problem(("provider",), f"the profile names no {key}", hint)


def _settings(spec: Spec, options: ParallelClusterOptions) -> Iterator[Problem]:
    if options.os not in USERS:
        hint = did_you_mean(options.os, USERS) or f"there are: {', '.join(USERS)}"
        yield Problem(at(spec, "os"), f"ParallelCluster {VERSION} has no '{options.os}'", hint)
    elif options.os in WITHOUT_AMI and not options.custom_ami:
        what = f"there is no AMI of ParallelCluster with {options.os}"
        yield Problem(
            at(spec, "os"),
            what,
            "build one (pcluster build-image), and name it: custom_ami: ami-...",
        )
    for key in options.tags:
        if key.startswith(RESERVED_TAGS):
            what = f"tags that begin with {key.partition(':')[0]}: are not yours to give"
            yield Problem(at(spec, "tags"), what, "rename it")


def _machines(spec: Spec, options: ParallelClusterOptions) -> Iterator[Problem]:
    kind = spec.cluster.gpu_type
    if kind and kind.lower() not in {k.lower() for k in GPU_TYPES} and not _own_types(options):
        hint = did_you_mean(kind, GPU_TYPES) or f"there are: {', '.join(GPU_TYPES)}"
        yield Problem(("cluster", "gpu_type"), f"no machine has a '{kind}'", hint)
    elif not all(queue.instance_types for queue in machines.queues(spec, options).values()):
        what = "no machine has all that each node asks for together"
        hint = "ask for less, or set providers.parallelcluster.instance_types"
        yield Problem(("cluster",), what, hint)
    else:
        yield from check_queues.job(spec, options)
    if options.queues:
        for key in ("disk", "placement"):
            if getattr(spec.cluster, key) is not None:
                what = "the queues of the profile are used as they are: they decide this"
                yield Problem(("cluster", key), what, severity="note")


def _own_types(options: ParallelClusterOptions) -> bool:
    return bool(options.instance_types) or any(q.instance_types for q in options.queues.values())


def _schema(facts: Facts) -> Iterator[Problem]:
    """What the library's own schema says, which a survey has asked where the library is installed."""
    found = facts.survey.get("schema")
    if found is None:
        what = (
            "the schema of aws-parallelcluster was not asked, since it is not installed yet: apply installs it, "
            "and asks before anything is made"
        )
        yield Problem(("provider",), what, severity="note")
        return
    for path, what in found["problems"]:
        shown = f"{path}: {what}" if path else what
        hint = "the settings of providers.parallelcluster say it"
        yield Problem(("provider",), f"aws-parallelcluster {found['version']}: {shown}", hint)
