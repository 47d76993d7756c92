"""Checks of a spec for ParallelCluster: what is not supported, each with a hint."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_ec2 import VOLUME_COSTS, ec2_catalogue
from runspec_jobs.provider import Facts, Problem, Spec, did_you_mean
from runspec_jobs.provider.machines import explain_other_chip, machine_shortfall
from runspec_jobs.provider.spec_checks import lacking
from runspec_parallelcluster.check import queues as check_queues, storage
from runspec_parallelcluster.decision import Decision, QueueChoice
from runspec_parallelcluster.naming import VERSION, at
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_parallelcluster.resources import ARM64, find_architecture, gpu_types, usable_gib

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
# https://docs.aws.amazon.com/parallelcluster/latest/ug/Image-section.html: ParallelCluster publishes no AMIs for these.
WITHOUT_AMI = ("rocky8", "rocky9")
# https://docs.aws.amazon.com/tag-editor/latest/userguide/tagging.html
RESERVED_TAGS = ("aws:", "parallelcluster:", "runspec:")


def problems(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield all problems; those of the cluster's settings only if the profile is known."""
    options = decision.options
    if facts.complete and not options.manage and not (options.cluster or options.host):
        what = "manage: false is set, but no cluster"
        yield Problem(at(spec, "manage"), what, "set cluster: NAME, or host: ADDRESS")
    if not (facts.complete and options.manage):
        return
    yield from _profile(options)
    yield from _settings(spec, options)
    yield from _machines(decision, spec)
    yield from check_queues.problems(decision, spec)
    yield from storage.problems(spec, options)
    yield from _schema(facts)


def _profile(options: ParallelClusterOptions) -> Iterator[Problem]:
    wanted = {"region": "us-east-1", "subnets": "[subnet-...]", "key_pair": "NAME"}
    for key, example in wanted.items():
        if not getattr(options, key):
            yield lacking("parallelcluster", key, example)


def _settings(spec: Spec, options: ParallelClusterOptions) -> Iterator[Problem]:
    if options.os not in USERS:
        hint = did_you_mean(options.os, USERS) or f"use one of {', '.join(USERS)}"
        yield Problem(
            at(spec, "os"), f"ParallelCluster {VERSION} does not support '{options.os}'", hint
        )
    elif options.os in WITHOUT_AMI and not options.custom_ami:
        what = f"ParallelCluster has no AMI with {options.os}"
        yield Problem(
            at(spec, "os"),
            what,
            "build one with pcluster build-image, and set custom_ami: ami-...",
        )
    for key in options.tags:
        if key.startswith(RESERVED_TAGS):
            what = f"tags that begin with {key.partition(':')[0]}: are reserved"
            yield Problem(at(spec, "tags"), what, "rename it")


def _machines(decision: Decision, spec: Spec) -> Iterator[Problem]:
    options, gpu_type = decision.options, decision.gpu_type
    architecture = find_architecture(options.head_node)
    types, choices = gpu_types(architecture), decision.queues.values()
    if gpu_type and gpu_type.lower() not in map(str.lower, types) and not _names_types(options):
        hint = did_you_mean(gpu_type, types) or f"use one of {', '.join(types)}"
        what = f"no EC2 instance type has a '{gpu_type}'"
        yield Problem(
            ("cluster", "gpu_type"), *(explain_other_chip(gpu_type, types) or (what, hint))
        )
    elif without := [choice for choice in choices if not choice.queue.instance_types]:
        yield _too_much(without[0])
    else:
        yield from check_queues.job(decision, spec)
    if architecture == ARM64:
        what = "the machines are arm64 (Graviton): make sure that the image is for arm64"
        yield Problem(("container", "image"), what, severity="note")
    if spec.cluster.disk_tier in ("high", "best") and not options.queues:
        yield Problem(("cluster", "disk", "tier"), VOLUME_COSTS, severity="note")
    if options.queues:
        for key in ("disk", "placement"):
            if getattr(spec.cluster, key) is not None:
                what = "has no effect: the queues of the profile determine it"
                yield Problem(("cluster", key), what, severity="note")


def _too_much(choice: QueueChoice) -> Problem:
    """Return the problem of a spec for which no instance type is chosen for a queue."""
    shortfall = machine_shortfall(choice.request, ec2_catalogue(), usable_gib)
    named = f": [{shortfall.machine.name}]" if shortfall.machine else ""
    hint = f"{shortfall.hint}, or set providers.parallelcluster.instance_types{named}"
    at = ("cluster", shortfall.key) if shortfall.key else ("cluster",)
    return Problem(at, shortfall.what, hint)


def _names_types(options: ParallelClusterOptions) -> bool:
    return bool(options.instance_types) or any(q.instance_types for q in options.queues.values())


def _schema(facts: Facts) -> Iterator[Problem]:
    """Yield the problems that the library's schema found in discovery, or a note if the library is not installed."""
    schema = facts.survey.get("schema")
    if schema is None:
        what = (
            "the configuration was not checked by aws-parallelcluster, which is not installed yet: apply installs it, "
            "and checks the configuration before it makes anything"
        )
        yield Problem(("provider",), what, severity="note")
        return
    for path, what in schema["problems"]:
        shown = f"{path}: {what}" if path else what
        hint = "correct the settings of providers.parallelcluster"
        yield Problem(("provider",), f"aws-parallelcluster {schema['version']}: {shown}", hint)
