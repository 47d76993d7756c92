"""Make shell text that retries a job, which Batch AI never did; for a job of MPI, the text also starts mpirun.

The toolkit custom runs a command line on the first node, and recipes of the service start mpirun there, with
the host file that every job has: https://github.com/Azure/BatchAI (recipes/Horovod,
documentation/using-batchai-environment-variables.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runspec_agent.base.light_typing import Any, NamedTuple
from runspec_agent.base.retry_rules import RULES, STOP

# A file beside the logs with the number, exit code and end, in seconds since 1970, of each attempt that has ended.
ATTEMPTS_FILE = "runspec-tries"
HOSTS = "runspec-hosts"


class End(NamedTuple):
    """The exit code of an attempt, and when it ended, in seconds since 1970; None for jobs of older versions."""

    code: int
    at_s: float | None


def with_retries(line: str, attempts: int, retry: Mapping[str, Any]) -> str:
    """Return a command line that runs *line* up to *attempts* times, and writes how and when each attempt ended.

    The first rule of `retry_on` in *retry* that matches an exit code decides whether another attempt may follow it.
    """
    return (
        "n=0; while :; do n=$((n+1)); RUNSPEC_ATTEMPT=$n; export RUNSPEC_ATTEMPT; c=0; "
        f"( {line}\n) || c=$?; "
        f'echo "$n $c $(date +%s)" >> "$AZ_BATCHAI_STDOUTERR_DIR/{ATTEMPTS_FILE}"; '
        f'if [ "$c" -eq 0 ] || [ "$n" -ge {attempts} ]; then exit "$c"; fi; {_rules(retry.get(RULES, ()))}done'
    )


def _rules(rules: Sequence[Mapping[str, Any]]) -> str:
    """Return shell text that exits with the exit code $c if *rules* end the job with it."""
    cases = []
    for rule in (rule for rule in rules if "reason" not in rule):
        ranges = rule.get("codes", ())
        codes = [str(code) for first, last in ranges for code in range(first, last + 1)]
        then = 'exit "$c"' if rule["action"] == STOP else ":"
        pattern = "|".join(codes) or "*"
        cases.append(f"{pattern}) {then};;")
    return f'case "$c" in {" ".join(cases)} esac; ' if cases else ""


def hosts(slots: int, names: Sequence[str]) -> str:
    """Return shell text that sets the arguments of mpirun: a host file in its format, and variables for ranks.

    The host file of the service has the format of Open MPI, with its own number of slots; MPICH and Intel MPI
    refuse "slots=" and need HOST:COUNT. Open MPI passes only the variables *names* to other nodes. Network
    interfaces that containers cannot use are excluded, as in the recipes.
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
    """Return the line that starts *line* as *count* processes, with the arguments that `hosts` sets."""
    return f'mpirun -n {count} "$@" {line}'
