"""What each kind of mpirun must be told to start ranks on all nodes through our remote shell: words, no deeds."""

import re
import subprocess
from typing import Callable, Dict, List, NamedTuple, Tuple

from runspec_agent.base.job_env import Failure


class Job(NamedTuple):
    """All that an mpirun needs to be told."""

    hosts: Tuple[str, ...]
    slots: int
    hostfile: str
    agent: str  # the path of a program that behaves as ssh does
    loopback: bool  # the nodes share one network stack, so nothing else is needed
    root: bool


# What every rank runs. Its words are not the user's: mpirun reads ":" and more in them as its own, and each node has
# its own paths. Each node's daemon hands its ranks the path of that node's script. What has ended well is noted: the
# mpirun of Open MPI 5.0.11 ends with 0 when the connection to a daemon is lost, and has killed its ranks then.
START = (
    "sh",
    "-c",
    'trap : TERM; sh "$RUNSPEC_START"; c=$?; [ $c != 0 ] || : >"$RUNSPEC_START.ended.$$"; exit $c',
)
# Hydra waits for the others for ever when a rank of one of several proxies ends without MPI_Finalize, or before
# MPI_Init on any: so the code is written down for us.
WATCHED = (
    "sh",
    "-c",
    'f=$RUNSPEC_START; sh "$f" && : >"$f.ended.$$" && exit; c=$?; echo $c >"$f.failed.$$"; exit $c',
)
# The daemons of Open MPI are told of the agent, too, and look for it on disks where it is not: those of 4.1.8 end then,
# those of 5.0.11 complain. They take the first of a list that they find, and never need it.
OR_ELSE = ":sh"


class Mpirun(NamedTuple):
    argv: Callable[[Job], List[str]]
    defaults: Callable[[Job], Dict[str, str]]  # variables for mpirun that give way to the user's
    start: Tuple[str, ...]


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
    """Open MPI 5: https://docs.open-mpi.org/en/v5.0.x/launching-apps/ssh.html.

    By slot: with OVERSUBSCRIBE alone, 5.0.11 maps by core, which puts all ranks on the first node.
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
    """Open MPI 4 and older: mpirun(1)."""
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
    # The name of a node alone may be one that only our remote shell could make something of.
    alone = len(job.hosts) == 1
    return ["--host", "localhost:{}".format(job.slots)] if alone else ["--hostfile", job.hostfile]


def _open_mpi_argv(job: Job) -> List[str]:
    argv = ["--allow-run-as-root"] if job.root else []
    # Each daemon would bind its first rank to the first core of the one machine.
    return [*argv, "--bind-to", "none"] if job.loopback else argv


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


def prrte_defaults(job: Job) -> Dict[str, str]:
    """Have no network looked for where loopback is all there is: 5.0.11 took a second for "ofi" where there was none.

    A variable hides what a machine's openmpi-mca-params.conf says of btl, where networks may have been left out.
    """
    defaults = open_mpi_defaults(job)
    if job.loopback:
        shared = ",sm,vader" if len(job.hosts) > 1 else ""
        defaults["OMPI_MCA_btl"] = "^ofi,openib,uct" + shared
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


def hydra_defaults(_: Job) -> Dict[str, str]:
    return {}


def _pairs(option: str, **values: str) -> List[str]:
    """Return the words that give each of *values* to *option*.

    >>> _pairs("--mca", plm="ssh")
    ['--mca', 'plm', 'ssh']
    """
    return [word for name, value in values.items() for word in (option, name, value)]


PRRTE = Mpirun(prrte_argv, prrte_defaults, START)
ORTE = Mpirun(orte_argv, open_mpi_defaults, START)
HYDRA = Mpirun(hydra_argv, hydra_defaults, WATCHED)
