"""Starting one program on all nodes: by mpirun on rank 0 with our remote shell, or by a torchrun on each."""

import os
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from . import files, hostfile, process
from .meet import POLL_S, Meeting, Node, complete, missing, one_stack, stack
from .process import Child, Signals
from .rsh import Server
from .words import LOST, STOPPED, Failure, Words, current

# What every rank runs. Its words are not the user's: mpirun reads ":" and more in them as its own, and each node has
# its own paths. Each node's daemon hands its ranks the path of that node's script.
START = ("sh", "-c", 'exec sh "$RUNSPEC_START"')


class Job(NamedTuple):
    """All that an mpirun needs to be told."""

    hosts: Tuple[str, ...]
    slots: int
    hostfile: str
    agent: str  # the path of a program that behaves as ssh does
    loopback: bool  # the nodes share one network stack, so nothing else is needed
    root: bool
    grace_s: float


def main(argv: List[str]) -> int:
    if not argv:
        raise Failure("launch: no command")
    words = current()
    process.adopt_orphans()
    with Signals() as signals:
        if words.launch == "none":
            return process.run(Child(argv), signals, words.grace_s)
        seat = Seat(words, signals)
        try:
            code = LAUNCH[words.launch](seat, argv)
        except Failure as failure:
            seat.end(failure.code)
            raise
        seat.end(code)
        return code


class Seat:
    """This node among its like; a node alone needs no directory to meet in."""

    def __init__(self, words: Words, signals: Signals) -> None:
        self.words = words
        self.signals = signals
        self.meeting = Meeting(words) if words.nodes > 1 else None  # type: Optional[Meeting]
        self.nodes = ()  # type: Tuple[Node, ...]

    def meet(self, port: int = 0) -> None:
        """Wait for all nodes. Raise Failure when some do not come in time, or when we are asked to stop."""
        token = secrets.token_hex(16) if self.words.rank == 0 else ""
        if self.meeting is None:
            self.nodes = (Node(0, self.words.host, stack(), token, port),)
        else:
            self.meeting.join(token, port)
            self.nodes = self._wait(self.meeting)
        if self.words.hostfile is not None:
            hostfile.write(self.words.hostfile, self.nodes, self.words.slots)

    def _wait(self, meeting: Meeting) -> Tuple[Node, ...]:
        waited_s = 0.0
        while True:
            found = meeting.seats()
            nodes = complete(meeting, found)
            if nodes is not None:
                return nodes
            failed = self._failed(meeting)
            if failed is not None:
                raise failed
            if waited_s >= self.words.meet_timeout_s:
                raise missing(meeting, found)
            if any(number in process.STOPS for number in self.signals.wait(POLL_S)):
                raise Failure("asked to stop before all nodes had come", STOPPED)
            meeting.beat()
            waited_s += POLL_S

    def _failed(self, meeting: Meeting) -> Optional[Failure]:
        for rank in range(self.words.nodes):
            code = meeting.ended(rank) if rank != self.words.rank else None
            if code:
                return Failure(
                    "node {} ended with code {} before all nodes had come".format(rank, code), code
                )
        return None

    def env(self) -> Dict[str, str]:
        leader = self.words.leader or self.nodes[0].host
        return dict(os.environ, RUNSPEC_LEADER=leader)

    def end(self, code: int) -> None:
        if self.meeting is not None:
            self.meeting.end(code)

    def watch(self) -> Optional[Failure]:
        """Beat, and return what is wrong with the others: one is gone, or has ended without success."""
        if self.meeting is None:
            return None
        self.meeting.beat()
        for node in self.nodes:
            if node.rank != self.words.rank:
                code = self.meeting.ended(node.rank)
                if code:
                    return Failure(
                        "node {} ({}) ended with code {}".format(node.rank, node.host, code), code
                    )
                if code is None and self.meeting.gone(node.rank):
                    return gone(node, self.words.lease_s)
        return None


def gone(node: Node, lease_s: float) -> Failure:
    text = "node {} ({}) has not been heard from for {:g} s: it is gone, or the shared directory is"
    return Failure(text.format(node.rank, node.host, lease_s), LOST)


# --- torchrun ---------------------------------------------------------------------------------------------------------


def torchrun(seat: Seat, argv: List[str]) -> int:
    seat.meet(port=_free_port() if seat.words.rank == 0 else 0)
    loopback = one_stack(seat.nodes)
    leader = "127.0.0.1" if loopback else seat.words.leader or seat.nodes[0].host
    command = torchrun_argv(seat.words, leader, seat.nodes[0].port) + argv
    return process.run(
        Child(command, torchrun_env(seat.env(), loopback)),
        seat.signals,
        seat.words.grace_s,
        seat.watch,
    )


