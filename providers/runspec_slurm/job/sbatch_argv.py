"""The arguments of sbatch. No shell reads them, and they override SBATCH_* variables.

https://slurm.schedmd.com/sbatch.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runspec_jobs.provider import Facts, Spec, nodes_each, tasks_in_all
from runspec_slurm import resources
from runspec_slurm.containers import containers
from runspec_slurm.job import split, time_limit
from runspec_slurm.naming import job_name, of_run
from runspec_slurm.options import SlurmOptions

MIB = 1 << 20


def words(spec: Spec, run: str, facts: Facts, array: int = 0) -> tuple[str, ...]:
    """Return the arguments of sbatch for an array of the run, or for its only job.

    Paths are relative to the workspace, where sbatch is called.
    """
    options: SlurmOptions = facts.options
    return (
        "--parsable",
        f"--job-name={job_name(run, array)}",
        *_where(spec, facts),
        *_size(spec, facts),
        *_lasting(spec, facts),
        *_tasks(spec, facts, array),
        *_waiting(options),
        f"--output={output(spec, run, facts, array)}",
        "--open-mode=append",  # an attempt after a requeue appends to the same file
        # No variables of the submitter: they may be secrets, or contain commas, at which sbatch would cut them.
        # --export=NONE would start a login shell for each task, seconds before it: the script starts one on each node.
        "--export-file=/dev/null",
        *options.sbatch,
    )


def _where(spec: Spec, facts: Facts) -> Iterator[str]:
    options: SlurmOptions = facts.options
    if asked := resources.names(spec, facts):
        yield f"--partition={','.join(asked)}"
    if options.account:
        yield f"--account={options.account}"
    if options.qos:
        yield f"--qos={options.qos}"


def _size(spec: Spec, facts: Facts) -> Iterator[str]:
    """Yield the size of the job, with one task on each node; the agent starts more processes if necessary."""
    there, own = resources.partitions(spec, facts), spec.cluster
    yield f"--nodes={nodes_each(spec)}"
    yield "--ntasks-per-node=1"
    yield f"--cpus-per-task={cpus(spec)}"
    yield from _resources(spec, facts)
    if facts.options.memory == "all" and resources.shares(there, "memory_mb"):
        yield "--mem=0"  # all of a node: https://slurm.schedmd.com/sbatch.html#OPT_mem
    elif own.memory and resources.shares(there, "memory_mb"):
        yield f"--mem={-(-own.memory // MIB)}M"
    if own.disk and there and resources.shares(there, "disk_mb"):
        yield f"--tmp={-(-own.disk // MIB)}M"
    if own.placement and nodes_each(spec) > 1:
        yield "--switches=1"


def cpus(spec: Spec) -> int:
    """Return the processors of a node: as many as its processes, unless the spec sets them."""
    return spec.cluster.cpus or spec.processes_per_node


def _resources(spec: Spec, facts: Facts) -> Iterator[str]:
    """Yield the request for GPUs and other generic resources, in one `--gres`, because only the last one counts."""
    options: SlurmOptions = facts.options
    gres = list(options.gres)
    if count := spec.cluster.gpus:
        kind = resources.gpu_type(spec, facts)
        what = f"{kind}:{count}" if kind else str(count)
        if options.gpu_request == "gres":
            gres.insert(0, f"gpu:{what}")
        else:
            yield f"--gpus-per-node={what}"
    if gres:
        yield f"--gres={','.join(gres)}"


def _lasting(spec: Spec, facts: Facts) -> Iterator[str]:
    if minutes := time_limit.minutes(spec, facts):
        yield f"--time={minutes}"
    # The batch script has become the agent by then, which passes the signal on.
    yield f"--signal=B:TERM@{time_limit.lead_s(facts.options)}"
    again = spec.retry.attempts > 1 or spec.retry.spot_attempts > 1
    yield "--requeue" if again else "--no-requeue"


def _tasks(spec: Spec, facts: Facts, array: int) -> Iterator[str]:
    if tasks_in_all(spec) > 1:
        nodes = spec.cluster.nodes
        at_once = (spec.max_parallel or 0) * (nodes.max if nodes.elastic else 1)
        share = at_once // (split.lanes(spec, facts) or 1)
        bound = f"%{share}" if at_once else ""
        yield f"--array=0-{split.size(spec, facts, array) - 1}{bound}"


def _waiting(options: SlurmOptions) -> Iterator[str]:
    """Yield the dependencies; a job whose dependency can never be satisfied would wait for ever."""
    if options.after:
        yield f"--dependency={','.join(map(dependency, options.after))}"
        yield "--kill-on-invalid-dep=yes"


def dependency(text: str) -> str:
    """Return a dependency in Slurm's syntax; a plain number waits for success.

    >>> dependency("123"), dependency("afterany:9_1"), dependency("singleton")
    ('afterok:123', 'afterany:9_1', 'singleton')
    """
    return f"afterok:{text}" if text[0].isdigit() else text


def following(argv: Iterable[str], job: str) -> tuple[str, ...]:
    """Return *argv* for a job that begins after the end of *job*, besides its other dependencies.

    >>> following(["--dependency=afterok:7", "--nodes=1"], "8")
    ('--dependency=afterok:7,afterany:8', '--nodes=1')
    """
    begin = "--dependency="
    known = [word.removeprefix(begin) for word in argv if word.startswith(begin)]
    wanted = f"{begin}{','.join([*known, f'afterany:{job}'])}"
    return (wanted, *(word for word in argv if not word.startswith(begin)))


def output(spec: Spec, run: str, facts: Facts, array: int = 0) -> str:
    """Return the log file of the batch script, which is that of its node, unless srun writes a log for each node.

    Slurm pads an index, so that of task 1,003 becomes "1" and "003". In arrays of one task, the index is always 0.
    """
    digits = len(str(split.each(spec, facts))) - 1
    index = f"%{digits}a" if digits else ""
    task = f"{array}{index}" if array else "%a" if tasks_in_all(spec) > 1 else "0"
    who = "batch" if containers.by_srun(spec, facts) else "0"
    return of_run(run, "logs", f"{task}-{who}.txt")
