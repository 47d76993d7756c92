"""Access to a node of a running job: a shell in its pod, and its ports.

A tunnel uses `exec`, too: the websocket protocol of `portforward` tells neither that no program listens nor the end of
one direction. The agent's relay, which is in each pod, does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from runspec_jobs.provider import Unavailable
from runspec_jobs.provider.types import ExecSpec, StdioProxy
from runspec_kubernetes import lookup, reasons
from runspec_kubernetes.attempts import Pod
from runspec_kubernetes.job import RUN
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.status import Runs

# Arguments: the type of the terminal, or `-`, and then those of the agent.
START = '[ "$1" = - ] || export TERM="$1"; shift; ' + RUN % '"$@"'
NONE = "-"
LOOPBACK = "127.0.0.1"


def shell(
    runs: Runs, run: str, task: int, rank: int, words: Sequence[str], *, terminal: bool
) -> ExecSpec:
    """Return the program that starts *words*, or a shell, with the environment and the folder of the node's program.

    The kernel shows these to the owner of the process, secrets included, and the command has the same owner.
    """
    pod = find_pod(runs, run, task, rank)
    tail = ["--", *words] if words else []
    kind = os.environ.get("TERM", "xterm") if terminal else NONE
    argv = ["enter", run, str(task), str(rank), *tail]
    return ExecSpec(_program(runs.session.options, pod.name, kind, argv, terminal=terminal))


def tunnel(runs: Runs, run: str, task: int, rank: int, port: int) -> StdioProxy:
    """Return a program that carries one connection to *port* of the node, at its RUNSPEC_HOST or at loopback."""
    pod = find_pod(runs, run, task, rank)
    hosts = [pod.body["status"].get("podIP"), LOOPBACK]
    argv = ["relay", ",".join(filter(None, hosts)), str(port)]
    return StdioProxy(_program(runs.session.options, pod.name, NONE, argv, terminal=False))


def find_pod(runs: Runs, run: str, task: int, rank: int) -> Pod:
    """Return the pod of a node. Raises Unavailable if its container does not run."""
    record = runs.record(run)
    index = task * int(record["nodes"]) + rank if record is not None else -1
    pods = runs.pods(run, anew=True).get(index)
    pod = pods[-1] if pods else None
    if pod is None or "running" not in reasons.container_state(pod.body):
        why = "" if pod is None or pod.over else reasons.waiting(pod.body)
        text = f"task {task}, node {rank} of {run} is not running"
        raise Unavailable(f"{text}: {why}" if why else text)
    if lookup.is_leaving(pod.body):
        raise Unavailable(f"task {task}, node {rank} of {run} is ending")
    return pod


def _program(
    options: KubernetesOptions, pod: str, kind: str, argv: Sequence[str], *, terminal: bool
) -> tuple[str, ...]:
    """Return the words that start `shell_stream`. -P: no module of the current folder takes the place of ours."""
    path = options.kubeconfig
    given = {
        "--kubeconfig": str(Path(path).expanduser().absolute()) if path else None,
        "--context": options.context,
    }
    settings = [f"{name}={value}" for name, value in given.items() if value]
    settings += ["--tty"] if terminal else []
    inside = ["/bin/sh", "-c", START, "sh", kind, *argv]
    program = [sys.executable, "-P", "-m", "runspec_kubernetes.shell_stream", *settings]
    return (*program, options.namespace, pod, "--", *inside)
