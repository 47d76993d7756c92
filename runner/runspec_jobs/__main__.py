"""The `runspec` command; also `runspec-jobs` and `python -m runspec_jobs`."""

from __future__ import annotations

import gc
import os
import sys


def main() -> int:
    """Run the command line and give the exit code; asking for the version loads nothing else."""
    if sys.argv[1:] == ["--version"]:
        from runspec_jobs import __version__

        print(f"runspec {__version__}")  # noqa: T201 - the one result that must not wait for the cli
        return 0
    gc.disable()  # imports leave nothing to collect; on again before the verb
    # pydantic would look through every installed package for plugins of its own.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        from runspec_jobs.cli.app import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:  # so soon, or so often, that nobody else could take it
        return 130


if __name__ == "__main__":
    sys.exit(main())
