"""Calls of Slurm's commands from within a job."""

import math
import subprocess
import time
from typing import Dict, List, Mapping, Optional

TRIES, PAUSE_S = 5, 3.0  # of a call of Slurm's controller, which may be busy or about to change
LONGEST_S = 60.0  # timeout of one such call


def run(argv: List[str], env: Mapping[str, str]) -> Optional[str]:
    """Run a command of Slurm; return None, or its error message if it fails."""
    said = ""
    for count in range(TRIES):
        if count:
            time.sleep(PAUSE_S)
        try:
            done = subprocess.run(
                argv,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=LONGEST_S,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = str(error)
            continue
        if done.returncode == 0:
            return None
        said = done.stdout.decode("utf-8", "replace").strip() or "{} {}".format(
            argv[0], done.returncode
        )
        if "disabled" in said:  # because of --no-requeue, another call would not help
            break
    return said


def shown(job: str, env: Mapping[str, str]) -> Dict[str, str]:
    """Return what the controller shows of *job*; an empty dict if it does not answer."""
    argv = ["scontrol", "-o", "show", "job", job]
    try:
        text = subprocess.check_output(
            argv, env=dict(env), stdin=subprocess.DEVNULL, timeout=LONGEST_S
        )
    except (OSError, subprocess.SubprocessError):
        # The controller is busy: the caller goes on without.
        return {}
    pairs = [word.partition("=") for word in text.decode("utf-8", "replace").split()]
    return {name: value for name, _, value in pairs}


def seconds(text: str) -> float:
    """Return the time since 1970 of a time of Slurm; infinity for "Unknown" or "N/A".

    >>> seconds("N/A")
    inf
    """
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return math.inf
