"""Reads the tables in the logs of training programs as rows of numbers, and ignores all other lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, Protocol

from runspec_jobs.regex import regex

Row = Mapping[str, float]
Reader = Literal["horovod", "mxnet", "chainer"]

# The prefix that mpirun --tag-output adds to lines, and the control sequences of terminals.
BEFORE = regex(r"^(?:\[[^\s\]]*\d,\d+\]<std(?:out|err)>:)?\s*")
ORDERS = regex(r"\x1b\[[0-9;?]*[A-Za-z]")
NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"

# Six columns, printed by rank 0: https://github.com/aws-samples/deep-learning-models
HOROVOD = ("step", "epoch", "speed", "loss", "finloss", "lr")
# `Epoch[0] Batch [100]\tSpeed: 15554.63 samples/sec\taccuracy=0.5`, and `Epoch[0] Validation-accuracy=0.9`:
# https://github.com/apache/mxnet/blob/v1.x/python/mxnet/callback.py
MXNET = regex(r"\bEpoch\s*\[(\d+)\]\s*(?:Batch\s*\[(?:\d+-)?(\d+)\])?(.*)")
MXNET_SPEED = regex(rf"\bSpeed:\s*({NUMBER})\s*samples/sec")
MXNET_PAIR = regex(rf"([A-Za-z][\w-]*(?: cost)?)=({NUMBER})")
# A title consists of names with spaces between them; PrintReport's names have a "/" or are `elapsed_time`:
# https://docs.chainer.org/en/stable/reference/generated/chainer.training.extensions.PrintReport.html
CHAINER_FIRST = ("epoch", "iteration")
CHAINER_NAME = regex(r"\S+")


class Table(Protocol):
    """Reads one log, line by line."""

    def read_row(self, line: str) -> Row | None:
        """Return the values in *line* by column, or None if it is not a row of the table."""


def make_table(reader: Reader) -> Table:
    """Return a new reader for one log of a framework."""
    return TABLES[reader]()


def get_row_key(reader: Reader, column: str) -> str:
    """Return the key in rows of a column, from its name in a log or a title.

    >>> get_row_key("mxnet", "Time cost"), get_row_key("chainer", "main/MSE")
    ('time-cost', 'main/MSE')
    """
    return column if reader == "chainer" else column.lower().replace(" ", "-")


def strip_line(line: str) -> str:
    """Return a line as a terminal shows it: only the last text of a progress bar, without control sequences.

    >>> strip_line("1/2 loss: 0.9\\r2/2 loss: \\x1b[1m0.4\\x1b[0m\\r")
    '2/2 loss: 0.4'
    """
    return ORDERS.sub("", line.rstrip("\r\n").rpartition("\r")[2])


class Horovod:
    """Reads the table that the ResNet training scripts for Horovod print.

    >>> read = Horovod()
    >>> read.read_row("  Step Epoch Speed   Loss  FinLoss   LR")
    >>> read.read_row("    50   0.3  5874.2  6.917  8.290 0.06400")["speed"]
    5874.2
    """

    def __init__(self) -> None:
        self.begun = False

    def read_row(self, line: str) -> Row | None:
        cells = BEFORE.sub("", strip_line(line)).split()
        if tuple(word.lower() for word in cells) == HOROVOD:
            self.begun = True
        elif self.begun and len(cells) == len(HOROVOD) and (numbers := _parse_numbers(cells)):
            return dict(zip(HOROVOD, numbers, strict=True))
        return None


class MxNet:
    """Reads the lines that MXNet's Speedometer and its training loop log.

    >>> MxNet().read_row("INFO:root:Epoch[0] Batch [100] Speed: 15554.63 samples/sec Train-accuracy=0.5")
    {'epoch': 0.0, 'batch': 100.0, 'speed': 15554.63, 'train-accuracy': 0.5}
    """

    def read_row(self, line: str) -> Row | None:
        match = MXNET.search(strip_line(line))
        if match is None:
            return None
        row = {"epoch": float(match[1])}
        if match[2] is not None:
            row["batch"] = float(match[2])
        if speed := MXNET_SPEED.search(match[3]):
            row["speed"] = float(speed[1])
        row |= {get_row_key("mxnet", k): float(v) for k, v in MXNET_PAIR.findall(match[3])}
        return row if len(row) > 1 else None


class Chainer:
    """Reads the table of Chainer's PrintReport; a column is empty until its value exists.

    >>> read = Chainer()
    >>> read.read_row("epoch       main/loss   validation/main/loss")
    >>> read.read_row("1           1.28782")
    {'epoch': 1.0, 'main/loss': 1.28782}
    """

    def __init__(self) -> None:
        self.names: list[tuple[str, int]] = []

    def read_row(self, line: str) -> Row | None:
        shown = strip_line(line)
        # White space at the beginning shows which columns are empty, so it stays in rows of numbers.
        text = BEFORE.sub("", shown) if not self.names or shown.startswith("[") else shown
        cells = [(match[0], match.start()) for match in CHAINER_NAME.finditer(text)]
        words = [word for word, _ in cells]
        if words and words[0] in CHAINER_FIRST and _is_title_line(words):
            self.names = cells
        elif 0 < len(words) <= len(self.names) and (numbers := _parse_numbers(words)):
            return _assign_numbers(self.names, cells, numbers)
        return None


def _is_title_line(words: list[str]) -> bool:
    return len(words) > 1 and any("/" in w or w == "elapsed_time" for w in words)


def _assign_numbers(
    names: list[tuple[str, int]], words: list[tuple[str, int]], numbers: list[float]
) -> Row:
    """Assign each number to its column: in order if all columns have one, or else by its position in the line."""
    if len(numbers) == len(names):
        return {name: value for (name, _), value in zip(names, numbers, strict=True)}
    row = dict[str, float]()
    for (_, start), value in zip(words, numbers, strict=True):
        # PrintReport aligns each number with the beginning of its title.
        row[[name for name, at in names if at <= start][-1]] = value
    return row


def _parse_numbers(words: Iterable[str]) -> list[float] | None:
    try:
        return [float(word) for word in words]
    except ValueError:
        return None


TABLES: Mapping[Reader, Callable[[], Table]] = {
    "horovod": Horovod,
    "mxnet": MxNet,
    "chainer": Chainer,
}
COLUMNS: Mapping[Reader, str] = {  # the default column of each framework
    "horovod": "speed",
    "mxnet": "speed",
    "chainer": "validation/main/accuracy",
}
