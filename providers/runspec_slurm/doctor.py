"""Checks of a cluster before a job needs it: `runspec doctor slurm`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runspec_jobs.provider import Finding, RunspecError, Step
from runspec_slurm.discover import query
from runspec_slurm.options import SlurmOptions, split_partitions
from runspec_slurm.queue import Queue
from runspec_slurm.session.process import CLEAN, Done
from runspec_slurm.session.transport import Transport, transport
from runspec_slurm.store.workspace import PATTERN, PLAIN, WHERE, WorkspaceStore

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun")
HAVE = f'{CLEAN}\nfor c; do command -v "$c" >/dev/null || printf \'%s \' "$c"; done\n'
PING = f"{CLEAN}\nscontrol ping\n"
# Both commands print nothing if the cluster is in no federation.
FEDERATION = f"""\
{CLEAN}
scontrol show federation 2>/dev/null | sed -n 's/^Federation: */federation /p'
scontrol show config | sed -n '/(null)/d; s/^FederationParameters *= *\\(..*\\)/FederationParameters=\\1/p'
"""
# Makes a file, a hard link and a digest, which claims and uploads need. Prints the mode, owner and type of the folder.
TRY = f"""\
{WHERE}
mkdir -p -- "$w" && cd -- "$w" || exit 1
{PLAIN}
t=.rs-doctor.$$
trap 'rm -f -- "$t" "$t.2"' EXIT
: >"$t" && ln -- "$t" "$t.2" || exit 2
sha256sum <"$t" >/dev/null || exit 3
stat -c '%a %u' . 2>/dev/null
id -u
stat -f -c %T . 2>/dev/null
exit 0
"""
WORKSPACE = {
    1: ("cannot be made or entered", "set option workspace to another folder"),
    2: (
        "does not support hard links, by which a job claims its run",
        "use a folder on NFS, Lustre, ...",
    ),
    3: ("cannot be checked without sha256sum", "install coreutils on the login node"),
    PATTERN: (
        "has % or a backslash in its path, which Slurm takes for a pattern",
        "set option workspace in the profile to a folder of plain names",
    ),
}
# Asks Slurm when the job would start; nothing is submitted: https://slurm.schedmd.com/sbatch.html#OPT_test-only
WOULD_RUN = f"""\
{CLEAN}
{WHERE}
cd -- "$w" || exit 1
exec sbatch --test-only "$@" 2>&1
"""
OWN_DISKS = ("tmpfs", "ramfs", "overlayfs")
PATIENCE_S = 30.0
HARD = "ask for less, or set partition, account or qos in the profile: sinfo and sacctmgr show what there is"


def examine(options: SlurmOptions, job: Sequence[str] | None = None) -> Iterator[Finding]:
    """Yield the findings; checks that need something which is missing are left out.

    With the options of sbatch for one *job*, only what stops that job is a problem.
    """
    connection = transport(options.host, options.ssh_options)
    said, done = _run(connection, HAVE, *COMMANDS)
    if done is None:
        yield said
        return
    # Without the commands of Slurm, all checks below would fail for the same reason.
    if missing := done.out.decode().split():
        what = f"{connection.where} has no {', '.join(missing)}"
        hint = "set option host to a login node of the cluster" if options.host is None else None
        yield Finding(what, False, hint or "check that it is a login node with Slurm on its PATH")
        return
    yield Finding(f"{connection.where} has Slurm's commands", True)
    yield _controller(connection)
    yield from examine_workspace(connection, options, of_job=job is not None)
    facts = query(connection, options)
    yield from _partitions(facts, options) if job is None else check_partitions(facts, job)
    yield from _tools(facts, options)
    yield from _federation(connection)
    yield _memory(facts, Queue(WorkspaceStore(connection, options.workspace)))


def examine_job(options: SlurmOptions, steps: Sequence[Step]) -> Iterator[Finding]:
    """Yield the findings about the cluster, and whether Slurm would accept the job of *steps*.

    The arrays of a job are of one kind, so that the first speaks for all.
    """
    submits = [step.do.params for step in steps if step.do.operation == "sbatch"]
    well = True
    for finding in examine(options, submits[0]["argv"] if submits else ()):
        well = well and finding.ok
        yield finding
    if not well or not submits:
        return
    connection = transport(options.host, options.ssh_options)
    argv, script = submits[0]["argv"], str(submits[0]["script"])
    said, done = _run(connection, WOULD_RUN, options.workspace, *argv, content=script.encode())
    if done is None:
        yield said
        return
    lines = [line.removeprefix("sbatch: ") for line in _text(done).splitlines() if line.strip()]
    text = lines[-1] if lines else "sbatch --test-only printed nothing"
    yield Finding(
        f"Slurm would accept the job: {text}" if done.code == 0 else text, done.code == 0, HARD
    )


def _text(done: Done) -> str:
    return done.out.decode(errors="replace")


def _run(
    connection: Transport, script: str, *args: str, content: bytes | None = None
) -> tuple[Finding, Done | None]:
    given = None if content is None else [content]
    try:
        done = connection.run(script, args, given, timeout_s=PATIENCE_S)
    except RunspecError as exc:
        return Finding(
            exc.message, False, exc.hint or "check the options host and ssh_options"
        ), None
    if done.lost:
        what = (
            f"{connection.where} does not answer: {done.err.splitlines()[-1] if done.err else ''}"
        )
        return Finding(what.rstrip(": "), False, "check that it is up, and try ssh by hand"), None
    return Finding(connection.where, True), done


def _controller(connection: Transport) -> Finding:
    said, done = _run(connection, PING)
    if done is None:
        return said
    text = done.out.decode(errors="replace").strip().partition("\n")[0]
    up = "is UP" in done.out.decode(errors="replace")
    hint = "check that munge is running and SLURM_CONF is right, or ask the administrators of the cluster"
    return Finding(
        text or done.err.partition("\n")[0] or "the controller does not answer", up, hint
    )


def examine_workspace(
    connection: Transport, options: SlurmOptions, *, of_job: bool = False
) -> Iterator[Finding]:
    """Yield the findings about the workspace; *of_job*: only what stops a job is a problem."""
    said, done = _run(connection, TRY, options.workspace)
    name = f"the workspace {options.workspace}"
    if done is None:
        yield said
    elif done.code:
        what, hint = WORKSPACE.get(done.code, WORKSPACE[1])
        yield Finding(f"{name} {what}", False, hint)
    else:
        # A system without GNU stat prints nothing for the mode and the type, which are then not checked.
        mode, owner, user, kind = [*done.out.decode().split(), "", "", "", ""][:4]
        yield Finding(f"{name} is writable", True)
        # Logs and the settings of jobs are in the workspace, and may be nobody else's business.
        if owner != user or not mode.endswith("00"):
            hint = f"chmod 700 {options.workspace}"
            yield Finding(f"other users can access {name} (mode {mode})", of_job, hint)
        if kind in OWN_DISKS:
            hint = "set option workspace to a folder that the login node and all nodes share"
            yield Finding(f"{name} is on {kind}, which other machines cannot see", False, hint)


def _partitions(facts: Mapping[str, Any], options: SlurmOptions) -> Iterator[Finding]:
    there: Mapping[str, Mapping[str, Any]] = facts.get("partitions", {})
    if not there:
        yield Finding(
            "the cluster lists no partition", False, "check with sinfo -s that you may use it"
        )
        return
    # sbatch without a partition takes the default one, and a cluster need not have one.
    default = [name for name, partition in there.items() if partition["default"]]
    wanted = [*(split_partitions(options.partition) or default)]
    if not wanted:
        yield Finding(
            "the cluster has no default partition",
            False,
            f"set option partition to one of {', '.join(there)}",
        )
    for name in [*wanted, *split_partitions(options.spot_partition)]:
        if name not in there:
            yield Finding(f"there is no partition {name}", False, f"use one of {', '.join(there)}")
        else:
            yield _partition(name, there[name])


def check_partitions(facts: Mapping[str, Any], job: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding about each partition of the job, of which one is enough. Slurm says which do not exist."""
    there: Mapping[str, Mapping[str, Any]] = facts.get("partitions", {})
    start = "--partition="
    named = [
        name for word in job if word.startswith(start) for name in word[len(start) :].split(",")
    ]
    default = [name for name, partition in there.items() if partition["default"]]
    found = [_partition(name, there[name]) for name in named or default if name in there]
    well = any(finding.ok for finding in found)
    yield from (finding._replace(ok=finding.ok or well) for finding in found)


