"""What a spec that was made for Azure Batch AI says, and Azure Batch knows nothing of."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspec_jobs.provider import Launch, Path, Problem, Spec

OTHER = "azure-batch-ai"
VARIABLE = re.compile(r"\$\{?(AZ_BATCHAI_(\w*))")
# Toolkits of one process, and those that mpirun starts there as `launch: mpi` does here.
ALONE = ("custom",)
BY_MPIRUN = ("custom-mpi", "chainer", "horovod")
LOST = {
    "preparation": "no node runs it before the job: begin the command with it, or use container.requirements",
    "setup": "no node runs it when it joins: begin the command with it, or use an image that has it",
}
# By what a name of Batch AI's begins with: what to use instead.
INSTEAD = (
    ("INPUT_", "write ${mounts.NAME}"),
    ("OUTPUT_", "write ${outputs.NAME}"),
    ("MOUNT_ROOT", "write ${mounts.NAME}"),
    ("JOB_MOUNT_ROOT", "write ${mounts.NAME}"),
    ("TASK_INDEX", "the job has RUNSPEC_RANK in its environment"),
    ("MPI_", "set launch: mpi, which needs no word of the hosts"),
    ("PS_HOSTS", "have nodes meet at RUNSPEC_LEADER, or set a launch: nothing starts parameter servers"),
    ("WORKER_HOSTS", "have nodes meet at RUNSPEC_LEADER, or set a launch"),
    ("PYTORCH_INIT_METHOD", "set launch: torchrun"),
    ("", "use what the job has in its environment, RUNSPEC_*"),
)  # fmt: skip


def problems(spec: Spec) -> Iterator[Problem]:
    yield from _settings(spec)
    yield from _variables(spec)


def _settings(spec: Spec) -> Iterator[Problem]:
    """A block of another provider may stand there on purpose, so it is told and stops nothing."""
    block = spec.providers.get(OTHER, {})
    for key, what in LOST.items():
        if block.get(key):
            yield _note(key, what)
    name = str(block.get("toolkit") or "custom")
    if spec.launch is Launch.NONE and name not in ALONE:
        way = (
            "set launch: mpi, or it is started without mpirun"
            if name in BY_MPIRUN
            else "each node starts the command once; launch: mpi and torchrun are what starts more"
        )
        yield _note("toolkit", f"Azure Batch has no toolkit {name}: {way}")
    if block.get("toolkit_settings"):
        yield _note("toolkit_settings", "Azure Batch has no toolkits: nothing here heeds them")


def _note(key: str, what: str) -> Problem:
    return Problem(("providers", OTHER, key), what, at="key", severity="note")


def _variables(spec: Spec) -> Iterator[Problem]:
    texts: list[tuple[Path, str]] = [(("run",), spec.run or "")]
    texts += [(("command", i), word) for i, word in enumerate(spec.command or ())]
    texts += [(("env", name), value) for name, value in spec.env.items()]
    for at, text in texts:
        if match := VARIABLE.search(text):
            way = next(way for begins, way in INSTEAD if match[2].startswith(begins))
            yield Problem(at, f"{match[1]} is Batch AI's, and nothing sets it on Azure Batch", way)
