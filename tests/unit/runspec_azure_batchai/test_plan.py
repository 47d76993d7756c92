"""A spec becomes the calls of a hands-on, and its command what a shell makes the same words of."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runspec_azure.batchai.exporting import exported
from tests.unit.runspec_azure_batchai.jobs import planned, properties, spec
from tests.unit.runspec_azure_batchai.test_wire import EVERYTHING, fullest

CODE = {"name": "code", "source": "./code", "target": "/job/code"}
MODEL = {"name": "model", "path": "/job/model"}
WORDS = [
    "plain",
    "two words",
    "$HOME",
    "it's",
    '"q"',
    "",
    "*",
    "a\\b",
    "`id`",
    "$(id)",
    "a;b",
    "\u65e5\u672c",
]


def test_the_calls_are_those_of_the_hands_on() -> None:
    made = planned(spec(mounts=[CODE], command=["echo", "${mounts.code}"]))

    assert [step.do.operation for step in made.steps] == [
        "ResourceGroups_CreateOrUpdate",
        "Workspaces_Create",
        "Clusters_Create",
        "Experiments_Create",
        "upload_folder",
        "Jobs_Create",
    ]


def test_a_shell_makes_the_users_words_of_the_command_line() -> None:
    body = properties(spec(command=["printf", "%s\\n", *WORDS]))

    line = body["customToolkitSettings"]["commandLine"]
    said = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True)
    assert said.stdout == "".join(f"{word}\n" for word in WORDS)


@pytest.mark.parametrize(
    "text,said",
    [
        ("${outputs.model}/x y", "/out 'y'/x y"),
        ("a ${mounts.code}b", "a /in $Xb"),
        ("--x=${mounts.code}/$HOME", "--x=/in $X/$HOME"),
        ("$${mounts.code}", "${mounts.code}"),
    ],
)
def test_places_are_put_in_by_the_shell_and_nothing_else_is(text: str, said: str) -> None:
    given = spec(mounts=[CODE], outputs=[MODEL], command=["printf", "%s", text])
    env = {"AZ_BATCHAI_INPUT_CODE": "/in $X", "AZ_BATCHAI_OUTPUT_MODEL": "/out 'y'", "HOME": "no"}

    line = properties(given)["customToolkitSettings"]["commandLine"]

    ran = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, env=env)
    assert ran.stdout == said


@pytest.mark.parametrize("attempts,codes", [(3, [1, 0]), (2, [4, 5]), (3, [0])])
def test_the_shell_of_a_job_tries_it_again_and_writes_down_how_each_try_ended(
    tmp_path: Path, attempts: int, codes: list[int]
) -> None:
    cases = " ".join(f"{n}) exit {code};;" for n, code in enumerate(codes, 1))
    given = spec(run=f'case "$RUNSPEC_ATTEMPT" in {cases} esac # so', retry={"attempts": attempts})

    line = properties(given)["customToolkitSettings"]["commandLine"]

    env = {"AZ_BATCHAI_STDOUTERR_DIR": str(tmp_path)}
    ended = subprocess.run(["/bin/sh", "-c", line], env=env, check=False)
    assert ended.returncode == codes[-1]
    rows = [f"{n} {code}" for n, code in enumerate(codes, 1)]
    assert (tmp_path / "runspec-tries").read_text().splitlines() == rows


def test_a_toolkit_gets_interpreter_script_and_arguments() -> None:
    command = ["/opt/conda/bin/python", "${mounts.code}/a.py", "-o", "${outputs.model}", "x y"]
    given = spec(mounts=[CODE], outputs=[MODEL], command=command, cluster={"nodes": 2})

    body = properties(given, toolkit="chainer")

    assert body["chainerSettings"] == {
        "pythonScriptFilePath": "$AZ_BATCHAI_INPUT_CODE/a.py",
        "pythonInterpreterPath": "/opt/conda/bin/python",
        "commandLineArgs": "-o $AZ_BATCHAI_OUTPUT_MODEL 'x y'",
        "processCount": 2,
    }


def test_a_cluster_is_shared_by_equal_needs_and_by_no_others() -> None:
    def name(**fields: Any) -> Any:
        made = planned(spec(**fields))
        return next(s.do.params["path"]["clusterName"] for s in made.steps if s.id == "cluster")

    assert name() == name(env={"A": "1"})
    assert name() != name(cluster={"capacity": "spot"})
    assert name() != name(cluster={"cpus": 4})


@pytest.mark.parametrize(
    "cluster,size",
    [
        ({}, "STANDARD_D1_V2"),
        ({"cpus": 4, "memory": "20GiB"}, "STANDARD_D12_V2"),
        ({"gpus": 1}, "STANDARD_NC6"),
        ({"gpus": 2, "gpu_type": "v100"}, "STANDARD_NC12S_V3"),
    ],
)
def test_the_smallest_machine_that_fits_is_taken(cluster: dict[str, Any], size: str) -> None:
    assert properties(spec(cluster=cluster), "cluster")["vmSize"] == size


def test_a_sweep_is_a_job_for_each_task_with_its_values() -> None:
    made = planned(spec(sweep={"lr": ["0.1", "0.2"]}, command=["echo", "${sweep.lr}"]))

    jobs = [step.do.params for step in made.steps if step.do.operation == "Jobs_Create"]
    assert [job["path"]["jobName"] for job in jobs] == ["job-abc123-00000", "job-abc123-00001"]
    lines = [job["body"]["properties"]["customToolkitSettings"]["commandLine"] for job in jobs]
    assert lines == ["echo 0.1", "echo 0.2"]


def test_no_secret_is_in_a_plan_but_as_a_mark() -> None:
    text = json.dumps([step.do.params for step in planned(fullest(), **EVERYTHING).steps])

    assert text.count('"accountKey": {"$secret": "env:STORAGE_KEY"}') >= 4
    assert '"adminUserPassword": {"$secret": "env:PW"}' in text


def test_an_exported_plan_has_gaps_where_secrets_belong_and_says_so() -> None:
    found = exported(planned(fullest(), **EVERYTHING).steps)

    job, cluster = (json.loads(found.files[name]) for name in ("job.json", "cluster.json"))
    assert "$secret" not in json.dumps([job, cluster])
    assert "cluster" not in job["properties"]
    shares = job["properties"]["mountVolumes"]["azureFileShares"]
    assert {s["credentials"]["accountKey"] for s in shares} == {"<AZURE_BATCHAI_STORAGE_KEY>"}
    assert "job.json: put the secret in where <T> stands" in found.notes
    assert "cluster.json: put the secret in where <adminUserPassword> stands" in found.notes
