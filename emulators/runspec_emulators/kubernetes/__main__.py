"""Run the emulator as a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from runspec_emulators.frame import program
from runspec_emulators.kubernetes.emulator import Kubernetes


def main(
    folder: Annotated[Path, Option("--folder", help="kubeconfig, and disks of the nodes")],
    port: program.Port = 0,
    engine: program.Engine = "process",
) -> None:
    """Run the emulator until it is stopped. Its bearer token is new each time."""
    end = program.end()
    with Kubernetes(folder, port=port, engine=engine) as server:
        program.run(server.env, end)


if __name__ == "__main__":
    program.call(main)
