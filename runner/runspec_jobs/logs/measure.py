"""Reads the metric of each task of a run from its log or its outputs, for any provider."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from types import FrameType, TracebackType
from typing import Self, TypeVar

from runspec_jobs.errors import Unavailable, UsageError
from runspec_jobs.logs import follow
from runspec_jobs.provider import Client, OutputFile, SupportsOutputs
from runspec_jobs.provider.saved_outputs import select_newest, select_with_content
from runspec_jobs.report.metric_extraction import (
    LINE_CHARACTERS,
    Measured,
    MetricExtractor,
    measure_file,
)
from runspec_jobs.spec.metric import Metric

LINE_S = 5.0  # processor time that a pattern may take for one line
FILE_BYTES = 16 << 20
LINE_BYTES = 4 * LINE_CHARACTERS  # no character of UTF-8 has more than four
SIMPLER = "simplify the pattern: replace wildcards such as .* by the text printed there"
SILENT = Measured(None, "it printed nothing")


Answered = TypeVar("Answered")


class MetricCollector:
    """Collects the metric of each task from the lines of a run, one line at a time."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.last: tuple[int, float] | None = None  # the task that printed the last number, and it
        self._of: dict[int, dict[int, MetricExtractor]] = {}

    @property
    def tasks(self) -> list[int]:
        """The tasks of which a line was seen."""
        return sorted(self._of)

    def read_line(self, line: follow.Line) -> None:
        ranks = self._of.setdefault(line.task, {})
        if line.rank not in ranks:
            ranks[line.rank] = MetricExtractor(self.metric)
        shown = line.text.rstrip(b"\r").rpartition(b"\r")[2]  # a progress bar may be long
        extractor = ranks[line.rank]
        before = len(extractor.numbers)
        extractor.read_line(shown[:LINE_BYTES].decode("utf-8", "replace"))
        if len(extractor.numbers) > before:
            self.last = line.task, extractor.numbers[-1]

    def get_measured(self, task: int) -> Measured:
        """Return the metric of the first node that printed one, or the reason why the first node has none."""
        by_rank = [finder.get_measured() for _, finder in sorted(self._of.get(task, {}).items())]
        return next(
            (measured for measured in by_rank if measured.value is not None),
            by_rank[0] if by_rank else SILENT,
        )


class Bounded:
    """Raises UsageError if a pattern takes too long for one line, which `regex_safety` does not always foresee.

    A timer measures processor time, so that single lines cost nothing. It uses a signal, and so only works in the main
    thread. Within another one, both limits hold.
    """

    def __init__(
        self, limit_s: float = LINE_S, subject: str = "metric.pattern", hint: str = SIMPLER
    ) -> None:
        self.limit_s, self.what, self.hint = limit_s, subject, hint
        self._busy, self._lines, self._before = False, 0, 0

    def __enter__(self) -> Self:
        self._handler = signal.signal(signal.SIGVTALRM, self._interrupt)
        signal.setitimer(signal.ITIMER_VIRTUAL, self.limit_s, self.limit_s)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, self._handler)

    def read_line(self, watch: MetricCollector, line: follow.Line) -> None:
        """Pass a line to *watch* under the time limit."""
        self._lines += 1
        self._busy = True
        try:
            watch.read_line(line)
        finally:
            self._busy = False

    def read_file(self, metric: Metric, text: str) -> Measured:
        """Return the metric in a file under the time limit."""
        return self.call(partial(measure_file, metric), text)

    def call(self, ask: Callable[[str], Answered], text: str) -> Answered:
        """Return the result of *ask* for *text*, under the time limit."""
        self._lines += 1
        self._busy = True
        try:
            return ask(text)
        finally:
            self._busy = False

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # The timer counts processor time and rings again and again: a search is too long if no line ended between
        # two rings.
        if self._busy and self._lines == self._before:
            raise UsageError(f"{self.what} took more than {self.limit_s:g} s", self.hint)
        self._before = self._lines
        if callable(self._handler):
            self._handler(number, frame)  # the handler of the limit around this one


def collect_printed(client: Client, run: str, metric: Metric) -> MetricCollector:
    """Return a collector that has read everything that *run* has printed so far."""
    watch = MetricCollector(metric)
    with Bounded() as bounded:
        for line in follow.read_everything(client, run, follow.accept_every):
            bounded.read_line(watch, line)
    return watch


def read_saved(client: Client, run: str, metric: Metric) -> dict[int, Measured]:
    """Return the metric of each task from the saved file of its first node."""
    if not isinstance(client, SupportsOutputs):
        raise Unavailable(
            "this provider cannot read outputs",
            "let the job print the metric, and set pattern or reader",
        )
    assert metric.file is not None, "BUG: the metric has no file"
    output, _, path = metric.file.partition("/")
    by_task: dict[int, Measured] = {}
    with Bounded() as bounded:
        for file in select_with_content(select_newest(client.outputs(run))):  # by task and rank
            if (file.output, file.path) == (output, path) and file.task not in by_task:
                by_task[file.task] = _measure_file(file, metric, bounded)
    return by_task


def _measure_file(file: OutputFile, metric: Metric, bounded: Bounded) -> Measured:
    if file.bytes > FILE_BYTES:
        return Measured(None, f"{metric.file} has {file.bytes:,} bytes, more than {FILE_BYTES:,}")
    with file.open() as stream:
        data = stream.read(FILE_BYTES)
    return bounded.read_file(metric, data.decode("utf-8-sig", "replace"))
