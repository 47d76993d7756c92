"""Options that a profile adds: for sbatch and for ssh, as long as they are none of those that runspec sets itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspec_jobs.provider import Problem, Spec
from runspec_slurm.naming import setting
from runspec_slurm.options import SlurmOptions

# What each is said by instead; "" is what no job of runspec can have.
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
        what = "ssh_options without a host: Slurm's commands of this machine are used"
        yield Problem(setting(spec, "ssh_options"), what, severity="note")


def _of_sbatch(word: str) -> tuple[str, str] | None:
    """Return what is wrong with a word for sbatch, and what to do; None where nothing is.

    sbatch takes the beginning of a name for the name (getopt_long), so `--part=a` is `--partition=a`.
    """
    match = WORD.fullmatch(word)
    if match is None:
        return "is no option in one word", "write --name=value, or --name, in full"
    name = match[1]
    if name in MANAGED:
        return "is set by runspec", _instead(MANAGED[name])
    meant = next((known for known in MANAGED if known.startswith(name)), None)
    if meant is not None:
        return f"may be read as --{meant}, which runspec sets", _instead(MANAGED[meant])
    return None


def _instead(where: str) -> str:
    return (
        f"say it by {where}"
        if where
        else "take it away: the job would not be one that runspec can follow"
    )
