"""Checks that the partitions of a job have the resources that it requests; else it would be refused or never start."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_jobs.provider import (
    Capacity,
    Facts,
    Path,
    Problem,
    Spec,
    did_you_mean,
    nodes_each,
    tasks_in_all,
)
from runspec_slurm import resources
from runspec_slurm.job import sbatch_argv, split
from runspec_slurm.naming import setting
from runspec_slurm.options import SlurmOptions
from runspec_slurm.resources import Partition

MIB, GIB = 1 << 20, 1 << 30
MAX_JOBS = 10_000  # the default: https://slurm.schedmd.com/slurm.conf.html#OPT_MaxJobCount
# States in which a partition starts no jobs: https://slurm.schedmd.com/slurm.conf.html#OPT_State_1
CLOSED = {"drain": "accepts no jobs", "inactive": "accepts no jobs and starts none"}
ANOTHER = "ask for less, or use another partition"


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    yield from _named(spec, facts)
    yield from _capacity(spec, facts)
    yield from _array(spec, facts)
    yield from _gpu_request(spec, facts)
    there = resources.partitions(spec, facts)
    for partition in there:
        yield from _open(partition)
        yield from _nodes(spec, partition)
        yield from _sizes(spec, partition)
        yield from _gpus(spec, facts, partition)
    yield from _not_known(spec, facts, there)


def _named(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield a problem for each partition that does not exist, or if none is named and the cluster has no default."""
    there, options = resources.known(facts), facts.options
    if not there:
        return
    for key in ("partition", "spot_partition"):
        name = getattr(options, key)
        if name is not None and name not in there and name in resources.names(spec, facts):
            hint = did_you_mean(name, there) or f"use one of {', '.join(there)}"
            yield Problem(setting(spec, key), f"{key}: the cluster has no '{name}'", hint)
    if not resources.names(spec, facts) and resources.default(facts) is None:
        hint = f"set providers: {{{spec.provider}: {{partition: {next(iter(there))}}}}}"
        yield Problem(
            ("provider",), "the cluster has no default partition, and none is named", hint
        )


def _capacity(spec: Spec, facts: Facts) -> Iterator[Problem]:
    options: SlurmOptions = facts.options
    at = ("cluster", "capacity")
    if spec.cluster.capacity is Capacity.ON_DEMAND:
        return
    if options.spot_partition is None:
        what = "the profile has no spot_partition: the job uses the same partition as other jobs"
        yield Problem(at, what, severity="note")
    elif spec.cluster.capacity is Capacity.SPOT_THEN_ON_DEMAND:
        both = resources.names(spec, facts)
        if len(both) == 1:
            what = f"the on-demand partition is unknown, so only {both[0]} is used: set option partition"
        else:
            what = f"Slurm uses the one of {' and '.join(both)} that can start the job first"
        yield Problem(at, what, severity="note")


