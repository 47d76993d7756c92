"""A shell of a new job in a container, as a program calls it."""

from __future__ import annotations

import subprocess
import sys

# Prints the variable WORD of the spec, where the container is not the machine, on which podman is.
ASKS = 'test ! -e /usr/bin/podman && echo "$WORD"; exit 6'


def shell_in_container() -> subprocess.CompletedProcess[str]:
    """Run ASKS by `runspec shell --new job.yaml`, and give what it printed and its exit code."""
    line = [sys.executable, "-m", "runspec_jobs", "shell", "--new", "job.yaml"]
    words = [*line, "--", "sh", "-c", ASKS]
    return subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
