"""Nodes of elastic jobs on this machine: each is a process of its own, which is started again when it is lost.

The run's folder is their store, and `runspec_agent.elastic` does the rest. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from runspec_agent.base.light_typing import Any
from runspec_agent.base.retry_rules import RULES
from runspec_local.supervisor.process import belonging

STOPPED, AGAIN = 143, 75  # exit codes of a node that was told to leave, and of one that was lost


def record(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record for `runspec_agent.job.agent`, without what the supervisor has done already."""
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
        **({"resume": job["resume"]} if "resume" in job else {}),
        **({RULES: job[RULES]} if RULES in job else {}),
    }


def argv(agent: Path) -> list[str]:
    """Return the command of a node's agent. The program gets the environment of the job, and its Python."""
    return [sys.executable, "-IS", str(agent), "job"]


def words(job: Mapping[str, Any], task: int, rank: int, folder: Path) -> dict[str, str]:
    """Return the variables of an agent of an elastic job, whose nodes do not know each other in advance."""
    return {
        "RUNSPEC_STORE": f"file://{Path(job['folder']).parent.parent}",  # keys begin with runs/RUN/
        "RUNSPEC_JOB": job["run"],
        "RUNSPEC_INDEX": str(index(job, task, rank)),
        "RUNSPEC_BELOW": str(folder),
        "RUNSPEC_SCRATCH": str(folder),  # removed with the run, also if the agent is killed
    }


def lost(code: int) -> bool:
    """Return whether the exit code means that the node was lost while the job goes on.

    It is negative after a signal.
    """
    return code < 0 or code in (STOPPED, AGAIN)


def index(job: Mapping[str, Any], task: int, rank: int) -> int:
    """Return the number of a node among the nodes of all tasks, by which its agent is known."""
    return task * int(job["nodes"]) + rank


def released(job: Mapping[str, Any], task: int, rank: int) -> bool:
    """Return whether a node was released, and not asked for since."""
    return Path(job["folder"], "released", str(index(job, task, rank))).exists()


def over(job: Mapping[str, Any], task: int) -> bool:
    """Return whether *task* has ended according to the state of its nodes, which then end by themselves."""
    try:
        state = json.loads(Path(job["folder"], "elastic", str(task), "state").read_bytes())
    except (OSError, ValueError):  # no node has written the state yet
        return False
    return bool(state.get("phase") == "done")


def end_rest(run: str, index: str) -> None:
    """Kill the processes that a lost node has left: a launcher that was killed cannot end its workers."""
    mark = f"RUNSPEC_INDEX={index}".encode()
    for pid in belonging(run):
        try:
            if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
        except OSError:  # the process has already ended
            continue
