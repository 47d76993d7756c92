"""Problems of a spec that Azure Batch cannot run, or whose job would wait for ever, each with a hint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from runspec_agent.base.light_typing import NamedTuple
from runspec_azure.batch import signed
from runspec_azure.batch.check import access, notes
from runspec_azure.batch.decision import Decision, explain_copies
from runspec_azure.batch.infrastructure import built_image
from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import setting
from runspec_azure.resources import request, vm_sizes
from runspec_azure.resources.vm_sizes import Machine
from runspec_jobs.provider import Capacity, Facts, Problem, Spec, did_you_mean
from runspec_jobs.provider.machines import GPU_MULTIPLE, MachineRequest, explain_other_chip
from runspec_jobs.provider.spec_checks import (
    check_disk_tier,
    check_pulled,
    foreign_problems,
    lacking,
    literal_paths,
    note_copies,
    refuse_growth,
    refuse_rules,
    too_many_tasks,
)

# https://learn.microsoft.com/rest/api/batchservice/tasks/create-task#taskconstraints
REFUSED = {
    "image retry": (
        "Azure Batch retries a task whose command failed, and none whose image cannot be pulled",
        "remove the entry: repeat apply",
    )
}
MOST_MOUNTS = 10  # https://learn.microsoft.com/azure/batch/batch-quota-limit#other-limits
MOST_SHARED = 350  # of tasks_per_node: the formula names each, and "cannot exceed 8 KB" (batch-automatic-scaling)
MOST_TASKS = 10_000  # of a sweep; more were never tried
MOST_DAYS = 180  # the lifetime of a task, including its wait in the queue: the same page
# https://learn.microsoft.com/rest/api/batchservice/pools/create-pool: id
POOL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
RESERVED = "AZ_BATCH"
# Of the 1,048,576 bytes of a request, the rest of a job needs some: https://github.com/Azure/BatchExplorer/issues/1286
MOST_ENV_BYTES = (1 << 20) - (64 << 10)
GIB = vm_sizes.GIB
DAY_S = 86_400
FASTER_DISK = (
    "set vm_size to a size with a local NVMe disk, such as Standard_L8s_v3, and tier: best"
)


def problems(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    options = decision.options
    yield from _nodes(decision, spec)
    yield from _words(spec)
    yield from _size(spec)
    yield from _container(decision, spec)
    yield from _limits(spec)
    yield from check_disk_tier(spec, vm_sizes.LOCAL_TIERS, vm_sizes.LOCAL_DISK, FASTER_DISK)
    yield from refuse_rules(spec, REFUSED)
    yield from refuse_growth(spec, "all attempts of a task have a whole machine of the same pool")
    if spec.container.image is None and spec.container.build is None:
        why = "on a machine of Azure Batch without an image; what is written there is lost"
        yield from literal_paths(spec, why)
    if facts.complete:
        yield from _gang(decision, spec)
        yield from _spot(decision)
        yield from _own_pool(decision, spec)
        yield from _shared_machines(decision, spec)
        if not options.pool:
            yield from _machines(decision, spec, facts)
            yield from access.check_image(decision, spec)
            yield from _registry(decision)
            yield from _addresses(spec, options)
        if options.files == "signed":
            yield from signed.problems(spec, options)
        yield from _profile(spec, options)
        yield from built_image.problems(spec, options)
        yield from access.problems(decision, spec)
        yield from _mounts(spec, options)
        yield from access.check_secrets(spec, options)
        yield from notes.notes(decision, spec)


def _nodes(decision: Decision, spec: Spec) -> Iterator[Problem]:
    if spec.cluster.placement and decision.connected:
        message = (
            "ignored: Azure Batch has no such option, and its pools with inter-node communication place nodes "
            "close to each other; for InfiniBand, set vm_size to a machine that has it (HB, ND)"
        )
        yield Problem(("cluster", "placement"), message, severity="note")
    if decision.nodes > 1 and decision.capacity is not Capacity.ON_DEMAND:
        # https://learn.microsoft.com/azure/batch/batch-spot-vms#considerations-and-use-cases
        message = "if the machine of one node is reclaimed, all nodes of the task start again"
        yield Problem(("cluster", "capacity"), message, severity="note")


def _words(spec: Spec) -> Iterator[Problem]:
    """https://learn.microsoft.com/azure/batch/batch-compute-node-environment-variables"""
    for where in ("env", "secrets"):
        for name in getattr(spec, where):
            if name.upper().startswith(RESERVED):
                message = f"names that begin with {RESERVED} are reserved for Azure Batch"
                yield Problem((where, name), message, "rename it", at="key")


