"""The probes of this provider: each checks an assumption of docs/unverified.md on a real cluster."""

from __future__ import annotations

import time
from collections.abc import Sequence

from runspec_jobs.provider import RemoteError, Request, Unavailable
from runspec_jobs.provider.probe import Observation, Probe, ProbeContext, Verdict
from runspec_parallelcluster.client import ParallelClusterClient
from runspec_parallelcluster.lookup import DONE, address_of

PAUSE_S = 2.0
MACHINE_S = 1200.0  # for a machine to start and the job to end
ARCHIVED_S = 300.0
# Dollars for some minutes of a machine of the first queue, on which the price depends.
MACHINE = 0.20
KNOWN_STATES = ("COMPLETED", "COMPLETING")

PYTHON = """\
"$1" -c 'import sys; print(sys.version.split()[0]); sys.exit(sys.version_info < (3, 6))'
code=$?
scontrol --version
exit $code
"""
SUDO = "sudo -n true\n"
SACCT = "sacct -n -X -S now 2>&1; echo $?\n"
# The workspace is the current folder. The files are made below its runs/, like those of a run.
LUSTRE = """\
[ "$(stat -f -c %T . 2>/dev/null)" = lustre ] || { echo none; exit 0; }
mkdir -p "runs/$1" && f=$PWD/runs/$1/archived && echo first >"$f" && lfs hsm_state "$f"
"""
ARCHIVE = 'sudo -n lfs hsm_archive "$PWD/runs/$1/archived"\n'
STATE = 'lfs hsm_state "$PWD/runs/$1/archived"\n'
CHANGE = 'echo second >>"$PWD/runs/$1/archived"; lfs hsm_state "$PWD/runs/$1/archived"\n'
# A job that requeues itself once, as jobs of runspec do.
JOB = """\
#!/bin/sh
echo "attempt ${SLURM_RESTART_COUNT:-0}"
[ -n "$SLURM_RESTART_COUNT" ] && exit 0
scontrol requeue "$SLURM_JOB_ID"
sleep 300
"""
SUBMIT = """\
mkdir -p "runs/$1" && cat >"runs/$1/job.sh" &&
sbatch --parsable --job-name="$1" --requeue --open-mode=append --output="runs/$1/log" "runs/$1/job.sh"
"""
LOG = 'cat "runs/$1/log" 2>/dev/null; exit 0\n'
QUEUE = "squeue -h -t all -o '%T' --name=\"$1\"\n"


def probes() -> Sequence[Probe]:
    return (
        Probe("pcluster-1", "describe-cluster has the fields that runspec reads", 10, 0, described),
        Probe("pcluster-2", "The head node has python3 3.6 and Slurm's commands", 5, 0, tools),
        Probe("pcluster-3", "The login of the head node may use sudo", 5, 0, sudo),
        Probe("pcluster-4", "sacct answers or says that there is no accounting", 5, 0, accounting),
        Probe("pcluster-5", "A file of FSx for Lustre can be archived", 300, 0, archived),
        Probe(
            "pcluster-6",
            "A job that requeues itself is requeued, with one log",
            1200,
            MACHINE,
            requeued,
        ),
    )


def said(holds: bool, seen: str) -> Observation:
    """Return the verdict on an assumption: confirmed if it *holds*, else refuted."""
    return Observation(Verdict.CONFIRMED if holds else Verdict.REFUTED, seen)


def on_head(client: ParallelClusterClient, script: str, *args: str, content: str = "") -> str:
    """Run *script* in the workspace on the head node and return its output. Raises RemoteError if it fails."""
    fed = [content.encode()] if content else None
    output = client.ask(lambda slurm: slurm.store.change("a probe", script, *args, content=fed))
    return (output or b"").decode(errors="replace").strip()


def folder(client: ParallelClusterClient, context: ProbeContext) -> str:
    """Return the name of this session's folder in the workspace, and note it for removal."""
    where = f"{client.options.workspace}/runs/{context.name}"
    remove = Request("folder", "remove_run", {"run": context.name})
    context.note(f"the folder {where}", f"on the head node: rm -r {where}", remove)
    return context.name


def described(client: ParallelClusterClient, _: ProbeContext) -> Observation:
    if client.options.cluster is None:
        return Observation(Verdict.UNKNOWN, "the profile names no cluster")
    cluster = client.clusters.describe(client.options.cluster)
    if cluster is None:
        return Observation(Verdict.UNKNOWN, f"there is no cluster {client.options.cluster}")
    status, fleet, head = (
        cluster.get("clusterStatus"),
        cluster.get("computeFleetStatus"),
        address_of(cluster),
    )
    seen = f"clusterStatus {status}, computeFleetStatus {fleet}, head node {'known' if head else 'unknown'}"
    return said(status in DONE and bool(fleet) and bool(head) and "tags" in cluster, seen)


def tools(client: ParallelClusterClient, _: ProbeContext) -> Observation:
    try:
        output = on_head(client, PYTHON, client.options.python)
    except RemoteError as exc:
        return said(False, exc.message)
    return said("slurm" in output, f"python {', '.join(output.splitlines())}")


def sudo(client: ParallelClusterClient, _: ProbeContext) -> Observation:
    try:
        on_head(client, SUDO)
    except RemoteError as exc:
        return said(False, exc.message)
    return said(True, "sudo -n true ends with 0")


def accounting(client: ParallelClusterClient, _: ProbeContext) -> Observation:
    *lines, code = on_head(client, SACCT).splitlines()
    output = " ".join(lines) or "nothing"
    return said(code == "0" or "accounting" in output.lower(), f"exit code {code}, {output}")


def archived(client: ParallelClusterClient, context: ProbeContext) -> Observation:
    name = folder(client, context)
    first = on_head(client, LUSTRE, name)
    if first == "none":
        return Observation(Verdict.UNKNOWN, "the workspace is not on FSx for Lustre")
    on_head(client, ARCHIVE, name)
    began = time.monotonic()
    while "archived" not in (output := on_head(client, STATE, name)):
        if time.monotonic() - began > ARCHIVED_S:
            return said(False, f"after {ARCHIVED_S:.0f} s: {_state(output)}")
        context.sleep(PAUSE_S)
    took_s = time.monotonic() - began
    after = on_head(client, CHANGE, name)
    begins = all(line.startswith("/") and ":" in line for line in (first, output, after))
    holds = begins and "dirty" not in output and "dirty" in after
    seen = f"new: {_state(first)}; after {took_s:.0f} s: {_state(output)}; changed: {_state(after)}"
    return said(holds, seen)


def _state(line: str) -> str:
    return line.rpartition(": ")[2]


def requeued(client: ParallelClusterClient, context: ProbeContext) -> Observation:
    name = folder(client, context)
    cancel = Request("slurm", "scancel", {"name": name})
    context.note(f"jobs {name}", f"on the head node: scancel --name={name}", cancel)
    on_head(client, SUBMIT, name, content=JOB)
    end = time.monotonic() + MACHINE_S
    while "attempt 1" not in on_head(client, LOG, name):
        if time.monotonic() > end:
            raise Unavailable(
                f"the job has not begun a second attempt in {MACHINE_S / 60:.0f} minutes"
            )
        context.sleep(PAUSE_S)
    log = [line for line in on_head(client, LOG, name).split("\n") if line.startswith("attempt ")]
    context.sleep(PAUSE_S)
    state = on_head(client, QUEUE, name)
    holds = log == ["attempt 0", "attempt 1"] and state in KNOWN_STATES
    return said(holds, f"the log has {log}, and squeue lists the job as {state or 'nothing'}")
