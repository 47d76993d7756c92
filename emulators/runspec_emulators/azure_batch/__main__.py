"""Run the emulator as a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.frame import program


def main(
    folder: Annotated[Path, Option("--folder", help="disks of the nodes")],
    port: program.Port = 0,
    engine: program.Engine = "process",
    account: Annotated[str, Option("--account")] = "rehearsal",
) -> None:
    """Run the emulator until it is stopped. The account's key is new each time, and not a secret."""
    end = program.end()
    with AzureBatch(folder, account, port=port, engine=engine) as server:
        program.run(server.env, end)


if __name__ == "__main__":
    program.call(main)
