"""Set the variables of podman containers, end them, and give processes the root of a container."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from runspec_namespaces import mount_namespace


def env_options(file: Path, env: Mapping[str, str]) -> list[str]:
    """Return the options that give a container its variables, most of them written to *file*.

    Values are in a file that only its owner reads, never in argv. A line of the file cannot hold a
    value of many lines, which podman reads from its own environment: `own_env`.
    """
    file.touch(0o600)
    file.write_text("".join(f"{k}={v}\n" for k, v in env.items() if "\n" not in v))
    return ["--env-file", str(file), *(w for k in many_lines(env) for w in ("--env", k))]


def many_lines(env: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in env.items() if "\n" in v}


def own_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of podman itself for a container that has *env*."""
    return {**os.environ, **many_lines(env)}


def run_podman(podman: Sequence[str], *words: str) -> None:
    """Run a command of podman, whatever comes of it."""
    subprocess.run([*podman, *words], check=False, stdin=subprocess.DEVNULL, capture_output=True)


def rooted(folder: Path) -> list[str]:
    """Return the words before a command whose root keeps in *folder* what is made there; the folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    return mount_namespace.words_before(folder)


def rootless() -> list[str]:
    """Return the words before a command that can make nothing in its root, as users of a machine cannot."""
    return mount_namespace.words_before(None)


def roots_are_allowed() -> bool:
    """Return whether this machine allows processes to have roots of their own."""
    return mount_namespace.refusal() is None
