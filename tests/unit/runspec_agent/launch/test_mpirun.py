"""What each mpirun is told."""

from __future__ import annotations

import pytest

from runspec_agent.base.job_env import Failure
from runspec_agent.launch.mpirun import HYDRA, ORTE, PRRTE, Job, Mpirun, flavour

JOB = Job(hosts=("a", "b.c"), slots=2, hostfile="/h", agent="/r", loopback=False, root=False)


@pytest.mark.parametrize(
    "version, kind",
    [
        ("mpirun (Open MPI) 5.0.11\n\nReport bugs to ...", PRRTE),
        ("mpirun (Open MPI) 4.1.6", ORTE),
        ("mpirun (Open MPI) 10.0.0", PRRTE),
        ("prterun (PRRTE) 3.0.13", PRRTE),
        ("HYDRA build details:\n    Version:   5.0.2", HYDRA),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.13", HYDRA),
    ],
)
def test_an_mpirun_is_known_by_what_it_says_of_itself(version: str, kind: Mpirun) -> None:
    """Its name does not tell."""
    assert flavour(version) == kind


@pytest.mark.parametrize("version", ["", "mpirun of somebody 1.0"])
def test_an_unknown_mpirun_is_an_error(version: str) -> None:
    """Rather than words that it may understand otherwise."""
    with pytest.raises(Failure, match="not of Open MPI, MPICH or Intel MPI"):
        flavour(version)


@pytest.mark.parametrize(
    "kind, words",
    [
        (
            PRRTE,
            (
                "mpirun --hostfile /h -n 4 --map-by slot:OVERSUBSCRIBE --wdir / --leave-session-attached"
                " --prtemca plm ssh --prtemca plm_ssh_agent /r:sh --prtemca plm_ssh_no_tree_spawn 1"
                " --prtemca prte_keep_fqdn_hostnames 1"
            ),
        ),
        (
            ORTE,
            (
                "mpirun --hostfile /h -n 4 --oversubscribe --wdir / --leave-session-attached"
                " --mca plm rsh --mca plm_rsh_agent /r:sh --mca plm_rsh_no_tree_spawn 1"
                " --mca orte_keep_fqdn_hostnames 1"
            ),
        ),
        (
            HYDRA,
            "mpirun -n 4 -ppn 2 -wdir / -hosts a:2,b.c:2 -launcher ssh -launcher-exec /r -genvnone",
        ),
    ],
)
def test_each_is_told_of_all_nodes_and_our_remote_shell(kind: Mpirun, words: str) -> None:
    """Nodes times slots processes, in an order of their own words."""
    assert " ".join(kind.argv(JOB)) == words


@pytest.mark.parametrize("kind", [PRRTE, ORTE])
def test_root_may_run_open_mpi(kind: Mpirun) -> None:
    """In a container there is often nobody else."""
    assert "--allow-run-as-root" in kind.argv(JOB._replace(root=True))


@pytest.mark.parametrize("kind", [PRRTE, ORTE])
def test_nodes_of_one_machine_are_no_secret_to_open_mpi(kind: Mpirun) -> None:
    """It uses loopback, binds to no core and shares no memory between them."""
    job = JOB._replace(loopback=True)

    assert " ".join(kind.argv(job)).endswith("--bind-to none")
    assert kind.defaults(job)["OMPI_MCA_btl_tcp_if_include"] == "lo"
    assert {"sm", "vader"} <= set(kind.defaults(job)["OMPI_MCA_btl"].lstrip("^").split(","))
    assert kind.defaults(JOB) == {}


@pytest.mark.parametrize(
    "hosts, btl", [("a", "^ofi,openib,uct"), ("ab", "^ofi,openib,uct,sm,vader")]
)
def test_no_network_is_looked_for_where_loopback_is_all_there_is(hosts: str, btl: str) -> None:
    """By Open MPI 5, which takes a second for it; what an older one is told of networks, it is told elsewhere."""
    job = JOB._replace(hosts=tuple(hosts), loopback=True)

    assert PRRTE.defaults(job)["OMPI_MCA_btl"] == btl
    assert "ofi" not in ORTE.defaults(job).get("OMPI_MCA_btl", "")
    assert PRRTE.defaults(job._replace(loopback=False)) == {}


def test_nodes_of_one_machine_are_no_secret_to_mpich() -> None:
    """Its control goes over loopback, and what carries its messages does."""
    assert HYDRA.defaults(JOB) == {}
    words = " ".join(HYDRA.argv(JOB._replace(loopback=True)))

    assert words.endswith(
        "-iface lo -genv UCX_NET_DEVICES lo -genv FI_TCP_IFACE lo -genv FI_SOCKETS_IFACE lo"
    )


@pytest.mark.parametrize("kind", [PRRTE, ORTE, HYDRA])
def test_one_node_needs_no_remote_shell(kind: Mpirun) -> None:
    """There is nobody to call, and its own name may be made up."""
    argv = kind.argv(JOB._replace(hosts=("a",)))

    assert not {"/r", "/h", "a", "a:2"} & set(argv)
