"""Checks of the options for sbatch and ssh in a profile, which must not include those that runspec sets itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspec_jobs.provider import Problem, Spec
from runspec_slurm.naming import setting
from runspec_slurm.options import SlurmOptions

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


def problems(spec: Spec, options: SlurmOptions) -> Iterator[Problem]:
    for word in options.sbatch:
        if (found := _of_sbatch(word)) is not None:
            yield Problem(setting(spec, "sbatch"), f"sbatch: '{word}' {found[0]}", found[1])
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
