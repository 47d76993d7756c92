"""Prints the events of a plan that is carried out: in a live line at a terminal, else line by line."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from runspec_jobs.api.events import Event
from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import escape_control

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LONG_S = 0.3  # what takes less time is not shown
BETWEEN_S = 0.1  # between two updates of a bar


@dataclass
class Work:
    """What is done now, with the times, in seconds, at which it began and was drawn last, and its bytes."""

    title: str
    began: float
    drawn: float = 0.0
    task: TaskID | None = None
    done: int = 0
    total: int = 0
    line: str = ""  # the last line that a tool has printed


class ProgressPrinter:
    """Prints the events of a plan that is carried out. With *quiet*, only what has to be waited for is printed.

    At a terminal, a transfer has a bar and a rate, and a line of a tool replaces the one before. With *live*, a step is
    shown there as long as it takes, and only if it takes a while; otherwise, each step has a line that stays. Use it as
    a context manager: the step at which an error ends it stays, too.
    """

    def __init__(self, *, quiet: bool = False, live: bool = False) -> None:
        self.quiet = quiet
        self.live = live and not quiet and output.interactive()
        self._lock = threading.RLock()
        self._shown: Progress | None = None
        self._work: Work | None = None
        self._soon: threading.Timer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        failed = self._work if self.live and kind is not None else None
        self.close()
        if failed is not None:
            output.tell(failed.title)

    def __call__(self, event: Event) -> None:
        match event.kind:
            case "wait":
                output.tell(event.text)
            case "transfer":
                self._move(event)
            case "line":
                self._line(event.text)
            case "step":
                self._step(event.text)
            case _ if not self.quiet:
                output.tell(event.text)

    def _step(self, title: str) -> None:
        self.close()
        if not self.live:
            if not self.quiet:
                output.tell(title)
            return
        self._work = Work(title, time.monotonic())
        self._soon = threading.Timer(LONG_S, self._draw)
        self._soon.daemon = True
        self._soon.start()

    def _move(self, event: Event) -> None:
        """Draw the bar of a transfer, once it has taken a while."""
        if self.quiet or not output.interactive():
            return
        now = time.monotonic()
        with self._lock:
            if self._work is None or self._work.title != event.text:
                self._work = Work(event.text, now)
            work = self._work
            work.done, work.total = event.done, event.total
            is_due = now - work.drawn >= BETWEEN_S or event.done >= event.total
            if now - work.began >= LONG_S and is_due:
                work.drawn = now
                self._draw()

    def _line(self, text: str) -> None:
        """Print a line that a tool printed while it works; on a terminal, each line replaces the one before."""
        if self.quiet:
            return
        if not output.interactive():
            output.tell(f"  {text}")
            return
        with self._lock:
            self._work = self._work or Work("", time.monotonic())
            self._work.line = text
            self._draw()

    def _draw(self) -> None:
        """Show what is done now."""
        with self._lock:
            work = self._work
            if work is None:
                return
            self._shown = self._shown or _display()
            if work.task is None:
                work.task = self._shown.add_task("", total=None)
            self._shown.update(
                work.task,
                description=": ".join(
                    escape_control(text) for text in (work.title, work.line) if text
                ),
                completed=work.done,
                total=work.total or None,
                moved=work.done > 0 or work.total > 0,
            )
            self._shown.start()  # does nothing if the thread was started before

    def close(self) -> None:
        """Remove what is shown from the terminal."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        with self._lock:
            self._work = None
            if self._shown is not None:
                self._shown.stop()
                self._shown = None


def _display() -> Progress:
    """Return a display of rich, which removes itself at its end; importing rich takes time."""
    from rich.console import Console, RenderableType
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )
    from rich.table import Column
    from rich.text import Text

    class OfTransfer(ProgressColumn):
        """Shows a column for what transfers bytes, and nothing otherwise."""

        max_refresh = 0.1

        def __init__(self, column: ProgressColumn) -> None:
            super().__init__(column.get_table_column().copy())
            self._column = column

        def render(self, task: Task) -> RenderableType:
            return self._column.render(task) if task.fields.get("moved") else Text("")

    console = Console(stderr=True)
    title = TextColumn(
        "{task.description}",
        markup=False,
        table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
    )
    wide = console.width >= 70
    of_transfer = (BarColumn(bar_width=20),) if wide else ()
    return Progress(
        SpinnerColumn(),
        title,
        *(OfTransfer(c) for c in (*of_transfer, DownloadColumn(), TransferSpeedColumn())),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        expand=True,
    )
