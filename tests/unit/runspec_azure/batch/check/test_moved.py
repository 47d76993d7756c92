"""A spec of Batch AI of which only `provider` was changed is not carried out with half its meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from runspec_azure.batch.provider import PROVIDER
from runspec_azure.batchai.importing.importing import imported
from runspec_jobs.diagnostics.problem import dotted
from runspec_jobs.provider import ForeignFile, Problem
from runspec_jobs.testing import documents
from tests.support.azure.specs import problems, spec

IMAGE = {"containerSettings": {"imageSourceRegistry": {"image": "tensorflow/tensorflow:1.8.0"}}}
FOR_ALL = {"nodeCount": 2, "stdOutErrPathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs", **IMAGE}


def moved(**properties: Any) -> list[Problem]:
    """Give what is said of a job of Batch AI as `import` makes a spec of it, with another provider."""
    text = json.dumps({"properties": {**FOR_ALL, **properties}})
    found = yaml.safe_load(imported(ForeignFile("job.json", text), None).spec)
    wanted, wrong = documents.spec({**found, "provider": PROVIDER.name})
    assert wanted is not None, wrong
    return problems(wanted)


def said(found: list[Problem], severity: str) -> dict[str, str]:
    return {dotted(p.path): f"{p.what} / {p.hint}" for p in found if p.severity == severity}


def test_a_preparation_that_no_node_would_run_is_told() -> None:
    horovod = {"pythonScriptFilePath": "train.py"}
    prepared = {"commandLine": "pip install horovod"}

    found = said(moved(horovodSettings=horovod, jobPreparation=prepared), "note")

    at = "providers.azure-batch-ai.preparation"
    assert "container.requirements" in found[at]


def test_parameter_servers_that_nothing_would_start_are_told() -> None:
    hosts = "--ps_hosts=$AZ_BATCHAI_PS_HOSTS --task=$AZ_BATCHAI_TASK_INDEX"
    servers = {"parameterServerCount": 1, "parameterServerCommandLineArgs": f"--job=ps {hosts}"}
    script = {"pythonScriptFilePath": "train.py", "workerCount": 2}
    settings = {**script, "masterCommandLineArgs": hosts, "workerCommandLineArgs": hosts, **servers}

    found = moved(tensorFlowSettings=settings)

    told, wrong = said(found, "note"), said(found, "error")
    assert "no toolkit tensorflow" in told["providers.azure-batch-ai.toolkit"]
    assert "providers.azure-batch-ai.toolkit_settings" in told
    assert any("AZ_BATCHAI_PS_HOSTS" in words for words in wrong.values())


@pytest.mark.parametrize(
    "fields,at,way",
    [
        ({"command": ["a", "$AZ_BATCHAI_INPUT_DATA/x"]}, "command[1]", "${mounts.NAME}"),
        ({"command": ["a", "${AZ_BATCHAI_OUTPUT_MODEL}"]}, "command[1]", "${outputs.NAME}"),
        ({"run": "echo $AZ_BATCHAI_TASK_INDEX"}, "run", "RUNSPEC_RANK"),
        ({"run": "a -f $AZ_BATCHAI_MPI_HOST_FILE"}, "run", "launch: mpi"),
        ({"env": {"WHERE": "$AZ_BATCHAI_JOB_TEMP/x"}}, "env.WHERE", "RUNSPEC_*"),
    ],
)
def test_a_variable_that_nothing_sets_is_an_error_with_what_to_use(
    fields: dict[str, Any], at: str, way: str
) -> None:
    assert way in said(problems(spec(**fields)), "error")[at]


@pytest.mark.parametrize("name", ["chainer", "horovod", "custom-mpi"])
def test_a_toolkit_that_means_the_launch_of_the_spec_needs_no_word(name: str) -> None:
    wanted = spec(launch="mpi", providers={"azure-batch-ai": {"toolkit": name}})

    assert said(problems(wanted), "note") == {}
