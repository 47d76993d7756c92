"""Run the emulator as a program."""

from __future__ import annotations

from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.frame import program


def main() -> None:
    """Run the emulator until it is stopped. The account's key is new each time, and not a secret."""
    parser = program.parser("azure_batch", "disks of the nodes")
    parser.add_argument("--account", default="rehearsal")
    given = parser.parse_args()
    end = program.end()
    with AzureBatch(given.folder, given.account, port=given.port, engine=given.engine) as server:
        program.run(server.env, end)


if __name__ == "__main__":
    main()
