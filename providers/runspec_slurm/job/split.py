"""How the tasks of a sweep are split into arrays: Slurm bounds the index of an array, and a sweep may be larger."""

from __future__ import annotations

from runspec_jobs.provider import Facts, Spec, tasks_in_all
from runspec_slurm import resources

# The default. An index is less than it: https://slurm.schedmd.com/slurm.conf.html#OPT_MaxArraySize
MAX_ARRAY = 1001
MOST_ARRAYS = 100  # of one run; each is a job of its own, and a request of its own


def largest(facts: Facts) -> int:
    """Return how many tasks an array of the cluster can have; the default of Slurm if that is unknown."""
    found: int | None = resources.found(facts).get("max_array")
    return MAX_ARRAY if found is None else found


def each(spec: Spec, facts: Facts) -> int:
    """Return the number of tasks in an array: all if they fit, else the largest power of ten that fits.

    With a power of ten, the number of the array and the padded index within it are together the number of the task, so
    Slurm can put it into the name of a log: `job.sbatch_argv.output`. The nodes of an elastic job stay in one array.
    """
    count, most = tasks_in_all(spec), largest(facts)
    if count <= most or spec.cluster.nodes.elastic:
        return count
    return int(10 ** (len(str(most)) - 1))


def arrays(spec: Spec, facts: Facts) -> int:
    """Return the number of arrays, or 1 for a job that is no array."""
    return -(-tasks_in_all(spec) // each(spec, facts))


def size(spec: Spec, facts: Facts, array: int) -> int:
    """Return the number of tasks in that array; the last one may be smaller."""
    most = each(spec, facts)
    return min(most, tasks_in_all(spec) - array * most)


def lanes(spec: Spec, facts: Facts) -> int:
    """Return how many arrays may run at a time with `max_parallel`, which Slurm knows for each array alone; 0: all.

    An array waits for the end of the one that many before it, and each runs its share of `max_parallel` at once.
    """
    if spec.max_parallel is None or arrays(spec, facts) == 1:
        return 0
    return -(-spec.max_parallel // each(spec, facts))
