"""Problems of a spec that AWS Batch cannot run, each with a hint."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspec_aws import job, resources, signed
from runspec_aws.decision import MAX_ATTEMPTS, Decision, JobKind, JobShape, decide, decide_shape
from runspec_aws.infrastructure import built_image, lustre, made_queue, own_queue
from runspec_aws.infrastructure.launch_template import ROOT_DEVICE
from runspec_aws.options import AwsOptions
from runspec_aws.resources import (
    NO_DRIVER,
    chosen,
    get_chip_access,
    gpu_types,
    known,
    usable_gib,
)
from runspec_aws.store import run_secrets
from runspec_ec2 import VOLUME_COSTS, ec2_catalogue
from runspec_jobs.provider import Capacity, Facts, Path, Problem, Spec, did_you_mean
from runspec_jobs.provider.commands import argv
from runspec_jobs.provider.machines import explain_other_chip, machine_shortfall
from runspec_jobs.provider.spec_checks import (
    check_entrypoint,
    check_pulled,
    foreign_problems,
    lacking,
    not_in_profile,
    note_copies,
    refuse_growth,
    refuse_rules,
    secret_problems,
    too_many_tasks,
)

# https://docs.aws.amazon.com/batch/latest/APIReference/API_JobStateTimeLimitAction.html
LEAST_WAIT_S, MOST_WAIT_S = 600, 86_400
MOST_NODES = (
    1000  # https://docs.aws.amazon.com/batch/latest/userguide/multi-node-parallel-jobs.html
)
LARGEST_ARRAY = 10_000  # https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html
# https://docs.aws.amazon.com/batch/latest/APIReference/API_ResourceRequirement.html: MEMORY
LEAST_MEMORY = 4 << 20
# https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResourceUpdate.html for Fargate, and by default
# https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html#vpc-limits-security-groups
MOST_SECURITY_GROUPS = 5
REFUSED = {
    "lost stop": (
        "a node that is left cannot tell AWS Batch that another one was lost",
        "remove the entry, and write retry: {attempts: 1, spot_attempts: 1}",
    )
}
RESERVED = "AWS_BATCH"
# ARNs only: https://docs.aws.amazon.com/batch/latest/APIReference/API_Secret.html
SECRETS_MANAGER = re.compile(r"aws-sm:arn:aws[a-z-]*:secretsmanager:.+")
PARAMETER = re.compile(r"aws-ssm:(arn:aws[a-z-]*:ssm:.+|[A-Za-z0-9_./-]+)")


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    options: AwsOptions = facts.options
    yield from _cluster(spec, decide_shape(spec))
    yield from _words(spec)
    yield from _container(spec)
    yield from check_entrypoint(
        spec,
        "AWS Batch runs the ENTRYPOINT in place of runspec, which could prove no end of it",
        "end the Containerfile with ENTRYPOINT [], and "
        if spec.container.build
        else f"build an image of two lines, FROM {spec.container.image} and ENTRYPOINT [], and ",
    )
    yield from _limits(spec, options)
    yield from refuse_growth(
        spec, "all attempts of a job on AWS Batch have the memory of one request"
    )
    if spec.cluster.nodes.max > 1:
        yield from refuse_rules(spec, REFUSED)
    if facts.complete:
        yield from resources.check_region(facts)
        yield from built_image.problems(spec, options)
        decision = decide(spec, options)
        yield from _machines(spec, decision, facts)
        yield from _profile(spec, options)
        yield from _security_groups(options)
        yield from _waiting(options)
        yield from _files(spec, options)
        yield from _mounts(spec, options)
        yield from secret_problems(spec, options, "aws-batch", "'aws-sm:arn:...'", _secret)
        yield from _size(spec, decision, facts)


def _cluster(spec: Spec, shape: JobShape) -> Iterator[Problem]:
    if shape.nodes > MOST_NODES:
        message = f"{shape.nodes:,} nodes, above {MOST_NODES:,}"
        yield Problem(
            ("cluster", "nodes"),
            message,
            "use fewer nodes: this is the limit of a job on AWS Batch",
        )
    elif shape.nodes == 1:
        yield from too_many_tasks(spec, LARGEST_ARRAY, "AWS Batch allows no more in one array")
    elif shape.children > LARGEST_ARRAY:
        message = f"{shape.children:,} nodes of all tasks together, above {LARGEST_ARRAY:,}"
        yield Problem(("cluster", "nodes"), message, "make the sweep smaller, or set nodes: 1")
    elif shape.kind is JobKind.ARRAY:
        why = "multi-node jobs do not run on spot machines"
        if shape.elastic:
            why = "elastic jobs"
        elif spec.cluster.capacity is Capacity.ON_DEMAND:
            why = "tasks of several nodes"
        message = f"{why}: the nodes are an array of single-node jobs, which find each other through the store"
        yield Problem(("cluster", "nodes"), message, severity="note")


def _words(spec: Spec) -> Iterator[Problem]:
    """Yield problems for words that Batch would replace: it substitutes parameters for Ref::NAME."""
    where = "run" if spec.command is None else "command"
    for i, word in enumerate(spec.command or argv(spec)):
        if "Ref::" in word:
            path = (where, i) if where == "command" else (where,)
            hint = "build the text in the program, or pass it in env"
            yield Problem(path, "AWS Batch replaces words that begin with Ref::", hint)
    for name in spec.env:
        if name.startswith(RESERVED):
            message = f"names that begin with {RESERVED} are reserved for AWS Batch"
            yield Problem(("env", name), message, "rename it", at="key")


def _container(spec: Spec) -> Iterator[Problem]:
    image = spec.container.image
    if image and image.startswith("localhost/"):
        if spec.container.requirements is None:
            hint = "push it to a registry, or use container.requirements instead"
            message = "images named localhost/... cannot be pulled from a registry"
            yield Problem(("container", "image"), message, hint)
        else:
            message = "the image exists on this machine only: the job installs its requirements when it starts"
            yield Problem(("container", "image"), message, severity="note")
    elif image:
        yield from check_pulled(image)
    if spec.container.python:
        message = "the image has its own Python: make sure that it is one of these versions"
        yield Problem(("container", "python"), message, severity="note")


def _limits(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    memory = spec.cluster.memory
    if memory is not None and memory < LEAST_MEMORY and not options.fargate:
        message = f"{memory:,} bytes, but the least memory that AWS Batch takes is 4 MiB"
        yield Problem(("cluster", "memory"), message, "set memory: 4MiB or more")
    attempts = spec.retry.attempts + spec.retry.lost_attempts - 1
    if attempts > MAX_ATTEMPTS and spec.cluster.capacity is not Capacity.ON_DEMAND:
        message = f"AWS Batch makes {MAX_ATTEMPTS} attempts in all, including preempted ones"
        yield Problem(("retry", "spot_attempts"), message, severity="note")
    if spec.max_parallel is not None:
        if options.queue:
            message = (
                "AWS Batch cannot limit an array, and runspec does not change the profile's queue"
            )
            hint = "remove max_parallel, or remove queue from the profile"
            yield Problem(("max_parallel",), message, hint, at="key")
        elif spec.cluster.capacity is Capacity.SPOT_THEN_ON_DEMAND:
            message = "the limit applies to each of the two compute environments: twice as many may run at once"
            yield Problem(("max_parallel",), message, at="key", severity="note")
        elif not options.fargate:
            message = "enforced by maxvCpus of the compute environment, which Batch may exceed by one machine"
            yield Problem(("max_parallel",), message, at="key", severity="note")


def _machines(spec: Spec, decision: Decision, facts: Facts) -> Iterator[Problem]:
    cluster, options = spec.cluster, facts.options
    if options.fargate:
        yield from _fargate(spec, decision, options)
    elif cluster.gpu_model and cluster.gpu_model.lower() not in map(str.lower, gpu_types()):
        if not (options.instance_types or options.queue):
            kinds = gpu_types()
            hint = did_you_mean(cluster.gpu_model, kinds) or f"choose one of: {', '.join(kinds)}"
            what = f"no EC2 instance type has the GPU '{cluster.gpu_type}'"
            why = explain_other_chip(cluster.gpu_model, kinds) or (what, hint)
            yield Problem(("cluster", "gpu_type"), *why)
    elif not decision.fits:
        yield _too_much(decision, options)
    if options.queue:
        for key in ("disk", "placement", "capacity", "gpu_type", "gpu_memory"):
            if getattr(cluster, key) not in (None, Capacity.ON_DEMAND):
                message = "ignored: the profile's queue decides this"
                yield Problem(("cluster", key), message, severity="note")
    yield from made_queue.problems(decision, options)
    yield from own_queue.problems(decision, facts)
    if options.efa:
        yield from _adapters(decision, options)
    if options.reservation:
        yield from _reserved(decision, options)
    yield from _alone(options)
    if decision.disk_gib and not options.queue:
        yield from _disk(decision, options)
    yield from _check_driver(cluster.gpu_model, options)


def _check_driver(kind: str | None, options: AwsOptions) -> Iterator[Problem]:
    """Yield a problem for chips whose driver no AMI of AWS Batch has.

    https://docs.aws.amazon.com/batch/latest/APIReference/API_Ec2Configuration.html
    """
    if options.ami or options.queue:
        return
    if access := get_chip_access(kind):
        message = f"AWS Batch has no AMI with the driver of {kind}"
        hint = f"set providers: {{aws-batch: {{ami: ami-...}}}} to {access.ami}"
        yield Problem(("cluster", "gpu_type"), message, hint)
    name = (kind or "").upper()
    if name in NO_DRIVER:
        message = f"AWS Batch has no AMI for machines with the GPU {name} any more"
        hint = "set providers: {aws-batch: {ami: ami-...}} with your own AMI, or choose another GPU"
        yield Problem(("cluster", "gpu_type"), message, hint)


def _disk(decision: Decision, options: AwsOptions) -> Iterator[Problem]:
    if decision.disk_tier in ("high", "best") and not options.fargate:
        yield Problem(("cluster", "disk", "tier"), VOLUME_COSTS, severity="note")
    if options.launch_template:
        message = "cluster.disk needs a launch template made by runspec, and the profile sets launch_template"
        hint = "add the disk to that template, or remove launch_template from the profile"
        yield Problem(("cluster", "disk"), message, hint)
    elif options.ami and not (options.root_device or options.fargate):
        message = f"{ROOT_DEVICE} gets this size: if the root device of {options.ami} is another, set root_device"
        yield Problem(("cluster", "disk"), message, severity="note")


def _alone(options: AwsOptions) -> Iterator[Problem]:
    """Yield a problem for each setting that means nothing without another one."""
    if options.capacity_block and not options.reservation:
        message = "the profile sets capacity_block, and no reservation"
        yield Problem(("provider",), message, "set reservation: cr-... to the Capacity Block's id")
    if bool(options.registry) != bool(options.registry_secret):
        one, other = "registry", "registry_secret"
        given, needed = (one, other) if options.registry else (other, one)
        message = f"the profile sets {given}, and no {needed}, which the login needs"
        yield Problem(("provider",), message, f"add {needed} to the profile, or remove {given}")
    if options.root_device and not options.ami:
        message = "root_device is that of an AMI of your own, and the profile sets no ami"
        hint = "set ami: ami-..., or remove root_device from the profile"
        yield Problem(("provider",), message, hint)


def _reserved(decision: Decision, options: AwsOptions) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html"""
    others = {"queue": options.queue, "fargate": options.fargate}
    others["launch_template"] = options.launch_template
    for key, there in others.items():
        if there:
            message = f"the profile sets both reservation and {key}, which exclude each other"
            yield Problem(("provider",), message, "remove one of them from the profile")
    if len(options.instance_types) != 1:
        message = "a capacity reservation is for one instance type, which the profile must name"
        hint = "add providers: {aws-batch: {instance_types: [p4d.24xlarge]}}"
        yield Problem(("provider",), message, hint)
    if decision.machine.spot:
        message = "a capacity reservation has no spot machines"
        hint = "set capacity: on-demand, or remove reservation from the profile"
        yield Problem(("cluster", "capacity"), message, hint)
    if options.capacity_block and decision.placement:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html: one UltraCluster
        message = "a Capacity Block determines the placement of its machines"
        yield Problem(
            ("cluster", "placement"), message, "remove placement: they are close to each other"
        )


