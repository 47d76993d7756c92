"""The program with which slurmctld starts and ends nodes of a cloud: `power.py resume|suspend PLAN NODES`.

It replaces ParallelCluster's slurm_resume and slurm_suspend, which start and terminate EC2 instances:
https://github.com/aws/aws-parallelcluster-node. PLAN is a JSON file: see `Cloud`. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MARK = "SLURMD_NODENAME"
# slurmctld ignores a node that reports a boot before the second in which its start was requested. slurmd computes the
# time of its boot from whole seconds of uptime, which may be a second too early ("Still waiting for boot" at
# SlurmctldDebug=debug; seen with 22.05). So an emulated boot takes more than a second.
BOOT_S = 1.2
END_S = 3.0
# https://docs.aws.amazon.com/parallelcluster/latest/ug/slurm-short-capacity-fail-mode-v3.html
NO_CAPACITY = "(Code:InsufficientInstanceCapacity)Failure when resuming nodes"


def main() -> None:
    what, plan_file, nodes = sys.argv[1:4]
    # Children of slurmctld inherit its signal mask, with which SIGTERM could not end a slurmd.
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    plan = json.loads(Path(plan_file).read_text())
    os.environ.update(plan["env"])  # slurmctld gives no PATH
    names = scontrol(plan, "show", "hostnames", nodes).split()
    {"resume": resume, "suspend": suspend}[what](plan, names)


def resume(plan: dict[str, Any], names: list[str]) -> None:
    """Start a slurmd for each, or set it DOWN where there is no capacity."""
    time.sleep(BOOT_S)
    for name in names:
        if name in plan["without_capacity"]:
            scontrol(plan, "update", f"NodeName={name}", "State=DOWN", f"Reason={NO_CAPACITY}")
            continue
        with Path(plan["logs"], f"{name}.out").open("ab") as out:
            subprocess.Popen(
                # -b: report a boot now; slurmctld would ignore a node that has booted before.
                [plan["slurmd"], "-D", "-b", "-N", name],
                env={**plan["env"], MARK: name},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )


def suspend(plan: dict[str, Any], names: list[str]) -> None:
    """End the slurmd of each; where it does not end, kill it."""
    end = time.monotonic() + END_S
    pids = [pid for name in names if (pid := pid_of(Path(plan["pids"], f"{name}.pid"))) is not None]
    for pid in pids:
        send(pid, signal.SIGTERM)
    while pids and time.monotonic() < end:
        pids = [pid for pid in pids if send(pid, 0)]
        time.sleep(0.05)
    for pid in pids:
        send(pid, signal.SIGKILL)


def scontrol(plan: dict[str, Any], *arguments: str) -> str:
    done = subprocess.run(
        [plan["scontrol"], *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def pid_of(file: Path) -> int | None:
    """Return the process id in the file of a slurmd; None if that process is not a slurmd."""
    try:
        pid = int(file.read_text())
        return pid if b"slurmd" in Path(f"/proc/{pid}/cmdline").read_bytes() else None
    except (OSError, ValueError):
        return None


def send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main()
