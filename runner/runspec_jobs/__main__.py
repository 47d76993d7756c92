"""The `runspec` command; also `runspec-jobs` and `python -m runspec_jobs`."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from types import ModuleType


def main() -> int:
    """Run the command line and return the exit code; the version is printed without loading anything else."""
    _open_streams()
    if sys.argv[1:] in (["--version"], ["version"]):
        from runspec_jobs import __version__

        try:
            print(f"runspec {__version__}", flush=True)  # noqa: T201 - printed here, so that it does not wait for the import of the cli
            return 0
        except OSError:
            pass  # the command line prints it again, and reports the error
    gc.disable()  # imports leave no garbage; enabled again before the command runs
    # Otherwise pydantic searches every installed package for plugins.
    if os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__") == "__all__":
        sys.modules[_NoPlugins.NAME] = _NoPlugins(_NoPlugins.NAME)
    try:
        from runspec_jobs.cli.app import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:  # raised before, or after, the handlers of the cli
        return 130


class _NoPlugins(ModuleType):
    """Replaces the module of pydantic that loads plugins, and imports `importlib.metadata` even if none is wanted."""

    NAME = "pydantic.plugin._loader"
    get_plugins = tuple

    def __getattr__(self, name: str) -> object:
        """Return what another version of pydantic wants of it, and the import system does not ask for."""
        if name.startswith("__"):
            raise AttributeError(name)
        sys.modules.pop(self.NAME, None)
        return getattr(importlib.import_module(self.NAME), name)


def _open_streams() -> None:
    """Open standard streams that are closed, so that no other file gets their numbers; only output remains an error."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            how = os.O_RDONLY if name == "stdout" else os.O_RDWR
            number = os.open(os.devnull, how)  # the lowest number that is free
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115 - until the exit


if __name__ == "__main__":
    sys.exit(main())
