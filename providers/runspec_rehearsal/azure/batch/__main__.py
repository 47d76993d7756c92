"""The stand-in as a program: says where it is, and ends when it is told to or is left alone."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

from runspec_rehearsal.azure.batch.server import AzureBatch


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m runspec_rehearsal.azure.batch", description=__doc__
    )
    parser.add_argument("--folder", type=Path, required=True, help="disks of the nodes")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--account", default="rehearsal")
    parser.add_argument("--engine", choices=("process", "podman"), default="process")
    return parser.parse_args()


def main() -> None:
    """Run until SIGTERM, Ctrl-C or the end of stdin. The key is new each time, and no secret."""
    given = arguments()
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        told.set()

    more = {"engine": given.engine}
    with AzureBatch(given.folder, given.account, port=given.port, **more) as server:
        threading.Thread(target=watch, daemon=True).start()
        sys.stdout.write(json.dumps(dict(server.env)) + "\n")
        sys.stdout.flush()
        told.wait()


if __name__ == "__main__":
    main()
