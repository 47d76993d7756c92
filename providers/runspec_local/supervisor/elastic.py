"""Nodes that come and go on this machine: each is a process of its own, which is started again when it is lost.

They meet in the run's folder, as they would in a store; `runspec_agent.elastic` does the rest. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_local.supervisor.process import belonging

STOPPED, AGAIN = 143, 75  # of a node that was told to go, and of one that lost its store


def record(job: Mapping[str, Any]) -> dict[str, Any]:
    """Give what `runspec_agent.job.agent` reads; what the supervisor has done by then is not in it."""
    return {
        "run": job["run"],
        "shape": "array",
        "nodes": job["nodes"],
        "elastic": job["elastic"],
        "slots": job["slots"],
        "launch": job["launch"],
        "attempts": job["attempts"],
        "argv": job["argv"],
        "outputs": job["outputs"],
        "sweep": [],
        "mounts": [],
        "requirements": [],
        "build_constraints": [],
        **({"global_batch": job["global_batch"]} if "global_batch" in job else {}),
    }


def argv(inside: Path) -> list[str]:
    """Give the words of a node's agent. The program gets the environment of the job, and its Python."""
    return [sys.executable, "-IS", str(inside), "job"]


def words(job: Mapping[str, Any], task: int, rank: int, folder: Path) -> dict[str, str]:
    """Give the variables of an agent, instead of those of a node that knows the others."""
    return {
        "RUNSPEC_STORE": f"file://{Path(job['folder']).parent.parent}",  # keys begin with runs/RUN/
        "RUNSPEC_JOB": job["run"],
        "RUNSPEC_INDEX": str(task * job["nodes"] + rank),
        "RUNSPEC_BELOW": str(folder),
        "RUNSPEC_SCRATCH": str(folder),  # it goes with the run, also when the agent is killed
    }


def lost(code: int) -> bool:
    """Say whether a node that ended so was lost, and the job not over. *code* is negative after a signal."""
    return code < 0 or code in (STOPPED, AGAIN)


def over(job: Mapping[str, Any], task: int) -> bool:
    """Say whether *task* has ended, as its nodes have it: then each ends by itself."""
    try:
        state = json.loads(Path(job["folder"], "elastic", str(task), "state").read_bytes())
    except (OSError, ValueError):
        return False
    return bool(state.get("phase") == "done")


def end_rest(run: str, index: str) -> None:
    """End what a lost node has left: a launcher that was killed cannot end its workers."""
    mark = f"RUNSPEC_INDEX={index}".encode()
    for pid in belonging(run):
        try:
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
        except OSError:  # it has ended by now
            continue