def _size(spec: Spec) -> Iterator[Problem]:
    count = len(json.dumps(dict(spec.program_env)))  # in ASCII, as the SDK sends it
    if count > MOST_ENV_BYTES:
        message = f"{count:,} bytes in the request for the job, and Azure Batch takes {MOST_ENV_BYTES:,} there"
        yield Problem(("env",), message, "put long texts into a file of a mounted folder", at="key")


def _container(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield problems and notes about the image; with an image, the pool is for containers, and each task is one."""
    container, at = spec.container, ("container", "image")
    if container.image and container.image.startswith("localhost/"):
        if container.requirements is None:
            hint = "push it to a registry, or use container.requirements instead"
            yield Problem(at, "images named localhost/... cannot be pulled from a registry", hint)
        else:
            message = "the image exists on this machine only: the job installs container.requirements without it"
            yield Problem(at, message, severity="note")
    elif container.image:
        yield from check_pulled(container.image)
    if container.entrypoint and decision.image is None:
        message = "the job runs without the image, so it has no entrypoint"
        hint = "write command: [program, argument]"
        yield Problem(("container", "entrypoint"), message, hint, at="key")
    if container.requirements is not None and decision.image:
        message = (
            "the image's python3 installs the packages when the job starts, and needs venv or pip"
        )
        yield Problem(("container", "requirements"), message, at="key", severity="note")
    if container.python:
        where = "image" if decision.image else "machine"
        message = f"the {where} has its own Python: make sure that it is one of these versions"
        yield Problem(("container", "python"), message, severity="note")
    if decision.shm_bytes and not decision.image:
        message = "ignored without an image: the job has the machine's /dev/shm, which is half of its memory"
        yield Problem(("container", "shm"), message, severity="note")


def _limits(spec: Spec) -> Iterator[Problem]:
    """Yield problems with the number of tasks, which Azure Batch does not limit, and with a long timeout."""
    yield from too_many_tasks(spec, MOST_TASKS, "how Azure Batch behaves with more is not known")
    if spec.timeout is not None and spec.timeout > MOST_DAYS * DAY_S:
        message = f"{spec.timeout // DAY_S:,} days, but Azure Batch ends every task after {MOST_DAYS} days"
        yield Problem(("timeout",), message, f"set timeout: {MOST_DAYS}d or shorter")


def _gang(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield a problem for a task that needs more machines than its pool can have: it would wait for ever.

    https://learn.microsoft.com/azure/batch/batch-mpi#requirements-for-multi-instance-tasks
    """
    options, most, at = decision.options, decision.most_connected, ("cluster", "nodes")
    # An elastic job waits for its least nodes.
    nodes = spec.cluster.nodes.min if decision.elastic else decision.nodes
    if nodes > most:
        message = f"{nodes:,} nodes, but a pool with inter-node communication has {most} at most"
        yield Problem(at, message, f"set nodes: {most}, or run a sweep of tasks with one node")
    elif nodes > options.max_nodes and not options.pool:
        message = f"{nodes:,} nodes, but the pool has {options.max_nodes:,} at most: the job would wait for ever"
        hint = f"set max_nodes: {nodes} in the profile, or nodes: {options.max_nodes}"
        yield Problem(at, message, hint)


def _spot(decision: Decision) -> Iterator[Problem]:
    """Yield a problem for a machine that is not sold as a spot machine. Accounts in both allocation modes have them.

    "After migration, any use of Low-priority properties in the Azure Batch API or SDK will automatically translate
    into Spot-based compute node allocations": https://github.com/Azure/Batch/issues/196
    """
    options = decision.options
    if decision.capacity is Capacity.ON_DEMAND:
        return
    name = options.vm_size or ""
    # https://learn.microsoft.com/azure/virtual-machines/spot-vms#limitations
    if not options.pool and re.match(r"(?i)standard_b\d|.*_promo$", name):
        hint = "set another vm_size, or capacity: on-demand"
        message = f"{name} is not available as a spot machine"
        yield Problem(("cluster", "capacity"), message, hint)


def _own_pool(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield the requirements on the pool of the profile, which is used as it is."""
    options = decision.options
    if not options.pool:
        return
    if not POOL_ID.fullmatch(options.pool):
        message = f"pool: '{options.pool}' is not a valid id of a pool"
        yield Problem(setting(spec, "pool"), message, "write at most 64 letters, digits, - and _")
    for key in (
        "cpus",
        "memory",
        "gpus",
        "gpu_type",
        "gpu_memory",
        "disk",
        "placement",
        "capacity",
    ):
        if getattr(spec.cluster, key) not in (None, Capacity.ON_DEMAND):
            message = "ignored: the profile's pool decides this"
            yield Problem(("cluster", key), message, severity="note")
    if decision.connected:
        message = (
            "the profile's pool needs enableInterNodeCommunication and taskSlotsPerNode: 1, or "
            "the job waits for ever"
        )
        yield Problem(("cluster", "nodes"), message, severity="note")
    message = (
        "the profile's pool needs a containerConfiguration"
        if decision.image
        else "the profile's pool must have no containerConfiguration, or tasks without an image fail"
    )
    at = ("container", "image") if decision.image else ("provider",)
    yield Problem(at, message, severity="note")


def _shared_machines(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield problems of `tasks_per_node`: several nodes or GPUs, a pool of the profile, or too many machines.

    "The default value is 1. The maximum value is the smaller of 4 times the number of cores of the vmSize of the pool
    or 256": https://learn.microsoft.com/rest/api/batchservice/pools/create-pool
    """
    count, at = decision.options.tasks_per_node, setting(spec, "tasks_per_node")
    if count == 1:
        return
    if decision.options.pool:
        message = "ignored: the profile's pool has its own taskSlotsPerNode"
        yield Problem(at, message, severity="note")
        return
    if decision.connected:
        message = (
            f"tasks_per_node: {count}, but tasks with several nodes have machines of their own"
        )
        yield Problem(at, message, "set nodes: 1, or remove tasks_per_node")
    if decision.request.gpus:
        message = (
            f"tasks_per_node: {count}, but Azure Batch divides no GPUs among the tasks of a machine"
        )
        yield Problem(at, message, "remove tasks_per_node, or run several programs in one task")
    if decision.most_nodes > MOST_SHARED:
        message = f"max_nodes: {decision.most_nodes:,}, but tasks share {MOST_SHARED} machines of a pool at most"
        yield Problem(at, message, f"set max_nodes: {MOST_SHARED}, or remove tasks_per_node")
    machine = vm_sizes.known(decision.vm_size)
    if machine and count > 4 * machine.cpus:
        message = (
            f"tasks_per_node: {count}, but {machine.name} runs {4 * machine.cpus} tasks at most"
        )
        yield Problem(at, message, f"set tasks_per_node: {4 * machine.cpus}")


def _machines(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    gpu_type = decision.request.gpu_type
    if decision.options.vm_size:
        yield from _named(decision, spec)
        return
    if gpu_type:
        there = vm_sizes.gpu_types(request.offered(facts.survey))
        if gpu_type.lower() not in {kind.lower() for kind in there}:
            yield _unknown_gpu(gpu_type, there)
            return
    if not decision.machines:
        yield _too_much(decision, spec, facts)


def _unknown_gpu(kind: str, there: tuple[str, ...]) -> Problem:
    had = [m for m in vm_sizes.machines() if m.gpu_type.lower() == kind.lower() and m.leaves]
    known = {name.lower(): name for name in there}
    near = did_you_mean(kind, known)
    listed = f"choose one of: {', '.join(there)}; or set vm_size in the profile"
    if other := explain_other_chip(kind, there):
        return Problem(("cluster", "gpu_type"), *other)
    if had:
        message = (
            f"Azure has retired machines with the GPU '{kind}' ({had[0].name}: {had[0].leaves})"
        )
        return Problem(("cluster", "gpu_type"), message, listed)
    if any(m.gpu_type.lower() == kind.lower() for m in vm_sizes.current()):
        message = (
            f"no machine with the GPU '{kind}' is available to this subscription in its region"
        )
        return Problem(("cluster", "gpu_type"), message, listed)
    return Problem(
        ("cluster", "gpu_type"), f"no machine of Azure has the GPU '{kind}'", near or listed
    )


def _named(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield problems of the machine that the profile names; one that the table lacks may be new."""
    name, at = decision.options.vm_size or "", setting(spec, "vm_size")
    machine = vm_sizes.known(name)
    if machine is None:
        if hint := _misspelt(name):
            yield Problem(at, f"vm_size: '{name}' is not a VM size of Azure", hint)
            return
        message = f"vm_size: '{name}' is not in runspec's table, so runspec cannot check that it is large enough"
        kin = ", ".join(vm_sizes.near(name)[:3])
        yield Problem(
            at, message, f"similar sizes in the table: {kin}" if kin else None, severity="note"
        )
        return
    if machine.retired:
        message = f"vm_size: {machine.name} was retired on {machine.leaves}"
        yield Problem(at, message, "set another one, or remove vm_size so that runspec chooses one")
    elif machine.leaves:
        message = f"vm_size: {machine.name} will be retired on {machine.leaves}"
        yield Problem(at, message, severity="note")
    yield from _short(decision.request, machine)


def _misspelt(name: str) -> str | None:
    if not name.lower().startswith("standard_"):
        full = vm_sizes.known(f"Standard_{name}")
        return f"did you mean '{full.name}'?" if full else "write it in full: Standard_..."
    return None


class Want(NamedTuple):
    """One resource that a node requests, and how much of it there is, in *unit*."""

    key: str
    asked: float
    there: float
    unit: str


def _wants(wanted: MachineRequest, among: Iterable[Machine]) -> tuple[Want, ...]:
    """Return the resources that a node requests, and the most that any of the machines has of each."""
    there = tuple(among)
    return (
        Want("gpus", wanted.gpus, max(m.gpus for m in there), ""),
        Want("gpu_memory", wanted.gpu_gib, max(m.gpu_gib for m in there), " GiB"),
        Want("cpus", wanted.cpus, max(m.cpus for m in there), ""),
        Want("memory", wanted.memory_gib, max(m.usable_gib for m in there), " GiB"),
        Want("disk", wanted.disk_gib, max(m.disk_gib for m in there), " GiB"),
    )


def _short(wanted: MachineRequest, machine: Machine) -> Iterator[Problem]:
    for want in _wants(wanted, [machine]):
        if want.asked > want.there:
            message = (
                f"{want.asked:,.6g}{want.unit}, but {machine.name} has {want.there:,.6g}{want.unit}"
            )
            yield Problem(("cluster", want.key), message, "ask for less, or set another vm_size")
    kind = wanted.gpu_type
    if kind and machine.gpus and machine.gpu_type.lower() != kind.lower():
        message = f"'{kind}', but {machine.name} has {machine.gpu_type}"
        yield Problem(("cluster", "gpu_type"), message, "set another vm_size")


def _too_much(decision: Decision, spec: Spec, facts: Facts) -> Problem:
    wanted, region = decision.request, decision.request.region
    among = request.alike(wanted, facts.survey)
    if not among:
        message = "no suitable machine is available to this subscription in its region"
        return Problem(
            ("cluster",), message, "set vm_size in the profile, or request a quota increase"
        )
    for want in _wants(wanted, among):
        if want.asked > want.there and getattr(spec.cluster, want.key) is not None:
            message = (
                f"{want.asked:,.6g}{want.unit}, but the largest machine has "
                f"{want.there:,.6g}{want.unit}"
            )
            hint = "ask for less for each node, or set vm_size in the profile"
            return Problem(("cluster", want.key), message, hint)
    if least := request.too_many_gpus(wanted, decision.options.image, facts.survey):
        message = f"{wanted.gpus}, but the smallest machine with such GPUs, {least.name}, has {least.gpus}"
        hint = f"set gpus: {-(-least.gpus // GPU_MULTIPLE)} or more, choose another GPU, or set vm_size: {least.name}"
        return Problem(("cluster", "gpus"), message, hint)
    if region and (hint := request.sold_elsewhere(wanted)):
        message = f"no machine that is large enough is offered in {region}"
        return Problem(("cluster",), message, f"{hint}, or set vm_size in the profile")
    where = f" of {region}" if region else ""
    message = f"no machine{where} meets all requirements of a node together"
    return Problem(("cluster",), message, "ask for less, or set vm_size in the profile")


def _registry(decision: Decision) -> Iterator[Problem]:
    """https://learn.microsoft.com/azure/container-registry/anonymous-pull-access"""
    host, options = (decision.image or "").partition("/")[0], decision.options
    by_identity = decision.built and options.identity
    if host.endswith(".azurecr.io") and host != options.registry and not by_identity:
        message = f"{host} refuses anonymous pulls by default: set registry in the profile"
        yield Problem(("container", "image"), message, severity="note")


def _addresses(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """https://learn.microsoft.com/azure/batch/simplified-node-communication-pool-no-public-ip#prerequisites"""
    if not options.public_addresses and not options.subnet:
        message = (
            "public_addresses: false, but only machines in a subnet can do without public addresses"
        )
        yield Problem(setting(spec, "public_addresses"), message, "set subnet in the profile")


def _profile(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    examples = {
        "batch_url": "https://ACCOUNT.REGION.batch.azure.com",
        "storage_account": "NAME",
        "container": "NAME",
    }
    for key, example in examples.items():
        if getattr(options, key) is None:
            yield lacking("azure-batch", key, example)
    if not 300 <= options.spot_wait <= 3600:
        message = f"spot_wait: {options.spot_wait:,} s, but Azure Batch evaluates a formula every 5 minutes"
        yield Problem(
            setting(spec, "spot_wait"), message, "set spot_wait to 5m at least and 1h at most"
        )
    yield from options.login_problems()


def _mounts(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """Yield problems of mounts; only pools can mount file systems: https://learn.microsoft.com/azure/batch/virtual-file-mount"""
    if options.files != "signed":
        own = ("az",) if options.identity else ()
        yield from foreign_problems(spec, own, ", set identity in the profile for az://")
    shared: dict[str, int] = {}
    for i, mount in enumerate(spec.mounts):
        at = ("mounts", i, "source")
        if mount.scheme == "store" and mount.place.startswith("/"):
            yield Problem(
                at, f"'{mount.source}' leads out of the container's prefix", "remove the third /"
            )
        if mount.scheme == "store" and not mount.read_only:
            hint = "make it an output, or mode: ro"
            yield Problem(
                ("mounts", i, "mode"), "files that the job writes there would be lost", hint
            )
        if mount.scheme == "shared":
            key = mount.place.partition("/")[0]
            shared.setdefault(key, i)
            yield from _shared(at, key, options)
    yield from note_copies(spec, explain_copies(options))
    for i in sorted(shared.values())[MOST_MOUNTS:]:
        message = f"a node can mount at most {MOST_MOUNTS} file systems"
        yield Problem(
            ("mounts", i, "source"),
            message,
            "put several mounts into one file system, or use store://",
        )


def _shared(at: tuple[str | int, ...], key: str, options: BatchOptions) -> Iterator[Problem]:
    if options.pool:
        message = f"the profile's pool must mount this file system at '{key}' (relativeMountPath)"
        yield Problem(at, message, severity="note")
        return
    if key not in options.shared:
        hint = did_you_mean(key, options.shared) or (
            f"add providers: {{azure-batch: {{shared: {{{key}: 'files:ACCOUNT/SHARE'}}}}}} to the profile; "
            "write a Blob container as 'blob:ACCOUNT/CONTAINER'"
        )
        yield Problem(at, f"the profile has no shared file system '{key}'", hint)
        return
    kind, _, source = options.shared[key].partition(":")
    if kind == "nfs" and not options.subnet:
        message = (
            f"machines without your subnet usually cannot reach {source}: set subnet in the profile"
        )
        yield Problem(at, message, severity="note")
    account = source.partition("/")[0]
    has_key = account == options.storage_account and options.storage_key
    by_identity = kind == "blob" and options.identity  # Azure Files needs a key
    if kind in ("files", "blob") and not (
        has_key or by_identity or account in options.account_keys
    ):
        message = f"mounting '{key}' needs the key of the storage account {account}, which the profile lacks"
        hint = f"add account_keys: {{{account}: env:NAME}} to the profile"
        yield Problem(at, message, hint)
