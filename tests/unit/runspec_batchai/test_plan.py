"""A spec becomes the calls of a hands-on, and its command what a shell makes the same words of."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from runspec_batchai import PROVIDER
from runspec_batchai.importing.export import exported
from runspec_jobs.provider.types import ForeignFile
from tests.support.azure.batch_ai_specs import planned, properties, spec
from tests.unit.runspec_batchai.test_wire import EVERYTHING, fullest

pytestmark = pytest.mark.process

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


@pytest.mark.parametrize("limits", [[], ["setuptools<74", "wheel"]])
def test_packages_are_built_with_the_constraints_of_the_spec(
    tmp_path: Path, limits: list[str]
) -> None:
    container = {"image": "i:1", "requirements": ["old==1"], "build_constraints": limits}
    line = properties(spec(container=container))["jobPreparation"]["commandLine"]
    pip = tmp_path / "python3"
    pip.write_text('#!/bin/sh\necho "$*"\n[ ! "$PIP_BUILD_CONSTRAINT" ] || cat "$PIP_CONSTRAINT"\n')
    pip.chmod(0o755)

    env = {"PATH": f"{tmp_path}:{os.defpath}", "AZ_BATCHAI_JOB_TEMP": str(tmp_path)}
    said = subprocess.run(["/bin/sh", "-c", line], env=env, capture_output=True, check=True)

    words, *read = said.stdout.decode().splitlines()
    assert words.endswith("pip install --no-cache-dir --disable-pip-version-check old==1")
    assert read == limits


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
        ("${HOST:-a.b}", "${HOST:-a.b}"),
    ],
)
def test_the_shell_expands_paths_of_mounts_alone(text: str, said: str) -> None:
    given = spec(mounts=[CODE], outputs=[MODEL], command=["printf", "%s", text])
    env = {"AZ_BATCHAI_INPUT_CODE": "/in $X", "AZ_BATCHAI_OUTPUT_MODEL": "/out 'y'", "HOME": "no"}

    line = properties(given)["customToolkitSettings"]["commandLine"]

    ran = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, env=env)
    assert ran.stdout == said


def test_rules_are_cases_of_the_shell() -> None:
    rules = [
        {"exit_codes": [42, "50..51"], "action": "retry"},
        {"exit_codes": [3], "action": "stop"},
    ]
    given = spec(run="exit 3", retry={"attempts": 2, "on": rules})

    line = properties(given)["customToolkitSettings"]["commandLine"]

    assert 'case "$c" in 42|50|51) :;; 3) exit "$c";; esac; done' in line


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
    rows = [line.split() for line in (tmp_path / "runspec-tries").read_text().splitlines()]
    assert [row[:2] for row in rows] == [[str(n), str(code)] for n, code in enumerate(codes, 1)]
    assert all(time.time() - 60 < int(at) <= time.time() for _, _, at in rows)


# It says what it is by --version, keeps its words and its hosts, and starts its program so often.
MPIRUN = """#!/bin/sh
if [ "$1" = --version ]; then echo "mpirun ($KIND) 5.0"; exit; fi
printf '%s\\n' "$*" > said
cp "$AZ_BATCHAI_JOB_TEMP/runspec-hosts" hosts
n=$2; shift 2
while [ "$1" != /bin/sh ]; do shift; done
while [ "$n" -gt 0 ]; do "$@" || exit; n=$((n - 1)); done
"""


def by_mpirun(folder: Path, line: str, kind: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Have the shell of a job carry *line* out, where *kind* is the MPI that the image has."""
    mpirun = folder / "mpirun"
    mpirun.write_text(MPIRUN)
    mpirun.chmod(0o755)
    (folder / "hostfile").write_text("10.0.0.4 slots=4 max-slots=4\n10.0.0.5 slots=4\n")
    here = {
        "PATH": f"{folder}:/usr/bin:/bin",
        "KIND": kind,
        "AZ_BATCHAI_JOB_TEMP": str(folder),
        "AZ_BATCHAI_STDOUTERR_DIR": str(folder),
        "AZ_BATCHAI_MPI_HOST_FILE": str(folder / "hostfile"),
    }
    return subprocess.run(
        ["bash", "-c", line],
        env={**here, **env},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "kind,words,hosts",
    [
        ("Open MPI", "--hostfile {}/runspec-hosts -x RUNSPEC_RUN", "{} slots=2"),
        ("Intel", "-f {}/runspec-hosts -genvall /bin/sh", "{}:2"),
    ],
)
def test_a_job_of_mpi_is_tried_again_with_hosts_as_its_mpirun_reads_them(
    tmp_path: Path, kind: str, words: str, hosts: str
) -> None:
    given = spec(
        launch="mpi",
        cluster={"nodes": 2},
        processes_per_node=2,
        mounts=[CODE],
        env={"A": "1"},
        retry={"attempts": 2},
        run='echo "$RUNSPEC_ATTEMPT $RUNSPEC_MOUNT_CODE"; test "$RUNSPEC_ATTEMPT" = 2',
    )
    body = properties(given)

    line = body["customToolkitSettings"]["commandLine"]
    done = by_mpirun(tmp_path, line, kind, AZ_BATCHAI_INPUT_CODE="/in $X")

    assert (done.returncode, done.stdout) == (0, "1 /in $X\n" + "2 /in $X\n" * 4)
    rows = (tmp_path / "runspec-tries").read_text().splitlines()
    assert [row.split()[:2] for row in rows] == [["1", "1"], ["2", "0"]]
    assert (tmp_path / "said").read_text().startswith(f"-n 4 {words.format(tmp_path)}")
    both = ("10.0.0.4", "10.0.0.5")
    assert (tmp_path / "hosts").read_text().splitlines() == [hosts.format(host) for host in both]


