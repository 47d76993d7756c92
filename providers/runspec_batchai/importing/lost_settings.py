"""What a spec for Batch AI has and other providers do not: see docs/azure-batch-ai.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runspec_jobs.provider import Launch, Path, Problem, Spec

NAME = "azure-batch-ai"
VARIABLE = re.compile(r"\$\{?(AZ_BATCHAI_(\w*))")
# Toolkits of one process, and those whose processes mpirun starts, as with `launch: mpi`.
ALONE = ("custom",)
BY_MPIRUN = ("custom-mpi", "chainer", "horovod")
# What to use instead of a variable of Batch AI, by the beginning of its name.
INSTEAD = (
    ("INPUT_", "write ${mounts.NAME}"),
    ("OUTPUT_", "write ${outputs.NAME}"),
    ("MOUNT_ROOT", "write ${mounts.NAME}"),
    ("JOB_MOUNT_ROOT", "write ${mounts.NAME}"),
    ("TASK_INDEX", "use RUNSPEC_RANK"),
    ("MPI_", "set launch: mpi, which needs no list of hosts"),
    ("PS_HOSTS", "connect nodes by RUNSPEC_LEADER, or set launch; runspec starts no parameter servers"),
    ("WORKER_HOSTS", "connect nodes by RUNSPEC_LEADER, or set launch"),
    ("PYTORCH_INIT_METHOD", "set launch: torchrun"),
    ("", "use the RUNSPEC_* variables of the job"),
)  # fmt: skip


def find_lost(spec: Spec) -> Iterator[Problem]:
    """Yield a problem for everything in *spec*, which is for another provider, that only Batch AI has.

    A setting that is ignored is a note, because a spec may keep it for Batch AI; what would start another program is
    an error.
    """
    block = spec.providers.get(NAME, {})
    if block.get("preparation"):
        yield _lost(
            "preparation",
            "ignored: put it at the beginning of the command, or use container.requirements",
        )
    name = str(block.get("toolkit") or "custom")
    if spec.launch is Launch.NONE and name not in ALONE:
        hint = (
            "set launch: mpi, or the command starts without mpirun"
            if name in BY_MPIRUN
            else "each node starts the command once, unless launch is mpi, horovod or torchrun"
        )
        yield _lost("toolkit", f"only Batch AI has the toolkit {name}: {hint}")
    if settings := block.get("toolkit_settings"):
        yield from _lost_toolkit_settings(settings)
    yield from _lost_variables(spec)


def find_lost_setup(profile: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a note about the setup task in *profile*, the settings of Batch AI, which other providers do not run."""
    if profile.get("setup"):
        what = (
            f"setup, which the profile has for {NAME}, is ignored: put it at the beginning of the "
        )
        what += "command, or use an image that contains its results"
        yield Problem(("provider",), what, severity="note")


def _lost_toolkit_settings(settings: Mapping[str, Any]) -> Iterator[Problem]:
    at = ("providers", NAME, "toolkit_settings")
    file = settings.get("configFilePath")
    if file:
        what = f"only Batch AI starts a program from configFilePath ('{file}')"
        hint = "write the whole command, with the file, and remove configFilePath"
        yield Problem(at, what, hint, at="key")
    else:
        yield _lost("toolkit_settings", "ignored: only Batch AI has toolkits")


def _lost(key: str, what: str) -> Problem:
    return Problem(("providers", NAME, key), what, at="key", severity="note")


def _lost_variables(spec: Spec) -> Iterator[Problem]:
    texts: list[tuple[Path, str]] = [(("run",), spec.run or "")]
    texts += _numbered("command", spec.command or ())
    texts += [(("env", name), value) for name, value in spec.env.items()]
    smoke = spec.smoke or ()
    texts += [(("smoke",), smoke)] if isinstance(smoke, str) else _numbered("smoke", smoke)
    for at, text in texts:
        if match := VARIABLE.search(text):
            hint = next(hint for begins, hint in INSTEAD if match[2].startswith(begins))
            what = f"{match[1]} is a variable of Batch AI, which {spec.provider} does not set"
            yield Problem(at, what, hint)


def _numbered(key: str, words: Iterable[str]) -> list[tuple[Path, str]]:
    return [((key, i), word) for i, word in enumerate(words)]
