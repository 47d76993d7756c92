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
    not_in_profile,
    secret_problems,
)
from runspec_slurm import resources
from runspec_slurm.check import partition_fit
from runspec_slurm.containers import images
from runspec_slurm.decision import EARLY_S, Decision
from runspec_slurm.job import extra_options, script
from runspec_slurm.naming import setting
from runspec_slurm.options import SlurmOptions

RESERVED = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_")
OWN_SECRETS = ("env", "file")
# The default of SchedulerParameters=max_script_size: https://slurm.schedmd.com/slurm.conf.html
MOST_SCRIPT_BYTES = 4 << 20
MOST_LEAD_S = 65_535  # https://slurm.schedmd.com/sbatch.html#OPT_signal
HOUR_S = 3600


def problems(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    options = decision.options
    yield from _nodes(decision)
    yield from _variables(spec)
    if not decision.is_contained:
        yield from literal_paths(spec, "on a node of Slurm without an image")
    if facts.complete:
        yield from extra_options.problems(spec, options)
        yield from partition_fit.problems(decision, spec, facts)
        yield from _limits(decision, spec)
        yield from options.login_problems()
        yield from images.problems(decision, spec, facts)
        yield from _mpi(decision, spec, facts)
        yield from _mounts(spec, options)
        yield from secret_problems(spec, options, spec.provider, "'env:NAME'", _secret)
        yield from _script(decision, spec)


def _nodes(decision: Decision) -> Iterator[Problem]:
    if decision.one_switch:
        what = "requests nodes of one switch, for which Slurm waits five minutes at most by default"
        yield Problem(("cluster", "placement"), what, severity="note")


def _variables(spec: Spec) -> Iterator[Problem]:
    """Yield variables that Slurm itself reads.

    https://slurm.schedmd.com/sbatch.html#SECTION_INPUT-ENVIRONMENT-VARIABLES
    """
    for where in ("env", "secrets"):
        for name in getattr(spec, where):
            if name.startswith(RESERVED):
                what = f"{name.partition('_')[0]}_* belongs to Slurm"
                yield Problem((where, name), what, "rename it", at="key")


def _limits(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield the problems of the time limits of the partitions, and of the grace period."""
    limit, partitions = decision.time_limit, decision.partitions
    if limit.lead_s > MOST_LEAD_S:
        what = f"grace is {decision.options.grace:,} s, but Slurm signals a job at most 65,535 s before its limit"
        yield Problem(setting(spec, "grace"), what, "set grace: 18h or shorter")
    names = " and ".join(p.name for p in partitions)
    early_s = limit.lead_s + EARLY_S
    short = [p for p in partitions if p.max_time_s is not None and p.max_time_s <= early_s]
    if short:
        what = (
            f"the partition '{short[0].name}' has a time limit of {_long(short[0].max_time_s or 0)}, and jobs are "
            f"told to end up to {early_s} s before it, which is at their start"
        )
        yield Problem(setting(spec, "grace"), what, "use another partition")
    elif spec.timeout is None:
        ends = [p.default_time_s or p.max_time_s for p in partitions]
        if first := min(filter(None, ends), default=None):
            what = f"without timeout, the partition '{names}' ends the job after {_long(first)}"
            yield Problem(("provider",), what, severity="note")
    elif limit.most_s is not None and spec.timeout > limit.most_s:
        most = f"the time limit of the partition '{names}', {_long(limit.most_s)}"
        what = f"{_long(spec.timeout)} is longer than {most}"
        hint = f"set timeout: {limit.most_s}s or shorter, or use another partition"
        yield Problem(("timeout",), what, hint)
    elif limit.most_s is not None and (limit.wanted_s or 0) > limit.most_s:
        most = f"the time limit of the partition '{names}' is {_long(limit.most_s)}"
        what = f"{most}: jobs must end up to {early_s} s before it"
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


def _mpi(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    options, plugin = decision.options, decision.mpi
    if spec.launch is not Launch.MPI or options.mpi == "mpirun":
        return
    at = setting(spec, "mpi")
    if options.mpi == "auto":
        starter = f"srun --mpi={plugin}" if plugin else "the environment's own mpirun"
        yield Problem(at, f"mpi: auto: {starter} starts the ranks", severity="note")
        return
    if decision.elastic:
        what = "mpi: srun cannot start processes in another job, and each node of an elastic job is a job"
        yield Problem(at, what, "set mpi: mpirun")
        return
    if decision.is_contained:
        hint = "set mpi: mpirun, or container: none"
        yield Problem(at, "mpi: srun needs the command srun, which images do not have", hint)
    plugins = resources.read_cluster(facts).get("mpi")
    if plugins is not None and plugin not in plugins:
        lacking = f"no {options.mpi_type}" if options.mpi_type else "neither pmix nor pmi2"
        what = f"mpi: srun is set, but the cluster has {lacking}"
        listed = f", or set mpi_type to one of {', '.join(plugins)}" if plugins else ""
        yield Problem(at, what, f"set mpi: mpirun, which needs no plugin{listed}")


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


def _script(decision: Decision, spec: Spec) -> Iterator[Problem]:
    if any(
        m.scheme == "shared" and m.place.partition("/")[0] not in decision.options.shared
        for m in spec.mounts
    ):
        return
    size = len(script.write_script(decision, spec, "r" * 47).encode())
    if size > MOST_SCRIPT_BYTES:
        what = f"the batch script has {size:,} bytes with env, but Slurm accepts at most {MOST_SCRIPT_BYTES:,}"
        yield Problem(("env",), what, "put large values into a file of a mount", at="key")
