"""`runspec shell` and `tunnel`: open a shell on a node of a run, or forward a port to it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from runspec_jobs.access import port_forward
from runspec_jobs.cli import output, status as looking
from runspec_jobs.engine import apply as engine, clients, named_run
from runspec_jobs.errors import DETACHED, OK, RunspecError, Unavailable
from runspec_jobs.load import registry
from runspec_jobs.provider import (
    Client,
    ExecSpec,
    NodeStatus,
    State,
    Status,
    SupportsAccessHints,
    SupportsExec,
    SupportsPortForward,
)

LOOK_S = 1.0  # the least pause between two queries for the state of the run


@dataclass(frozen=True)
class Place:
    """A node of a run that is running."""

    client: Client
    run: str
    task: int
    rank: int
    label: str  # the text that names the task and the node, if the run has several


def shell(run: str, words: Sequence[str], node: int | None, task: int | None) -> int:
    """Become a shell on a node of *run*, or the command *words* there."""
    at = _place("shell", run, node, task)
    assert isinstance(at.client, SupportsExec), "BUG: its provider says that it supports exec"
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    found = at.client.shell(at.run, at.task, at.rank, words, terminal=terminal)
    for line in found.notes:
        output.tell(line)
    if not words:
        output.tell(f"a shell at {at.run}{at.label}; `exit` leaves it, and the job goes on")
    _become(found)


def _become(what: ExecSpec) -> NoReturn:
    """Replace this process by the program of *what*, which so gets its terminal and signals and sets its exit code."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and that is inherited
        signal.signal(number, signal.SIG_DFL)
    env = dict(os.environ if what.env is None else what.env)
    try:
        os.chdir(what.folder or "/")  # not a checkout: PATH may have relative folders
        os.execvpe(what.argv[0], what.argv, env)
    except OSError as exc:
        name = what.folder if exc.filename is None else exc.filename
        raise Unavailable(f"cannot start {name}: {(exc.strerror or str(exc)).lower()}") from None


def tunnel(run: str, ports: str, node: int | None, task: int | None, *, as_json: bool) -> int:
    """Forward a port, which *ports* names as `[LOCAL:]PORT`, until Ctrl-C or the end of the run."""
    local, port = port_forward.ports(ports)
    at = _place("tunnel", run, node, task)
    client = at.client
    assert isinstance(client, SupportsPortForward), (
        "BUG: its provider says that it supports tunnels"
    )
    opened = port_forward.Tunnel(
        port, local, lambda: client.tunnel(at.run, at.task, at.rank, port), output.tell
    )
    asked = _listening()  # before the URL is printed
    _print_url(at, port, opened.port, local, as_json=as_json)
    try:
        ended = _until_it_ends(at, asked)
    except (KeyboardInterrupt, _Asked) as exc:
        opened.close()
        if isinstance(exc, _Asked):
            return 128 + exc.number
        output.tell("the tunnel is closed; the job goes on")
        return DETACHED
    opened.close(port_forward.DRAIN_S)
    output.tell(f"the tunnel is closed: {at.run} has ended ({ended.state})")
    return OK


def _print_url(at: Place, port: int, local: int, wanted: int | None, *, as_json: bool) -> None:
    url = f"http://{port_forward.HERE}:{local}"
    if as_json:
        where = {"run": at.run, "task": at.task, "node": at.rank, "port": port}
        output.out_json({**where, "local": local, "url": url})
        return
    if wanted is None and local != port:
        output.tell(f"port {port} of this machine is not free: using {local} instead")
    output.tell(f"forwarding port {port} of {at.run}{at.label} until Ctrl-C or the end of the run:")
    output.out(url)


class _Asked(Exception):
    """The process received a signal to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _listening() -> list[int]:
    """Return a list to which SIGTERM and SIGHUP are added when they arrive, from now on."""
    numbers: list[int] = []
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda given, _: numbers.append(given))
    return numbers


def _until_it_ends(at: Place, asked: list[int]) -> Status:
    """Wait until the run has ended, and return its status; failed queries are repeated."""
    pause_s = max(LOOK_S, getattr(at.client, "poll_s", LOOK_S))
    with output.interruptible() as sleep:
        while True:
            status = _looked(at)
            if status is not None and status.state.terminal:
                return status
            for _ in range(int(pause_s / 0.1)):
                sleep(0.1)
                if asked:
                    raise _Asked(asked[0])


def _looked(at: Place) -> Status | None:
    try:
        return at.client.state(at.run)
    except RunspecError:
        return None


def _place(what: str, run: str, node: int | None, task: int | None) -> Place:
    """Return the node that is meant. Raises UsageError if it does not exist, and Unavailable if it is not running."""
    of = named_run.kept(run, output.tell)
    count, tasks = clients.shape(of)
    looking.check_number("node", node, count)
    looking.check_number("task", task, tasks)
    if what not in _enters(registry.load(of.plan.provider)):
        raise _cannot(what, of.plan.provider)
    memory = of.memory()
    if memory.status is not None:
        raise _over(of.run, memory.status)
    if not engine.is_made(of.plan, memory):
        what = f"{of.run} is not submitted yet"
        raise Unavailable(what, "run the same apply again to continue it")
    _, client, _ = clients.connect(of)
    status = client.state(of.run)
    if status.state.terminal:
        raise _over(of.run, status)
    at = _node(of.run, status, node, task)
    label = ", ".join(
        [*([f"task {at[0]}"] if tasks > 1 else []), *([f"node {at[1]}"] if count > 1 else [])]
    )
    return Place(client, of.run, *at, f" ({label})" if label else "")


def _node(run: str, status: Status, rank: int | None, task: int | None) -> tuple[int, int]:
    """Return task and rank of the first running node with this *rank* and *task*, where they are given."""
    fits: Callable[[NodeStatus], bool] = lambda n: (  # noqa: E731 - it is one expression
        task in (None, n.task) and rank in (None, n.rank)
    )
    known = sorted(filter(fits, status.nodes), key=lambda n: (n.task, n.rank))
    for node in known:
        if node.state is State.RUNNING:
            return node.task, node.rank
    if status.state is State.WAITING or (status.nodes and not known):
        why = f": {status.reason}" if status.reason else ""
        raise Unavailable(f"{run} is waiting{why}", f"to follow it: runspec logs -f {run}")
    if known:
        one = known[0]
        how = "is waiting" if one.state is State.WAITING else f"has ended ({one.state})"
        raise Unavailable(f"task {one.task}, node {one.rank} of {run} {how}", _way(run))
    return task or 0, rank or 0  # the service reports the run only, not its nodes


def _over(run: str, status: Status) -> Unavailable:
    return Unavailable(f"{run} has ended ({status.state}): no node of it is running", _way(run))


def _way(run: str) -> str:
    return f"see runspec status {run} and runspec logs {run}"


def _enters(provider: object) -> tuple[str, ...]:
    return tuple(provider.enters) if isinstance(provider, SupportsAccessHints) else ()


def _cannot(what: str, provider: str) -> Unavailable:
    """Return the error that *provider* does not support the command, with those that do."""
    able = [name for name in registry.installed() if what in _enters(_loaded(name))]
    which = f"providers that support it: {', '.join(able)}"
    return Unavailable(f"'{provider}' does not support runspec {what}", which)


def _loaded(name: str) -> object:
    try:
        return registry.load(name)
    except RunspecError:
        return None
