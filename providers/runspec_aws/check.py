"""What AWS Batch cannot do of a spec, each with a way out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from runspec_aws import job, signed
from runspec_aws.infrastructure import lustre
from runspec_aws.options import AwsOptions
from runspec_aws.resources.instance_types import GPU_TYPES, KNOWN
from runspec_aws.resources.job_kind import LARGEST_ARRAY, MAX_ATTEMPTS, JobKind, children, shape
from runspec_aws.resources.request import candidates, largest, needs, on_fargate
from runspec_jobs.provider import Capacity, Facts, Problem, Spec, argv, did_you_mean

LEAST_TIMEOUT_S = 60  # https://docs.aws.amazon.com/batch/latest/userguide/job_timeouts.html
# https://docs.aws.amazon.com/batch/latest/APIReference/API_JobStateTimeLimitAction.html
LEAST_WAIT_S, MOST_WAIT_S = 600, 86_400
MOST_NODES = (
    1000  # https://docs.aws.amazon.com/batch/latest/userguide/multi-node-parallel-jobs.html
)
RESERVED = "AWS_BATCH"
# ARNs only: https://docs.aws.amazon.com/batch/latest/APIReference/API_Secret.html
SECRETS_MANAGER = re.compile(r"aws-sm:arn:aws[a-z-]*:secretsmanager:.+")
PARAMETER = re.compile(r"aws-ssm:(arn:aws[a-z-]*:ssm:.+|[A-Za-z0-9_./-]+)")
GiB = 1 << 30


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    options: AwsOptions = facts.options
    yield from _cluster(spec)
    yield from _words(spec)
    yield from _container(spec)
    yield from _limits(spec, options)
    if facts.complete:
        yield from _machines(spec, options)
        yield from _profile(spec, options)
        yield from _waiting(options)
        yield from _files(spec, options)
        yield from _mounts(spec, options)
        yield from _secrets(spec, options)
        yield from _size(spec, facts)


def _cluster(spec: Spec) -> Iterator[Problem]:
    nodes = spec.cluster.nodes
    if nodes.max > MOST_NODES:
        what = f"{nodes.max:,} nodes, above {MOST_NODES:,}"
        yield Problem(("cluster", "nodes"), what, "that is as many as a job on AWS Batch has")
    elif children(spec) > LARGEST_ARRAY:
        what = f"{children(spec):,} nodes of all tasks together, above {LARGEST_ARRAY:,}"
        yield Problem(("cluster", "nodes"), what, "make the sweep smaller, or set nodes: 1")
    elif nodes.max > 1 and shape(spec) is JobKind.ARRAY:
        why = "multi-node jobs do not run on spot machines"
        if nodes.elastic:
            why = "nodes that come and go"
        elif spec.cluster.capacity is Capacity.ON_DEMAND:
            why = "tasks of several nodes"
        what = f"{why}: the nodes are an array of single jobs that meet through the store"
        yield Problem(("cluster", "nodes"), what, severity="note")


def _words(spec: Spec) -> Iterator[Problem]:
    """Batch puts in parameters for Ref::NAME: the words would not be the user's."""
    where = "run" if spec.command is None else "command"
    for i, word in enumerate(argv(spec)):
        if "Ref::" in word:
            path = (where, i) if where == "command" else (where,)
            hint = "put the text together in the program, or give it in env"
            yield Problem(path, "AWS Batch replaces what begins with Ref::", hint)
    for name in spec.env:
        if name.startswith(RESERVED):
            what = f"{RESERVED}* belongs to AWS Batch"
            yield Problem(("env", name), what, "rename it", at="key")


def _container(spec: Spec) -> Iterator[Problem]:
    image = spec.container.image
    if image and image.startswith("localhost/"):
        if spec.container.requirements is None:
            hint = "push it to a registry, or give container.requirements"
            what = "no registry has an image named localhost/..."
            yield Problem(("container", "image"), what, hint)
        else:
            what = "an image of one machine: the job installs its requirements at its start instead"
            yield Problem(("container", "image"), what, severity="note")
    elif image and not re.match(r"[A-Za-z0-9]", image):
        what = f"'{image}' is a file, and no image of a registry"
        yield Problem(("container", "image"), what, "push it to a registry")
    if spec.container.python:
        what = "the image brings its own Python; it ought to be such a version"
        yield Problem(("container", "python"), what, severity="note")


