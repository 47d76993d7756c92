"""The arguments of sbatch. No shell reads them, and they override SBATCH_* variables.

https://slurm.schedmd.com/sbatch.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from runspec_slurm.decision import Decision
from runspec_slurm.naming import job_name, of_run
from runspec_slurm.options import SlurmOptions


def make_argv(decision: Decision, run: str, array: int = 0) -> tuple[str, ...]:
    """Return the arguments of sbatch for an array of the run, or for its only job.

    Paths are relative to the workspace, where sbatch is called.
    """
    return (
        "--parsable",
        f"--job-name={job_name(run, array)}",
        *_where(decision),
        *_size(decision),
        *_lasting(decision),
        *_tasks(decision, array),
        *_waiting(decision.options),
        f"--output={name_log(decision, run, array)}",
        "--open-mode=append",  # an attempt after a requeue appends to the same file
        # No variables of the submitter: they may be secrets, or contain commas, at which sbatch would cut them.
        # --export=NONE would start a login shell for each task, seconds before it: the script starts one on each node.
        "--export-file=/dev/null",
        *decision.options.sbatch,
    )


def _where(decision: Decision) -> Iterator[str]:
    if decision.requested:
        yield f"--partition={','.join(decision.requested)}"
    if decision.options.account:
        yield f"--account={decision.options.account}"
    if decision.options.qos:
        yield f"--qos={decision.options.qos}"


def _size(decision: Decision) -> Iterator[str]:
    """Yield the size of the job, with one task on each node; the agent starts more processes if necessary."""
    yield f"--nodes={decision.nodes}"
    yield "--ntasks-per-node=1"
    yield f"--cpus-per-task={decision.cpus}"
    yield from _generic_resources(decision)
    if decision.memory:
        yield f"--mem={decision.memory}"
    if decision.disk:
        yield f"--tmp={decision.disk}"
    if decision.one_switch:
        yield "--switches=1"


def _generic_resources(decision: Decision) -> Iterator[str]:
    """Yield the request for GPUs and other generic resources, in one `--gres`, because only the last one counts."""
    gres = list(decision.options.gres)
    if decision.gpus:
        gpus = f"{decision.gpu_type}:{decision.gpus}" if decision.gpu_type else f"{decision.gpus}"
        if decision.options.gpu_request == "gres":
            gres.insert(0, f"gpu:{gpus}")
        else:
            yield f"--gpus-per-node={gpus}"
    if gres:
        yield f"--gres={','.join(gres)}"


def _lasting(decision: Decision) -> Iterator[str]:
    if minutes := decision.time_limit.minutes:
        yield f"--time={minutes}"
    # The batch script has become the agent by then, which passes the signal on.
    yield f"--signal=B:TERM@{decision.time_limit.lead_s}"
    yield "--requeue" if decision.requeued else "--no-requeue"


def _tasks(decision: Decision, array: int) -> Iterator[str]:
    if decision.is_array:
        arrays = decision.arrays
        bound = f"%{arrays.at_once}" if arrays.at_once else ""
        yield f"--array=0-{arrays.size(array) - 1}{bound}"


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


# https://slurm.schedmd.com/sbatch.html#OPT_dependency
AFTER = {"succeeded": "afterok", "failed": "afternotok", "ended": "afterany"}


def after_parents(argv: Iterable[str], needs: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """Return *argv* for a job that waits for jobs of other runs, and is cancelled if it can never begin.

    >>> after_parents(["--nodes=1"], [{"after": "afterok", "job": "7"}, {"after": "afterany", "job": "8"}])
    ('--dependency=afterok:7,afterany:8', '--kill-on-invalid-dep=yes', '--nodes=1')
    """
    wanted = ",".join(f"{need['after']}:{need['job']}" for need in needs)
    begin = "--dependency="
    known = [word.removeprefix(begin) for word in argv if word.startswith(begin)]
    rest = [w for w in argv if not w.startswith((begin, "--kill-on-invalid-dep="))]
    return (f"{begin}{','.join([*known, wanted])}", "--kill-on-invalid-dep=yes", *rest)


def following(argv: Iterable[str], job: str) -> tuple[str, ...]:
    """Return *argv* for a job that begins after the end of *job*, besides its other dependencies.

    >>> following(["--dependency=afterok:7", "--nodes=1"], "8")
    ('--dependency=afterok:7,afterany:8', '--nodes=1')
    """
    begin = "--dependency="
    known = [word.removeprefix(begin) for word in argv if word.startswith(begin)]
    wanted = f"{begin}{','.join([*known, f'afterany:{job}'])}"
    return (wanted, *(word for word in argv if not word.startswith(begin)))


def name_log(decision: Decision, run: str, array: int = 0) -> str:
    """Return the log file of the batch script, which is that of its node, unless srun writes a log for each node.

    Slurm pads an index, so that of task 1,003 becomes "1" and "003". In arrays of one task, the index is always 0.
    """
    digits = len(str(decision.arrays.each)) - 1
    index = f"%{digits}a" if digits else ""
    task = f"{array}{index}" if array else "%a" if decision.is_array else "0"
    who = "batch" if decision.uses_srun else "0"
    return of_run(run, "logs", f"{task}-{who}.txt")
