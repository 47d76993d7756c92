"""The batch script: the exported variables, and the command that replaces the shell.

The script does not contain the program, which is in the record. Values of the spec (`env`, the image) are quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from runspec_jobs.provider import Problem, Spec
from runspec_slurm import containers
from runspec_slurm.decision import Decision
from runspec_slurm.naming import AGENT_KEY, docker_notation, job_name, of_run, setting, suffix
from runspec_slurm.options import SlurmOptions, list_own_words
from runspec_slurm.session.process import HERE, ends, placed, quoted

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
    yield "RUNSPEC_SPOT_ATTEMPTS", str(spec.retry.lost_attempts)
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
    if spec.container.entrypoint and decision.engine == "podman":
        # The batch script puts the ENTRYPOINT of this image in its place. podman shows no image with a scheme.
        image = docker_notation(decision.image).removeprefix("docker://")
        yield "RUNSPEC_ENTRYPOINT", quoted(image)


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


# The arguments of sbatch. No shell reads them, and they override SBATCH_* variables.
#
# https://slurm.schedmd.com/sbatch.html


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
    yield from list_own_words(decision.options)


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


# https://slurm.schedmd.com/sbatch.html#OPT_dependency; with afternotok, Slurm 22.05 also starts a job after one that
# was cancelled, so `failed` is left to the client
AFTER = {"succeeded": "afterok", "ended": "afterany"}
AFTER_SAME = (
    "aftercorr"  # of each task of an array: the task of its own index of another one has succeeded
)


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


# Checks of the options for sbatch and ssh in a profile, which must not include those that runspec sets itself.


# The setting to use instead of each option; "" for options that no job of runspec can have.
MANAGED = {
    "account": "account", "acctg-freq": "", "array": "sweep", "batch": "", "chdir": "workspace", "clusters": "host",
    "cluster": "host", "container": "container.image", "container-image": "container.image",
    "container-mounts": "shared", "container-name": "", "cpus-per-gpu": "cluster.cpus",
    "cpus-per-task": "cluster.cpus", "dependency": "after",
    "error": "", "export": "env", "export-file": "env", "get-user-env": "environment", "gid": "",
    "gpus": "cluster.gpus", "gpus-per-node": "cluster.gpus", "gpus-per-socket": "cluster.gpus",
    "gpus-per-task": "cluster.gpus", "gres": "cluster.gpus, or option gres", "help": "", "ignore-pbs": "", "input": "",
    "job-name": "name", "kill-on-invalid-dep": "after", "mem": "cluster.memory", "mem-per-cpu": "cluster.memory",
    "mem-per-gpu": "cluster.memory", "no-kill": "", "no-requeue": "retry", "nodes": "cluster.nodes", "ntasks": "",
    "ntasks-per-core": "", "ntasks-per-gpu": "", "ntasks-per-node": "processes_per_node", "ntasks-per-socket": "",
    "open-mode": "", "output": "", "parsable": "", "partition": "partition", "qos": "qos", "quiet": "",
    "requeue": "retry", "signal": "grace", "switches": "cluster.placement", "test-only": "", "time": "timeout",
    "time-min": "timeout", "tmp": "cluster.disk", "uid": "", "usage": "", "version": "", "wait": "", "wrap": "command",
}  # fmt: skip
WORD = re.compile(r"--([a-z][a-z0-9-]*)(=[^\0\n]*)?")


def check_extra_options(spec: Spec, options: SlurmOptions) -> Iterator[Problem]:
    for word in options.sbatch:
        if (refusal := _of_sbatch(word)) is not None:
            yield Problem(setting(spec, "sbatch"), f"sbatch: '{word}' {refusal[0]}", refusal[1])
    given = {word.partition("=")[0] for word in options.sbatch}
    for word in list_own_words(options):
        if (name := word.partition("=")[0]) in given:
            key = name[2:].replace("-", "_")
            what = f"{key} is set, and '{name}' is in sbatch too"
            yield Problem(setting(spec, key), what, f"remove {name} from sbatch in the profile")
    if options.ssh_options and options.host is None:
        what = (
            "ssh_options has no effect without host: runspec calls Slurm's commands on this machine"
        )
        yield Problem(setting(spec, "ssh_options"), what, severity="note")


def _of_sbatch(word: str) -> tuple[str, str] | None:
    """Return the problem of an option for sbatch and a hint, or None.

    sbatch accepts abbreviated names (getopt_long), so `--part=a` is `--partition=a`.
    """
    match = WORD.fullmatch(word)
    if match is None:
        return "is not an option in one word", "write --name=value or --name, not abbreviated"
    name = match[1]
    if name in MANAGED:
        return "is set by runspec", _instead(MANAGED[name])
    meant = next((known for known in MANAGED if known.startswith(name)), None)
    if meant is not None:
        return f"is an abbreviation of --{meant}, which runspec sets", _instead(MANAGED[meant])
    return None


def _instead(where: str) -> str:
    return f"use {where} instead" if where else "remove it: runspec could not follow the job"
