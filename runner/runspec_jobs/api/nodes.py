"""Ways into the nodes of a run that is running: a shell, and ports that are forwarded."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runspec_jobs.access import port_forward
from runspec_jobs.access.port_forward import HERE as HERE, parse_ports as parse_ports
from runspec_jobs.api.events import Events, OnEvent
from runspec_jobs.api.lifecycle import Run
from runspec_jobs.engine import apply as engine, clients
from runspec_jobs.errors import RunspecError, Unavailable
from runspec_jobs.load import registry
from runspec_jobs.load.source import list_entries, list_entries_of
from runspec_jobs.logs.follow import Line
from runspec_jobs.plan import shell_job
from runspec_jobs.provider import (
    Client,
    NodeStatus,
    State,
    Status as Status,
    SupportsExec,
    SupportsPortForward,
)
from runspec_jobs.provider.types import ExecSpec as ExecSpec

LOOK_S = 1.0  # the least pause between two queries for the state of the run
SLEEP_S = 0.1  # the longest sleep while waiting


@dataclass(frozen=True)
class Node:
    """A node of a run that is running; *label* names its task and the node, if the run has several."""

    client: Client
    run: str
    task: int
    rank: int
    label: str

    def open_shell(self, words: Sequence[str] = (), *, terminal: bool = False) -> ExecSpec:
        """Return the program that is a shell on this node, or the command *words* there."""
        assert isinstance(self.client, SupportsExec), "BUG: its provider says that it supports exec"
        return self.client.shell(self.run, self.task, self.rank, words, terminal=terminal)

    def open_new_shell(self, text: Sequence[str] = (), *, terminal: bool = False) -> ExecSpec:
        """Return what `open_shell` does for a run that holds this node for a shell: the run ends with the program."""
        return self.open_shell(shell_job.make_command(text), terminal=terminal)

    def forward(
        self, port: int, local: int | None = None, *, on_event: OnEvent | None = None
    ) -> Forwarded:
        """Forward a port of this machine's loopback address to *port* of the node, until it is closed.

        *local* is that port: 0 means any free one, and None *port* if it is free, or else any. Raises UsageError if
        it cannot be used.
        """
        client = self.client
        assert isinstance(client, SupportsPortForward), (
            "BUG: its provider says that it supports tunnels"
        )
        tunnel = port_forward.Tunnel(
            port,
            local,
            lambda: client.tunnel(self.run, self.task, self.rank, port),
            Events(on_event).note,
        )
        return Forwarded(self, tunnel)


@dataclass(frozen=True)
class Forwarded:
    """A port of this machine that is forwarded to a node."""

    node: Node
    tunnel: port_forward.Tunnel

    @property
    def local(self) -> int:
        """The port of this machine."""
        return self.tunnel.port

    def wait(self, sleep: Callable[[float], None] = time.sleep) -> Status:
        """Wait until the run has ended, and return its status; failed queries are repeated.

        *sleep* is called often, and may raise an error to end the wait.
        """
        client = self.node.client
        # A service with a limit of requests says how often it may be asked.
        pause_s = max(LOOK_S, getattr(client, "poll_s", LOOK_S))
        while True:
            try:
                status = client.state(self.node.run)
                if status.state.terminal:
                    return status
            except RunspecError:
                # An outage, or expired credentials: the job goes on, and so does the wait.
                pass
            # In short pieces, so that Ctrl-C ends the wait at once.
            for _ in range(int(pause_s / SLEEP_S)):
                sleep(SLEEP_S)

    def close(self, *, drain: bool = False) -> None:
        """End the forwarding; with *drain*, after the last data that the node sends."""
        self.tunnel.close(port_forward.DRAIN_S if drain else 0.0)


def enter(run: Run, verb: str, *, node: int | None = None, task: int | None = None) -> Node:
    """Return the first running node of *run* with that *node* and *task*, where they are given, to `shell` or `tunnel`.

    Raises UsageError if the run has no such node or task, and Unavailable if it is not running, or if the provider does
    not support the *verb*.
    """
    run.demand_node(node, task)
    record = run.record
    demand_access(run.provider, verb)
    memory = record.read_memory()
    if memory.status is not None:
        raise _make_ended_error(run.id, memory.status)
    if not engine.is_submitted(record.plan, memory):
        message = f"{run.id} is not submitted yet"
        raise Unavailable(message, "run the same apply again to continue it")
    _, client, _ = clients.connect(record)
    status = client.state(run.id)
    if status.state.terminal:
        raise _make_ended_error(run.id, status)
    at = _find_running_node(run.id, status, node, task)
    count, tasks = run.shape
    label = ", ".join(
        [*([f"task {at[0]}"] if tasks > 1 else []), *([f"node {at[1]}"] if count > 1 else [])]
    )
    return Node(client, run.id, *at, f" ({label})" if label else "")


def demand_access(provider: str, verb: str) -> None:
    """Raise Unavailable if the *provider* does not support the *verb*, with the providers that do."""
    if verb not in list_entries(registry.load(provider)):
        able = [name for name in registry.list_installed() if verb in list_entries_of(name)]
        which = f"providers that support it: {', '.join(able)}"
        raise Unavailable(f"'{provider}' does not support runspec {verb}", which)


def await_shell(
    run: Run,
    on_part: Callable[[Line], None],
    *,
    on_event: OnEvent | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Status | None:
    """Wait until a node of *run*, which `jobs.make_shell_job` made, can be entered by `Node.open_new_shell`.

    *on_part* gets the log until then, such as what an installation of packages prints. Return None, or the status of
    the run if it has ended instead. *sleep* may raise an error to end the wait.
    """
    ready = False

    def part(line: Line) -> None:
        nonlocal ready
        # `pause` ends the following, between two passes over the log.
        ready = ready or line.text == shell_job.READY.encode()
        if not ready:
            on_part(line)

    def pause(seconds: float) -> None:
        if ready:
            raise _Ready
        sleep(seconds)

    try:
        return run.follow(part, on_event=on_event, stops=False, publishes=False, sleep=pause)
    except _Ready:  # raised by `pause` above
        return None


class _Ready(Exception):
    """The job has printed that its node waits for the shell."""


def _find_running_node(
    run: str, status: Status, rank: int | None, task: int | None
) -> tuple[int, int]:
    """Return task and rank of the first running node with this *rank* and *task*, where they are given."""
    fits: Callable[[NodeStatus], bool] = lambda n: (  # noqa: E731 - it is one expression
        task in (None, n.task) and rank in (None, n.rank)
    )
    nodes = sorted(filter(fits, status.nodes), key=lambda n: (n.task, n.rank))
    for node in nodes:
        if node.state is State.RUNNING:
            return node.task, node.rank
    # The nodes that the user named are not there yet.
    if status.state is State.WAITING or (status.nodes and not nodes):
        why = f": {status.reason}" if status.reason else ""
        raise Unavailable(f"{run} is waiting{why}", f"to follow it: runspec logs -f {run}")
    if nodes:
        first = nodes[0]
        how = "is waiting" if first.state is State.WAITING else f"has ended ({first.state})"
        raise Unavailable(
            f"task {first.task}, node {first.rank} of {run} {how}", _suggest_commands(run)
        )
    return task or 0, rank or 0  # the service reports the run only, not its nodes


def _make_ended_error(run: str, status: Status) -> Unavailable:
    return Unavailable(
        f"{run} has ended ({status.state}): no node of it is running", _suggest_commands(run)
    )


def _suggest_commands(run: str) -> str:
    return f"see runspec status {run} and runspec logs {run}"
