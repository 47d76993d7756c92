"""Start ranks with Horovod's own Gloo launcher, which reaches the other nodes by the agent's remote shell.

`horovodrun` itself would write the whole environment, secrets included, into the command lines of its ssh, and would
start the ranks of all nodes of one machine as if they were one node. The function below it, `launch_gloo`, leaves to
its caller how a rank is started: https://github.com/horovod/horovod/blob/v0.28.1/horovod/runner/gloo_run.py
"""

import argparse
import importlib
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from runspec_agent.base.job_env import Failure
from runspec_agent.launch.mpirun import Job, Mpirun

LOOK_S = 0.1
GLOO_S = 300  # ranks that start on busy machines may be far apart; Horovod's own limit is 30 s
# The shell ignores a SIGTERM, so that the program can handle it, and records how the rank has ended.
WATCHED = (
    "sh",
    "-c",
    'trap : TERM; f=$RUNSPEC_START; sh "$f" && : >"$f.ended.$$" && exit; c=$?; echo $c >"$f.failed.$$"; exit $c',
)
# What Horovod sets for all ranks alike, although it differs between nodes or belongs to the user.
OVERRIDDEN = ("NCCL_SOCKET_IFNAME", "PYTHONUNBUFFERED")


def find(env: Mapping[str, str]) -> Mpirun:
    """Return how Horovod's launcher is started. Raise Failure if *env* has none on its PATH."""
    program = shutil.which("horovodrun", path=env.get("PATH"))
    if program is None:
        what = "launch: horovod needs horovodrun on PATH, and this image has none"
        raise Failure(what, 127)
    beside = os.path.join(os.path.dirname(program), "python")
    python = beside if os.path.exists(beside) else "python3"
    return Mpirun(lambda job: argv_for(python, job), lambda _: {}, WATCHED)


def argv_for(python: str, job: Job) -> List[str]:
    """Return the command that runs `main` in the job's own Python, without the words that a rank runs."""
    package_root = os.path.abspath(__file__)[: -len("/runspec_agent/launch/horovod.py")]
    code = "import sys; sys.path.insert(0, {!r}); from runspec_agent.launch import horovod; sys.path.pop(0); "
    argv = [python, "-c", code.format(package_root) + "sys.exit(horovod.main())"]
    leader = "127.0.0.1" if job.loopback else job.hosts[0]
    hosts = ",".join("{}:{}".format(host, job.slots) for host in job.hosts)
    ranks = str(len(job.hosts) * job.slots)
    return [*argv, "--np", ranks, "--hosts", hosts, "--rsh", job.agent, "--leader", leader, "--"]


def of_rank(env: Mapping[str, str]) -> bytes:
    """Return shell code for the start of a rank, which restores what Horovod overrides.

    >>> print(of_rank({"GLOO_SOCKET_IFNAME": "eth0", "PYTHONUNBUFFERED": ""}).decode(), end="")
    export HOROVOD_GLOO_IFACE=eth0
    unset NCCL_SOCKET_IFNAME
    export PYTHONUNBUFFERED=''
    export HOROVOD_GLOO_TIMEOUT_SECONDS=300
    """
    wanted = {"HOROVOD_GLOO_IFACE": env.get("GLOO_SOCKET_IFNAME")}
    wanted.update({name: env.get(name) for name in OVERRIDDEN})
    limit = "HOROVOD_GLOO_TIMEOUT_SECONDS"
    wanted[limit] = env.get(limit, str(GLOO_S))
    lines = [
        "unset {}\n".format(name)
        if value is None
        else "export {}={}\n".format(name, shlex.quote(value))
        for name, value in wanted.items()
    ]
    return os.fsencode("".join(lines))


# --- in the job's own Python ------------------------------------------------------------------------------------------


class Settings(NamedTuple):
    """What `launch_gloo` reads of Horovod's settings."""

    hosts: str
    num_proc: int
    verbose: int = 0
    output_filename: None = None
    elastic: bool = False


class Ranks:
    """Starts the ranks of the first host here and the others by *rsh*, and asks all to end when one has failed."""

    def __init__(self, rsh: str, own: str) -> None:
        self.rsh = rsh
        self.own = own
        self.failed = threading.Event()
        self.codes: List[int] = []

    def execute(self, command: str, slot: Any, events: Sequence[Any]) -> Tuple[int, float]:
        """Run *command* on the host of *slot*; return its exit code and when it ended, as `launch_gloo` asks for."""
        start = ["sh", "-c"] if slot.hostname == self.own else [self.rsh, slot.hostname]
        child = subprocess.Popen([*start, "exec " + command], stdin=subprocess.DEVNULL)
        code, was_told = None, False
        while code is None:
            try:
                code = child.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                if not was_told and any(event.is_set() for event in (self.failed, *events)):
                    was_told = True
                    child.terminate()
        if code:
            self.codes.append(code if code > 0 else 128 - code)
            self.failed.set()
        return code, time.time()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--np", type=int)
    for word in ("--hosts", "--rsh", "--leader"):
        parser.add_argument(word)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    launcher = importlib.import_module("horovod.runner.gloo_run")
    ranks = Ranks(args.rsh, args.hosts.partition(":")[0])
    nothing: Dict[
        str, str
    ] = {}  # the environment of a rank is that of its node, and stands in no command line
    try:
        launcher.launch_gloo(
            args.command, ranks.execute, Settings(args.hosts, args.np), ["lo"], nothing, args.leader
        )
    except RuntimeError as error:
        if not ranks.codes:
            raise
        print("runspec: horovod: {}".format(error), file=sys.stderr)
    return ranks.codes[0] if ranks.codes else 0
