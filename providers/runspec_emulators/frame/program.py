"""An emulator as a program: it says where it is, and ends when it is told to or is left alone."""

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
    """Return the options that all have; *folder* says what is kept in it."""
    found = argparse.ArgumentParser(prog=f"python -m runspec_emulators.{name}", description=__doc__)
    found.add_argument("--folder", type=Path, required=True, help=folder)
    found.add_argument("--port", type=int, default=0)
    found.add_argument("--engine", choices=("process", "podman"), default="process")
    return found


def end() -> threading.Event:
    """Return what is set by SIGTERM, by Ctrl-C and by the end of stdin; before an emulator is started."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        told.set()

    threading.Thread(target=watch, daemon=True).start()
    return told


def run(says: Mapping[str, str], told: threading.Event) -> None:
    """Print where an emulator listens that has started; return when it is to end."""
    sys.stdout.write(json.dumps(dict(says)) + "\n")
    sys.stdout.flush()
    told.wait()
