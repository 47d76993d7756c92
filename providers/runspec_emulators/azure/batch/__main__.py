"""The stand-in as a program."""

from __future__ import annotations

from runspec_emulators import program
from runspec_emulators.azure.batch.server import AzureBatch


def main() -> None:
    """Run until it is to end. The key is new each time, and no secret."""
    parser = program.parser("azure.batch", "disks of the nodes")
    parser.add_argument("--account", default="rehearsal")
    given = parser.parse_args()
    end = program.end()
    with AzureBatch(given.folder, given.account, port=given.port, engine=given.engine) as server:
        program.run(server.env, end)


if __name__ == "__main__":
    main()
