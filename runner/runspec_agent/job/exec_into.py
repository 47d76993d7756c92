"""`enter RUN TASK RANK [-- WORD...]`: run a command or shell in the environment of a node's program on this machine.

It has the environment of the program, as the kernel shows it to the owner of the process, and its working directory.
It enters a program's container with nsenter(1).
"""

import os
import sys
from typing import Dict, List, Optional

from runspec_agent.base.job_env import Failure

TERMINAL = ("TERM", "COLORTERM")  # of the user's terminal
OURS = "RUNSPEC_ENDS"  # set for the agent, and not for the program: see workdir.OURS
NOT_THERE = 69
PLAIN = "/bin/sh"
PROC = "/proc"


def main(argv: List[str]) -> int:
    if len(argv) < 3 or argv[3:4] not in ([], ["--"]):
        raise Failure("usage: enter RUN TASK RANK [-- WORD...]")
    run, task, rank = argv[:3]
    marks = {"RUNSPEC_RUN": run, "RUNSPEC_TASK": task, "RUNSPEC_RANK": rank}
    pid = program(marks)
    env = None if pid is None else environment(pid)
    if pid is None or env is None:
        text = "task {}, node {} of {}: no program is running there (yet)".format(task, rank, run)
        raise Failure(text, NOT_THERE)
    env.update((name, os.environ[name]) for name in TERMINAL if name in os.environ)
    become(pid, env, argv[4:])
    return 0


def program(marks: Dict[str, str]) -> Optional[int]:
    """Return the first process of the program: the one whose parent does not belong to the program."""
    processes = []
    for name in os.listdir(PROC):
        env = environment(int(name)) if name.isdigit() else None
        if env is not None and OURS not in env and marks.items() <= env.items():
            processes.append(int(name))
    tops = [pid for pid in processes if parent(pid) not in processes and pid != os.getpid()]
    return min(tops) if tops else None


def environment(pid: int) -> Optional[Dict[str, str]]:
    """Return the environment that *pid* was started with, or None if this user may not read it. See proc(5)."""
    try:
        with open("{}/{}/environ".format(PROC, pid), "rb") as file:
            pairs = file.read().split(b"\0")
    except OSError:
        return None
    variables = {}
    for pair in pairs:
        name, equals, value = os.fsdecode(pair).partition("=")
        if equals:
            variables[name] = value
    return variables


def parent(pid: int) -> Optional[int]:
    """Return the parent of *pid*: field 4 of its stat, counted after the name. See proc(5)"""
    try:
        with open("{}/{}/stat".format(PROC, pid), "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return None


def become(pid: int, env: Dict[str, str], argv: List[str]) -> None:
    """Replace this process by *argv*. Raise Failure if that is impossible."""
    at = "{}/{}".format(PROC, pid)
    shell = env.get("SHELL", "")
    try:
        if os.path.samestat(os.stat(at + "/root/."), os.stat("/.")):
            os.chdir(at + "/cwd")
            line = started(argv) if argv else [shell if os.access(shell, os.X_OK) else PLAIN]
        else:
            has_own_users = os.readlink(at + "/ns/user") == os.readlink("/proc/self/ns/user")
            into = ["--mount"] if has_own_users else ["--user", "--preserve-credentials", "--mount"]
            line = ["nsenter", "--target", str(pid), *into, "--root", "--wd", "--"]
            line += started(argv) if argv else [PLAIN]
        os.execvpe(line[0], line, env)
    except OSError as error:
        sys.stderr.flush()
        raise Failure(
            "cannot enter the program's environment: {}".format(error), NOT_THERE
        ) from error


def started(argv: List[str]) -> List[str]:
    """Return a command that starts *argv* as a shell does, with exit code 127 if the program does not exist."""
    return [PLAIN, "-c", 'exec "$@"', PLAIN, *argv]
