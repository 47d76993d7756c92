"""Run podman and docker by their command lines, which are the same for what runspec needs."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import time
from collections.abc import Callable

from runspec_agent.base.light_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

LABEL = "runspec.run"
ANSWER_S = 60.0  # an engine that does not answer in this time does not work
PAUSE_S = 0.05
AWAY = "/"  # engines are not started in the folder of a job file, whose content must not act as settings


def engine(name: str, *words: str, timeout_s: float = ANSWER_S) -> subprocess.CompletedProcess[str]:
    """Run the engine's command line and return the completed process.

    Raise FileNotFoundError if the engine is not installed and TimeoutError if it does not answer; both are OSErrors
    that name it.
    """
    import subprocess  # slow to import, and few specs have an image

    try:
        return subprocess.run(
            [name, *words], capture_output=True, cwd=AWAY, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise TimeoutError(errno.ETIMEDOUT, f"no answer in {timeout_s:.0f} s", name) from exc


def works(name: str) -> str | None:
    """Return why the engine *name* does not work here, or None when it does."""
    try:
        done = engine(name, "version", "--format", "{{json .}}")
    except FileNotFoundError:
        return f"{name} is not installed"
    except TimeoutError:
        return f"{name} does not answer"
    if done.returncode == 0 and (name == "podman" or _has_server(done.stdout)):
        return None
    return f"{name} does not work: {last_line(done.stderr)}"


def _has_server(text: str) -> bool:
    """Return whether docker's daemon runs: the command answers without it, but then has no server version."""
    try:
        return bool(json.loads(text).get("Server"))
    except ValueError:  # an old version, or a program that only has docker's name
        return False


def has_image(name: str, image: str) -> bool:
    return engine(name, "image", "inspect", "--format", "{{.Id}}", image).returncode == 0


def await_container(name: str, container: str, over: Callable[[], bool]) -> None:
    """Wait until *container* runs, or until *over* returns True because it never will."""
    line = ("container", "inspect", "--format", "{{.State.Running}}", container)
    while not over() and engine(name, *line).stdout.strip() != "true":
        time.sleep(PAUSE_S)


def remove_container(name: str, container: str) -> None:
    engine(name, "rm", "--force", container)


def containers_of(name: str, run: str) -> list[str]:
    """Return the containers that belong to *run*."""
    line = ("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={LABEL}={run}")
    return engine(name, *line).stdout.split()


def last_line(text: str) -> str:
    return next((line for line in reversed(text.strip().split("\n")) if line.strip()), "no reason")


# Where podman finds the registries of names such as `me/app`, which name none:
# https://github.com/containers/image/blob/main/docs/containers-registries.conf.5.md
ALIASES = (
    "/etc/containers/registries.conf",
    "/etc/containers/registries.conf.d/*.conf",
    "/usr/share/containers/registries.conf.d/*.conf",
    "~/.config/containers/registries.conf",
    "~/.config/containers/registries.conf.d/*.conf",
    "~/.cache/containers/short-name-aliases.conf",
)


def is_found_nowhere(image: str) -> bool:
    """Return whether podman has no registry to ask for *image*, whose name has none, and does not have the image."""
    name = re.split("[:@]", image, maxsplit=1)[0]
    if any(name in _read_aliases(path) for path in ALIASES) or has_image("podman", image):
        return False
    said = engine("podman", "info", "--format", "{{json .Registries}}")
    try:
        return said.returncode == 0 and not json.loads(said.stdout).get("search")
    except (ValueError, AttributeError):
        # The output of a later version: rather no problem than a wrong one.
        return False


def _read_aliases(pattern: str) -> set[str]:
    """Return the names that the files of *pattern* give a registry; none of a file that cannot be read."""
    import glob  # few specs have an image whose name has no registry
    import tomllib

    found: set[str] = set()
    for path in glob.glob(os.path.expanduser(pattern)):
        with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
            found |= {*tomllib.load(file).get("aliases", {})}
    return found
