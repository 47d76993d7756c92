"""Set the variables of podman containers, end them, and give processes the root of a container."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from runspec_emulators.frame.processes import inherited
from runspec_namespaces import confined_commands

WRITES = 'for home; do [ -w "$home" ] || echo "$home"; done'
NOT_CONFINED = "this machine allows no mount namespace ({}), so jobs can write wherever you can"


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


def run_podman(podman: Sequence[str], *arguments: str) -> None:
    """Run a command of podman, whatever comes of it."""
    subprocess.run(
        [*podman, *arguments], check=False, stdin=subprocess.DEVNULL, capture_output=True
    )


def rooted(folder: Path, *writable: Path) -> list[str]:
    """Return the words before a command whose root keeps in *folder* what is made there; the folder is made.

    Of this machine, the command can write to *writable* alone: see `mount_namespace.Confinement`.
    """
    root = folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    return confined_commands.words_before(
        root, confined_commands.confined_to(writable, folder, seen())
    )


def rootless(folder: Path, *writable: Path) -> list[str]:
    """Return the words before a command that can make nothing in its root, as users of a machine cannot.

    Temporary files are kept in *folder*, which is made. The command can write to *writable* besides.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return confined_commands.words_before(
        None, confined_commands.confined_to(writable, folder, seen())
    )


def seen() -> list[str]:
    """Return the paths that variables of this process give to jobs, and the folder of whoever rehearses.

    Commands of an environment, such as those of conda or of Open MPI, need what lies beside their folder.
    """
    paths = [path for value in inherited().values() for path in value.split(":")]
    beside = (os.path.dirname(path) for path in paths if os.path.basename(path) == "bin")
    return [os.getcwd(), *beside, *paths]


def confinement_notes(folder: Path, below: str = "") -> tuple[bool, list[str]]:
    """Return whether this machine lets the processes of jobs have roots of their own, and what to note otherwise.

    It is tried in *folder*, the rehearsal's, since some file systems cannot keep what is written to a home folder.
    *below* is what else is then different.
    """
    with tempfile.TemporaryDirectory(prefix="runspec-trial-", dir=folder) as made:
        line = [*rootless(Path(made)), "/bin/sh", "-c", WRITES, "sh", *confined_commands.homes()]
        done = subprocess.run(
            line, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        why = done.stderr.strip().rpartition("\n")[2] or f"the attempt ended with {done.returncode}"
        return False, [NOT_CONFINED.format(why) + below]
    return True, [f"jobs cannot write to {home}" for home in done.stdout.splitlines()]