def _array(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield problems with the number of tasks, and a note if they are split into several arrays.

    https://slurm.schedmd.com/slurm.conf.html#OPT_MaxArraySize, #OPT_MaxJobCount
    """
    count, most, said = tasks_in_all(spec), split.largest(facts), resources.found(facts)
    jobs, arrays = said.get("max_jobs"), split.arrays(spec, facts)
    at: Path = ("sweep",) if spec.sweep else ("cluster", "nodes")
    hint = "use fewer tasks, or ask the administrators for a higher "
    if count == 1:
        return
    if most == 0:
        what = "this cluster allows no arrays (MaxArraySize=0)"
        yield Problem(at, what, "ask the administrators for a higher MaxArraySize", at="key")
        return
    bound = f"an array of this cluster has {most:,} at most (MaxArraySize)"
    if said.get("max_array") is None:
        bound = (
            f"an array has {most:,} at most unless MaxArraySize is set higher, which is not known"
        )
    if arrays > split.MOST_ARRAYS or (arrays == 1 and count > most):
        what = f"{count:,} tasks, but {bound}"
        if arrays > 1:
            what += f", and a run has {split.MOST_ARRAYS} arrays at most"
        yield Problem(at, what, f"{hint}MaxArraySize", at="key")
    elif jobs is not None and count > jobs:
        what = f"{count:,} tasks, but this cluster allows {jobs:,} jobs in all (MaxJobCount)"
        yield Problem(at, what, f"{hint}MaxJobCount", at="key")
    elif arrays > 1 and any(word.startswith("aftercorr:") for word in facts.options.after):
        what = f"{count:,} tasks are {arrays} arrays, and `aftercorr` pairs the tasks of one array"
        yield Problem(setting(spec, "after"), what, "write afterok, or use fewer tasks")
    elif arrays > 1:
        what = f"{count:,} tasks are {arrays} arrays of up to {split.each(spec, facts):,}: {bound}"
        yield Problem(at, what, at="key", severity="note")
    if jobs is None and count > MAX_JOBS:
        what = f"{count:,} tasks, but a cluster allows {MAX_JOBS:,} jobs in all unless MaxJobCount is set higher"
        yield Problem(at, what, at="key", severity="note")


def _gpu_request(spec: Spec, facts: Facts) -> Iterator[Problem]:
    select = resources.found(facts).get("select")
    if (
        not spec.cluster.gpus
        or facts.options.gpu_request == "gres"
        or select in (None, "cons_tres")
    ):
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


def _nodes(spec: Spec, partition: Partition) -> Iterator[Problem]:
    """Yield problems with the number of nodes; powered down nodes count, because Slurm starts them for a job."""
    most, at = partition.most_nodes, ("cluster", "nodes")
    elastic = spec.cluster.nodes.elastic
    # An elastic job waits only for its smallest number of nodes.
    nodes = spec.cluster.nodes.min if elastic else spec.cluster.nodes.max
    name = partition.name
    if most is not None and nodes > most:
        what = f"{nodes:,}, but the partition '{name}' has {most:,}: the job would wait for ever"
        yield Problem(at, what, f"set nodes: {most}, or use another partition")
    elif partition.min_nodes is not None and nodes_each(spec) < partition.min_nodes:
        what = f"{nodes_each(spec):,}, and the partition '{name}' takes jobs of {partition.min_nodes:,} and more"
        yield Problem(at, what, f"set nodes: {partition.min_nodes}, or name another partition")


def _sizes(spec: Spec, partition: Partition) -> Iterator[Problem]:
    asked = spec.cluster
    if partition.cpus is not None and sbatch_argv.cpus(spec) > partition.cpus:
        at: Path = ("cluster", "cpus") if asked.cpus else ("processes_per_node",)
        what = f"{sbatch_argv.cpus(spec)}, but a node of '{partition.name}' has {partition.cpus} processors"
        yield Problem(at, what, ANOTHER)
    for key, wanted, most in (
        ("memory", asked.memory, partition.memory_mb),
        ("disk", asked.disk, partition.disk_mb),
    ):
        if wanted and most is not None and wanted > most * MIB:
            what = f"{wanted / GIB:,.6g} GiB, but a node of '{partition.name}' has {most / 1024:,.6g} GiB"
            yield Problem(("cluster", key), what, ANOTHER)


def _gpus(spec: Spec, facts: Facts, partition: Partition) -> Iterator[Problem]:
    wanted, name = spec.cluster.gpus, partition.name
    if not wanted:
        return
    if not partition.gpus:
        others = [p.name for p in resources.known(facts).values() if p.gpus]
        hint = f"use a partition that has: {', '.join(others)}" if others else "remove gpus"
        yield Problem(("cluster", "gpus"), f"the partition '{name}' has no GPUs", hint)
        return
    kind = resources.gpu_type(spec, facts)
    if kind is not None and kind not in partition.gpus:
        named = ", ".join(filter(None, partition.gpus))
        there = named or "GPUs of no named type"
        what = f"'{spec.cluster.gpu_type}', but the partition '{name}' has {there}"
        other = "use another type, or set option gpu_types to the cluster's name of this one"
        hint = did_you_mean(kind, partition.gpus) or (other if named else "remove gpu_type")
        yield Problem(("cluster", "gpu_type"), what, hint)
        return
    most = partition.gpus[kind] if kind else sum(partition.gpus.values())
    if wanted > most:
        what = f"{wanted}, but a node of '{name}' has {most}"
        yield Problem(
            ("cluster", "gpus"), what, "ask for fewer on more nodes, or use another partition"
        )


def _not_known(spec: Spec, facts: Facts, there: tuple[Partition, ...]) -> Iterator[Problem]:
    """Yield notes about resources that are not requested, because sbatch refuses those that Slurm does not manage."""
    whole, knows = facts.options.memory == "all", resources.shares(there, "memory_mb")
    at: Path = setting(spec, "memory") if whole else ("cluster", "memory")
    if (spec.cluster.memory or whole) and not knows:
        what = "memory is not requested, because Slurm does not know how much the nodes have (RealMemory)"
        yield Problem(at, what, severity="note")
    elif spec.cluster.memory and whole:
        what = "has no effect: the option memory: all requests all memory of a node"
        yield Problem(("cluster", "memory"), what, severity="note")
    if spec.cluster.disk and not (there and resources.shares(there, "disk_mb")):
        what = (
            "disk is not requested, because Slurm does not know how much the nodes have (TmpDisk)"
        )
        yield Problem(("cluster", "disk"), what, severity="note")
