"""Access to a running node: a shell in its environment, and its ports."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from runspec_jobs.provider import Unavailable
from runspec_jobs.provider.types import Address, ExecSpec, Route, StdioProxy
from runspec_local import status
from runspec_local.session.container_engine import engine
from runspec_local.supervisor import events, process
from runspec_local.supervisor.node import AGENT_FOLDER, Node, host

# The type of the terminal depends on the user's terminal, not on the job.
TERMINAL = ("TERM", "COLORTERM")
PLAIN = "/bin/sh"
BEST = "command -v bash >/dev/null 2>&1 && exec bash; exec sh"  # the best shell of the image
PYTHON = "command -v python3 || command -v python"
ADDRESS = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"


def shell(
    folder: Path,
    at: tuple[int, int],
    words: Sequence[str],
    caller: Mapping[str, str],
    *,
    terminal: bool,
) -> ExecSpec:
    """Return the command that starts *words*, or a shell, in the folder of node *at* of the run in *folder*.

    For a process, it has the same environment as the node, including secrets: the kernel shows it to the owner of the
    process, and the new process has the same owner.
    """
    node = _running(folder, at)
    if node.contained:
        return ExecSpec(_exec(node, words, caller, terminal=terminal))
    pid, environment = _process(node, folder)
    env = {**environment, **{k: caller[k] for k in TERMINAL if k in caller}}
    line = (env.get("SHELL") or PLAIN,)
    if not os.access(line[0], os.X_OK):
        line = (PLAIN,)
    into = _into(pid, node) if node.job.get("namespace") else ()
    return ExecSpec((*into, *(_started(words) if words else line)), env, str(node.folder))


def _into(pid: int, node: Node) -> tuple[str, ...]:
    """Return the words before a command that start it in the namespaces of *pid*: nsenter(1).

    Without that program, it has the environment of the node and sees the root of the machine.
    """
    nsenter = shutil.which("nsenter")
    if nsenter is None:
        return ()
    here, there = (os.readlink(f"/proc/{who}/ns/user") for who in ("self", pid))
    kinds = ("--mount",) if here == there else ("--user", "--preserve-credentials", "--mount")
    line = (
        nsenter,
        "--target",
        str(pid),
        *kinds,
        "--",
        PLAIN,
        "-c",
        'cd "$1" && shift && exec "$@"',
    )
    return (*line, PLAIN, str(node.folder))


def _started(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command that starts *argv* as a shell does, with exit code 127 if the program does not exist."""
    return (PLAIN, "-c", 'exec "$@"', PLAIN, *argv)


def _exec(
    node: Node, words: Sequence[str], caller: Mapping[str, str], *, terminal: bool
) -> tuple[str, ...]:
    """Return the engine's command line; the new process gets the container's environment and folder."""
    line = [node.job["engine"], "exec", "--interactive"]
    if terminal:
        line.append("--tty")
    for name in TERMINAL:
        if terminal and name in caller:
            line += ["--env", name]
    return (*line, node.container, *(_started(words) if words else (PLAIN, "-c", BEST)))


def tunnel(folder: Path, at: tuple[int, int], port: int) -> Route:
    """Return the route to *port* of node *at*.

    A process has an address of this machine. A container's loopback address is in its own network: if the image has a
    Python, that relays the connection; otherwise the container's own address is used.
    """
    node = _running(folder, at)
    if not node.contained:
        return Address(host(node.rank), port)
    name = node.job["engine"]
    output = engine(name, "exec", node.container, PLAIN, "-c", PYTHON).stdout.split()
    if output:
        line = (name, "exec", "--interactive", node.container, output[0], "-IS")
        return StdioProxy(
            (*line, f"{AGENT_FOLDER}/runspec_inside.pyz", "relay", host(node.rank), str(port))
        )
    inspected = node.network if node.job["nodes"] > 1 else node.container
    addresses = engine(name, "container", "inspect", "--format", ADDRESS, inspected).stdout.split()
    if not addresses:
        message = f"cannot connect to the container {node.container}"
        raise Unavailable(message, "use an image that has python3")
    return Address(addresses[0], port)


def _running(folder: Path, at: tuple[int, int]) -> Node:
    """Return the node in its running attempt. Raise Unavailable if it is not running."""
    task, rank = at
    ours = [
        e
        for e in events.read(folder / "events.jsonl")
        if e["event"] == "node" and (e["task"], e["rank"]) == at
    ]
    who = status.supervisor(folder)
    alive = who is not None and process.alive(who)
    if not ours or ours[-1]["state"] != "running" or not alive:
        raise Unavailable(f"task {task}, node {rank} of {folder.name} is not running")
    return Node(status.job(folder), task, rank, ours[-1]["attempt"])


def _process(node: Node, folder: Path) -> tuple[int, dict[str, str]]:
    """Return the node's process, and the environment that it was started with, as the kernel has it: proc(5)."""
    names = ("INDEX", "ATTEMPT") if "elastic" in node.job else ("TASK", "RANK", "ATTEMPT")
    marks = {name: node.words()[f"RUNSPEC_{name}"] for name in names}
    marked = {f"RUNSPEC_{name}={value}".encode() for name, value in marks.items()}
    who = status.supervisor(folder)
    for pid in list(process.belonging(node.job["run"])):
        if who is not None and process.parent(pid) == who["pid"]:
            try:
                pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:  # this process has ended, or belongs to another user
                continue
            if marked <= set(pairs):
                return pid, dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair)
    raise Unavailable(f"node {node.rank} of {folder.name} is still starting, or has ended")
