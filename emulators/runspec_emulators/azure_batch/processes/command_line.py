"""A command line as the node agent reads it: no shell, so quotes group words and nothing expands.

"The command line does not run under a shell, and therefore cannot take advantage of shell features
such as environment variable expansion". How Linux nodes split it is not documented; what is, are
lines like `/bin/sh -c "printenv NAME"` and `/bin/bash -c 'set -e; ...'`, which both quotes of POSIX
explain. Here it is split as POSIX shells do: single quotes keep all, double quotes and a backslash.
https://learn.microsoft.com/en-us/azure/batch/batch-compute-node-environment-variables
"""

from __future__ import annotations

import shlex


def split(line: str) -> list[str]:
    """Return the words of a command line; raise ValueError where a quote is left open.

    >>> split('/bin/sh -c "echo $HOME"')
    ['/bin/sh', '-c', 'echo $HOME']
    """
    return shlex.split(line, comments=False, posix=True)