def torchrun_argv(words: Words, leader: str, port: int) -> List[str]:
    return [
        "torchrun",
        "--no-python",
        "--nnodes={}".format(words.nodes),
        "--nproc-per-node={}".format(words.slots),
        "--node-rank={}".format(words.rank),
        "--master-addr={}".format(leader),
        "--master-port={}".format(port),
    ]


def torchrun_env(env: Mapping[str, str], loopback: bool) -> Dict[str, str]:
    # With a shared store the agent's server is also the workers', and a lost member is never noticed (torch 2.13).
    defaults = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    if loopback:
        defaults.update(GLOO_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="lo", TP_SOCKET_IFNAME="lo")
    return dict(defaults, **env)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


# --- mpi --------------------------------------------------------------------------------------------------------------


def mpi(seat: Seat, argv: List[str]) -> int:
    if seat.words.rank == 0:
        mpirun = _mpirun()
        seat.meet()
        return _lead(seat, mpirun, argv)
    seat.meet()
    return _serve(seat, argv)


def _lead(seat: Seat, mpirun: "Mpirun", argv: List[str]) -> int:
    words = seat.words
    folder = tempfile.mkdtemp(prefix="runspec-")
    try:
        job = Job(
            hosts=tuple(node.host for node in seat.nodes),
            slots=words.slots,
            hostfile=os.path.join(folder, "hosts"),
            agent=os.path.join(folder, "rsh"),
            loopback=one_stack(seat.nodes),
            root=os.geteuid() == 0,
            grace_s=words.grace_s,
        )
        hostfile.write(job.hostfile, seat.nodes, words.slots)
        files.write(job.agent, agent_script(), 0o700)
        env = dict(mpirun.defaults(job), **daemon_env(seat, argv, folder))
        child = Child(mpirun.argv(job) + list(START), env)
        return process.run(child, seat.signals, words.grace_s, seat.watch)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(seat: Seat, argv: List[str]) -> int:
    """Run what rank 0 asks for, until it ends, is gone, or we are asked to stop; return the code for this node."""
    assert seat.meeting is not None, "BUG: rank > 0 of one node"
    words = seat.words
    folder = tempfile.mkdtemp(prefix="runspec-")
    server = Server(seat.meeting, seat.nodes[0].token, daemon_env(seat, argv, folder))
    asked = False
    try:
        while True:
            for number in seat.signals.wait(POLL_S):
                asked = asked or number in process.STOPS
                for child in server.running():
                    child.stop(words.grace_s, number) if number in process.STOPS else child.send(
                        number
                    )
            process.reap(server.children.values())
            server.answer()
            code = seat.meeting.ended(0)
            if asked and (code is not None or not server.running()):
                return STOPPED
            if code is not None:
                return code
            seat.meeting.beat()
            if seat.meeting.gone(0):
                raise gone(seat.nodes[0], words.lease_s)
            server.accept()
    finally:
        process.kill_rest()
        shutil.rmtree(folder, ignore_errors=True)


