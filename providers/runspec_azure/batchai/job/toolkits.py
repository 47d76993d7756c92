"""Choose the Batch AI toolkit of a spec, and make its settings."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from runspec_azure.batchai.attempts import hosts, ranks, with_retries
from runspec_azure.batchai.job import command_line
from runspec_azure.batchai.options import BatchAiOptions
from runspec_jobs.provider import Launch, Spec, variable

SCRIPT = ("pythonScriptFilePath", "pythonInterpreterPath")


class Kind(NamedTuple):
    """One toolkit: the key of its settings, the field of its arguments, and further fields."""

    key: str
    arguments: str
    scripted: bool = True
    counted: bool = True  # it has processCount
    more: tuple[str, ...] = ()


# The official description, `*Settings` of JobBaseProperties.
KINDS: Mapping[str, Kind] = {
    "chainer": Kind("chainerSettings", "commandLineArgs"),
    "horovod": Kind("horovodSettings", "commandLineArgs"),
    "pytorch": Kind("pyTorchSettings", "commandLineArgs", more=("communicationBackend",)),
    "tensorflow": Kind(
        "tensorFlowSettings",
        "masterCommandLineArgs",
        counted=False,
        more=(
            "workerCommandLineArgs",
            "parameterServerCommandLineArgs",
            "workerCount",
            "parameterServerCount",
        ),
    ),
    "cntk": Kind("cntkSettings", "commandLineArgs", more=("languageType", "configFilePath")),
    "caffe": Kind("caffeSettings", "commandLineArgs", more=("configFilePath",)),
    "caffe2": Kind("caffe2Settings", "commandLineArgs", counted=False),
    "custom-mpi": Kind("customMpiSettings", "commandLine", scripted=False),
    "custom": Kind("customToolkitSettings", "commandLine", scripted=False, counted=False),
}
# The variables that `job` sets for every job.
OWN = ("RUNSPEC_RUN", "RUNSPEC_TASK", "RUNSPEC_ATTEMPT", "RUNSPEC_NODES", "RUNSPEC_SLOTS")
BY_MPIRUN = ("chainer", "horovod", "cntk", "caffe")  # mpirun is started by Batch AI itself
NUMBERS = ("processCount", "workerCount", "parameterServerCount")
BY_LAUNCH = {
    Launch.MPI: "custom-mpi",
    Launch.HOROVOD: "horovod",
    Launch.TORCHRUN: "pytorch",
}


def toolkit(spec: Spec, options: BatchAiOptions) -> str:
    """Return the toolkit of *spec*; custom starts a command only on the first node."""
    if options.toolkit is not None:
        return options.toolkit
    alone = "custom" if spec.cluster.nodes.max == 1 else "custom-mpi"
    return BY_LAUNCH.get(spec.launch, alone)


def fields(name: str) -> tuple[str, ...]:
    """Return the names of the settings that a user may add to those from the spec."""
    kind = KINDS[name]
    return (*kind.more, *(("processCount",) if kind.counted else ()))


def configured(options: BatchAiOptions) -> bool:
    """Return whether a configuration file replaces the script (BrainScript, Caffe)."""
    return "configFilePath" in options.toolkit_settings


def settings(spec: Spec, values: Mapping[str, str], options: BatchAiOptions) -> dict[str, Any]:
    """Return the settings of the toolkit under their key."""
    kind = KINDS[sent(spec, options)]
    found: dict[str, Any] = {}
    if not kind.scripted:
        found[kind.arguments] = _line(spec, values, options)
    elif configured(options):
        after = command_line.written(spec, values, options).partition(" ")[2]
        found |= {kind.arguments: after} if after else {}
    else:
        interpreter, script, *rest = command_line.program(spec, values, options)
        found["pythonScriptFilePath"] = script
        found |= {"pythonInterpreterPath": interpreter} if interpreter != "python" else {}
        found |= {kind.arguments: rest[0]} if rest else {}
    if kind.counted:
        found["processCount"] = processes(spec, options)
    for name, value in options.toolkit_settings.items():
        if name != "processCount":
            found[name] = int(value) if name in NUMBERS else value
    return {kind.key: found}


def retried(spec: Spec, options: BatchAiOptions) -> bool:
    """Return whether shell text of runspec retries the job, which needs a toolkit whose processes it starts."""
    alone = toolkit(spec, options) in ("custom", "custom-mpi") and options.contract
    return alone and spec.retry.attempts > 1


def sent(spec: Spec, options: BatchAiOptions) -> str:
    """Return the toolkit in the request: custom if shell text of runspec starts mpirun itself."""
    return "custom" if retried(spec, options) else toolkit(spec, options)


def _line(spec: Spec, values: Mapping[str, str], options: BatchAiOptions) -> str:
    """Return the command line, for a toolkit that has one."""
    line = command_line.line(spec, values, options)
    if not options.contract:
        return line
    if toolkit(spec, options) == "custom":
        line = with_retries(line, spec.retry.attempts) if retried(spec, options) else line
        return with_contract(line, spec, options)
    line = contract_in_each_process(line, spec, options)
    if not retried(spec, options):
        return line
    known = [*OWN, *(variable("sweep", name) for name in values), *spec.program_env, *spec.secrets]
    known += sorted(set(re.findall(r"\$\{?(AZ_BATCH\w+)", line)))
    ours = hosts(slots(spec, options), known)
    return ours + with_retries(ranks(line, processes(spec, options)), spec.retry.attempts)


def processes(spec: Spec, options: BatchAiOptions) -> int:
    """Return how many processes the toolkit starts, if it has such a setting."""
    asked = options.toolkit_settings.get("processCount")
    return int(asked) if asked else spec.cluster.nodes.max * spec.processes_per_node


def slots(spec: Spec, options: BatchAiOptions) -> int:
    """Return how many processes each node runs; the last nodes may run fewer."""
    return math.ceil(processes(spec, options) / spec.cluster.nodes.max)


def places(spec: Spec, options: BatchAiOptions) -> dict[str, str]:
    """Return the variables of the contract for paths of the job, as references to Batch AI's own variables.

    The service replaces these references also in the values of the user's variables:
    https://github.com/Azure/BatchAI/blob/master/documentation/using-batchai-environment-variables.md
    """
    names = [("mounts", m.name) for m in spec.mounts] + [("outputs", o.name) for o in spec.outputs]
    found = {
        variable(kind, name): f"${command_line.place(kind, name, options)}" for kind, name in names
    }
    return {"RUNSPEC_HOSTFILE": "$AZ_BATCHAI_MPI_HOST_FILE", **found}


def with_contract(line: str, spec: Spec, options: BatchAiOptions) -> str:
    """Return *line*, which a shell starts on the first node, after the variables of the contract."""
    first = '"${AZ_BATCH_HOST_LIST%%,*}"'
    own = f"RUNSPEC_RANK=0 RUNSPEC_HOST={first} RUNSPEC_LEADER={first}"
    return f"export {own}{_exported(spec, options)}; {line}"


def contract_in_each_process(line: str, spec: Spec, options: BatchAiOptions) -> str:
    """Return a command that sets the variables of the contract in each process of mpirun, and executes *line*.

    The command line is "executed by mpi runtime" (CustomMpiSettings in the official description), which starts
    programs and not shell text. Ranks fill one node after the other.
    """
    rank = f"$((${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-0}}}} / {slots(spec, options)}))"
    text = (
        f"IFS=,; set -- $AZ_BATCH_HOST_LIST; unset IFS; export RUNSPEC_RANK={rank} "
        f'RUNSPEC_LEADER="$1"{_exported(spec, options)}; '
        '[ "$RUNSPEC_RANK" -lt $# ] && shift "$RUNSPEC_RANK"; '
        f'export RUNSPEC_HOST="$1"; exec {line}'
    )
    return f"/bin/sh -c {shlex.quote(text)}"


def _exported(spec: Spec, options: BatchAiOptions) -> str:
    return "".join(f' {name}="{value}"' for name, value in places(spec, options).items())
