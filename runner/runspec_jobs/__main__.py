"""The `runspec` command; also `runspec-jobs` and `python -m runspec_jobs`."""

from __future__ import annotations

import gc
import os
import sys


def main() -> int:
    """Run the command line and return the exit code; the version is printed without loading anything else."""
    if sys.argv[1:] in (["--version"], ["version"]):
        from runspec_jobs import __version__

        print(f"runspec {__version__}")  # noqa: T201 - printed here, so that it does not wait for the import of the cli
        return 0
    gc.disable()  # imports leave no garbage; enabled again before the command runs
    # Otherwise pydantic searches every installed package for plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        from runspec_jobs.cli.app import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:  # raised before, or after, the handlers of the cli
        return 130


if __name__ == "__main__":
    sys.exit(main())
