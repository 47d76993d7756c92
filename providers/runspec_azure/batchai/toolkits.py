"""Batch AI's toolkits: which one a spec means, and the settings it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from runspec.provider import Launch, Spec, variable
from runspec_azure.batchai import words
from runspec_azure.batchai.options import BatchAiOptions

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
TRIES = "runspec-tries"  # beside the logs: number and exit code of each try that is over
NUMBERS = ("processCount", "workerCount", "parameterServerCount")
BY_LAUNCH = {Launch.MPI: "custom-mpi", Launch.TORCHRUN: "pytorch"}


def toolkit(spec: Spec, options: BatchAiOptions) -> str:
    """Give the toolkit of *spec*: custom starts a command on the first node and nowhere else."""
    if options.toolkit is not None:
        return options.toolkit
    alone = "custom" if spec.cluster.nodes.max == 1 else "custom-mpi"
    return BY_LAUNCH.get(spec.launch, alone)


def fields(name: str) -> tuple[str, ...]:
    """Give the settings that a user may add to those that follow from the spec."""
    kind = KINDS[name]
    return (*kind.more, *(("processCount",) if kind.counted else ()))


def configured(options: BatchAiOptions) -> bool:
    """Say whether a file of settings stands for the script (BrainScript, Caffe)."""
    return "configFilePath" in options.toolkit_settings


def settings(spec: Spec, values: Mapping[str, str], options: BatchAiOptions) -> dict[str, Any]:
    """Give the settings of the toolkit, below their key."""
    kind = KINDS[toolkit(spec, options)]
    found: dict[str, Any] = {}
    if not kind.scripted:
        line = words.line(spec, values, options)
        line = again(line, spec.retry.attempts) if retried(spec, options) else line
        found[kind.arguments] = contract(spec, options) + line
    elif configured(options):
        after = words.line(spec, values, options).partition(" ")[2]
        found |= {kind.arguments: after} if after else {}
    else:
        interpreter, script, *rest = words.program(spec, values, options)
        found["pythonScriptFilePath"] = script
        found |= {"pythonInterpreterPath": interpreter} if interpreter != "python" else {}
        found |= {kind.arguments: rest[0]} if rest else {}
    if kind.counted:
        found["processCount"] = spec.cluster.nodes.max * spec.processes_per_node
    for name, value in options.toolkit_settings.items():
        found[name] = int(value) if name in NUMBERS else value
    return {kind.key: found}


def retried(spec: Spec, options: BatchAiOptions) -> bool:
    """Say whether a shell of ours tries the job again: it can where it starts all there is of it."""
    alone = toolkit(spec, options) == "custom" and options.contract
    return alone and spec.retry.attempts > 1


def again(line: str, attempts: int) -> str:
    """Give a command line that tries *line* up to so often, and writes down how each try ended."""
    return (
        "n=0; while :; do n=$((n+1)); RUNSPEC_ATTEMPT=$n; export RUNSPEC_ATTEMPT; c=0; "
        f"( {line}\n) || c=$?; "
        f'echo "$n $c" >> "$AZ_BATCHAI_STDOUTERR_DIR/{TRIES}"; '
        f'if [ "$c" -eq 0 ] || [ "$n" -ge {attempts} ]; then exit "$c"; fi; done'
    )


def contract(spec: Spec, options: BatchAiOptions) -> str:
    """Give what a shell puts into the job's environment that only it can know: where things are."""
    names = [("mounts", m.name) for m in spec.mounts] + [("outputs", o.name) for o in spec.outputs]
    if not options.contract or not names:
        return ""
    told = (f'{variable(kind, name)}="${words.place(kind, name, options)}"' for kind, name in names)
    return f"export {' '.join(told)}; "
