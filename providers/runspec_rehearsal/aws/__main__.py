"""The stand-in as a program: says its URL, and ends when it is told to or is left alone."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

from runspec_rehearsal.aws.server import serve
from runspec_rehearsal.aws.settings import Settings


def variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"NAME=VALUE is needed: {text!r}")
    return name, value


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m runspec_rehearsal.aws", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="scratch folders of containers")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--engine", choices=("process", "podman"), default="process")
    parser.add_argument("--env", type=variable, action="append", default=[], metavar="NAME=VALUE")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    settings = Settings(given.folder, engine=given.engine, machine_env=dict(given.env))
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        told.set()

    with serve(settings, given.port) as server:
        threading.Thread(target=watch, daemon=True).start()
        sys.stdout.write(json.dumps({"url": server.url}) + "\n")
        sys.stdout.flush()
        told.wait()


if __name__ == "__main__":
    main()