def _partition(name: str, said: Mapping[str, Any]) -> Finding:
    gpus = sum(said["gpus"].values())
    parts = [f"{said['nodes'] or 0} nodes", f"{said['cpus'] or 0} cpus each"]
    if said["memory_mb"]:
        parts.append(f"{said['memory_mb']:,} MiB")
    if gpus:
        parts.append(f"{gpus} GPUs")
    what = f"partition {name} is {said['state']}: {', '.join(parts)}"
    return Finding(what, said["state"] == "up", "wait, or use another partition")


def _federation(connection: Transport) -> Iterator[Finding]:
    """Yield a finding if the cluster is in a federation: https://slurm.schedmd.com/federation.html"""
    _, done = _run(connection, FEDERATION)
    said = "" if done is None else done.out.decode(errors="replace").strip()
    if said:
        what = f"the cluster is part of a federation, which runspec does not support ({said})"
        hint = "use another cluster: in a federation, a job may begin on a cluster that does not have the workspace"
        yield Finding(what, False, hint)


def _tools(facts: Mapping[str, Any], options: SlurmOptions) -> Iterator[Finding]:
    python = facts.get("python")
    if python is None:
        what = f"there is no {options.python}, which starts every job"
        yield Finding(what, False, "set option python to the path of the nodes' Python")
    else:
        new = tuple(int(word) for word in python.split(".")[:2]) >= (3, 6)
        hint = "set option python to the path of a Python 3.6 or newer"
        yield Finding(f"{options.python} is Python {python}", new, hint)
    engines = ", ".join(facts.get("containers", ())) or "none"
    yield Finding(f"container engines: {engines}; single nodes may differ", True)


def _memory(facts: Mapping[str, Any], queue: Queue) -> Finding:
    """Return how long Slurm keeps ended jobs, and whether there is accounting, which is optional."""
    seconds = facts.get("remembers_s")
    try:
        there = queue.accounts()
    except RunspecError:
        there = False
    which = "is available" if there else "is not available, and not needed"
    return Finding(f"Slurm keeps ended jobs for {seconds or 0:,} s; accounting {which}", True)
