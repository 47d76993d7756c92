"""Problems of a spec that was written for Azure Batch AI, and uses features that Azure Batch lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspec_jobs.provider import Launch, Path, Problem, Spec

OTHER = "azure-batch-ai"
VARIABLE = re.compile(r"\$\{?(AZ_BATCHAI_(\w*))")
# Toolkits of one process, and those whose processes mpirun starts, as with `launch: mpi`.
ALONE = ("custom",)
BY_MPIRUN = ("custom-mpi", "chainer", "horovod")
LOST = {
    "preparation": "ignored: put it at the beginning of the command, or use container.requirements",
    "setup": "ignored: put it at the beginning of the command, or use an image that contains its results",
}
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


def problems(spec: Spec) -> Iterator[Problem]:
    yield from _settings(spec)
    yield from _variables(spec)


def _settings(spec: Spec) -> Iterator[Problem]:
    """Yield notes about the settings of Batch AI, not errors: a spec may have them on purpose."""
    block = spec.providers.get(OTHER, {})
    for key, what in LOST.items():
        if block.get(key):
            yield _note(key, what)
    name = str(block.get("toolkit") or "custom")
    if spec.launch is Launch.NONE and name not in ALONE:
        way = (
            "set launch: mpi, or the command starts without mpirun"
            if name in BY_MPIRUN
            else "each node starts the command once, unless launch is mpi or torchrun"
        )
        yield _note("toolkit", f"Azure Batch has no toolkit {name}: {way}")
    if block.get("toolkit_settings"):
        yield _note("toolkit_settings", "ignored: Azure Batch has no toolkits")


def _note(key: str, what: str) -> Problem:
    return Problem(("providers", OTHER, key), what, at="key", severity="note")


def _variables(spec: Spec) -> Iterator[Problem]:
    texts: list[tuple[Path, str]] = [(("run",), spec.run or "")]
    texts += [(("command", i), word) for i, word in enumerate(spec.command or ())]
    texts += [(("env", name), value) for name, value in spec.env.items()]
    for at, text in texts:
        if match := VARIABLE.search(text):
            way = next(way for begins, way in INSTEAD if match[2].startswith(begins))
            yield Problem(
                at, f"{match[1]} is a variable of Batch AI, which Azure Batch does not set", way
            )
