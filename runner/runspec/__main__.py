"""The `runspec` command; also `python -m runspec`."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the command line and give the exit code; asking for the version loads nothing else."""
    if sys.argv[1:] == ["--version"]:
        from runspec import __version__

        print(f"runspec {__version__}")  # noqa: T201 - the one result that must not wait for the cli
        return 0
    # pydantic would look through every installed package for plugins of its own.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from runspec.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
