"""What will stop a job on a cluster, looked at before anything is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runspec_jobs.provider import Finding, RunspecError
from runspec_slurm.discover.cluster import asked
from runspec_slurm.options import SlurmOptions
from runspec_slurm.queue import Queue
from runspec_slurm.session.clean_environment import CLEAN
from runspec_slurm.session.transport import Done, Transport, transport
from runspec_slurm.store.workspace import WHERE, WorkspaceStore

COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun")
HAVE = f'{CLEAN}\nfor c; do command -v "$c" >/dev/null || printf \'%s \' "$c"; done\n'
PING = f"{CLEAN}\nscontrol ping\n"
# Of a cluster that is in none, both say nothing.
FEDERATION = f"""\
{CLEAN}
scontrol show federation 2>/dev/null | sed -n 's/^Federation: */federation /p'
scontrol show config | sed -n '/(null)/d; s/^FederationParameters *= *\\(..*\\)/FederationParameters=\\1/p'
"""
# A file, a second name for it, and its digest: what claims and uploads need. Then what the file system is.
TRY = f"""\
{WHERE}
mkdir -p -- "$w" && cd -- "$w" || exit 1
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
    1: ("cannot be made, or not be entered", "set option workspace to another folder"),
    2: ("takes no hard links, by which a job claims its run", "name a folder on NFS, Lustre, ..."),
    3: ("cannot be checked: there is no sha256sum", "install coreutils on the login node"),
}
OWN_DISKS = ("tmpfs", "ramfs", "overlayfs")
PATIENCE_S = 30.0


def examine(options: SlurmOptions) -> Iterator[Finding]:
    """Yield what was found; whatever cannot be asked without what is missing is left out."""
    way = transport(options.host, options.ssh_options)
    said, done = _run(way, HAVE, *COMMANDS)
    if done is None:
        yield said
        return
    if missing := done.out.decode().split():
        what = f"{way.where} has no {', '.join(missing)}"
        hint = "set option host to a login node of the cluster" if options.host is None else None
        yield Finding(what, False, hint or "is it a login node? its PATH must lead to Slurm")
        return
    yield Finding(f"{way.where} has Slurm's commands", True)
    yield _controller(way)
    yield from _workspace(way, options)
    found = asked(way, options)
    yield from _partitions(found, options)
    yield from _tools(found, options)
    yield from _federation(way)
    yield _memory(found, Queue(WorkspaceStore(way, options.workspace)))


def _run(way: Transport, script: str, *args: str) -> tuple[Finding, Done | None]:
    try:
        done = way.run(script, args, timeout_s=PATIENCE_S)
    except RunspecError as exc:
        return Finding(exc.message, False, exc.hint or "see host and ssh_options"), None
    if done.lost:
        what = f"{way.where} gives no answer: {done.err.splitlines()[-1] if done.err else ''}"
        return Finding(what.rstrip(": "), False, "is it up? try ssh by hand"), None
    return Finding(way.where, True), done


def _controller(way: Transport) -> Finding:
    said, done = _run(way, PING)
    if done is None:
        return said
    text = done.out.decode(errors="replace").strip().partition("\n")[0]
    up = "is UP" in done.out.decode(errors="replace")
    hint = "ask whoever runs the cluster; is munge running, and SLURM_CONF right?"
    return Finding(text or done.err.partition("\n")[0] or "the controller is silent", up, hint)


def _workspace(way: Transport, options: SlurmOptions) -> Iterator[Finding]:
    said, done = _run(way, TRY, options.workspace)
    name = f"the workspace {options.workspace}"
    if done is None:
        yield said
    elif done.code:
        what, hint = WORKSPACE.get(done.code, WORKSPACE[1])
        yield Finding(f"{name} {what}", False, hint)
    else:
        mode, owner, user, kind = [*done.out.decode().split(), "", "", "", ""][:4]
        yield Finding(f"{name} can be written to", True)
        if owner != user or not mode.endswith("00"):
            hint = f"chmod 700 {options.workspace}"
            yield Finding(f"{name} is open to others ({mode})", False, hint)
        if kind in OWN_DISKS:
            hint = "name a folder that the login node and all nodes share"
            yield Finding(f"{name} is on {kind}, which no other machine sees", False, hint)


def _partitions(found: Mapping[str, Any], options: SlurmOptions) -> Iterator[Finding]:
    there: Mapping[str, Mapping[str, Any]] = found.get("partitions", {})
    if not there:
        yield Finding("no partition is told", False, "may you use this cluster? try sinfo -s")
        return
    default = [name for name, one in there.items() if one["default"]]
    wanted = [options.partition] if options.partition else default
    if not wanted:
        yield Finding("no partition is the default one", False, f"name one of {', '.join(there)}")
    for name in [*wanted, *([options.spot_partition] if options.spot_partition else [])]:
        if name not in there:
            yield Finding(f"there is no partition {name}", False, f"name one of {', '.join(there)}")
        else:
            yield _partition(name, there[name])


def _partition(name: str, said: Mapping[str, Any]) -> Finding:
    gpus = sum(said["gpus"].values())
    parts = [f"{said['nodes'] or 0} nodes", f"{said['cpus'] or 0} cpus each"]
    if said["memory_mb"]:
        parts.append(f"{said['memory_mb']:,} MiB")
    if gpus:
        parts.append(f"{gpus} GPUs")
    what = f"partition {name} is {said['state']}: {', '.join(parts)}"
    return Finding(what, said["state"] == "up", "wait, or name another partition")


def _federation(way: Transport) -> Iterator[Finding]:
    """https://slurm.schedmd.com/federation.html"""
    _, done = _run(way, FEDERATION)
    said = "" if done is None else done.out.decode(errors="replace").strip()
    if said:
        what = f"the cluster is one of a federation, which runspec does not support ({said})"
        hint = "a job may begin on another cluster, which has not the workspace: name a cluster that is in none"
        yield Finding(what, False, hint)


def _tools(found: Mapping[str, Any], options: SlurmOptions) -> Iterator[Finding]:
    python = found.get("python")
    if python is None:
        what = f"{options.python} is not there, and it starts every job"
        yield Finding(what, False, "set option python to the path of the nodes' Python")
    else:
        new = tuple(int(word) for word in python.split(".")[:2]) >= (3, 6)
        hint = "set option python to the path of a Python 3.6 or newer"
        yield Finding(f"{options.python} is Python {python}", new, hint)
    engines = ", ".join(found.get("containers", ())) or "nothing"
    yield Finding(f"images are run by {engines}; the nodes may have more or less than this", True)


def _memory(found: Mapping[str, Any], queue: Queue) -> Finding:
    """Nothing here needs the accounting: what jobs note in the workspace is enough."""
    seconds = found.get("remembers_s")
    try:
        there = queue.accounts()
    except RunspecError:
        there = False
    which = "answers" if there else "does not answer, and is not needed"
    return Finding(f"jobs are remembered for {seconds or 0:,} s; the accounting {which}", True)