def test_open_mpi_is_told_the_names_of_all_that_other_nodes_need_and_no_value(
    tmp_path: Path,
) -> None:
    given = spec(
        launch="mpi",
        env={"A": "the-value"},
        secrets={"T": "storage-key"},
        sweep={"lr": ["0.1"]},
        retry={"attempts": 2},
        command=["echo", "${sweep.lr}"],
    )
    (line,) = [
        step.do.params["body"]["properties"]["customToolkitSettings"]["commandLine"]
        for step in planned(given).steps
        if step.do.operation == "Jobs_Create"
    ]

    by_mpirun(tmp_path, line, "Open MPI")

    said = (tmp_path / "said").read_text().split()
    names = [said[i + 1] for i, word in enumerate(said) if word == "-x"]
    assert names[5:9] == ["RUNSPEC_SWEEP_LR", "PYTHONUNBUFFERED", "A", "T"]
    assert names[9:] == ["AZ_BATCHAI_MPI_HOST_FILE", "AZ_BATCH_HOST_LIST"]
    assert "the-value" not in line


@pytest.mark.parametrize(
    "fields,said",
    [
        ({"command": ["printf", "%s.", "${mounts.code}", "x y"]}, "/in$X.x y."),
        ({"run": 'printf "%s." "$RUNSPEC_MOUNT_CODE" && echo end'}, "/in$X.end\n"),
        ({"run": "set -e\nprintf hi\nprintf ho\n"}, "hiho"),
    ],
)
def test_mpirun_is_given_one_program_and_no_words_of_a_shell(
    fields: dict[str, Any], said: str
) -> None:
    body = properties(spec(launch="mpi", mounts=[CODE], **fields))

    line = body["customMpiSettings"]["commandLine"]

    done = subprocess.run(
        ["bash", "-c", f"env STARTED=1 {line}"],
        env={"AZ_BATCHAI_INPUT_CODE": "/in$X", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == said
    assert not line.startswith("export ")


def test_settings_of_a_toolkit_are_the_profiles() -> None:
    given = spec(mounts=[CODE], command=["python", "${mounts.code}/a.py"])
    settings = {"workerCount": "2", "parameterServerCommandLineArgs": "-v"}

    body = properties(given, toolkit="tensorflow", toolkit_settings=settings)

    assert body["tensorFlowSettings"]["workerCount"] == 2
    assert body["tensorFlowSettings"]["parameterServerCommandLineArgs"] == "-v"


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


SEEN = (
    "env | grep '^RUNSPEC_' | grep -v '^RUNSPEC_\\(TASK\\|RUN\\|ATTEMPT\\|NODES\\|SLOTS\\)=' | sort"
)
OF_A_JOB = {
    "AZ_BATCH_HOST_LIST": "10.0.0.4,10.0.0.5",
    "AZ_BATCHAI_MPI_HOST_FILE": "/t/hosts",
    "AZ_BATCHAI_INPUT_CODE": "/in $X",
    "PATH": os.environ["PATH"],
}


def seen(line: str, **env: str) -> list[str]:
    """Give what a program sees of the contract when mpirun, or the service, starts *line*."""
    words = shlex.split(line) if line.startswith("/bin/sh -c") else ["/bin/sh", "-c", line]
    ran = subprocess.run(words, capture_output=True, text=True, env=OF_A_JOB | env, check=True)
    return ran.stdout.splitlines()


def test_the_shell_sets_the_variables_of_the_first_node() -> None:
    line = properties(spec(mounts=[CODE], run=SEEN))["customToolkitSettings"]["commandLine"]

    assert seen(line) == [
        "RUNSPEC_HOST=10.0.0.4",
        "RUNSPEC_HOSTFILE=/t/hosts",
        "RUNSPEC_LEADER=10.0.0.4",
        "RUNSPEC_MOUNT_CODE=/in $X",
        "RUNSPEC_RANK=0",
    ]


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_RANK", "PMI_RANK"])
@pytest.mark.parametrize("process,host", [("1", "10.0.0.4"), ("2", "10.0.0.5")])
def test_each_process_of_mpirun_is_told_of_its_node(name: str, process: str, host: str) -> None:
    given = spec(mounts=[CODE], run=SEEN, launch="mpi", cluster={"nodes": 2}, processes_per_node=2)

    line = properties(given)["customMpiSettings"]["commandLine"]

    assert seen(line, **{name: process}) == [
        f"RUNSPEC_HOST={host}",
        "RUNSPEC_HOSTFILE=/t/hosts",
        "RUNSPEC_LEADER=10.0.0.4",
        "RUNSPEC_MOUNT_CODE=/in $X",
        f"RUNSPEC_RANK={int(process) // 2}",
    ]


def test_mpirun_gets_a_program_with_its_words_byte_for_byte() -> None:
    """It starts no line of a shell: an export would be looked for on the disk."""
    given = spec(command=["printf", "%s\\n", *WORDS], launch="mpi", cluster={"nodes": 2})

    line = properties(given)["customMpiSettings"]["commandLine"]

    said = subprocess.run(shlex.split(line), capture_output=True, text=True, check=True)
    assert said.stdout == "".join(f"{word}\n" for word in WORDS)


@pytest.mark.parametrize("launch", ["none", "mpi"])
def test_a_script_of_one_line_is_a_script_as_any_other(launch: str) -> None:
    """`/bin/sh -e` reads it, as docs/inside.md says: a pipe is no pipe of mpirun's, and a failure ends it."""

    def ran(text: str) -> tuple[str, int]:
        body = properties(spec(run=text, launch=launch, outputs=[MODEL]))
        line = body["customMpiSettings" if launch == "mpi" else "customToolkitSettings"]
        words = shlex.split(line["commandLine"])
        words = words if launch == "mpi" else ["bash", "-c", line["commandLine"]]
        done = subprocess.run(words, capture_output=True, text=True, env=OF_A_JOB)
        return done.stdout, done.returncode

    assert ran("printf 'b\\na\\n' | sort") == ("a\nb\n", 0)
    assert ran("false; echo on") == ("", 1)


def test_no_shell_stands_between_mpirun_and_the_program() -> None:
    """What mpirun signals is the program itself."""
    line = properties(spec(run="echo $$", launch="mpi"))["customMpiSettings"]["commandLine"]

    with subprocess.Popen(shlex.split(line), stdout=subprocess.PIPE, text=True) as started:
        said, _ = started.communicate()

    assert said == f"{started.pid}\n"


def test_a_script_is_told_of_its_places_by_variables_of_the_job() -> None:
    given = spec(mounts=[CODE], outputs=[MODEL], command=["python", "a.py"], cluster={"nodes": 2})

    found = properties(given, toolkit="chainer")["environmentVariables"]

    assert {e["name"]: e["value"] for e in found if "AZ_" in e["value"]} == {
        "RUNSPEC_HOSTFILE": "$AZ_BATCHAI_MPI_HOST_FILE",
        "RUNSPEC_MOUNT_CODE": "$AZ_BATCHAI_INPUT_CODE",
        "RUNSPEC_OUTPUT_MODEL": "$AZ_BATCHAI_OUTPUT_MODEL",
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
        ({"cpus": 2, "memory": "8GiB"}, "STANDARD_D2_V3"),
        ({"gpus": 1}, "STANDARD_NC6"),
        ({"gpus": 1, "memory": "100GiB"}, "STANDARD_NC6S_V2"),
        ({"gpus": 1, "gpu_type": "M60"}, "STANDARD_NV6"),
        ({"gpus": 3}, "STANDARD_NC24"),
        ({"gpus": 2, "gpu_type": "v100"}, "STANDARD_NC12S_V3"),
    ],
)
def test_the_cheapest_machine_or_the_smallest_with_gpus_is_taken(
    cluster: dict[str, Any], size: str
) -> None:
    assert properties(spec(cluster=cluster), "cluster")["vmSize"] == size


def test_a_sweep_is_a_job_for_each_task_with_its_values() -> None:
    made = planned(spec(sweep={"lr": ["0.1", "0.2"]}, command=["echo", "${sweep.lr}"]))

    jobs = [step.do.params for step in made.steps if step.do.operation == "Jobs_Create"]
    assert [job["path"]["jobName"] for job in jobs] == ["job-abc123-00000", "job-abc123-00001"]
    lines = [job["body"]["properties"]["customToolkitSettings"]["commandLine"] for job in jobs]
    assert [line.rpartition("; ")[2] for line in lines] == ["echo 0.1", "echo 0.2"]


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
    assert "job.json: replace <T> by the secret" in found.notes
    assert "cluster.json: replace <adminUserPassword> by the secret" in found.notes


OTHER = {
    "shared": {"data": {"container": "c", "account": "other", "key": "other-key"}},
    "secrets": {"other-key": "env:OTHER"},
}
DATA = {"name": "data", "source": "shared://data", "target": "/job/data"}


def test_the_tool_fills_in_the_key_of_one_account_and_a_person_the_others() -> None:
    found = exported(planned(spec(mounts=[DATA, CODE]), **OTHER).steps)

    volumes = json.loads(found.files["job.json"])["properties"]["mountVolumes"]
    keys = {
        one["accountName"]: one["credentials"]["accountKey"]
        for one in (*volumes["azureFileShares"], *volumes["azureBlobFileSystems"])
    }
    assert keys == {"acct": "<AZURE_BATCHAI_STORAGE_KEY>", "other": "<OTHER_KEY>"}
    assert [note for note in found.notes if "secret" in note] == [
        "job.json: replace <OTHER_KEY> by the secret"
    ]


def test_a_gap_of_an_export_is_no_secret_when_it_is_taken_in() -> None:
    found = exported(planned(spec(mounts=[DATA, CODE]), **OTHER).steps)

    taken = PROVIDER.imports(ForeignFile("job.json", found.files["job.json"]), None)

    assert [note for note in taken.notes if "in clear" in note] == []
    assert "OTHER_KEY" in taken.profile
