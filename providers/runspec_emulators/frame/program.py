"""Run an emulator as a program: it prints its address, and ends after a signal or at the end of stdin."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path


def parser(name: str, folder: str) -> argparse.ArgumentParser:
    """Return a parser with the options of all emulators; *folder* is the help for `--folder`."""
    found = argparse.ArgumentParser(prog=f"python -m runspec_emulators.{name}", description=__doc__)
    found.add_argument("--folder", type=Path, required=True, help=folder)
    found.add_argument("--port", type=int, default=0)
    found.add_argument("--engine", choices=("process", "podman"), default="process")
    return found


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
