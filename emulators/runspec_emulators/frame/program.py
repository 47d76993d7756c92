"""Run an emulator as a program: it prints its address, and ends after a signal or at the end of stdin."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from typer import Option, Typer

Port = Annotated[int, Option("--port", help="0: any free port")]
Engine = Annotated[Literal["process", "podman"], Option("--engine")]


def call(main: Callable[..., None]) -> None:
    """Call *main* with the options of the command line."""
    app = Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()


def end() -> threading.Event:
    """Return an event that SIGTERM, Ctrl-C and the end of stdin set. Call this before the emulator is started."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    return stop


def run(env: Mapping[str, str], stop: threading.Event) -> None:
    """Print *env*, by which clients find the running emulator, as JSON, and wait until *stop* is set."""
    sys.stdout.write(json.dumps(dict(env)) + "\n")
    sys.stdout.flush()
    stop.wait()
