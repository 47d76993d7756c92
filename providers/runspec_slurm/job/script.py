"""The batch script: the exported variables, and the command that replaces the shell.

The script does not contain the program, which is in the record. Values of the spec (`env`, the image) are quoted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runspec_jobs.provider import Spec
from runspec_slurm.containers import containers
from runspec_slurm.decision import Decision
from runspec_slurm.naming import AGENT_KEY, of_run, suffix
from runspec_slurm.options import SlurmOptions
from runspec_slurm.session.quoting import HERE, ends, placed, quoted

START = (
    "#!/bin/sh",
    # The first command, after which sbatch does not look for its options any more.
    "unset SLURM_EXPORT_ENV  # or srun would take it for its own",
)
# What a program may expect even in a clean environment; `runspec_agent.job.slurm_batch` adds the identity of the job.
CLEAN = ('export PATH="${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"',)
# Slurm's facts about the job, as the variables of the contract: docs/inside.md.
# https://slurm.schedmd.com/sbatch.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
OF_SLURM = {
    "RUNSPEC_STORE": f'"file://{HERE}"',
    "RUNSPEC_JOB": '"${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}"',
    "RUNSPEC_TASK": '"${SLURM_ARRAY_TASK_ID:-0}"',
    "RUNSPEC_ATTEMPT": '"$((${SLURM_RESTART_COUNT:-0} + 1))"',
}
NODE_NAMES = '"$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -s -d , -)"'
# Starts the agent as `python -IS ZIPAPP` does, with the compiled modules that an earlier start has kept beside it, if
# there are any: `runspec_agent.job.zipapp_main`. It is short, because Python compiles it for each task.
AGENT = """\
import sys, marshal, _frozen_importlib_external as e
sys.argv[:2] = [p] = sys.argv[1:2]
n = p[:-3] + sys.implementation.cache_tag + "-%d.kept" % int.from_bytes(e.MAGIC_NUMBER[:2], "little")
try:
    with open(n, "rb") as f: k = marshal.load(f)
except (OSError, EOFError, ValueError, TypeError):
    import runpy; runpy.run_path(p, run_name="__main__")
else:
    exec(marshal.loads(k["__main__"]), {"__name__": "__main__", "kept_codes": k})"""
RANK = "RUNSPEC_RANK=SLURM_NODEID"  # each node has its own, from srun
OWN_FOLDER = "@"  # the agent makes a fresh folder, in place of a root of the job's own


def write_script(decision: Decision, spec: Spec, run: str, array: int = 0) -> str:
    """Return the text of the batch script of that array."""
    exports = dict(_exports(decision, spec, run)) | _exports_of_array(decision, array)
    lines = [
        *_environment(run, decision.options),
        *(f"export {name}={word}" for name, word in exports.items()),
        *containers.find_adapters(decision),
        _command(decision, spec.program_env, tuple(exports)),
    ]
    return "\n".join([*START, *ends(lines), *lines, ""])


def _environment(run: str, options: SlurmOptions) -> tuple[str, ...]:
    """Return the lines for what Slurm's environment lacks.

    A task reads the environment of a login shell from a file of its node, which the first task there writes. The Python
    for that may itself be in the PATH of a login shell only. The script ends after the shell, since Slurm then kills
    what is left of the job: see `runspec_agent.env.login_environment`.
    """
    if options.environment == "clean":
        return CLEAN
    python = options.python
    if "/" not in python:
        python = f"\"$(command -v {python} || sh -lc 'command -v {python}' | tail -n 1)\""
    write = f'{python} -IS {placed(AGENT_KEY)} login "$runspec_login"'
    return (
        *CLEAN,
        f'runspec_login={placed(of_run(run, "login"))}/"$SLURMD_NODENAME"',
        f'[ -f "$runspec_login" ] || {{ trap runspec_told=143 TERM; {write} || exit; trap - TERM; }}',
        '[ -z "${runspec_told-}" ] || exit "$runspec_told"',
        '. "$runspec_login"',
    )


def _exports_of_array(decision: Decision, array: int) -> dict[str, str]:
    """Return the variables that differ in a later array: Slurm's index begins at 0 in each."""
    if not array:
        return {}
    return {
        "RUNSPEC_TASK": f'"$((SLURM_ARRAY_TASK_ID + {decision.arrays.first(array)}))"',
        "RUNSPEC_CLAIM": f"claim{suffix(array)}",
    }


def _exports(decision: Decision, spec: Spec, run: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of the contract, each with its value as a word of the script."""
    options = decision.options
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
    if decision.engine == "pyxis" and decision.login:
        yield "ENROOT_CONFIG_PATH", placed(of_run(run, containers.LOGIN_FOLDER))
    if not decision.is_rooted:
        yield "RUNSPEC_BELOW", OWN_FOLDER
        if options.scratch:
            yield "TMPDIR", quoted(options.scratch)
    if decision.environment:
        yield "RUNSPEC_ENVIRONMENT", placed(decision.environment)
    if decision.is_gang:
        yield "RUNSPEC_NODE_NAMES", NODE_NAMES
        yield "RUNSPEC_WORDS", RANK
    if decision.mpi:
        yield "RUNSPEC_MPI", quoted(decision.mpi)


def _command(decision: Decision, env: Mapping[str, str], exported: tuple[str, ...]) -> str:
    """Return the last line: the command that replaces the shell, so that signals reach it.

    `env` sets the variables of the spec, and not the shell: bash reserves SECONDS, RANDOM, UID and others, and exits
    if a script sets some of them.
    """
    variables = dict(containers.export_variables(decision, env))
    if "PATH" in variables:  # a python3 that is a shim of pyenv puts its own folder before it
        variables["RUNSPEC_PATH"] = variables["PATH"]
    pairs = [(f"{name}={quoted(value)}",) for name, value in variables.items()]
    python = _find_program(decision.options.python, variables)
    start = (python, "-ISc", f"'{AGENT}'", placed(AGENT_KEY), "batch", "--")
    takes_login = decision.options.environment == "login"
    by_env = ("exec", "env", *(('"$@"',) if takes_login else ()))
    begin = [by_env, *pairs, start] if pairs or takes_login else [("exec", *start)]
    srun = _srun(decision, env, variables) if decision.uses_srun else ()
    node = containers.start_python(decision, env, exported) or (python,)
    groups = [*begin, srun, (*node, "-IS", placed(AGENT_KEY), "job")]
    return " \\\n  ".join(" ".join(group) for group in groups if group)


def _find_program(program: str, variables: Mapping[str, str]) -> str:
    """Return the word for a program of the node, which is found without the PATH of the spec."""
    if "PATH" not in variables:
        return quoted(program)
    return f'"$(command -v {quoted(program)} || echo {quoted(program)})"'


def _srun(
    decision: Decision, env: Mapping[str, str], variables: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the command that starts the nodes. It sets each option whose default differs between clusters.

    `--mpi=none`: with MpiDefault, an mpirun in the job would take itself for a rank. Since 22.05, srun does not
    inherit `--cpus-per-task` from sbatch. https://slurm.schedmd.com/srun.html
    """
    log = '"runs/$RUNSPEC_RUN/logs/$RUNSPEC_TASK-%n.txt"'
    return (
        _find_program("srun", variables),
        f"--nodes={decision.nodes}",
        f"--ntasks={decision.nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={decision.cpus}",
        "--mpi=none",
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--input=none",
        "--open-mode=append",
        f"--output={log}",
        *containers.make_srun_options(decision, env),
    )
