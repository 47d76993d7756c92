"""The time limit of a job in Slurm: minutes, which Slurm checks twice a minute."""

from __future__ import annotations

from runspec_jobs.provider import Facts, Spec
from runspec_slurm import resources
from runspec_slurm.options import SlurmOptions

MINUTE_S = 60
# "Due to the resolution of event handling by Slurm, the signal may be sent up to 60 seconds earlier":
# https://slurm.schedmd.com/sbatch.html#OPT_signal
EARLY_S = 60
SPARE_S = 30  # for saving the outputs after the program has ended
MOST_LEAD_S = 65_535  # the same page


def lead_s(options: SlurmOptions) -> int:
    """Return how many seconds before its limit Slurm signals a job."""
    return options.grace + SPARE_S


def wanted_s(timeout_s: int, options: SlurmOptions) -> int:
    """Return the time limit to request from Slurm, so that it sends no signal before *timeout_s* have passed.

    The agent in the job enforces the timeout itself, to the second. Slurm's limit only ends a job whose agent does not.
    """
    whole = timeout_s + EARLY_S + lead_s(options)
    return -(-whole // MINUTE_S) * MINUTE_S


def most_s(spec: Spec, facts: Facts) -> int | None:
    """Return the smallest time limit of the partitions; None if none is known."""
    bounds = [p.max_time_s for p in resources.partitions(spec, facts)]
    return min((bound for bound in bounds if bound is not None), default=None)


def minutes(spec: Spec, facts: Facts) -> int | None:
    """Return `--time`; None for the default of the partition. It is never 0, which would mean no limit."""
    if spec.timeout is None:
        return None
    most = most_s(spec, facts)
    limit_s = wanted_s(spec.timeout, facts.options)
    if most is not None:
        limit_s = min(limit_s, most)
    return max(1, limit_s // MINUTE_S)
