"""One MPI job on all nodes: rank 0 runs mpirun, and the other nodes run its daemons through the agent's remote shell.

A stop signal is sent to the MPI ranks themselves, on all nodes, and not through mpirun: PRRTE 3 kills its ranks a
second or two after it has passed a SIGTERM on, and a Hydra proxy at once, which leaves no time to save.
"""

import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from typing import Dict, List, Mapping, Optional, Set, Tuple

from runspec_agent.base import files, process
from runspec_agent.base.job_env import LOST, STOPPED, Failure
from runspec_agent.base.process import Child
from runspec_agent.env import sockets
from runspec_agent.launch import horovod, mpirun, slurm
from runspec_agent.launch.file_rsh import Server
from runspec_agent.rendezvous import hostfile
from runspec_agent.rendezvous.participant import Participant, gone
from runspec_agent.rendezvous.shared_directory import one_stack

FAILED_S = 5.0  # time for mpirun to end by itself after one of its ranks has failed


def run(participant: Participant, argv: List[str]) -> int:
    # Without HOME, Open MPI does not even print its version: "Unable to get the user home directory".
    home = os.path.expanduser("~")
    os.environ.setdefault("HOME", (home if os.path.isabs(home) else "/"))
    folder = tempfile.mkdtemp(prefix="runspec-")
    try:
        if os.environ.get(slurm.PLUGIN):
            return _by_srun(participant, argv, folder)
        if participant.words.rank > 0:
            participant.meet()
            return _serve(participant, Ranks(folder), daemon_env(participant, argv, folder))
        kind = horovod.find(os.environ) if participant.words.launch == "horovod" else mpirun.find()
        participant.meet()
        return _lead(participant, kind, argv, folder)
    finally:
        process.kill_rest()
        shutil.rmtree(folder, ignore_errors=True)


class Ranks:
    """The MPI ranks on this node, each of which creates the file *folder*/rank.<pid> when it starts."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._told: Set[int] = set()

    def here(self) -> Set[int]:
        return self._signed() & process.descendants(os.getpid())

    def _signed(self) -> Set[int]:
        names = [name for name in os.listdir(self.folder) if name.startswith("rank.")]
        return {int(name[len("rank.") :]) for name in names}

    def send(self, number: int) -> bool:
        """Send the signal to all ranks here; return whether there were any."""
        here = self.here()
        self._told |= here
        _send(here, number)
        return bool(here)

    def send_to_new(self, number: int) -> None:
        """Send the signal to ranks that have started since the last call."""
        new = self.here() - self._told
        self._told |= new
        _send(new, number)

    def succeeded(self) -> bool:
        """Return whether all ranks that were on this node have exited with 0."""
        ended = [name for name in os.listdir(self.folder) if name.startswith("start.sh.ended.")]
        return len(ended) >= max(1, len(self._signed()))

    def failed(self) -> Optional[int]:
        """Return the exit code of a failed rank, for an mpirun that does not handle failures itself."""
        paths = [os.path.join(self.folder, name) for name in os.listdir(self.folder)]
        noted = [path for path in paths if os.path.basename(path).startswith("start.sh.failed.")]
        codes = [int(files.read(path) or 0) for path in sorted(noted, key=os.path.getmtime)]
        return next((code for code in codes if code), None)


class Stepped(Ranks):
    """Ranks that Slurm has started: they descend from its daemon, and are recognised by their environment."""

    def here(self) -> Set[int]:
        mark = os.fsencode("RUNSPEC_RUN=" + os.environ["RUNSPEC_RUN"])
        return {pid for pid in self._signed() if mark in slurm.environment(pid)}


def _send(pids: Set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:  # the process has already ended
            pass


# --- rank 0 -----------------------------------------------------------------------------------------------------------


class Led(Child):
    """The mpirun process; signals for it are sent to this node's ranks instead, as soon as there are some."""

    def __init__(self, argv: List[str], env: Mapping[str, str], ranks: Ranks) -> None:
        super().__init__(argv, env, stdin=None)
        self.ranks = ranks
        self.stopped_with: Optional[int] = None

    def send(self, number: int) -> None:
        if not self.ranks.send(number):
            super().send(number)

    def stop(self, grace_s: float, number: int = signal.SIGTERM) -> None:
        self.stopped_with = number
        super().stop(grace_s, number)

    def give_up(self, grace_s: float) -> None:
        Child.send(self, signal.SIGTERM)
        self._kill_in(grace_s)

    def tick(self) -> None:
        if self.stopped_with is not None:
            self.ranks.send_to_new(self.stopped_with)
        super().tick()


