"""Each toolkit starts what the service started, where it did."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.batch_ai.jobs import toolkits
from tests.emulators.batch_ai.hand import Hand, until

TWO = ("10.0.0.4", "10.0.0.5")
SCRIPT = {"pythonScriptFilePath": "train.py", "commandLineArgs": "-g"}
THERE = "set -e; type mpirun >/dev/null || exit 127; "
HOSTS = '"$AZ_BATCHAI_MPI_HOST_FILE"'
SHOW = """
import json, os, sys
names = [n for n in os.environ if n.startswith(("AZ_", "TF_"))]
print(json.dumps({"argv": sys.argv[1:], **{n: os.environ[n] for n in names}}))
"""
# An mpirun that does what the real ones do: a process on each host, by the remote shell that it
# is told of. `-n COUNT --hostfile FILE PROGRAM...`
FAKE_MPIRUN = """\
#!/bin/sh
file=$4; shift 4
while read -r host slots more; do
    count=${slots#slots=}
    while [ "$count" -gt 0 ]; do
        "$OMPI_MCA_plm_rsh_agent" -x "$host" "$*" </dev/null || exit
        count=$((count - 1))
    done
done <"$file"
"""


def started(name: str, settings: dict[str, Any], nodes: int = 2) -> list[tuple[int, str, str]]:
    found = toolkits.tasks({name: settings}, TWO[:nodes], ["mpirun"])
    return [(task.node, task.command.removeprefix(THERE), task.suffix) for task in found]


@pytest.mark.parametrize("kit", ["chainerSettings", "horovodSettings"])
def test_scripts_for_mpi_run_once_a_node_unless_told_otherwise(kit: str) -> None:
    more = {**SCRIPT, "processCount": 4, "pythonInterpreterPath": "/opt/python"}

    assert started(kit, SCRIPT) == [(0, f"mpirun -n 2 --hostfile {HOSTS} python train.py -g", "")]
    assert started(kit, more) == [
        (0, f"mpirun -n 4 --hostfile {HOSTS} /opt/python train.py -g", "")
    ]


@pytest.mark.parametrize(
    ("kit", "settings", "tail"),
    [
        ("customMpiSettings", {"commandLine": "./a.out x"}, "./a.out x"),
        ("cntkSettings", {"languageType": "Python", **SCRIPT}, "python train.py -g"),
        ("cntkSettings", {"configFilePath": "a.cntk"}, "cntk configFile=a.cntk"),
        ("caffeSettings", {"configFilePath": "a.prototxt"}, "caffe train -solver a.prototxt"),
        ("caffeSettings", SCRIPT, "python train.py -g"),
        ("pyTorchSettings", {"communicationBackend": "MPI", **SCRIPT}, "python train.py -g"),
    ],
)
def test_mpirun_starts_programs_other_than_python_too(
    kit: str, settings: dict[str, Any], tail: str
) -> None:
    assert started(kit, settings) == [(0, f"mpirun -n 2 --hostfile {HOSTS} {tail}", "")]


def test_a_custom_command_runs_on_the_first_node_only() -> None:
    assert started("customToolkitSettings", {"commandLine": "echo hi"}) == [(0, "echo hi", "")]


def test_pytorch_runs_its_processes_evenly_over_the_nodes() -> None:
    found = started("pyTorchSettings", {**SCRIPT, "processCount": 4})

    assert [(node, suffix) for node, _, suffix in found] == [
        (0, "-0"),
        (0, "-1"),
        (1, "-2"),
        (1, "-3"),
    ]


def test_tensorflow_on_one_node_is_a_master_alone() -> None:
    settings = {"pythonScriptFilePath": "t.py", "masterCommandLineArgs": "-m"}

    assert started("tensorFlowSettings", settings, nodes=1) == [(0, "python t.py -m", "-wk-0")]


# Over the wire


def script(hand: Hand, text: str = SHOW) -> str:
    """Put a script where jobs find it."""
    folder = hand.folder / "storage/account/logs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "show.py").write_text(text)
    return "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs/show.py"


def kit(hand: Hand, name: str, text: str = SHOW, **settings: Any) -> dict[str, Any]:
    python = {"pythonScriptFilePath": script(hand, text), "pythonInterpreterPath": sys.executable}
    return {"customToolkitSettings": None, name: {**python, **settings}}


def test_tensorflow_has_a_master_a_worker_and_a_parameter_server_that_know_each_other(
    make: Callable[..., Hand],
) -> None:
    hand = make().ready(2)
    asked = kit(
        hand,
        "tensorFlowSettings",
        "import sys, time\n" + SHOW + "if sys.argv[1] == 'ps': sys.stdout.flush(); time.sleep(300)",
        masterCommandLineArgs="wk $AZ_BATCHAI_TASK_INDEX",
        workerCommandLineArgs="wk $AZ_BATCHAI_TASK_INDEX",
        parameterServerCommandLineArgs="ps $AZ_BATCHAI_TASK_INDEX",
    )

    # The server does not end: it is ended with the job, when it may not have said a word.
    done = hand.run(nodes=2, **asked)

    assert (done.execution_state, done.tool_type) == ("succeeded", "tensorflow")
    said = {n: json.loads(hand.text(f"stdout-wk-{n}.txt")) for n in (0, 1)}
    config = [json.loads(said[n]["TF_CONFIG"]) for n in (0, 1)]
    workers = said[0]["AZ_BATCHAI_WORKER_HOSTS"].split(",")
    assert [said[n]["argv"] for n in (0, 1)] == [["wk", "0"], ["wk", "1"]]
    assert config[0]["task"] == {"type": "master", "index": 0}
    assert config[1]["task"] == {"type": "worker", "index": 1}
    assert config[0]["cluster"]["worker"] == workers
    assert config[0]["cluster"]["ps"] == said[1]["AZ_BATCHAI_PS_HOSTS"].split(",")
    assert "stdout-ps-0.txt" in hand.files()


def test_pytorch_is_told_its_rank_and_where_to_meet(make: Callable[..., Hand]) -> None:
    hand = make().ready(2)
    args = "$AZ_BATCHAI_PYTORCH_BACKEND $AZ_BATCHAI_PYTORCH_INIT_METHOD $AZ_BATCHAI_TASK_INDEX"
    asked = kit(hand, "pyTorchSettings", commandLineArgs=args, communicationBackend="Gloo")

    done = hand.run(nodes=2, **asked)

    said = [json.loads(hand.text(f"stdout-{n}.txt")) for n in (0, 1)]
    folder = said[0]["AZ_BATCHAI_SHARED_JOB_TEMP"]
    assert (done.tool_type, done.py_torch_settings.process_count) == ("pytorch", 2)
    assert [one["argv"] for one in said] == [["gloo", f"file://{folder}/init", n] for n in "01"]
    assert Path(folder).is_dir()


def test_one_process_that_fails_ends_the_others(make: Callable[..., Hand]) -> None:
    hand = make().ready(2)
    text = "import os, sys, time\nif os.environ['AZ_BATCHAI_TASK_INDEX'] == '1': sys.exit(4)\ntime.sleep(300)"
    asked = kit(hand, "pyTorchSettings", text)

    done = hand.run(nodes=2, **asked)

    assert (done.execution_state, done.execution_info.exit_code) == ("failed", 4)


def test_mpirun_starts_processes_on_the_nodes_of_the_host_file(
    make: Callable[..., Hand], tmp_path: Path
) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(FAKE_MPIRUN)
    mpirun.chmod(0o755)
    hand = make(mpirun=(str(mpirun),)).ready(2)
    asked = kit(hand, "chainerSettings", commandLineArgs="-g", processCount=4)

    done = hand.run(nodes=2, **asked)

    said = [json.loads(line) for line in hand.text().splitlines()]
    assert done.execution_state == "succeeded"
    assert done.chainer_settings.process_count == 4
    assert [one["argv"] for one in said] == [["-g"]] * 4
    temps = [one["AZ_BATCHAI_JOB_TEMP"] for one in said]
    assert temps[0] == temps[1] != temps[2] == temps[3]


@pytest.mark.parametrize("line", ["true", "export A=1; true", "true | true"])
def test_a_job_of_mpi_fails_where_no_mpirun_is(make: Callable[..., Hand], line: str) -> None:
    hand = make(mpirun=("no-such-mpirun",)).ready(2)

    done = hand.run(nodes=2, customToolkitSettings=None, customMpiSettings={"commandLine": line})

    assert (done.execution_state, done.execution_info.exit_code) == ("failed", 127)
    assert "no-such-mpirun" in hand.text("stderr.txt")


def test_a_command_that_mpirun_cannot_start_fails_the_job(
    make: Callable[..., Hand], tmp_path: Path
) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(FAKE_MPIRUN)
    mpirun.chmod(0o755)
    hand = make(mpirun=(str(mpirun),)).ready(2)

    asked = {"commandLine": "no-such; true"}
    done = hand.run(nodes=2, customToolkitSettings=None, customMpiSettings=asked)

    assert (done.execution_state, done.execution_info.exit_code) == ("failed", 127)


def test_a_node_has_a_folder_and_an_address_of_its_own(make: Callable[..., Hand]) -> None:
    hand = make().ready(2)
    hand.submit("sleep 300", nodes=2)
    until(lambda: hand.job().execution_state == "running")

    logins = list(
        hand.client.jobs.list_remote_login_information("group", "space", "experiment", "job")
    )

    folders = {node["folder"] for node in hand.stand.control("GET", "nodes")}
    assert len({login.ip_address for login in logins}) == len(folders) == 2
