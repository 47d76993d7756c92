"""Checks of a spec for Slurm: what is not supported, or would wait for ever, each with a hint."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_jobs.provider import (
    Facts,
    Launch,
    Path,
    Problem,
    Spec,
    literal_paths,
    nodes_each,
    not_in_profile,
    secret_problems,
)
from runspec_slurm import resources
from runspec_slurm.check import partition_fit
from runspec_slurm.containers import containers, images
from runspec_slurm.job import extra_options, script, time_limit
from runspec_slurm.naming import setting
from runspec_slurm.options import SlurmOptions

RESERVED = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_")
OWN_SECRETS = ("env", "file")
# The default of SchedulerParameters=max_script_size: https://slurm.schedmd.com/slurm.conf.html
MOST_SCRIPT_BYTES = 4 << 20
HOUR_S = 3600


def problems(spec: Spec, facts: Facts) -> Iterator[Problem]:
    options: SlurmOptions = facts.options
    yield from _nodes(spec)
    yield from _words(spec)
    if containers.engine(spec, facts) == "none":
        yield from literal_paths(spec, "on a node of Slurm without an image")
    if facts.complete:
        yield from extra_options.problems(spec, options)
        yield from partition_fit.problems(spec, facts)
        yield from _limits(spec, facts)
        yield from options.login_problems()
        yield from images.problems(spec, facts)
        yield from _mpi(spec, facts)
        yield from _mounts(spec, options)
        yield from secret_problems(spec, options, spec.provider, "'env:NAME'", _secret)
        yield from _script(spec, facts)


def _nodes(spec: Spec) -> Iterator[Problem]:
    if spec.cluster.placement and nodes_each(spec) > 1:
        what = "requests nodes of one switch, for which Slurm waits five minutes at most by default"
        yield Problem(("cluster", "placement"), what, severity="note")


def _words(spec: Spec) -> Iterator[Problem]:
    """Yield variables that Slurm itself reads.

    https://slurm.schedmd.com/sbatch.html#SECTION_INPUT-ENVIRONMENT-VARIABLES
    """
    for where in ("env", "secrets"):
        for name in getattr(spec, where):
            if name.startswith(RESERVED):
                what = f"{name.partition('_')[0]}_* belongs to Slurm"
                yield Problem((where, name), what, "rename it", at="key")


def _limits(spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield the problems of the time limits of the partitions, and of the grace period."""
    options: SlurmOptions = facts.options
    if time_limit.lead_s(options) > time_limit.MOST_LEAD_S:
        what = f"grace is {options.grace:,} s, but Slurm signals a job at most 65,535 s before its limit"
        yield Problem(setting(spec, "grace"), what, "set grace: 18h or shorter")
    most, there = time_limit.most_s(spec, facts), resources.partitions(spec, facts)
    where = " and ".join(p.name for p in there)
    early_s = time_limit.lead_s(options) + time_limit.EARLY_S
    short = [p for p in there if p.max_time_s is not None and p.max_time_s <= early_s]
    if short:
        what = (
            f"the partition '{short[0].name}' has a time limit of {_long(short[0].max_time_s or 0)}, and jobs are "
            f"told to end up to {early_s} s before it, which is at their start"
        )
        yield Problem(setting(spec, "grace"), what, "use another partition")
    elif spec.timeout is None:
        ends = [p.default_time_s or p.max_time_s for p in there]
        if first := min(filter(None, ends), default=None):
            what = f"without timeout, the partition '{where}' ends the job after {_long(first)}"
            yield Problem(("provider",), what, severity="note")
    elif most is not None and spec.timeout > most:
        what = f"{_long(spec.timeout)} is longer than the time limit of the partition '{where}', {_long(most)}"
        hint = f"set timeout: {most}s or shorter, or use another partition"
        yield Problem(("timeout",), what, hint)
    elif most is not None and time_limit.wanted_s(spec.timeout, options) > most:
        what = f"the time limit of the partition '{where}' is {_long(most)}: jobs must end up to {early_s} s before it"
        yield Problem(("timeout",), what, severity="note")


def _long(seconds: int) -> str:
    """Return a duration in the notation of specs.

    >>> _long(5400), _long(90), _long(172_800)
    ('1h30m', '1m30s', '2d')
    """
    parts, left = [], seconds
    for unit, size in (("d", 86_400), ("h", HOUR_S), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def _mpi(spec: Spec, facts: Facts) -> Iterator[Problem]:
    options: SlurmOptions = facts.options
    if spec.launch is not Launch.MPI or options.mpi == "mpirun":
        return
    at = setting(spec, "mpi")
    if options.mpi == "auto":
        plugin = script.mpi(spec, facts)
        who = f"srun --mpi={plugin}" if plugin else "the environment's own mpirun"
        yield Problem(at, f"mpi: auto: {who} starts the ranks", severity="note")
        return
    if spec.cluster.nodes.elastic:
        what = "mpi: srun cannot start processes in another job, and each node of an elastic job is a job"
        yield Problem(at, what, "set mpi: mpirun")
        return
    if images.contained(spec, facts):
        hint = "set mpi: mpirun, or container: none"
        yield Problem(at, "mpi: srun needs the command srun, which images do not have", hint)
    there = resources.found(facts).get("mpi")
    plugin = script.mpi(spec, facts)
    if there is not None and plugin not in there:
        asked = options.mpi_type or "pmix nor pmi2"
        what = f"mpi: srun is set, but the cluster has {'no' if options.mpi_type else 'neither'} {asked}"
        listed = f"or set mpi_type to one of {', '.join(there)}" if there else ""
        hint = "set mpi: mpirun, which needs no plugin" + (f", {listed}" if listed else "")
        yield Problem(at, what, hint)


def _mounts(spec: Spec, options: SlurmOptions) -> Iterator[Problem]:
    for i, mount in enumerate(spec.mounts):
        at = ("mounts", i, "source")
        if mount.scheme != "file" and mount.place.startswith("/"):
            yield Problem(at, f"'{mount.source}' is an absolute path", "remove the third /")
        elif mount.scheme == "store" and not mount.read_only:
            hint = "declare an output instead, or set mode: ro"
            yield Problem(("mounts", i, "mode"), "files written there would be lost", hint)
        elif mount.scheme == "shared":
            key = mount.place.partition("/")[0]
            if key not in options.shared:
                entry = f"{spec.provider}: {{shared: {{{key}: /FOLDER}}}}"
                yield not_in_profile("shared folder", at, key, options.shared, entry)


def _secret(at: Path, _key: str, source: str) -> Iterator[Problem]:
    kind = source.partition(":")[0]
    if kind not in OWN_SECRETS:
        what = f"secrets of Slurm jobs cannot come from '{kind}:'"
        yield Problem(at, what, "use env:NAME or file:/path on the machine that runs apply")
    else:
        what = "is stored in a file of the workspace until the run is destroyed; only you and root can read it"
        yield Problem(at, what, severity="note")


def _script(spec: Spec, facts: Facts) -> Iterator[Problem]:
    if any(
        m.scheme == "shared" and m.place.partition("/")[0] not in facts.options.shared
        for m in spec.mounts
    ):
        return
    size = len(script.text(spec, "r" * 47, facts).encode())
    if size > MOST_SCRIPT_BYTES:
        what = f"the batch script has {size:,} bytes with env, but Slurm accepts at most {MOST_SCRIPT_BYTES:,}"
        yield Problem(("env",), what, "put large values into a file of a mount", at="key")
