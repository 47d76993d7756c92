"""The command lines and variables with which each kind of mpirun starts ranks on all nodes through the agent's rsh."""

import re
import subprocess
from typing import Callable, Dict, List, NamedTuple, Tuple

from runspec_agent.base.job_env import Failure


class Job(NamedTuple):
    """The data that a command line of mpirun needs."""

    hosts: Tuple[str, ...]
    slots: int
    hostfile: str
    agent: str  # the path of a program that behaves like ssh
    loopback: bool  # whether all nodes share one network stack, so that loopback is enough
    root: bool


# The command of every rank. It does not contain the user's command: mpirun interprets ":" and other words in it, and
# each node has its own paths. Each node's daemon passes its ranks the path of that node's script. A rank that exits
# with 0 is recorded: the mpirun of Open MPI 5.0.11 exits with 0 when the connection to a daemon is lost, and it has
# killed its ranks then.
START = (
    "sh",
    "-c",
    'trap : TERM; sh "$RUNSPEC_START"; c=$?; [ $c != 0 ] || : >"$RUNSPEC_START.ended.$$"; exit $c',
)
# Hydra waits forever for the other proxies if a rank ends without MPI_Finalize, or before MPI_Init on all of them. So
# the exit code is written to a file.
WATCHED = (
    "sh",
    "-c",
    'f=$RUNSPEC_START; sh "$f" && : >"$f.ended.$$" && exit; c=$?; echo $c >"$f.failed.$$"; exit $c',
)
# Open MPI's daemons also look for the launch agent, on disks that do not have it: those of 4.1.8 then end, those of
# 5.0.11 complain. They take the first program of a list that they find, and never use it.
OR_ELSE = ":sh"
OWN_HOSTNAME = "--own-hostname"  # an option of the agent's rsh: see node_hostname


class Mpirun(NamedTuple):
    argv: Callable[[Job], List[str]]
    defaults: Callable[[Job], Dict[str, str]]  # variables for mpirun that the user's own override
    start: Tuple[str, ...]
    rsh: Tuple[str, ...] = ()  # options of the agent's rsh, for nodes that share one network stack


def find() -> Mpirun:
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
    """Return the kind of mpirun that prints *version*. Raise Failure for an unknown one."""
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
    """Return the command line for Open MPI 5: https://docs.open-mpi.org/en/v5.0.x/launching-apps/ssh.html.

    Mapping is by slot: with OVERSUBSCRIBE alone, 5.0.11 maps by core, which puts all ranks on the first node.
    """
    argv = ["mpirun", *_hosts(job), "-n", str(len(job.hosts) * job.slots)]
    argv += ["--map-by", "slot:OVERSUBSCRIBE", "--wdir", "/"]
    if len(job.hosts) > 1:
        argv += ["--leave-session-attached"]
        argv += _pairs(
            "--prtemca", plm="ssh", plm_ssh_agent=job.agent + OR_ELSE, plm_ssh_no_tree_spawn="1"
        )
        argv += _pairs("--prtemca", prte_keep_fqdn_hostnames="1")
    return argv + _open_mpi_argv(job)


def orte_argv(job: Job) -> List[str]:
    """Return the command line for Open MPI 4 and older: mpirun(1)."""
    argv = ["mpirun", *_hosts(job), "-n", str(len(job.hosts) * job.slots)]
    argv += ["--oversubscribe", "--wdir", "/"]
    if len(job.hosts) > 1:
        argv += ["--leave-session-attached"]
        argv += _pairs(
            "--mca", plm="rsh", plm_rsh_agent=job.agent + OR_ELSE, plm_rsh_no_tree_spawn="1"
        )
        argv += _pairs("--mca", orte_keep_fqdn_hostnames="1")
        if job.loopback:
            argv += _pairs("--mca", oob_tcp_if_include="lo")
    return argv + _open_mpi_argv(job)


def _hosts(job: Job) -> List[str]:
    # A node's name may be one that only the agent's remote shell can resolve.
    alone = len(job.hosts) == 1
    return ["--host", "localhost:{}".format(job.slots)] if alone else ["--hostfile", job.hostfile]


def _open_mpi_argv(job: Job) -> List[str]:
    argv = ["--allow-run-as-root"] if job.root else []
    # Otherwise each daemon would bind its first rank to the first core of the same machine.
    return [*argv, "--bind-to", "none"] if job.loopback else argv


def open_mpi_defaults(job: Job) -> Dict[str, str]:
    """Return parameters for daemons that share a machine, which Open MPI does not expect; mpirun passes them on."""
    if not job.loopback:
        return {}
    defaults = {
        "OMPI_MCA_btl_tcp_if_include": "lo",  # otherwise excluded by btl_tcp_if_exclude
        "OMPI_MCA_btl_tcp_disable_family": "6",
    }
    if len(job.hosts) > 1:
        # Segments are named by hostname and rank on the node: two nodes of one machine map the same file and crash.
        defaults["OMPI_MCA_btl"] = "^sm,vader"
        # In 5.0.11, with one rank on each of two such nodes, one of them enters the set-up of han and waits forever.
        defaults["OMPI_MCA_coll"] = "^han"
        defaults["OMPI_MCA_mpi_yield_when_idle"] = (
            "1"  # no daemon knows that others use the cores, too
        )
    return defaults


def prrte_defaults(job: Job) -> Dict[str, str]:
    """Exclude all networks but loopback if all nodes share it: 5.0.11 took a second to look for "ofi".

    A variable overrides the setting of btl in a machine's openmpi-mca-params.conf, which may exclude networks.
    """
    defaults = open_mpi_defaults(job)
    if job.loopback:
        shared = ",sm,vader" if len(job.hosts) > 1 else ""
        defaults["OMPI_MCA_btl"] = "^ofi,openib,uct" + shared
    return defaults


def hydra_argv(job: Job) -> List[str]:
    """Return the command line for MPICH and Intel MPI, which use the Hydra process manager.

    https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md
    """
    argv = ["mpirun", "-n", str(len(job.hosts) * job.slots), "-ppn", str(job.slots), "-wdir", "/"]
    if len(job.hosts) > 1:
        argv += ["-hosts", ",".join("{}:{}".format(host, job.slots) for host in job.hosts)]
        # -genvnone: otherwise all ranks would get the variables of rank 0, such as RUNSPEC_RANK
        argv += ["-launcher", "ssh", "-launcher-exec", job.agent, "-genvnone"]
    if job.loopback:
        argv += ["-iface", "lo"]
        for name in ("UCX_NET_DEVICES", "FI_TCP_IFACE", "FI_SOCKETS_IFACE"):
            argv += ["-genv", name, "lo"]
    return argv


def hydra_defaults(_: Job) -> Dict[str, str]:
    return {}


def _pairs(option: str, **values: str) -> List[str]:
    """Return command-line words that set *option* to each of *values*.

    >>> _pairs("--mca", plm="ssh")
    ['--mca', 'plm', 'ssh']
    """
    return [word for name, value in values.items() for word in (option, name, value)]


PRRTE = Mpirun(prrte_argv, prrte_defaults, START, (OWN_HOSTNAME,))
ORTE = Mpirun(orte_argv, open_mpi_defaults, START)
HYDRA = Mpirun(hydra_argv, hydra_defaults, WATCHED)
