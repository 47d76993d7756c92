"""Checks of a spec for Slurm: what is not supported, or would wait for ever, each with a hint."""

from __future__ import annotations

import math
from collections.abc import Iterator

from runspec_agent.base.retry_rules import grow
from runspec_jobs.provider import Capacity, Facts, Launch, Path, Problem, Spec, did_you_mean
from runspec_jobs.provider.machines import is_enough_gpu_memory
from runspec_jobs.provider.spec_checks import (
    foreign_problems,
    literal_paths,
    not_in_profile,
    note_copies,
    secret_problems,
)
from runspec_slurm import containers, job, resources
from runspec_slurm.decision import EARLY_S, Decision
from runspec_slurm.naming import setting
from runspec_slurm.options import SlurmOptions, count_hosts, split_partitions
from runspec_slurm.resources import Partition
from runspec_slurm.store import built_image

ONE_DISK = "Slurm does not tell the kinds of the nodes' disks apart: a job gets those of its nodes"
ANOTHER_DISK = (
    "remove tier, and ask for nodes with such a disk: providers: {slurm: {constraint: nvme}}"
)
RESERVED = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_")
OWN_SECRETS = ("env", "file")
# The default of SchedulerParameters=max_script_size: https://slurm.schedmd.com/slurm.conf.html
MOST_SCRIPT_BYTES = 4 << 20
MOST_LEAD_S = 65_535  # https://slurm.schedmd.com/sbatch.html#OPT_signal
HOUR_S = 3600
MIB = 1 << 20


