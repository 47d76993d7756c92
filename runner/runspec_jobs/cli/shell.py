"""`runspec shell` and `tunnel`: into the place where a node of a run works."""

from __future__ import annotations

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from runspec_jobs.access import port_forward
from runspec_jobs.cli import apply, choose_run, output, status as looking
from runspec_jobs.engine import apply as engine
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

LOOK_S = 1.0  # between two looks at the run, and as long as a look takes, tenfold


@dataclass(frozen=True)
class Place:
    """A node of a run that runs."""

    client: Client
    run: str
    task: int
    rank: int
    said: str  # which one it is, where there are more


def shell(args: Namespace) -> int:
    at = _place(args, "shell")
    assert isinstance(at.client, SupportsExec), "BUG: its provider says that it is"
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    found = at.client.shell(at.run, at.task, at.rank, args.words, terminal=terminal)
    for line in found.notes:
        output.tell(line)
    if not args.words:
        output.tell(f"a shell at {at.run}{at.said}; it leaves with exit, and the job goes on")
    _become(found)


def _become(what: ExecSpec) -> NoReturn:
    """Give this process, with its terminal, to *what*: signals, window and exit code are then its own."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and that is inherited
        signal.signal(number, signal.SIG_DFL)
    env = dict(os.environ if what.env is None else what.env)
    try:
        os.chdir(what.folder or "/")  # not a checkout: PATH may have relative folders
        os.execvpe(what.argv[0], what.argv, env)
    except OSError as exc:
        name = what.folder if exc.filename is None else exc.filename
        raise Unavailable(f"cannot start {name}: {(exc.strerror or str(exc)).lower()}") from None


def tunnel(args: Namespace) -> int:
    local, port = port_forward.ports(args.port)
    at = _place(args, "tunnel")
    client = at.client
    assert isinstance(client, SupportsPortForward), "BUG: its provider says that it is"
    opened = port_forward.Tunnel(
        port, local, lambda: client.tunnel(at.run, at.task, at.rank, port), output.tell
    )
    asked = _listening()  # before anybody is told that the port is there
    _print_url(at, port, opened.port, local, args)
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


def _print_url(at: Place, port: int, local: int, wanted: int | None, args: Namespace) -> None:
    url = f"http://{port_forward.HERE}:{local}"
    if args.json:
        where = {"run": at.run, "task": at.task, "node": at.rank, "port": port}
        output.out_json({**where, "local": local, "url": url})
        return
    if wanted is None and local != port:
        output.tell(f"port {port} of this machine cannot be had: {local} is taken instead")
    output.tell(f"port {port} of {at.run}{at.said} is here until Ctrl-C, or until the run ends:")
    output.out(url)


class _Asked(Exception):
    """A signal told us to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _listening() -> list[int]:
    """Give a list of the signals that have told us to end, from now on."""
    numbers: list[int] = []
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda given, _: numbers.append(given))
    return numbers


def _until_it_ends(at: Place, asked: list[int]) -> Status:
    """Wait until the run has ended. What cannot be known now is asked again."""
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


def _place(args: Namespace, what: str) -> Place:
    """Find the node that is meant. Raises UsageError for one that is not there, and Unavailable for one at rest."""
    of = choose_run.kept(args.run)
    count, tasks = apply.shape(of)
    looking.there("--node", args.node, count, "nodes")
    looking.there("--task", args.task, tasks, "tasks")
    if what not in _enters(registry.load(of.plan.provider)):
        raise _cannot(what, of.plan.provider)
    memory = of.memory()
    if memory.status is not None:
        raise _over(of.run, memory.status)
    if not engine.is_made(of.plan, memory):
        raise Unavailable(f"{of.run} is not made yet", "the same apply goes on with it")
    _, client, _ = apply.connect(of)
    status = client.state(of.run)
    if status.state.terminal:
        raise _over(of.run, status)
    node = _node(of.run, status, args)
    said = ", ".join(
        [*([f"task {node[0]}"] if tasks > 1 else []), *([f"node {node[1]}"] if count > 1 else [])]
    )
    return Place(client, of.run, *node, f" ({said})" if said else "")


def _node(run: str, status: Status, args: Namespace) -> tuple[int, int]:
    """Give task and rank of the node that is meant: the first that runs, of those that fit."""
    fits: Callable[[NodeStatus], bool] = lambda n: (  # noqa: E731 - it is one expression
        args.task in (None, n.task) and args.node in (None, n.rank)
    )
    known = sorted(filter(fits, status.nodes), key=lambda n: (n.task, n.rank))
    for node in known:
        if node.state is State.RUNNING:
            return node.task, node.rank
    if status.state is State.WAITING or (status.nodes and not known):
        why = f": {status.reason}" if status.reason else ""
        raise Unavailable(f"{run} waits{why}", f"follow: runspec logs -f {run}")
    if known:
        one = known[0]
        how = "waits" if one.state is State.WAITING else f"has ended ({one.state})"
        raise Unavailable(f"task {one.task}, node {one.rank} of {run} {how}", _way(run))
    return args.task or 0, args.node or 0  # its service tells of the run alone


def _over(run: str, status: Status) -> Unavailable:
    return Unavailable(f"{run} has ended ({status.state}): nothing runs there any more", _way(run))


def _way(run: str) -> str:
    return f"runspec status {run} says more, and runspec logs {run} what it printed"


def _enters(provider: object) -> tuple[str, ...]:
    return tuple(provider.enters) if isinstance(provider, SupportsAccessHints) else ()


def _cannot(what: str, provider: str) -> Unavailable:
    """Say that a provider has no such thing, and name those that have."""
    able = [name for name in registry.installed() if what in _enters(_loaded(name))]
    there = "opens no shell where a job runs" if what == "shell" else "has no way to a job's ports"
    return Unavailable(f"'{provider}' {there}", f"those that can: {', '.join(able)}")


def _loaded(name: str) -> object:
    try:
        return registry.load(name)
    except RunspecError:
        return None
