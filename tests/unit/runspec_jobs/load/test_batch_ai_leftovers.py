"""A spec of Batch AI of which only `provider` was changed is not carried out with half its meaning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from runspec_batchai.importing.conversion import imported
from runspec_jobs.diagnostics.problem import format_path
from runspec_jobs.errors import Unavailable
from runspec_jobs.load import inputs, registry, source
from runspec_jobs.load.notes import foreign_settings
from runspec_jobs.provider import Facts, Problem
from runspec_jobs.provider.types import ForeignFile
from runspec_jobs.testing import documents
from tests.support.profiles import own_profile

ELSEWHERE = [name for name in registry.list_installed() if name != "azure-batch-ai"]

IMAGE = {"containerSettings": {"imageSourceRegistry": {"image": "tensorflow/tensorflow:1.8.0"}}}
FOR_ALL = {"nodeCount": 2, "stdOutErrPathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs", **IMAGE}


def problems(name: str, /, **fields: Any) -> list[Problem]:
    """Give what is said of a spec for the provider *name*."""
    whole: dict[str, Any] = {"apiVersion": "runspec/v1", "name": "n", **fields, "provider": name}
    wanted, wrong = documents.parse_spec(whole)
    assert wanted is not None, wrong
    provider = registry.load(name)
    return source.check_sizes(provider, wanted, Facts(provider.options_model(), complete=False))


def moved(name: str, **properties: Any) -> list[Problem]:
    """Give what is said of a job of Batch AI as `import` makes a spec of it, with another provider."""
    text = json.dumps({"properties": {**FOR_ALL, **properties}})
    return problems(name, **yaml.safe_load(imported(ForeignFile("job.json", text), None).spec))


def said(found: list[Problem], severity: str) -> dict[str, str]:
    return {format_path(p.path): f"{p.what} / {p.hint}" for p in found if p.severity == severity}


on_each = pytest.mark.parametrize("name", ELSEWHERE)


@on_each
def test_a_preparation_that_no_node_would_run_is_told(name: str) -> None:
    horovod = {"pythonScriptFilePath": "train.py"}
    prepared = {"commandLine": "pip install horovod"}

    found = said(moved(name, horovodSettings=horovod, jobPreparation=prepared), "note")

    assert "container.requirements" in found["providers.azure-batch-ai.preparation"]


@on_each
def test_parameter_servers_that_nothing_would_start_are_told(name: str) -> None:
    hosts = "--ps_hosts=$AZ_BATCHAI_PS_HOSTS --task=$AZ_BATCHAI_TASK_INDEX"
    servers = {"parameterServerCount": 1, "parameterServerCommandLineArgs": f"--job=ps {hosts}"}
    script = {"pythonScriptFilePath": "train.py", "workerCount": 2}
    settings = {**script, "masterCommandLineArgs": hosts, "workerCommandLineArgs": hosts, **servers}

    found = moved(name, tensorFlowSettings=settings)

    told, wrong = said(found, "note"), said(found, "error")
    assert "toolkit tensorflow" in told["providers.azure-batch-ai.toolkit"]
    assert "providers.azure-batch-ai.toolkit_settings" in told
    assert any("AZ_BATCHAI_PS_HOSTS" in words for words in wrong.values())


@on_each
def test_a_program_that_is_a_configuration_file_alone_is_an_error(name: str) -> None:
    """Without the file the command is the name of the toolkit, which would start and do something else."""
    found = moved(name, cntkSettings={"languageType": "BrainScript", "configFilePath": "a.cntk"})

    wrong = said(found, "error")
    assert "a.cntk" in wrong["providers.azure-batch-ai.toolkit_settings"]


@on_each
@pytest.mark.parametrize(
    "fields,at,way",
    [
        ({"command": ["a", "$AZ_BATCHAI_INPUT_DATA/x"]}, "command[1]", "${mounts.NAME}"),
        ({"command": ["a", "${AZ_BATCHAI_OUTPUT_MODEL}"]}, "command[1]", "${outputs.NAME}"),
        ({"run": "echo $AZ_BATCHAI_TASK_INDEX"}, "run", "RUNSPEC_RANK"),
        ({"run": "a -f $AZ_BATCHAI_MPI_HOST_FILE"}, "run", "launch: mpi"),
        ({"run": "a", "smoke": "echo $AZ_BATCHAI_NUM_GPUS"}, "smoke", "RUNSPEC_*"),
        ({"run": "a", "smoke": ["b", "$AZ_BATCHAI_NUM_GPUS"]}, "smoke[1]", "RUNSPEC_*"),
        ({"run": "a", "env": {"WHERE": "$AZ_BATCHAI_JOB_TEMP/x"}}, "env.WHERE", "RUNSPEC_*"),
    ],
)
def test_a_variable_that_nothing_sets_is_an_error_with_what_to_use(
    fields: dict[str, Any], at: str, way: str, name: str
) -> None:
    told = said(problems(name, **fields), "error")[at]

    assert way in told and name in told


@on_each
@pytest.mark.parametrize("toolkit", ["chainer", "horovod", "custom-mpi"])
def test_a_toolkit_that_means_the_launch_of_the_spec_needs_no_word(toolkit: str, name: str) -> None:
    own = {"azure-batch-ai": {"toolkit": toolkit}}

    found = problems(name, command=["a"], launch="mpi", providers=own)

    assert "providers.azure-batch-ai.toolkit" not in said(found, "note")


def test_batch_ai_itself_has_all_of_it() -> None:
    prepared = {"commandLine": "pip install horovod"}
    horovod = {"pythonScriptFilePath": "train.py", "commandLineArgs": "$AZ_BATCHAI_TASK_INDEX"}

    found = moved("azure-batch-ai", horovodSettings=horovod, jobPreparation=prepared)

    assert "providers.azure-batch-ai.preparation" not in said(found, "note")
    assert not any("AZ_BATCHAI" in words for words in said(found, "error").values())


@pytest.mark.parametrize(
    ("fields", "others"),
    [
        ({"run": "echo $HF_TOKEN $BATCH_SIZE $RUNSPEC_RANK"}, []),
        ({"run": "echo $AZ_BATCHAI_TASK_INDEX"}, ["azure-batch-ai"]),
        ({"run": "a", "providers": {"azure-batch-ai": {}}}, ["azure-batch-ai"]),
    ],
)
def test_a_provider_that_a_spec_does_not_mention_is_not_imported(
    fields: dict[str, Any], others: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Mock(side_effect=registry.load)
    monkeypatch.setattr(registry, "load", load)

    problems("local", **fields)

    assert [call.args[0] for call in load.call_args_list] == ["local", *others]


def test_a_job_runs_when_a_provider_that_its_spec_mentions_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted, _ = documents.parse_spec(
        {"apiVersion": "runspec/v1", "name": "n", "provider": "local", "command": ["a"]}
        | {"providers": {"azure-batch-ai": {"preparation": "apt-get update"}}}
    )
    assert wanted is not None

    def fail(name: str) -> None:
        raise Unavailable(f"the provider '{name}' cannot be loaded")

    monkeypatch.setattr(registry, "load", fail)

    assert list(foreign_settings.find_lost(wanted)) == []


@pytest.mark.parametrize(("name", "is_noted"), [("azure-batch-ai", False), ("local", True)])
def test_variables_of_torchrun_are_noted_where_runspec_numbers_the_processes(
    name: str, is_noted: bool
) -> None:
    spec = {"apiVersion": "runspec/v1", "name": "n", "provider": name, "run": "echo $MASTER_ADDR"}

    _, found = source.validate_text(source.read("job.yaml", json.dumps(spec).encode()))

    assert any("MASTER_ADDR" in one.what for one in found) == is_noted


PROFILE = """
providers:
  azure-batch-ai:
    setup: {command: apt-get install -y libgl1, logs: $AZ_BATCHAI_MOUNT_ROOT/logs}
"""


@pytest.mark.parametrize(("imported_spec", "told"), [(True, True), (False, False)])
def test_a_setup_task_of_the_profile_that_no_node_would_run_is_told(
    imported_spec: bool, told: bool, tmp_path: Path
) -> None:
    own_profile().write_text(PROFILE)
    own = {"providers": {"azure-batch-ai": {"toolkit": "custom"}}} if imported_spec else {}
    spec = {"apiVersion": "runspec/v1", "name": "n", "provider": "local", "command": ["a"], **own}
    text = source.read("job.yaml", json.dumps(spec).encode())

    inputs.gather(text, tmp_path, lambda _title: lambda _done, _of: None)

    assert any("setup" in one.what for one in text.diagnostics) == told