def daemon_env(seat: Seat, argv: List[str], folder: str) -> Dict[str, str]:
    """Return the environment of this node's ranks: its own, and the way to its own words and directory."""
    start = os.path.join(folder, "start.sh")
    files.write(start, start_script(os.getcwd(), argv))
    env = seat.env()
    env["RUNSPEC_START"] = start
    if os.geteuid() == 0:
        # https://docs.open-mpi.org/en/v5.0.x/launching-apps/quickstart.html: root only by two variables, for in a
        # container there is often nobody else
        for name in ("OMPI", "PRTE"):
            env[name + "_ALLOW_RUN_AS_ROOT"] = env[name + "_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return env


def start_script(folder: str, argv: List[str]) -> bytes:
    """
    >>> start_script("/job", ["echo", "it's", ":"])
    b'unset RUNSPEC_START\\ncd /job && exec echo \\'it\\'"\\'"\\'s\\' :\\n'
    """
    command = " ".join(shlex.quote(word) for word in argv)
    return os.fsencode(
        "unset RUNSPEC_START\ncd {} && exec {}\n".format(shlex.quote(folder), command)
    )


def agent_script() -> bytes:
    """Return a program that is our `rsh`, by this same Python and zipapp, with nothing changed in its environment."""
    place = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    code = "import sys; sys.path.insert(0, {!r}); from runspec_inside.__main__ import main; sys.exit(main())"
    words = (sys.executable, "-c", code.format(place), "rsh")
    return os.fsencode(
        '#!/bin/sh\nexec {} "$@"\n'.format(" ".join(shlex.quote(word) for word in words))
    )


class Mpirun(NamedTuple):
    argv: Callable[[Job], List[str]]
    defaults: Callable[[Job], Dict[str, str]]  # variables for mpirun that give way to the user's


def _mpirun() -> Mpirun:
    try:
        version = subprocess.check_output(
            ["mpirun", "--version"], stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise Failure("launch: mpi needs mpirun on PATH, and this image has none", 127) from None
    except subprocess.CalledProcessError as error:
        version = error.output
    return flavour(version.decode("utf-8", "replace"))


def flavour(version: str) -> Mpirun:
    """Return how to talk to the mpirun that says *version* of itself. Raise Failure for one we do not know."""
    open_mpi = re.search(r"\(Open MPI\) (\d+)", version)
    if open_mpi:
        return ORTE if int(open_mpi.group(1)) < 5 else PRRTE
    if "PRRTE" in version:
        return PRRTE
    if "HYDRA" in version or "Intel(R) MPI" in version:
        return HYDRA
    first = version.strip().splitlines()[0] if version.strip() else ""
    raise Failure("mpirun is not of Open MPI, MPICH or Intel MPI: '{}'".format(first))


def prrte_argv(job: Job) -> List[str]:
    """Open MPI 5: https://docs.open-mpi.org/en/v5.0.x/launching-apps/ssh.html."""
    argv = ["mpirun", "--hostfile", job.hostfile, "-n", str(len(job.hosts) * job.slots)]
    argv += ["--map-by", ":OVERSUBSCRIBE", "--wdir", "/"]
    if len(job.hosts) > 1:
        argv += ["--leave-session-attached"]
        argv += _pairs("--prtemca", plm="ssh", plm_ssh_agent=job.agent, plm_ssh_no_tree_spawn="1")
        argv += _pairs("--prtemca", prte_keep_fqdn_hostnames="1")
    return argv + _open_mpi_argv(job)


def orte_argv(job: Job) -> List[str]:
    """Open MPI 4 and older: mpirun(1)."""
    argv = ["mpirun", "--hostfile", job.hostfile, "-n", str(len(job.hosts) * job.slots)]
    argv += ["--oversubscribe", "--wdir", "/"]
    if len(job.hosts) > 1:
        argv += ["--leave-session-attached"]
        argv += _pairs("--mca", plm="rsh", plm_rsh_agent=job.agent, plm_rsh_no_tree_spawn="1")
        argv += _pairs("--mca", orte_keep_fqdn_hostnames="1")
        if job.loopback:
            argv += _pairs("--mca", oob_tcp_if_include="lo")
    return argv + _open_mpi_argv(job)


def _open_mpi_argv(job: Job) -> List[str]:
    argv = ["--allow-run-as-root"] if job.root else []
    # Each daemon would bind its first rank to the first core of the one machine.
    return argv + ["--bind-to", "none"] if job.loopback else argv


def open_mpi_defaults(job: Job) -> Dict[str, str]:
    """Return parameters for daemons that share a machine, which Open MPI does not expect; mpirun passes them on."""
    if not job.loopback:
        return {}
    defaults = {
        "OMPI_MCA_btl_tcp_if_include": "lo",  # else left out, by btl_tcp_if_exclude
        "OMPI_MCA_btl_tcp_disable_family": "6",
    }
    if len(job.hosts) > 1:
        # Segments are named by hostname and rank on the node: two nodes of one machine map the same file and crash.
        defaults["OMPI_MCA_btl"] = "^sm,vader"
        # 5.0.11: with one rank on each of two such nodes, one of them goes into han's set-up and waits for ever.
        defaults["OMPI_MCA_coll"] = "^han"
        defaults["OMPI_MCA_mpi_yield_when_idle"] = "1"  # no daemon knows that the cores are shared
    return defaults


def hydra_argv(job: Job) -> List[str]:
    """MPICH and Intel MPI: https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md."""
    argv = ["mpirun", "-n", str(len(job.hosts) * job.slots), "-ppn", str(job.slots), "-wdir", "/"]
    if len(job.hosts) > 1:
        argv += ["-hosts", ",".join("{}:{}".format(host, job.slots) for host in job.hosts)]
        # -genvnone: else rank 0's variables, RUNSPEC_RANK among them, would be everybody's
        argv += ["-launcher", "ssh", "-launcher-exec", job.agent, "-genvnone"]
    if job.loopback:
        argv += ["-iface", "lo"]
        for name in ("UCX_NET_DEVICES", "FI_TCP_IFACE", "FI_SOCKETS_IFACE"):
            argv += ["-genv", name, "lo"]
    return argv


def hydra_defaults(job: Job) -> Dict[str, str]:
    return {}


def _pairs(option: str, **values: str) -> List[str]:
    """
    >>> _pairs("--mca", plm="ssh")
    ['--mca', 'plm', 'ssh']
    """
    return [word for name, value in values.items() for word in (option, name, value)]


PRRTE = Mpirun(prrte_argv, open_mpi_defaults)
ORTE = Mpirun(orte_argv, open_mpi_defaults)
HYDRA = Mpirun(hydra_argv, hydra_defaults)

LAUNCH = {"mpi": mpi, "torchrun": torchrun}  # type: Dict[str, Callable[[Seat, List[str]], int]]
