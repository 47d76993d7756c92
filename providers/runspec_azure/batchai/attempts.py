"""Shell text that tries a job again, which Batch AI never did: also one of MPI, whose mpirun it starts itself.

The toolkit custom runs a command line on the first node, and recipes of the service start mpirun there, with
the host file that every job has: https://github.com/Azure/BatchAI (recipes/Horovod,
documentation/using-batchai-environment-variables.md).
"""

from __future__ import annotations

from collections.abc import Sequence

TRIES = "runspec-tries"  # beside the logs: number and exit code of each try that is over
HOSTS = "runspec-hosts"


def again(line: str, attempts: int) -> str:
    """Return a command line that tries *line* up to so often, and writes down how each try ended."""
    return (
        "n=0; while :; do n=$((n+1)); RUNSPEC_ATTEMPT=$n; export RUNSPEC_ATTEMPT; c=0; "
        f"( {line}\n) || c=$?; "
        f'echo "$n $c" >> "$AZ_BATCHAI_STDOUTERR_DIR/{TRIES}"; '
        f'if [ "$c" -eq 0 ] || [ "$n" -ge {attempts} ]; then exit "$c"; fi; done'
    )


def hosts(slots: int, names: Sequence[str]) -> str:
    """Return shell text that makes the words for mpirun: a host file of its own form, and what ranks find.

    The one that the service writes is Open MPI's, with as many slots as it thinks right; MPICH and Intel
    MPI refuse "slots=" and take HOST:COUNT. Open MPI tells other nodes none but the variables that are
    *names*d; what has no interface of its own in a container is left out as in the recipes.
    https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html and
    https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md
    """
    passed = "".join(f" -x {name}" for name in names)
    return (
        f'f="$AZ_BATCHAI_JOB_TEMP/{HOSTS}"; '
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; "
        'case "$(mpirun --version 2>&1)" in '
        f'*"Open MPI"*) s=" slots={slots}"; set -- --hostfile "$f"{passed}; '
        'if [ -z "$OMPI_MCA_btl_tcp_if_include" ]; then '
        "export OMPI_MCA_btl_tcp_if_exclude=docker0,lo; fi;; "
        f'*) s=":{slots}"; set -- -f "$f" -genvall;; esac; '
        'sed "s/[[:space:]:].*//; s/\\$/$s/" "$AZ_BATCHAI_MPI_HOST_FILE" > "$f"; '
    )


def ranks(line: str, count: int) -> str:
    """Return the line that starts *line* so many times, by the words that `hosts` made."""
    return f'mpirun -n {count} "$@" {line}'