def problems(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    options = decision.options
    yield from _nodes(decision)
    yield from _variables(spec)
    yield from foreign_problems(spec, ("s3",))
    if not decision.is_contained:
        yield from literal_paths(spec, "on a node of Slurm without an image")
    if facts.complete:
        yield from built_image.problems(spec, facts)
        yield from job.check_extra_options(spec, options)
        yield from _own_words(decision, spec)
        yield from check_partition(decision, spec, facts)
        yield from _limits(decision, spec)
        yield from options.login_problems()
        yield from containers.check_image(decision, spec, facts)
        yield from _chips(decision)
        yield from _mpi(decision, spec, facts)
        yield from _mounts(spec, options)
        yield from _growth(decision, spec)
        yield from secret_problems(spec, options, spec.provider, "'env:NAME'", _secret)
        yield from _script(decision, spec)


def _nodes(decision: Decision) -> Iterator[Problem]:
    if decision.one_switch:
        what = "requests nodes of one switch, for which Slurm waits five minutes at most by default"
        yield Problem(("cluster", "placement"), what, severity="note")


def _growth(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield what memory each attempt asks for, or why none can ask for more."""
    for number, rule in enumerate(spec.retry.on):
        at: Path = ("retry", "on", number, "memory")
        if rule.memory is None:
            continue
        if decision.memory in (None, "0"):
            what = "the job asks Slurm for no amount: the partition manages no memory, or memory: all is set"
            yield Problem(at, what, "remove it, or use another partition", at="key")
            continue
        each = [spec.cluster.memory or 0]
        while len(each) < spec.retry.attempts and (more := grow(rule.recorded, each[-1])):
            each.append(more)
        told = ", then ".join(f"{-(-count // MIB):,} MiB" for count in each)
        what = f"attempts ask for {told} of memory, on a node of the same partition"
        yield Problem(at, what, at="key", severity="note")


def _own_words(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield problems of settings that are options of sbatch and do not fit the job."""
    options, nodes = decision.options, decision.nodes
    if options.nodelist and (count := count_hosts(options.nodelist)) > nodes:
        what = f"nodelist names {count:,} nodes, and a job of {nodes:,} must have them all"
        if decision.is_array:
            what = f"nodelist names {count:,} nodes, and each task must have them all"
        yield Problem(setting(spec, "nodelist"), what, "name fewer, or keep others away by exclude")
    if options.mail_user and not options.mail_type:
        what = "mail_user has no effect without mail_type"
        yield Problem(
            setting(spec, "mail_user"), what, "set mail_type: [END, FAIL]", severity="note"
        )


def _variables(spec: Spec) -> Iterator[Problem]:
    """Yield variables that Slurm itself reads.

    https://slurm.schedmd.com/sbatch.html#SECTION_INPUT-ENVIRONMENT-VARIABLES
    """
    for where in ("env", "secrets"):
        for name in getattr(spec, where):
            if name.startswith(RESERVED):
                what = f"{name.partition('_')[0]}_* belongs to Slurm"
                yield Problem((where, name), what, "rename it", at="key")


def _limits(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield the problems of the time limits of the partitions, and of the grace period."""
    limit, partitions = decision.time_limit, decision.partitions
    if limit.lead_s > MOST_LEAD_S:
        what = f"grace is {decision.options.grace:,} s, but Slurm signals a job at most 65,535 s before its limit"
        yield Problem(setting(spec, "grace"), what, "set grace: 18h or shorter")
    names = " and ".join(p.name for p in partitions)
    early_s = limit.lead_s + EARLY_S
    short = [p for p in partitions if p.max_time_s is not None and p.max_time_s <= early_s]
    if short:
        what = (
            f"the partition '{short[0].name}' has a time limit of {_long(short[0].max_time_s or 0)}, and jobs are "
            f"told to end up to {early_s} s before it, which is at their start"
        )
        yield Problem(setting(spec, "grace"), what, "use another partition")
    elif spec.timeout is None:
        ends = [p.default_time_s or p.max_time_s for p in partitions]
        if first := min(filter(None, ends), default=None):
            what = f"without timeout, the partition '{names}' ends the job after {_long(first)}"
            yield Problem(("provider",), what, severity="note")
    elif limit.most_s is not None and spec.timeout > limit.most_s:
        most = f"the time limit of the partition '{names}', {_long(limit.most_s)}"
        what = f"{_long(spec.timeout)} is longer than {most}"
        hint = f"set timeout: {limit.most_s}s or shorter, or use another partition"
        yield Problem(("timeout",), what, hint)
    elif limit.most_s is not None and (limit.wanted_s or 0) > limit.most_s:
        most = f"the time limit of the partition '{names}' is {_long(limit.most_s)}"
        what = f"{most}: jobs must end up to {early_s} s before it"
        yield Problem(("timeout",), what, severity="note")


def _long(seconds: int) -> str:
    """Return a duration in the notation of specs.

    >>> _long(5400), _long(90), _long(172_800)
    ('1h30m', '1m30s', '2d')
    """
    parts, left = [], seconds
    for unit, size in (("d", 86_400), ("h", HOUR_S), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def _mpi(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    options, plugin = decision.options, decision.mpi
    if spec.launch is not Launch.MPI or options.mpi == "mpirun":
        return
    at = setting(spec, "mpi")
    if options.mpi == "auto":
        starter = f"srun --mpi={plugin}" if plugin else "the environment's own mpirun"
        yield Problem(at, f"mpi: auto: {starter} starts the ranks", severity="note")
        return
    if decision.elastic:
        what = "mpi: srun cannot start processes in another job, and each node of an elastic job is a job"
        yield Problem(at, what, "set mpi: mpirun")
        return
    if decision.is_contained:
        hint = "set mpi: mpirun, or container: none"
        what = "mpi: srun needs the command srun, which images do not have"
        if decision.engine == "pyxis":
            # Whether enroot mounts the socket of PMIx is the choice of whoever runs the cluster, and nothing tells it:
            # https://github.com/NVIDIA/enroot/blob/master/conf/hooks/extra/50-slurm-pmi.sh
            what += ", and a step of srun from outside gets a container of its own"
            hint += ": see runspec docs slurm, MPI"
        yield Problem(at, what, hint)
    plugins = resources.read_cluster(facts).get("mpi")
    if plugins is not None and plugin not in plugins:
        lacking = f"no {options.mpi_type}" if options.mpi_type else "neither pmix nor pmi2"
        what = f"mpi: srun is set, but the cluster has {lacking}"
        listed = f", or set mpi_type to one of {', '.join(plugins)}" if plugins else ""
        yield Problem(at, what, f"set mpi: mpirun, which needs no plugin{listed}")


def _mounts(spec: Spec, options: SlurmOptions) -> Iterator[Problem]:
    yield from note_copies(spec, "write shared:// for files to be read where they are")
    for i, mount in enumerate(spec.mounts):
        at = ("mounts", i, "source")
        if mount.scheme != "file" and mount.place.startswith("/"):
            yield Problem(at, f"'{mount.source}' is an absolute path", "remove the third /")
        elif mount.scheme == "store" and not mount.read_only:
            hint = "declare an output instead, or set mode: ro"
            yield Problem(("mounts", i, "mode"), "files written there would be lost", hint)
        elif mount.scheme == "shared":
            key = mount.place.partition("/")[0]
            if key not in options.shared:
                entry = f"{spec.provider}: {{shared: {{{key}: /FOLDER}}}}"
                yield not_in_profile("shared folder", at, key, options.shared, entry)


def _secret(at: Path, _key: str, source: str) -> Iterator[Problem]:
    kind = source.partition(":")[0]
    if kind not in OWN_SECRETS:
        what = f"secrets of Slurm jobs cannot come from '{kind}:'"
        yield Problem(at, what, "use env:NAME or file:/path on the machine that runs apply")
    else:
        what = "is stored in a file of the workspace until the run is destroyed; only you and root can read it"
        yield Problem(at, what, severity="note")


def _script(decision: Decision, spec: Spec) -> Iterator[Problem]:
    if any(
        m.scheme == "shared" and m.place.partition("/")[0] not in decision.options.shared
        for m in spec.mounts
    ):
        return
    size = len(job.write_script(decision, spec, "r" * 47).encode())
    if size > MOST_SCRIPT_BYTES:
        what = f"the batch script has {size:,} bytes with env, but Slurm accepts at most {MOST_SCRIPT_BYTES:,}"
        yield Problem(("env",), what, "put large values into a file of a mount", at="key")


# Checks that the partitions of a job have the resources that it requests; else it would be refused or never start.


MIB, GIB = 1 << 20, 1 << 30
MOST_ARRAYS = 100  # of one run; each is a job of its own, and a request of its own
MAX_JOBS = 10_000  # the default: https://slurm.schedmd.com/slurm.conf.html#OPT_MaxJobCount
# States in which a partition starts no jobs: https://slurm.schedmd.com/slurm.conf.html#OPT_State_1
CLOSED = {"drain": "accepts no jobs", "inactive": "accepts no jobs and starts none"}
ANOTHER = "ask for less, or use another partition"


def check_partition(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    yield from _named(decision, spec)
    yield from _capacity(decision, spec)
    yield from _array(decision, spec, facts)
    yield from _gpu_request(decision, spec, facts)
    yield from _gpu_memory(decision, spec)
    for partition in decision.partitions:
        yield from _open(partition)
        yield from _check_nodes(decision, partition)
        yield from _sizes(decision, spec, partition)
        yield from _gpus(decision, spec, partition)
    yield from _not_requested(decision, spec)


def _named(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield a problem for each partition that does not exist, or if none is named and the cluster has no default."""
    known = decision.known
    if not known:
        return
    for key in ("partition", "spot_partition"):
        for name in split_partitions(getattr(decision.options, key)):
            if name not in known and name in decision.requested:
                hint = did_you_mean(name, known) or f"use one of {', '.join(known)}"
                yield Problem(setting(spec, key), f"{key}: the cluster has no '{name}'", hint)
    if not decision.requested and resources.find_default(known) is None:
        hint = f"set providers: {{{spec.provider}: {{partition: {next(iter(known))}}}}}"
        yield Problem(
            ("provider",), "the cluster has no default partition, and none is named", hint
        )


def _capacity(decision: Decision, spec: Spec) -> Iterator[Problem]:
    at, requested = ("cluster", "capacity"), decision.requested
    if spec.cluster.capacity is Capacity.ON_DEMAND:
        return
    if decision.options.spot_partition is None:
        what = "the profile has no spot_partition: the job uses the same partition as other jobs"
        yield Problem(at, what, severity="note")
    elif spec.cluster.capacity is Capacity.SPOT_THEN_ON_DEMAND:
        if len(requested) == 1:
            what = f"the on-demand partition is unknown, so only {requested[0]} is used: set option partition"
        else:
            what = f"Slurm uses the one of {' and '.join(requested)} that can start the job first"
        yield Problem(at, what, severity="note")


def _array(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield problems with the number of tasks, and a note if they are split into several arrays.

    https://slurm.schedmd.com/slurm.conf.html#OPT_MaxArraySize, #OPT_MaxJobCount
    """
    cluster, arrays = resources.read_cluster(facts), decision.arrays
    jobs, tasks = cluster.get("max_jobs"), arrays.tasks
    at: Path = ("sweep",) if spec.sweep else ("cluster", "nodes")
    hint = "use fewer tasks, or ask the administrators for a higher "
    if not decision.is_array:
        return
    if arrays.largest == 0:
        what = "this cluster allows no arrays (MaxArraySize=0)"
        yield Problem(at, what, "ask the administrators for a higher MaxArraySize", at="key")
        return
    bound = f"an array of this cluster has {arrays.largest:,} at most (MaxArraySize)"
    if cluster.get("max_array") is None:
        bound = (
            f"an array has {arrays.largest:,} at most unless MaxArraySize is set higher, which is not "
            "known"
        )
    if arrays.count > MOST_ARRAYS or (arrays.count == 1 and tasks > arrays.largest):
        what = f"{tasks:,} tasks, but {bound}"
        if arrays.count > 1:
            what += f", and a run has {MOST_ARRAYS} arrays at most"
        yield Problem(at, what, f"{hint}MaxArraySize", at="key")
    elif jobs is not None and tasks > jobs:
        what = f"{tasks:,} tasks, but this cluster allows {jobs:,} jobs in all (MaxJobCount)"
        yield Problem(at, what, f"{hint}MaxJobCount", at="key")
    elif arrays.count > 1 and any(w.startswith("aftercorr:") for w in decision.options.after):
        what = f"{tasks:,} tasks are {arrays.count} arrays, and `aftercorr` pairs the tasks of one array"
        yield Problem(setting(spec, "after"), what, "write afterok, or use fewer tasks")
    elif arrays.count > 1:
        what = f"{tasks:,} tasks are {arrays.count} arrays of up to {arrays.each:,}: {bound}"
        yield Problem(at, what, at="key", severity="note")
    if jobs is None and tasks > MAX_JOBS:
        what = f"{tasks:,} tasks, but a cluster allows {MAX_JOBS:,} jobs in all unless MaxJobCount is set higher"
        yield Problem(at, what, at="key", severity="note")


def _gpu_request(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    select = resources.read_cluster(facts).get("select")
    by_gres = decision.options.gpu_request == "gres"
    if not decision.gpus or by_gres or select in (None, "cons_tres"):
        return
    what = f"gpu_request: gpus-per-node needs select/cons_tres, but the cluster has {select}"
    yield Problem(setting(spec, "gpu_request"), what, "set gpu_request: gres")


def _open(partition: Partition) -> Iterator[Problem]:
    if why := CLOSED.get(partition.state.lower()):
        hint = "use another partition, or ask the administrators to open this one"
        yield Problem(("provider",), f"the partition '{partition.name}' {why}", hint)
    elif partition.state.lower() == "down":
        what = f"the partition '{partition.name}' is down: jobs wait until it is up again"
        yield Problem(("provider",), what, severity="note")


def _check_nodes(decision: Decision, partition: Partition) -> Iterator[Problem]:
    """Yield problems with the number of nodes; powered down nodes count, because Slurm starts them for a job."""
    most, least, at = partition.most_nodes, partition.min_nodes, ("cluster", "nodes")
    name, nodes = partition.name, decision.least_nodes
    if most is not None and nodes > most:
        what = f"{nodes:,}, but the partition '{name}' has {most:,}: the job would wait for ever"
        yield Problem(at, what, f"set nodes: {most}, or use another partition")
    elif least is not None and decision.nodes < least:
        what = f"{decision.nodes:,}, and the partition '{name}' takes jobs of {least:,} and more"
        yield Problem(at, what, f"set nodes: {least}, or name another partition")


def _sizes(decision: Decision, spec: Spec, partition: Partition) -> Iterator[Problem]:
    asked = spec.cluster
    if partition.cpus is not None and decision.cpus > partition.cpus:
        at: Path = ("cluster", "cpus") if asked.cpus else ("processes_per_node",)
        what = f"{decision.cpus}, but a node of '{partition.name}' has {partition.cpus} processors"
        yield Problem(at, what, ANOTHER)
    for key, wanted, most in (
        ("memory", asked.memory, partition.memory_mb),
        ("disk", asked.disk_bytes, partition.disk_mb),
    ):
        if wanted and most is not None and wanted > most * MIB:
            what = f"{wanted / GIB:,.6g} GiB, but a node of '{partition.name}' has {most / 1024:,.6g} GiB"
            yield Problem(("cluster", key), what, ANOTHER)


def _chips(decision: Decision) -> Iterator[Problem]:
    """Yield a note about chips of which a container gets no device unless the profile's options of podman name it."""
    named = any(word.startswith("--device") for word in decision.options.podman)
    is_known = decision.stack in (None, "ROCm")
    if decision.gpus and decision.engine == "podman" and not (is_known or named):
        what = f"a container of podman gets no device of {decision.stack} by itself"
        hint = "name them in the profile, as podman: [--device=/dev/neuron0], or use container: apptainer"
        yield Problem(("cluster", "gpu_type"), what, hint, severity="note")


def _gpu_memory(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield the problem of GPUs of which it is not known that they have the memory that the spec asks for."""
    asked, kind, sizes = spec.cluster, decision.gpu_type, decision.options.gpu_memory
    at = ("cluster", "gpu_memory" if asked.gpu_memory else "gpu_type")
    is_named = kind is not None and kind.lower() == (asked.gpu_type or "").lower()
    if not asked.gpu_gib or (is_named and not asked.gpu_memory and kind not in sizes):
        return  # the cluster itself has the size in the name of the type
    if kind is not None and kind in sizes:
        if not is_enough_gpu_memory(sizes[kind] / GIB, asked.gpu_gib):
            what = (
                f"{asked.gpu_gib:g} GiB, but a GPU of type '{kind}' has {sizes[kind] / GIB:g} GiB"
            )
            yield Problem(at, what, "name another gpu_type, or ask for less")
    elif kind is None and sizes:
        types = ", ".join(f"{name} {size / GIB:g} GiB" for name, size in sizes.items())
        what = f"{asked.gpu_gib:g} GiB, but the GPUs of the job's partition have less: {types}"
        yield Problem(at, what, "use another partition, or ask for less")
    else:
        what = "Slurm does not know how much memory a GPU has"
        example = f"providers: {{{spec.provider}: {{gpu_memory: {{{kind or 'a100'}: {math.ceil(asked.gpu_gib)}GiB}}}}}}"
        yield Problem(at, what, f"set {example} in the profile, or name a gpu_type alone")


def _gpus(decision: Decision, spec: Spec, partition: Partition) -> Iterator[Problem]:
    name, gpu_type = partition.name, decision.gpu_type
    if not decision.gpus:
        return
    if not partition.gpus:
        others = [p.name for p in decision.known.values() if p.gpus]
        hint = f"use a partition that has: {', '.join(others)}" if others else "remove gpus"
        yield Problem(("cluster", "gpus"), f"the partition '{name}' has no GPUs", hint)
        return
    if gpu_type is not None and gpu_type not in partition.gpus:
        types = ", ".join(filter(None, partition.gpus))
        has = types or "GPUs of no named type"
        what = f"'{spec.cluster.gpu_type}', but the partition '{name}' has {has}"
        other = "use another type, or set option gpu_types to the cluster's name of this one"
        hint = did_you_mean(gpu_type, partition.gpus) or (other if types else "remove gpu_type")
        yield Problem(("cluster", "gpu_type"), what, hint)
        return
    most = partition.gpus[gpu_type] if gpu_type else sum(partition.gpus.values())
    if decision.gpus > most:
        what = f"{decision.gpus}, but a node of '{name}' has {most}"
        yield Problem(
            ("cluster", "gpus"), what, "ask for fewer on more nodes, or use another partition"
        )


def _not_requested(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield notes about resources that are not requested, because sbatch refuses those that Slurm does not manage."""
    asked, whole = spec.cluster, decision.options.memory == "all"
    at: Path = setting(spec, "memory") if whole else ("cluster", "memory")
    if (asked.memory or whole) and decision.memory is None:
        what = "memory is not requested, because Slurm does not know how much the nodes have (RealMemory)"
        yield Problem(at, what, severity="note")
    elif asked.memory and whole:
        what = "has no effect: the option memory: all requests all memory of a node"
        yield Problem(("cluster", "memory"), what, severity="note")
    if asked.disk_bytes and decision.disk is None:
        what = (
            "disk is not requested, because Slurm does not know how much the nodes have (TmpDisk)"
        )
        yield Problem(("cluster", "disk"), what, severity="note")
