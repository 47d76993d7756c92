"""Run the emulator as a program."""

from __future__ import annotations

import argparse

from runspec_emulators.aws.http import serve
from runspec_emulators.aws.settings import Settings
from runspec_emulators.frame import program


def variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def main() -> None:
    parser = program.parser("aws", "scratch folders of containers")
    parser.add_argument("--env", type=variable, action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    settings = Settings(given.folder, engine=given.engine, machine_env=dict(given.env))
    end = program.end()
    with serve(settings, given.port) as server:
        program.run({"url": server.url}, end)


if __name__ == "__main__":
    main()
