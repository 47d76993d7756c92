"""Run the emulator as a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import BadParameter, Option

from runspec_emulators.aws.http import serve
from runspec_emulators.aws.region import KEYS
from runspec_emulators.aws.settings import Settings
from runspec_emulators.frame import program


def variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise BadParameter(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def main(
    folder: Annotated[Path, Option("--folder", help="scratch folders of containers")],
    port: program.Port = 0,
    engine: program.Engine = "process",
    env: Annotated[list[str] | None, Option("--env", metavar="NAME=VALUE")] = None,
) -> None:
    """Run an AWS Batch on this machine until Ctrl-C, SIGTERM or the end of stdin."""
    settings = Settings(folder, engine=engine, machine_env=dict(map(variable, env or ())))
    end = program.end()
    with serve(settings, port) as server:
        program.run({"url": server.url, **KEYS}, end)


if __name__ == "__main__":
    program.call(main)
