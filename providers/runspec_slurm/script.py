"""The batch script: what is exported, and the one command that it becomes.

Its text holds nothing of the program: that is in the record. What of the spec is in it (`env`, the image) is quoted.
"""

from __future__ import annotations

from collections.abc import Iterator

from runspec.provider import Facts, Launch, Spec
from runspec_slurm import argv, cluster, containers
from runspec_slurm.naming import INSIDE, of_run
from runspec_slurm.options import SlurmOptions
from runspec_slurm.quoting import HERE, ends, placed, quoted

START = (
    "#!/bin/sh",
    # The first command: sbatch looks for options of its own no further.
    "unset SLURM_EXPORT_ENV  # or srun would take it for its own",
)
# In an environment without anything, what a program may take for given.
CLEAN = (
    'export PATH="${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"',
    'export HOME="${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}"',
    'export USER="${USER:-$(id -un)}" LOGNAME="${LOGNAME:-$(id -un)}"',
)
# What Slurm says of the job, in the contract's words: docs/inside.md.
# https://slurm.schedmd.com/sbatch.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
OF_SLURM = {
    "RUNSPEC_STORE": f'"file://{HERE}"',
    "RUNSPEC_JOB": '"${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}"',
    "RUNSPEC_TASK": '"${SLURM_ARRAY_TASK_ID:-0}"',
    "RUNSPEC_ATTEMPT": '"$((${SLURM_RESTART_COUNT:-0} + 1))"',
}
NODE_NAMES = '"$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -s -d , -)"'
RANK = "RUNSPEC_RANK=SLURM_NODEID"  # each node has its own, from srun
OWN_FOLDER = "@"  # a fresh folder of the agent's stands in for a root of the job's own
PREFERRED_MPI = ("pmix", "pmi2")


def text(spec: Spec, run: str, facts: Facts) -> str:
    """Give the script, as sbatch reads it."""
    options: SlurmOptions = facts.options
    own = dict(_exports(spec, run, facts))
    lines = [
        *(CLEAN if options.environment == "clean" else ()),
        *(f"export {name}={quoted(value)}" for name, value in containers.variables(spec, facts)),
        *(f"export {name}={word}" for name, word in own.items()),
        _command(spec, facts, tuple(own)),
    ]
    return "\n".join([*START, *ends(lines), *lines, ""])


def _exports(spec: Spec, run: str, facts: Facts) -> Iterator[tuple[str, str]]:
    """Give the variables of the contract, each with a word of the script."""
    options: SlurmOptions = facts.options
    many = spec.cluster.nodes.max > 1
    yield "RUNSPEC_RUN", quoted(run)
    yield from OF_SLURM.items()
    yield "RUNSPEC_ENDS", "1"
    yield "RUNSPEC_SHARED", "/"
    yield "RUNSPEC_GRACE_S", str(options.grace)
    yield "RUNSPEC_SPOT_ATTEMPTS", str(spec.retry.spot_attempts)
    if spec.timeout:
        yield "RUNSPEC_TIMEOUT_S", str(spec.timeout)
    if spec.secrets:
        yield "RUNSPEC_SECRETS", quoted(of_run(run, "secrets"))
    if not containers.rooted(spec, facts):
        yield "RUNSPEC_BELOW", OWN_FOLDER
        if options.scratch:
            yield "TMPDIR", quoted(options.scratch)
    if many:
        yield "RUNSPEC_NODE_NAMES", NODE_NAMES
        yield "RUNSPEC_WORDS", RANK
    if plugin := mpi(spec, facts):
        yield "RUNSPEC_MPI", quoted(plugin)


def mpi(spec: Spec, facts: Facts) -> str | None:
    """Give the plugin by which srun starts the ranks; None where mpirun does."""
    options: SlurmOptions = facts.options
    if spec.launch is not Launch.MPI or options.mpi != "srun":
        return None
    if options.mpi_type:
        return options.mpi_type
    there = cluster.found(facts).get("mpi")
    return next((name for name in PREFERRED_MPI if there is None or name in there), "none")


def _command(spec: Spec, facts: Facts, exported: tuple[str, ...]) -> str:
    """Give the last line: what the script becomes, so that signals reach it."""
    options: SlurmOptions = facts.options
    own = (quoted(options.python), "-IS", placed(INSIDE))
    node = (*containers.words(spec, facts, exported), "-IS", placed(INSIDE), "job")
    groups = [("exec", *own, "batch", "--"), _srun(spec, facts), node]
    return " \\\n  ".join(" ".join(group) for group in groups if group)


def _srun(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """Give what starts the nodes. Each word says what clusters have different defaults for.

    `--mpi=none`: MpiDefault would lead an mpirun below to think that it is a rank. `--cpus-per-task` is not taken
    over from sbatch since 22.05. https://slurm.schedmd.com/srun.html
    """
    if not containers.by_srun(spec, facts):
        return ()
    nodes = spec.cluster.nodes.max
    log = '"runs/$RUNSPEC_RUN/logs/$RUNSPEC_TASK-%n.txt"'
    return (
        "srun",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={argv.cpus(spec)}",
        "--mpi=none",
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--input=none",
        "--open-mode=append",
        f"--output={log}",
        *containers.options_of_srun(spec, facts),
    )
