"""`runspec shell` and `tunnel`: open a shell on a node of a run, or of a job of its own, or forward a port to it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from runspec_jobs.api import jobs, lifecycle, nodes as api
from runspec_jobs.api.jobs import Overrides
from runspec_jobs.api.lifecycle import Line, Run, get, show_line
from runspec_jobs.api.nodes import ExecSpec, Node, Status
from runspec_jobs.cli import apply, costs, output, plan
from runspec_jobs.cli.live.progress import ProgressPrinter
from runspec_jobs.diagnostics.terminal_text import strip_sequences
from runspec_jobs.errors import DETACHED, OK, Unavailable
from runspec_jobs.options.run_verbs import ShellOptions, TunnelOptions


def shell(options: ShellOptions) -> int:
    """Become a shell on a node, or the command after `--` there; with `--new`, on a node that is asked for."""
    if options.new:
        return _new(options)
    at = _node("shell", options.run, options.node, options.task)
    entered = at.open_shell(options.words, terminal=_at_terminal())
    ending = f"a shell at {at.run}{at.label}; `exit` leaves it, and the job goes on"
    return _become(entered, "" if options.words else ending)


def _new(options: ShellOptions) -> int:
    """Ask for a node as the spec describes it, and become a shell there, with which the job ends."""
    printer = ProgressPrinter(live=True)
    changes = Overrides(options.provider, options.settings, params=options.params)
    spec = Path(options.run)
    asked = plan.load(spec, printer, changes, output_format="text", as_json=False)
    api.demand_access(asked.spec.provider, "shell")
    job = jobs.make_shell_job(asked)
    costs.demand_below([job], options.max_usd)
    confirm = costs.Confirmation([job], yes=options.yes, quiet=False)
    with printer:
        run = lifecycle.apply(job, new=True, on_event=printer, confirm=lambda: confirm(job))
    with _listening() as interrupts:
        outcome = _await(run, options.words, interrupts)
        if isinstance(outcome, ExecSpec):
            limit = f"after {job.spec.timeout} s at the latest"
            ending = f"a shell at {run.id}; the job ends with it, and {limit}"
            _become(outcome, "" if options.words else ending)
    return outcome


def _await(run: Run, words: Sequence[str], interrupts: list[int]) -> ExecSpec | int:
    """Wait until the node of *run* can be entered, and return how; an exit code, if that has no chance.

    Ctrl-C, SIGTERM and SIGHUP, which are added to *interrupts*, cancel the run, because nobody would come to its node.
    """
    try:
        with output.interruptible() as sleep:
            status = api.await_shell(
                run,
                _tell_line,
                on_event=output.tell_event,
                sleep=_interrupted_by(interrupts, sleep),
            )
        if status is None:
            outcome = _node("shell", run.id, None, None).open_new_shell(
                words, terminal=_at_terminal()
            )
            if interrupts:
                raise _Asked(interrupts[0])
            return outcome
    except (KeyboardInterrupt, _Asked) as exc:
        run.cancel(on_event=output.tell_event)
        output.tell(f"{run.id} is cancelled")
        return 128 + exc.number if isinstance(exc, _Asked) else DETACHED
    return apply.print_result(run, status, apply.Following(as_json=False))


def _tell_line(line: Line) -> None:
    output.tell_lines(show_line(line.text, strip_sequences))


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _node(verb: str, run: str, node: int | None, task: int | None) -> Node:
    return api.enter(get(run, alive=True, on_event=output.tell_event), verb, node=node, task=task)


def _become(what: ExecSpec, note: str) -> NoReturn:
    """Replace this process by the program of *what*, which so gets its terminal and signals and sets its exit code."""
    for line in (*what.notes, *([note] if note else [])):
        output.tell(line)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and that is inherited
        signal.signal(number, signal.SIG_DFL)
    env = dict(os.environ if what.env is None else what.env)
    try:
        os.chdir(what.folder or "/")  # not a checkout: PATH may have relative folders
        os.execvpe(what.argv[0], what.argv, env)
    except OSError as exc:
        name = what.folder if exc.filename is None else exc.filename
        raise Unavailable(f"cannot start {name}: {(exc.strerror or str(exc)).lower()}") from None


def tunnel(options: TunnelOptions) -> int:
    """Forward a port until Ctrl-C or the end of the run."""
    local, port = api.parse_ports(options.port)
    at = _node("tunnel", options.run, options.node, options.task)
    opened = at.forward(port, local, on_event=output.tell_event)
    with _listening() as asked:  # before the URL is printed
        _print_url(at, port, opened.local, local, as_json=options.as_json)
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


@contextlib.contextmanager
def _listening() -> Iterator[list[int]]:
    """Yield a list to which SIGTERM and SIGHUP are added when they arrive, and restore their handlers at the end."""
    numbers: list[int] = []
    before = {
        number: signal.signal(number, lambda given, _: numbers.append(given))
        for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield numbers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