def _limits(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    if spec.timeout is not None and spec.timeout < LEAST_TIMEOUT_S:
        what = f"{spec.timeout} s, and AWS Batch ends no job before {LEAST_TIMEOUT_S} s"
        yield Problem(("timeout",), what, "set timeout: 60s or longer")
    tries = spec.retry.attempts + spec.retry.spot_attempts - 1
    if tries > MAX_ATTEMPTS and spec.cluster.capacity is not Capacity.ON_DEMAND:
        what = f"AWS Batch tries {MAX_ATTEMPTS} times in all, reclaimed machines included"
        yield Problem(("retry", "spot_attempts"), what, severity="note")
    if spec.max_parallel is not None:
        if options.queue:
            what = "an array has no bound of its own, and the queue of the profile is not ours to bound"
            hint = "take max_parallel away, or take queue out of the profile"
            yield Problem(("max_parallel",), what, hint, at="key")
        elif spec.cluster.capacity is Capacity.SPOT_THEN_ON_DEMAND:
            what = "each of the two environments keeps it: twice as many may run at once"
            yield Problem(("max_parallel",), what, at="key", severity="note")
        elif not options.fargate:
            what = "kept by the vCPUs of the environment; Batch may go one machine above it"
            yield Problem(("max_parallel",), what, at="key", severity="note")


def _machines(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    cluster = spec.cluster
    if options.fargate:
        yield from _fargate(spec, options)
    elif cluster.gpu_type and cluster.gpu_type.lower() not in {k.lower() for k in GPU_TYPES}:
        if not (options.instance_types or options.queue):
            known = ", ".join(GPU_TYPES)
            hint = did_you_mean(cluster.gpu_type, GPU_TYPES) or f"there are: {known}"
            yield Problem(("cluster", "gpu_type"), f"no machine has a '{cluster.gpu_type}'", hint)
    elif not (candidates(spec, options) or options.instance_types or options.queue):
        yield _too_much(spec, options)
    if options.queue:
        for key in ("disk", "placement", "capacity", "gpu_type"):
            if getattr(cluster, key) not in (None, Capacity.ON_DEMAND):
                what = "the queue of the profile is used as it is: it decides this"
                yield Problem(("cluster", key), what, severity="note")
    if options.efa:
        yield from _adapters(spec, options)
    if options.reservation:
        yield from _reserved(spec, options)
    if cluster.disk and options.launch_template and not options.queue:
        what = "a disk is a launch template of its own, and the profile has one already"
        hint = "give the template that disk, or take launch_template out of the profile"
        yield Problem(("cluster", "disk"), what, hint)
    if (cluster.gpu_type or "").lower() == "v100" and not options.ami and not options.queue:
        # https://docs.aws.amazon.com/batch/latest/APIReference/API_Ec2Configuration.html
        what = "V100 machines (p3) have no AMI of AWS Batch any more"
        hint = "set providers: {aws-batch: {ami: ami-...}} to one of your own, or take another GPU"
        yield Problem(("cluster", "gpu_type"), what, hint)


def _reserved(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html"""
    others = {"queue": options.queue, "fargate": options.fargate}
    others["launch_template"] = options.launch_template
    for key, there in others.items():
        if there:
            what = f"reservation and {key} are both given, and one says where machines come from"
            yield Problem(("provider",), what, "take one of them out of the profile")
    if len(options.instance_types) != 1:
        what = (
            "a capacity reservation is of one type of machine, and the profile does not say which"
        )
        hint = "add providers: {aws-batch: {instance_types: [p4d.24xlarge]}}"
        yield Problem(("provider",), what, hint)
    if spec.cluster.capacity is not Capacity.ON_DEMAND:
        what = "spot machines do not come from a capacity reservation"
        hint = "set capacity: on-demand, or take reservation out of the profile"
        yield Problem(("cluster", "capacity"), what, hint)


def _adapters(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    """https://docs.aws.amazon.com/batch/latest/userguide/efa.html"""
    lacking = [n for n in options.instance_types[:1] if n in KNOWN and not KNOWN[n].efa]
    if options.fargate or lacking:
        what = f"{lacking[0] if lacking else 'Fargate'} has no Elastic Fabric Adapter"
        hint = f"take efa or {'instance_types' if lacking else 'fargate'} out of the profile"
        yield Problem(("provider",), what, hint)
    elif spec.cluster.nodes.max > 1 and not (spec.cluster.placement or options.queue):
        what = "Elastic Fabric Adapters work within a placement group only"
        yield Problem(("cluster",), what, "set placement: close, or take efa out of the profile")


def _too_much(spec: Spec, options: AwsOptions) -> Problem:
    wanted, most = needs(spec, options), largest(spec.cluster.gpus or 0)
    for key, asked, there in (
        ("gpus", wanted.gpus, most.gpus),
        ("cpus", math.ceil(float(wanted.cpus)), most.cpus),
        ("memory", wanted.memory_mib, most.usable_mib),
    ):
        if asked > there and getattr(spec.cluster, key) is not None:
            what = f"{asked:,}{' MiB' if key == 'memory' else ''}, and the largest machine has {there:,}"
            return Problem(
                ("cluster", key), what, "ask for less for each node, or set instance_types"
            )
    what = "no machine has all that each node asks for together"
    return Problem(("cluster",), what, "ask for less, or set providers.aws-batch.instance_types")


def _fargate(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    hint = "take fargate out of the profile"
    if spec.cluster.gpus:
        yield Problem(("cluster", "gpus"), "Fargate has no GPUs", hint)
    if shape(spec) is JobKind.NODES:
        yield Problem(("cluster", "nodes"), "Fargate runs no multi-node jobs", hint)
    if on_fargate(spec) is None:
        path = "cpus" if (spec.cluster.cpus or 0) > 16 else "memory"
        yield Problem(
            ("cluster", path), "more than Fargate's largest size, 16 vCPUs and 120 GiB", hint
        )
    if spec.cluster.disk and spec.cluster.disk > 200 * GiB:
        yield Problem(("cluster", "disk"), "more than the 200 GiB that Fargate has", hint)
    if options.ulimits:
        # https://docs.aws.amazon.com/batch/latest/APIReference/API_ContainerProperties.html
        yield Problem(("provider",), "Fargate sets no ulimits", "take ulimits out of the profile")
    if spec.container.shm:
        yield Problem(("container", "shm"), "Fargate does not set the size of /dev/shm", hint)
    if spec.cluster.placement:
        yield Problem(("cluster", "placement"), "Fargate places tasks by itself", hint)
    if not options.execution_role:
        yield _missing("execution_role", "arn:aws:iam::...:role/...")


def _missing(key: str, example: str) -> Problem:
    hint = f"add providers: {{aws-batch: {{{key}: {example}}}}} to the profile"
    return Problem(("provider",), f"the profile names no {key}", hint)


def _profile(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    wanted = {"region": "eu-central-1", "bucket": "NAME"}
    if not options.queue:
        wanted |= {"subnets": "[subnet-...]", "security_groups": "[sg-...]"}
        if not options.fargate:
            wanted["instance_role"] = "arn:aws:iam::...:instance-profile/..."
    if spec.secrets:
        wanted["execution_role"] = "arn:aws:iam::...:role/..."
    for key, example in wanted.items():
        if not getattr(options, key):
            yield _missing(key, example)


def _waiting(options: AwsOptions) -> Iterator[Problem]:
    wait_s = options.max_queue_wait
    if wait_s is None:
        return
    if options.queue:
        what = "max_queue_wait is a setting of the queue, and the profile's own is used as it is"
        hint = "set jobStateTimeLimitActions of that queue, or take max_queue_wait or queue away"
        yield Problem(("provider",), what, hint)
    elif not LEAST_WAIT_S <= wait_s <= MOST_WAIT_S:
        what = f"max_queue_wait: {wait_s:,} s, and AWS Batch takes 10 minutes to 24 hours"
        yield Problem(("provider",), what, "set max_queue_wait: 10m or longer, 24h at most")


def _files(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    if options.files == "signed":
        yield from signed.problems(spec, options)
    elif not options.job_role:
        hint = (
            "add providers: {aws-batch: {job_role: arn:aws:iam::...:role/...}} to the profile, or "
            "files: signed, which needs no role and no Python"
        )
        what = "the profile names no job_role, and jobs could not reach the bucket"
        yield Problem(("provider",), what, hint)


def _mounts(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    for i, mount in enumerate(spec.mounts):
        at = ("mounts", i, "source")
        if mount.scheme == "store" and mount.place.startswith("/"):
            yield Problem(at, f"'{mount.source}' leaves its root", "take the third / away")
        if mount.scheme == "store" and not mount.read_only:
            hint = "make it an output, or mode: ro"
            yield Problem(("mounts", i, "mode"), "what is written there would not come back", hint)
        if mount.scheme == "shared":
            key = mount.place.partition("/")[0]
            if key not in options.shared:
                hint = did_you_mean(key, options.shared) or (
                    f"add providers: {{aws-batch: {{shared: {{{key}: 'efs:fs-...'}}}}}} to the profile"
                )
                yield Problem(at, f"the profile has no shared file system '{key}'", hint)
            else:
                yield from _shared(at, key, options)


def _shared(at: tuple[str | int, ...], key: str, options: AwsOptions) -> Iterator[Problem]:
    where = options.shared[key]
    if options.fargate and where.startswith("host:"):
        yield Problem(at, "Fargate has no folders of a host", "use efs:fs-...")
    if not lustre.is_lustre(where):
        return
    if options.fargate:
        # https://docs.aws.amazon.com/fsx/latest/LustreGuide/mounting-ecs.html
        what = "Fargate cannot mount FSx for Lustre"
        yield Problem(at, what, "use efs:fs-..., or take fargate out of the profile")
    elif options.queue:
        what = "the machines of the profile's queue are not ours to mount FSx for Lustre on"
        hint = f"have them mount it, and say {key}: host:/FOLDER; or take queue out of the profile"
        yield Problem(at, what, hint)
    elif options.launch_template:
        what = "mounting is a launch template of its own, and the profile has one already"
        hint = (
            f"have that template mount it, and say {key}: host:/FOLDER; or take launch_template "
            "out of the profile"
        )
        yield Problem(at, what, hint)


def _secrets(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    for variable, key in spec.secrets.items():
        where, at = options.secrets.get(key), ("secrets", variable)
        if where is None:
            hint = did_you_mean(key, options.secrets) or (
                f"add providers: {{aws-batch: {{secrets: {{{key}: 'aws-sm:arn:...'}}}}}} to the profile"
            )
            yield Problem(at, f"the profile has no secret '{key}'", hint)
        elif not (SECRETS_MANAGER.fullmatch(where) or PARAMETER.fullmatch(where)):
            what = f"a job on AWS Batch cannot read what the profile says of '{key}'"
            hint = "keep it in Secrets Manager (aws-sm:ARN) or the Parameter Store (aws-ssm:NAME)"
            yield Problem(at, what, hint)


def _size(spec: Spec, facts: Facts) -> Iterator[Problem]:
    if any(key not in facts.options.secrets for key in spec.secrets.values()):
        return
    if any(
        m.scheme == "shared" and m.place.partition("/")[0] not in facts.options.shared
        for m in spec.mounts
    ):
        return
    count = job.size(spec, facts)
    if count > job.MAX_BYTES:
        path = "run" if spec.command is None else "command"
        what = f"{count:,} bytes with it, and AWS Batch takes {job.MAX_BYTES:,}"
        yield Problem((path,), what, "put it into a file of a mount", at="key")
