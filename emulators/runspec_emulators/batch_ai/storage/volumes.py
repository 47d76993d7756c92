"""Volumes and where a node mounts them; variables in the text of paths and values."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
OWN = re.compile(r"\$(?:\{(AZ_BATCHAI_\w+)\}|(AZ_BATCHAI_\w+))")


class CannotMount(Exception):
    """A volume cannot be mounted; the message says why."""


class Volume(NamedTuple):
    """One volume to mount."""

    at: str
    """relativeMountPath."""
    folder: Path
    container: tuple[str, str] | None = None
    """Account and name, where it is a container of a Blob service."""


def expanded(text: str, env: Mapping[str, str]) -> str:
    """Put variables in, as a shell would.

    >>> expanded("$A/${B}/$C", {"A": "1", "B": "2"})
    '1/2/'
    """
    return VARIABLE.sub(lambda match: env.get(match[1] or match[2], ""), text)


def referenced(text: str, env: Mapping[str, str]) -> str:
    """Put the service's own variables into the value of a user's, and no others.

    "You can reference these environment variables in your training job configuration, such as command
    lines, input/output directories, and user defined environment variables":
    documentation/using-batchai-environment-variables.md.

    >>> referenced("$AZ_BATCHAI_X/$HOME", {"AZ_BATCHAI_X": "/x", "HOME": "/root"})
    '/x/$HOME'
    """
    return OWN.sub(lambda match: env.get(match[1] or match[2], match[0]), text)


def mount(volume: Volume, root: Path) -> None:
    """Put a volume below *root*: on this machine, a link will do."""
    volume.folder.mkdir(parents=True, exist_ok=True)
    at = root / volume.at
    at.parent.mkdir(parents=True, exist_ok=True)
    if at.is_symlink():
        at.unlink()
    os.symlink(volume.folder, at)
