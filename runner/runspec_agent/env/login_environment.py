"""`login FILE`: write the environment of a login shell of this node to FILE, as commands for sh.

The batch scripts of an array read it: one login shell for each node, where Slurm's `--export=NONE` starts one for each
task. The shell starts with what `su -` gives it, since Slurm calls that: the variables of the user, and those of
pam_env(8).

Slurm's own login shell runs before the job begins, and the end of the job does not reach it. This one is part of the
job. A login shell that is killed may leave something behind that harms every later login, such as the lock file of
`pyenv rehash`. So neither it nor this process ends on SIGTERM, and the batch script waits for both before it ends.
Slurm kills what is left of a cancelled job KillWait after that signal, by default 30 s.
"""

import errno
import fcntl
import os
import pwd
import re
import select
import shlex
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import Dict, Iterator, List, Mapping, Optional

from runspec_agent.base import files
from runspec_agent.base.job_env import USAGE, Failure

LONGEST_S = 120.0  # for a login shell; slurmd itself waits as long
HANG_UP_S = 5.0  # after which a shell that took too long is killed
PAUSE_S = 0.05
PAM_FILES = ("/etc/environment", "/etc/default/locale")  # the second one on Debian
PAM_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
MARK = b"runspec-login-environment\n"  # before the variables, after what the user's own files print
END = b"runspec-login-end\n"  # a program that those files have started may keep the pipe open
PRINT = "echo; echo {}; /usr/bin/env -0; echo {}".format(*map(bytes.decode, (MARK[:-1], END[:-1])))
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Variables of the shell that printed them, and those that bash does not let a script set.
OF_SHELLS = ("PWD", "OLDPWD", "SHLVL", "_", "TERM", "UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS")


def main(argv: List[str]) -> int:
    if len(argv) != 1:
        raise Failure("usage: login FILE")
    path = argv[0]
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with _alone(path + ".lock"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # also in the shell and what it starts
            if files.read(path) is None:  # another task of this node may have written it meanwhile
                files.write(path, script(taken(), os.environ))
    except OSError as error:
        text = "the environment of a login shell cannot be written: {}"
        raise Failure(text.format(error), USAGE) from error
    return 0


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Hold a lock, so that many tasks that begin at once start one shell; go on without it where there are no locks."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        end = time.monotonic() + LONGEST_S
        while time.monotonic() < end:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR):
                    break
            time.sleep(PAUSE_S)
        yield
    finally:
        os.close(handle)


def taken(longest_s: float = LONGEST_S) -> Dict[bytes, bytes]:
    """Return the variables that a login shell of this user has. Raise Failure if it fails or takes too long."""
    try:
        owner = pwd.getpwuid(os.getuid())
    except KeyError as error:
        what = "user {} has no entry in the passwd database, and so no login shell: set `environment: clean`"
        raise Failure(what.format(os.getuid()), USAGE) from error
    shell = owner.pw_shell or "/bin/sh"
    begun = {"HOME": owner.pw_dir, "SHELL": shell, "USER": owner.pw_name, "LOGNAME": owner.pw_name}
    env = {"PATH": os.environ.get("PATH", os.defpath), **_of_pam(), **begun}
    hint = "the login shell {} {}: `environment: clean` needs none".format
    try:
        shell_process = subprocess.Popen(
            ["-" + os.path.basename(shell), "-c", PRINT],
            executable=shell,
            env=env,
            cwd=owner.pw_dir if os.path.isdir(owner.pw_dir) else "/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise Failure(hint(shell, "cannot be started: {}".format(error)), USAGE) from error
    text = _printed(shell_process, longest_s)
    if text is None:
        raise Failure(hint(shell, "took longer than {:g} s".format(longest_s)), USAGE)
    _, mark, text = text.rpartition(END)[0].rpartition(MARK)
    if not mark:
        raise Failure(hint(shell, "has exited with {}".format(shell_process.wait())), USAGE)
    pairs = (entry.partition(b"=") for entry in text.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals}


def _printed(shell: "subprocess.Popen[bytes]", longest_s: float) -> Optional[bytes]:
    """Return what *shell* has printed to the end; None if it took too long, and was told to hang up or killed."""
    assert shell.stdout is not None, "BUG: its output is a pipe"
    until = time.monotonic() + longest_s
    output = b""
    with shell.stdout as stream:
        while END not in output:
            if not select.select([stream], [], [], max(0.0, until - time.monotonic()))[0]:
                _end(shell)
                return None
            block = os.read(stream.fileno(), 1 << 16)
            if not block:
                break
            output += block
        try:
            shell.wait(max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            _end(shell)
            return None
    return output


def _end(shell: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGHUP, signal.SIGKILL):
        os.killpg(shell.pid, number)
        try:
            shell.wait(HANG_UP_S)
            return
        except subprocess.TimeoutExpired:  # a login shell may trap SIGHUP: SIGKILL is next
            continue


def _of_pam() -> Dict[str, str]:
    """Return the variables of pam_env's files: NAME=VALUE, which may be in quotes."""
    variables = {}
    for path in PAM_FILES:
        content = files.read(path) or b""
        for line in os.fsdecode(content).splitlines():
            match = PAM_LINE.fullmatch(line.partition("#")[0].rstrip())
            if match is not None:
                variables[match.group(1)] = match.group(2).strip("\"'")
    return variables


def script(variables: Mapping[bytes, bytes], own_variables: Mapping[str, str]) -> bytes:
    """Return the commands that set *variables*, except for the job's *own_variables* variables, which Slurm sets last.

    A shell cannot have variables with the names of bash's exported functions: they become words for `env`.

    >>> found = {b"A": b"a b", b"SLURM_JOB_ID": b"7", b"BASH_FUNC_f%%": b"() { :; }"}
    >>> print(script(found, {"SLURM_JOB_ID": "8"}).decode(), end="")
    export A='a b'
    set -- 'BASH_FUNC_f%%=() { :; }'
    """
    lines, words = [], []
    for raw, content in sorted(variables.items()):
        name, value = os.fsdecode(raw), os.fsdecode(content)
        if name in OF_SHELLS or (name in own_variables and name != "PATH"):
            continue
        if NAME.fullmatch(name):
            lines.append("export {}={}\n".format(name, shlex.quote(value)))
        else:
            words.append(" " + shlex.quote("{}={}".format(name, value)))
    lines.append("set --{}\n".format("".join(words)))
    return os.fsencode("".join(lines))
