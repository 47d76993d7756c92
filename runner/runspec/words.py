"""The words of a command: which of them stand for something only known inside the job.

`${mounts.NAME}`, `${outputs.NAME}` and `${sweep.NAME}` are put in inside the job, from the
environment variables named here; `$${` stands for a plain `${`. See runspec_inside/inside.sh.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

from runspec.spec import Spec

KINDS = {"mounts": "RUNSPEC_MOUNT_", "outputs": "RUNSPEC_OUTPUT_", "sweep": "RUNSPEC_SWEEP_"}
PLACE = re.compile(r"(\$?)\$\{(mounts|outputs|sweep)\.([^}]*)\}")


def variable(kind: str, name: str) -> str:
    """Give the environment variable that holds *name* inside the job.

    >>> variable("mounts", "my-code")
    'RUNSPEC_MOUNT_MY_CODE'
    """
    return KINDS[kind] + name.upper().replace("-", "_")


def places(text: str) -> Iterator[tuple[str, str]]:
    """Give the (kind, name) of every place in *text* that is filled in inside the job.

    >>> list(places("${mounts.code}/x $${mounts.data}"))
    [('mounts', 'code')]
    """
    for escaped, kind, name in PLACE.findall(text):
        if not escaped:
            yield kind, name


def shell_script(text: str) -> str:
    """Give *text* with every place as a reference to its variable, for a shell to fill in.

    The value itself never becomes part of a script.

    >>> shell_script('ls "${mounts.code}"')
    'ls "${RUNSPEC_MOUNT_CODE}"'
    """

    def name(match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        return "${" + variable(match[2], match[3]) + "}"

    return PLACE.sub(name, text)


def argv(spec: Spec) -> tuple[str, ...]:
    """Give the words that inside.sh is given: the command as written, or the script for /bin/sh."""
    if spec.command is not None:
        return spec.command
    assert spec.run is not None, "BUG: rules let a spec through that has nothing to run"
    return ("/bin/sh", "-e", "-c", shell_script(spec.run))


def tasks(spec: Spec) -> tuple[Mapping[str, str], ...]:
    """Give the values of every task of the sweep, the last parameter changing fastest.

    A spec without a sweep is one task without values.
    """
    names = list(spec.sweep)
    return tuple(
        dict(zip(names, values, strict=True)) for values in itertools.product(*spec.sweep.values())
    )