def _lead(participant: Participant, kind: mpirun.Mpirun, argv: List[str], folder: str) -> int:
    job = mpirun.Job(
        hosts=tuple(node.host for node in participant.nodes),
        slots=participant.words.slots,
        hostfile=os.path.join(folder, "hosts"),
        agent=os.path.join(folder, "rsh"),
        loopback=one_stack(participant.nodes),
        root=os.geteuid() == 0,
    )
    hostfile.write(job.hostfile, participant.nodes, participant.words.slots)
    files.write(job.agent, agent_script(kind.rsh if job.loopback else ()), 0o700)
    env = dict(kind.defaults(job), **daemon_env(participant, argv, folder))
    ranks = Ranks(folder)
    code = _led(participant, kind.argv(job) + list(kind.start), slurm.hidden(env), ranks)
    if code == 0 and not ranks.succeeded():
        raise Failure("the launcher exited with 0, but not all of its ranks did", LOST)
    if code and participant.stopping() is None:
        participant.tell_of_failure(code)  # or the other nodes take 75 for the loss of a node
    return code


def _by_srun(participant: Participant, argv: List[str], folder: str) -> int:
    """Let srun start the ranks of all nodes: each node writes what its ranks run, and when it is ready for them."""
    start = os.path.join(folder, "start.sh")
    files.write(
        start, slurm.start_script(os.environ, folder, start_script(folder, os.getcwd(), argv))
    )
    participant.meet(start=start)
    files.write(os.path.join(folder, slurm.READY), b"")
    ranks = Stepped(folder)
    if participant.words.rank > 0:
        return _serve(participant, ranks, {})
    command = slurm.srun(os.environ, len(participant.nodes), participant.words.slots)
    code = _led(
        participant, command, slurm.env_of_srun(participant.env(), participant.nodes), ranks
    )
    participant.tell_of_failure(ranks.failed())
    return code if code == 0 or participant.stopping() else participant.failed() or code


def _led(participant: Participant, argv: List[str], env: Mapping[str, str], ranks: Ranks) -> int:
    child = Led(argv, env, ranks)
    code = process.run(
        child, participant.signals, participant.words.grace_s, _Each(participant, child)
    )
    return STOPPED if participant.stopping() == signal.SIGTERM else code


class _Each:
    """What rank 0 does while mpirun runs: it passes a stop on to all nodes, and ends the job if a node is lost."""

    def __init__(self, participant: Participant, child: Led) -> None:
        self.seat = participant
        self.child = child
        self._failed_at: Optional[float] = None

    def __call__(self) -> Optional[Failure]:
        number = self.seat.stopping()
        if number is None and self.child.stopped_with is not None:
            self.seat.tell_to_stop(self.child.stopped_with)
        elif number is not None and self.child.stopped_with is None:
            self.child.stop(self.seat.words.grace_s, number)
        failure = self.seat.watch() or self._failure()
        return None if number is not None else failure

    def _failure(self) -> Optional[Failure]:
        self.seat.tell_of_failure(self.child.ranks.failed())
        code = self.seat.failed()
        if code is None:
            return None
        if self._failed_at is None:
            self._failed_at = time.monotonic()
        if time.monotonic() - self._failed_at < FAILED_S:
            return None
        return Failure("a rank exited with code {}, which ends the other ranks".format(code), code)


# --- the other ranks --------------------------------------------------------------------------------------------------


