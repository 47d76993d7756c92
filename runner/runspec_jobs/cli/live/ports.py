"""Tunnels to the `ports` of a spec, which the command that follows its run opens and closes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from runspec_jobs.api.lifecycle import Run, State, Status
from runspec_jobs.cli import output
from runspec_jobs.errors import RunspecError

if TYPE_CHECKING:
    from runspec_jobs.api.nodes import Forwarded


class OpenPorts:
    """The tunnels of one run; `status` opens them once its node runs, and the end of the `with` block ends them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.waiting = dict(run.ports)
        self.opened: list[Forwarded] = []
        self._told = ""

    def after(self, see: Callable[[Status], None]) -> Callable[[Status], None]:
        """Return *see*, if there are no ports, or a function that also opens the tunnels."""
        if not self.waiting:
            return see

        def both(status: Status) -> None:
            see(status)
            self.status(status)

        return both

    def status(self, status: Status) -> None:
        """Open what is not open yet, if the run is running; an error is told once, and tried again."""
        if not self.waiting or status.state is not State.RUNNING:
            return
        from runspec_jobs.api import nodes  # slow to import, and few runs have ports

        try:
            first = None if self.run.spec.cluster.nodes.elastic else 0
            at = nodes.enter(self.run, "tunnel", node=first)
            for name, port in list(self.waiting.items()):
                self.opened.append(at.forward(port, on_event=output.tell_event))
                del self.waiting[name]
                title = "" if name == str(port) else f" ({name})"
                local = self.opened[-1].local
                output.tell(
                    f"port {port}{title} of {at.run}{at.label} is http://{nodes.HERE}:{local}"
                )
        except RunspecError as exc:
            if exc.message != self._told:
                output.tell(f"no tunnel yet: {exc.message}")
            self._told = exc.message

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the tunnels: after the last data of a run that has ended, and at once after an error or Ctrl-C."""
        for one in self.opened:
            one.close(drain=kind is None)


def suggest_tunnels(run: Run) -> list[str]:
    """Return the command that opens a tunnel to each of the ports of *run*."""
    return [f"runspec tunnel {run.id} {port}" for port in run.ports.values()]