def _adapters(decision: Decision, options: AwsOptions) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/batch/latest/userguide/efa.html"""
    named = [(name, known(name)) for name in options.instance_types[:1]]
    lacking = [name for name, machine in named if machine and machine.fabric == 0]
    if options.fargate or lacking:
        message = f"{lacking[0] if lacking else 'Fargate'} has no Elastic Fabric Adapter"
        hint = f"remove efa or {'instance_types' if lacking else 'fargate'} from the profile"
        yield Problem(("provider",), message, hint)
    elif decision.shape.nodes > 1 and not (
        decision.placement or options.queue or options.capacity_block
    ):
        # "EFA traffic [...] can't cross Availability Zones"; the group is recommended:
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html#efa-limits
        if len(options.subnets) > 1:
            message = (
                "Elastic Fabric Adapters reach nodes of one zone, and the subnets may have several"
            )
            hint = "set placement: close, or name one subnet in the profile"
            yield Problem(("cluster",), message, hint)
            return
        message = (
            "with Elastic Fabric Adapters, AWS recommends a placement group: set placement: close"
        )
        yield Problem(("cluster",), message, severity="note")


def _too_much(decision: Decision, options: AwsOptions) -> Problem:
    """Return the problem of a job for which no instance type is chosen."""
    if options.offered is not None and chosen(decision.machine, bool(options.ami)):
        message = f"EC2 offers no instance type in {options.region} that runspec would choose"
        hint = "use another region, ask for less, or set providers.aws-batch.instance_types"
        return Problem(("cluster",), message, hint)
    shortfall = machine_shortfall(decision.machine, ec2_catalogue(), usable_gib)
    named = f": [{shortfall.machine.name}]" if shortfall.machine else ""
    hint = f"{shortfall.hint}, or set providers.aws-batch.instance_types{named}"
    return Problem(
        ("cluster", shortfall.key) if shortfall.key else ("cluster",), shortfall.what, hint
    )


def _fargate(spec: Spec, decision: Decision, options: AwsOptions) -> Iterator[Problem]:
    hint = "remove fargate from the profile"
    if decision.machine.gpus:
        yield Problem(("cluster", "gpus"), "Fargate has no GPUs", hint)
    if decision.shape.is_gang:
        yield Problem(("cluster", "nodes"), "Fargate runs no multi-node jobs", hint)
    if not decision.fits:
        path = "cpus" if (spec.cluster.cpus or 0) > 16 else "memory"
        yield Problem(
            ("cluster", path), "more than Fargate's largest size, 16 vCPUs and 120 GiB", hint
        )
    if decision.disk_tier in ("high", "best"):
        message = f"Fargate has no disk of the tier {decision.disk_tier}"
        yield Problem(("cluster", "disk", "tier"), message, f"{hint}, or set tier: medium")
    if (decision.disk_gib or 0) > 200:
        yield Problem(("cluster", "disk"), "more than the 200 GiB that Fargate has", hint)
    if options.ulimits:
        # https://docs.aws.amazon.com/batch/latest/APIReference/API_ContainerProperties.html
        yield Problem(
            ("provider",), "Fargate does not support ulimits", "remove ulimits from the profile"
        )
    if spec.ulimits.given:
        yield Problem(("ulimits",), "Fargate does not support ulimits", hint, at="key")
    if spec.container.shm:
        yield Problem(("container", "shm"), "Fargate cannot change the size of /dev/shm", hint)
    if decision.placement:
        yield Problem(("cluster", "placement"), "Fargate does not support placement", hint)
    if not options.execution_role:
        yield lacking("aws-batch", "execution_role", "arn:aws:iam::...:role/...")


def _profile(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    wanted = {"region": "eu-central-1", "bucket": "NAME"}
    if not options.queue:
        wanted |= {"subnets": "[subnet-...]", "security_groups": "[sg-...]"}
        if not options.fargate:
            wanted["instance_role"] = "arn:aws:iam::...:instance-profile/..."
    if spec.secrets or options.registry_secret:
        wanted["execution_role"] = "arn:aws:iam::...:role/..."
    for key, example in wanted.items():
        if not getattr(options, key):
            yield lacking("aws-batch", key, example)


def _security_groups(options: AwsOptions) -> Iterator[Problem]:
    count = len(options.security_groups)
    if options.queue or count <= MOST_SECURITY_GROUPS:
        return
    if options.fargate:
        message = f"the profile has {count} security groups, but a job on Fargate has {MOST_SECURITY_GROUPS} at most"
        hint = "put the rules of several into one, and shorten security_groups in the profile"
        yield Problem(("provider",), message, hint)
    else:
        message = (
            f"the profile has {count} security groups, but a network interface has "
            f"{MOST_SECURITY_GROUPS} at most, unless the account's quota is raised: no machine would start"
        )
        yield Problem(("provider",), message, severity="note")


def _waiting(options: AwsOptions) -> Iterator[Problem]:
    wait_s = options.max_queue_wait
    if wait_s is None:
        return
    if options.queue:
        message = "max_queue_wait has no effect: runspec does not change the profile's queue"
        hint = "set jobStateTimeLimitActions of that queue, or remove max_queue_wait or queue from the profile"
        yield Problem(("provider",), message, hint)
    elif not LEAST_WAIT_S <= wait_s <= MOST_WAIT_S:
        message = f"max_queue_wait: {wait_s:,} s, but AWS Batch accepts 10 minutes to 24 hours"
        yield Problem(("provider",), message, "set max_queue_wait to 10m at least and 24h at most")


def _files(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    if options.files == "signed":
        yield from signed.problems(spec, options)
        return
    yield from foreign_problems(spec, ("s3",))
    if not options.job_role:
        why = "without which jobs cannot access the bucket"
        missing = lacking("aws-batch", "job_role", "arn:aws:iam::...:role/...", why)
        hint = f"{missing.hint}, or files: signed, which needs no role and no Python"
        yield missing._replace(hint=hint)


def _mounts(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    yield from note_copies(spec, "containers of AWS Batch mount S3 only with privileges")
    for i, mount in enumerate(spec.mounts):
        at = ("mounts", i, "source")
        if mount.scheme == "store" and mount.place.startswith("/"):
            yield Problem(
                at, f"'{mount.source}' leads out of the bucket's prefix", "remove the third /"
            )
        if mount.scheme == "store" and not mount.read_only:
            hint = "make it an output, or mode: ro"
            yield Problem(
                ("mounts", i, "mode"), "files that the job writes there would be lost", hint
            )
        if mount.scheme == "shared":
            key = mount.place.partition("/")[0]
            if key not in options.shared:
                entry = f"aws-batch: {{shared: {{{key}: 'efs:fs-...'}}}}"
                yield not_in_profile("shared file system", at, key, options.shared, entry)
            else:
                yield from _shared(at, key, options)


def _shared(at: tuple[str | int, ...], key: str, options: AwsOptions) -> Iterator[Problem]:
    where = options.shared[key]
    if options.fargate and where.startswith("host:"):
        yield Problem(at, "Fargate cannot mount folders of a host", "use efs:fs-...")
    if not lustre.is_lustre(where):
        return
    if options.fargate:
        # https://docs.aws.amazon.com/fsx/latest/LustreGuide/mounting-ecs.html
        message = "Fargate cannot mount FSx for Lustre"
        yield Problem(at, message, "use efs:fs-..., or remove fargate from the profile")
    elif options.queue:
        message = "runspec cannot mount FSx for Lustre on the machines of the profile's queue"
        hint = f"mount it on these machines yourself and set {key}: host:/FOLDER, or remove queue from the profile"
        yield Problem(at, message, hint)
    elif options.launch_template:
        message = (
            "mounting FSx for Lustre needs a launch template made by runspec, "
            "and the profile sets launch_template"
        )
        hint = (
            f"mount it in that template and set {key}: host:/FOLDER, or remove launch_template "
            "from the profile"
        )
        yield Problem(at, message, hint)


def _secret(at: Path, key: str, source: str) -> Iterator[Problem]:
    if run_secrets.is_local(source):
        return
    if not (SECRETS_MANAGER.fullmatch(source) or PARAMETER.fullmatch(source)):
        message = f"a job on AWS Batch cannot read the profile's source of the secret '{key}'"
        hint = "write env:NAME, or where AWS keeps it: aws-sm:ARN or, in the Parameter Store, aws-ssm:NAME"
        yield Problem(at, message, hint)


def _size(spec: Spec, decision: Decision, facts: Facts) -> Iterator[Problem]:
    if any(key not in facts.options.secrets for key in spec.secrets.values()):
        return
    if any(
        m.scheme == "shared" and m.place.partition("/")[0] not in facts.options.shared
        for m in spec.mounts
    ):
        return
    count = job.size(spec, decision, facts)
    if count > job.MAX_BYTES:
        path = "run" if spec.command is None else "command"
        message = f"the job definition has {count:,} bytes, but the limit of AWS Batch is {job.MAX_BYTES:,}"
        yield Problem((path,), message, "put the text into a file of a mount", at="key")
