"""`runspec shell` and `tunnel`: open a shell on a node of a run, or forward a port to it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from runspec_jobs.api import nodes as api
from runspec_jobs.api.lifecycle import get
from runspec_jobs.api.nodes import ExecSpec, Node, Status
from runspec_jobs.cli import output
from runspec_jobs.errors import DETACHED, OK, Unavailable


def shell(run: str, words: Sequence[str], node: int | None, task: int | None) -> int:
    """Become a shell on a node of *run*, or the command *words* there."""
    at = _node("shell", run, node, task)
    found = at.shell(words, terminal=sys.stdin.isatty() and sys.stdout.isatty())
    for line in found.notes:
        output.tell(line)
    if not words:
        output.tell(f"a shell at {at.run}{at.label}; `exit` leaves it, and the job goes on")
    _become(found)


def _node(verb: str, run: str, node: int | None, task: int | None) -> Node:
    return api.enter(get(run, on_event=output.tell_event), verb, node=node, task=task)


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
    local, port = api.ports(ports)
    at = _node("tunnel", run, node, task)
    opened = at.forward(port, local, on_event=output.tell_event)
    asked = _listening()  # before the URL is printed
    _print_url(at, port, opened.local, local, as_json=as_json)
    try:
        ended = _until_it_ends(opened, asked)
    except (KeyboardInterrupt, _Asked) as exc:
        opened.close()
        if isinstance(exc, _Asked):
            return 128 + exc.number
        output.tell("the tunnel is closed; the job goes on")
        return DETACHED
    opened.close(drain=True)
    output.tell(f"the tunnel is closed: {at.run} has ended ({ended.state})")
    return OK


def _print_url(at: Node, port: int, local: int, wanted: int | None, *, as_json: bool) -> None:
    url = f"http://{api.HERE}:{local}"
    if as_json:
        where = {"run": at.run, "task": at.task, "node": at.rank, "port": port}
        output.out_json("runspec.tunnel/v1", {**where, "local": local, "url": url})
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


def _until_it_ends(opened: api.Forwarded, asked: list[int]) -> Status:
    """Wait until the run has ended, and return its status. Raises _Asked after a signal."""
    with output.interruptible() as sleep:
        return opened.wait(_interrupted_by(asked, sleep))


def _interrupted_by(asked: list[int], sleep: Callable[[float], None]) -> Callable[[float], None]:
    def short(seconds: float) -> None:
        sleep(seconds)
        if asked:
            raise _Asked(asked[0])

    return short
