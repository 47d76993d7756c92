"""Choose the Batch AI toolkit of a spec, and make its settings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_batchai.attempts import hosts, ranks, with_retries
from runspec_batchai.decision import Decision
from runspec_batchai.job import command_line
from runspec_batchai.options import BatchAiOptions
from runspec_jobs.provider import Spec
from runspec_jobs.provider.commands import variable

SCRIPT = ("pythonScriptFilePath", "pythonInterpreterPath")


class Kind(NamedTuple):
    """One toolkit: the key of its settings, the field of its arguments, and further fields."""

    key: str
    arguments: str
    scripted: bool = True
    counted: bool = True  # the toolkit has the setting processCount
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


def fields(name: str) -> tuple[str, ...]:
    """Return the names of the settings that a user may add to those from the spec."""
    kind = KINDS[name]
    return (*kind.more, *(("processCount",) if kind.counted else ()))


def configured(options: BatchAiOptions) -> bool:
    """Return whether a configuration file replaces the script (BrainScript, Caffe)."""
    return "configFilePath" in options.toolkit_settings


def settings(decision: Decision, spec: Spec, values: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of the toolkit under their key."""
    options, kind = decision.options, KINDS[decision.requested_toolkit]
    settings: dict[str, Any] = {}
    if not kind.scripted:
        settings[kind.arguments] = _line(decision, spec, values)
    elif configured(options):
        after = command_line.written(spec, values, options).partition(" ")[2]
        settings |= {kind.arguments: after} if after else {}
    else:
        interpreter, script, *rest = command_line.program(spec, values, options)
        settings["pythonScriptFilePath"] = script
        settings |= {"pythonInterpreterPath": interpreter} if interpreter != "python" else {}
        settings |= {kind.arguments: rest[0]} if rest else {}
    if kind.counted:
        settings["processCount"] = decision.processes
    for name, value in options.toolkit_settings.items():
        if name != "processCount":
            settings[name] = int(value) if name in NUMBERS else value
    return {kind.key: settings}


def _line(decision: Decision, spec: Spec, values: Mapping[str, str]) -> str:
    """Return the command line, for a toolkit that has one."""
    line = command_line.line(spec, values, decision.options)
    if not decision.options.contract:
        return line
    if decision.toolkit == "custom":
        line = (
            with_retries(line, decision.attempts, spec.retry.rules) if decision.is_retried else line
        )
        return with_contract(line, decision)
    line = contract_in_each_process(line, decision)
    if not decision.is_retried:
        return line
    known = [*OWN, *(variable("sweep", name) for name in values), *spec.program_env, *spec.secrets]
    known += sorted(set(re.findall(r"\$\{?(AZ_BATCH\w+)", line)))
    retried = with_retries(ranks(line, decision.processes), decision.attempts, spec.retry.rules)
    return hosts(decision.slots, known) + retried


def with_contract(line: str, decision: Decision) -> str:
    """Return *line*, which a shell starts on the first node, after the variables of the contract."""
    first = '"${AZ_BATCH_HOST_LIST%%,*}"'
    variables = f"RUNSPEC_RANK=0 RUNSPEC_HOST={first} RUNSPEC_LEADER={first}"
    return f"export {variables}{_exported(decision)}; {line}"


def contract_in_each_process(line: str, decision: Decision) -> str:
    """Return a command that sets the variables of the contract in each process of mpirun, and executes *line*.

    The command line is "executed by mpi runtime" (CustomMpiSettings in the official description), which starts
    programs and not shell text. Ranks fill one node after the other.
    """
    rank = f"$((${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-0}}}} / {decision.slots}))"
    text = (
        f"IFS=,; set -- $AZ_BATCH_HOST_LIST; unset IFS; export RUNSPEC_RANK={rank} "
        f'RUNSPEC_LEADER="$1"{_exported(decision)}; '
        '[ "$RUNSPEC_RANK" -lt $# ] && shift "$RUNSPEC_RANK"; '
        f'export RUNSPEC_HOST="$1"; exec {line}'
    )
    return f"/bin/sh -c {shlex.quote(text)}"


def _exported(decision: Decision) -> str:
    return "".join(f' {name}="{value}"' for name, value in decision.paths.items())