def _serve(participant: Participant, ranks: Ranks, env: Mapping[str, str]) -> int:
    """Run the commands of rank 0 until it ends or is lost; return the exit code of this node."""
    assert participant.meeting is not None, "BUG: rank > 0 of one node"
    server = Server(participant.meeting, participant.nodes[0].token, env)
    pace = process.Pace()
    while True:
        for number in participant.signals.wait(pace.pause_s()):
            pace.start()
            if number in process.STOPS:
                participant.tell_to_stop(number)
            else:
                ranks.send(number)
        process.reap(server.children.values())
        server.answer()
        stopping = participant.stopping()
        code = participant.meeting.ended(0)
        if code is not None:
            return code
        if stopping is not None:
            ranks.send_to_new(stopping)
            if participant.grace_is_over():
                return STOPPED
        participant.tell_of_failure(ranks.failed())
        participant.meeting.beat()
        if participant.meeting.gone(0):
            raise gone(participant.nodes[0], participant.words.lease_s)
        if server.accept():
            pace.start()


# --- the environment of the ranks
# -------------------------------------------------------------------------------------


def daemon_env(participant: Participant, argv: List[str], folder: str) -> Dict[str, str]:
    """Return the environment for this node's ranks: its own, with the path of its own start script."""
    start = os.path.join(folder, "start.sh")
    network = sockets.variables(participant.words.host, one_stack(participant.nodes))
    env = dict(network, **slurm.without_pmi(participant.env()))
    script = own_tmpdir(env.get("TMPDIR")) + start_script(folder, os.getcwd(), argv)
    if participant.words.launch == "horovod":
        script = horovod.of_rank(env) + script
    files.write(start, slurm.shown(os.environ) + script if participant.words.rank == 0 else script)
    # PRRTE 3 names its files in TMPDIR by its pid alone, leaves them when it is killed, and does not start if they
    # exist:
    env.update(RUNSPEC_START=start, TMPDIR=os.path.join(folder, "tmp"))
    os.mkdir(env["TMPDIR"], 0o700)
    if os.geteuid() == 0:
        # https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html: root only by two variables, for in a
        # else
        for name in ("OMPI", "PRTE"):
            env[name + "_ALLOW_RUN_AS_ROOT"] = env[name + "_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return env


def own_tmpdir(path: Optional[str]) -> bytes:
    """Return shell code that restores a rank's TMPDIR, because its daemon has another one.

    >>> print((own_tmpdir("/my tmp") + own_tmpdir(None)).decode(), end="")
    export TMPDIR='/my tmp'
    unset TMPDIR
    """
    line = "unset TMPDIR\n" if path is None else "export TMPDIR={}\n".format(shlex.quote(path))
    return os.fsencode(line)


def start_script(folder: str, cwd: str, argv: List[str]) -> bytes:
    """Return the script that a rank runs instead of the command on mpirun's command line.

    >>> print(start_script("/tmp/x", "/job", ["echo", "it is", ":"]).decode(), end="")
    unset RUNSPEC_START
    : >/tmp/x/rank.$$
    cd /job && exec echo 'it is' :
    """
    command = " ".join(shlex.quote(word) for word in argv)
    lines = "unset RUNSPEC_START\n: >{}/rank.$$\ncd {} && exec {}\n"
    return os.fsencode(lines.format(shlex.quote(folder), shlex.quote(cwd), command))


def agent_script(options: Tuple[str, ...]) -> bytes:
    """Return a program that is the agent's `rsh`, run by this Python and zipapp with an unchanged environment."""
    package_root = os.path.abspath(__file__)[: -len("/runspec_agent/launch/mpi.py")]
    code = "import sys; sys.path.insert(0, {!r}); from runspec_agent.__main__ import main; sys.exit(main())"
    command = (sys.executable, "-IS", "-c", code.format(package_root), "rsh", *options)
    return os.fsencode(
        '#!/bin/sh\nexec {} "$@"\n'.format(" ".join(shlex.quote(word) for word in command))
    )
