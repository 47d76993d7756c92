"""Jobs run for real, and what they write comes back by the service's own ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.emulators.batch_ai.hand import SHARE, Hand, alive, ask, get, until

ENVIRON = "python3 -c 'import json, os; print(json.dumps(dict(os.environ)))'"
SECRET = {"name": "TOKEN", "value": "very-secret"}


def test_a_job_runs_and_its_stdout_comes_by_ranges_of_a_signed_link(hand: Hand) -> None:
    done = hand.run("echo one; echo two; echo bad >&2")
    link = hand.files()["stdout.txt"].download_url

    first, rest, none = (get(link, f"bytes={a}") for a in ("0-3", "4-", "8-"))

    assert (done.execution_state, done.execution_info.exit_code) == ("succeeded", 0)
    assert (first.status, first.body) == (206, b"one\n")
    assert (rest.status, rest.body) == (206, b"two\n")
    assert (none.status, none.headers["Content-Range"]) == (416, "bytes */8")
    assert hand.text("stderr.txt") == "bad\n"


def test_stdout_is_there_while_the_job_runs(hand: Hand) -> None:
    hand.submit("echo begun; until [ -e go ]; do sleep 0.05; done; echo ended")
    until(lambda: "stdout.txt" in hand.files() and hand.text() == "begun\n")
    link = hand.files()["stdout.txt"].download_url

    (node,) = hand.stand.control("GET", "nodes")
    Path(node["folder"], "jobs", "job", "go").touch()

    assert hand.over().execution_state == "succeeded"
    assert get(link, "bytes=6-").body == b"ended\n"


def test_a_link_is_good_for_its_minutes_only(make: Callable[..., Hand]) -> None:
    hand = make(link_minute_s=0.05).ready()
    hand.run("echo one")
    link = hand.files(linkexpiryinminutes=5)["stdout.txt"].download_url

    assert get(link).status == 200
    assert until(lambda: get(link).status == 403)
    assert get(hand.files()["stdout.txt"].download_url).body == b"one\n"


def test_a_link_that_was_changed_reads_nothing(hand: Hand) -> None:
    hand.run("echo one")
    link = hand.files()["stdout.txt"].download_url

    assert get(link.replace("stdout.txt", "stderr.txt")).status == 403


def test_a_job_that_fails_says_its_exit_code(hand: Hand) -> None:
    done = hand.run("exit 7")

    assert (done.execution_state, done.execution_info.exit_code) == ("failed", 7)


def test_a_job_finds_its_variables_and_the_value_of_its_secrets(hand: Hand) -> None:
    done = hand.run(
        ENVIRON,
        inputDirectories=[{"id": "DATA", "path": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs/data"}],
        outputDirectories=[{"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs"}],
        environmentVariables=[{"name": "WHERE", "value": "$AZ_BATCHAI_INPUT_DATA/x"}],
        secrets=[SECRET],
    )

    env = json.loads(hand.text())
    root = env["AZ_BATCHAI_JOB_MOUNT_ROOT"]
    segment = done.job_output_directory_path_segment
    assert env["WHERE"] == env["AZ_BATCHAI_INPUT_DATA"] + "/x" == f"{root}/logs/data/x"
    assert env["AZ_BATCHAI_OUTPUT_MODEL"] == f"{root}/logs/{segment}/outputs"
    assert env["AZ_BATCHAI_STDOUTERR_DIR"] == f"{root}/logs/{segment}/stdouterr"
    assert env["TOKEN"] == "very-secret"


def test_of_the_values_of_variables_those_of_the_service_are_put_in_and_no_others(
    hand: Hand,
) -> None:
    """The list of variables says that these may be referenced in user defined ones, and names no shell."""
    given = {"PRICE": "a$HOME b${PATH} $1 $", "BRACES": "${AZ_BATCHAI_JOB_TEMP}/x", "NONE": "$NONE"}

    hand.run(ENVIRON, environmentVariables=[{"name": k, "value": given[k]} for k in given])

    env = json.loads(hand.text())
    wanted = {**given, "BRACES": f"{env['AZ_BATCHAI_JOB_TEMP']}/x"}
    assert {name: env[name] for name in given} == wanted


def test_secrets_are_never_told_again(hand: Hand) -> None:
    hand.submit(secrets=[SECRET], environmentVariables=[{"name": "A", "value": "1"}])

    told = json.dumps(
        [hand.job().serialize(keep_readonly=True), hand.stand.control("GET", "calls")]
    )

    assert "TOKEN" in told
    assert "very-secret" not in told
    assert "the-key" not in told


def test_where_outputs_lie_is_the_layout_of_the_service(hand: Hand) -> None:
    directory = {
        "id": "MODEL",
        "pathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs",
        "pathSuffix": "best",
    }
    done = hand.run("echo 1 >$AZ_BATCHAI_OUTPUT_MODEL/m.txt", outputDirectories=[directory])

    at = hand.folder / "storage/account/logs" / done.job_output_directory_path_segment
    subscription = hand.stand.env["AZURE_SUBSCRIPTION_ID"]
    start = f"{subscription}/group/workspaces/space/experiments/experiment/jobs/job/"
    assert done.job_output_directory_path_segment.startswith(start)
    assert (at / "outputs/best/m.txt").read_text() == "1\n"
    assert {p.name for p in at.iterdir()} == {"stdouterr", "outputs"}
    assert hand.text("m.txt", "MODEL") == "1\n"


def test_folders_are_listed_without_a_link_and_their_files_by_directory(hand: Hand) -> None:
    directory = {"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs"}
    command = "cd $AZ_BATCHAI_OUTPUT_MODEL; mkdir a; echo 12 >a/b; echo 3 >c"
    hand.run(command, outputDirectories=[directory])

    found, below = hand.files("MODEL"), hand.files("MODEL", directory="a")

    assert {name: file.file_type for name, file in found.items()} == {"a": "directory", "c": "file"}
    assert found["a"].download_url is None
    assert [(name, file.content_length) for name, file in below.items()] == [("b", 3)]


def test_job_preparation_comes_first_and_its_failure_is_the_jobs(hand: Hand) -> None:
    good = hand.run("cat prepared", jobPreparation={"commandLine": "echo yes | tee prepared"})
    text = hand.text(), hand.text("stdout-job_prep.txt")
    bad = hand.run("echo no", "other", jobPreparation={"commandLine": "exit 3"})

    assert (good.execution_state, *text) == ("succeeded", "yes\n", "yes\n")
    assert bad.execution_state == "failed"
    assert bad.execution_info.errors[0].code == "JobPreparationFailed"
    assert "stdout.txt" not in hand.files(name="other")


def test_packages_of_a_preparation_are_seen_by_its_job_alone(hand: Hand) -> None:
    install = "import site; open(site.getsitepackages()[0] + '/own_of_job.py', 'w').write('A = 1')"
    asks = "python3 -c 'import own_of_job, yaml; print(own_of_job.A)'"

    line = f'python3 -c "{install}" && command -v pip'
    first = hand.run(asks, jobPreparation={"commandLine": line})
    said, pip = hand.text(), hand.text("stdout-job_prep.txt")
    other = hand.run(asks, "other")

    assert (first.execution_state, said) == ("succeeded", "1\n")
    assert other.execution_state == "failed"
    assert pip.strip().endswith("/jobs/job/python/bin/pip")


def test_a_job_that_runs_too_long_is_ended(hand: Hand) -> None:
    done = hand.run("sleep 60", constraints={"maxWallClockTime": "PT0.1S"})

    assert done.execution_state == "failed"
    assert done.execution_info.errors[0].code == "JobTimedOut"


def test_a_terminated_job_gets_its_time_to_end_and_has_failed(hand: Hand) -> None:
    hand.submit('trap "echo told; exit 5" TERM; echo ready; while :; do sleep 0.05; done')
    until(lambda: "stdout.txt" in hand.files() and hand.text() == "ready\n")

    hand.client.jobs.begin_terminate("group", "space", "experiment", "job").result()

    done = hand.job()
    assert (done.execution_state, done.execution_info.exit_code) == ("failed", 5)
    assert done.execution_info.errors[0].code == "JobTerminated"
    assert hand.text() == "ready\ntold\n"


def test_a_job_that_does_not_listen_is_killed_with_all_that_it_has_started(
    make: Callable[..., Hand],
) -> None:
    hand = make(terminate_grace_s=0.1).ready()
    hand.submit('trap "" TERM; setsid sleep 300 & echo $!; wait; sleep 300')
    until(lambda: "stdout.txt" in hand.files() and hand.text())
    child = int(hand.text())

    hand.client.jobs.begin_delete("group", "space", "experiment", "job").result()

    assert until(lambda: not alive(child))
    assert list(hand.client.jobs.list_by_experiment("group", "space", "experiment")) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"accounts": {"other": "k"}}, "there is no account account"),
        ({"accounts": {"account": "another"}}, "Permission denied"),
        ({"mount_failures": {"logs": "no route to host"}}, "no route to host"),
    ],
)
def test_a_mount_that_fails_fails_the_job(
    make: Callable[..., Hand], settings: dict[str, Any], message: str
) -> None:
    done = make(**settings).ready().run()

    assert done.execution_state == "failed"
    assert done.execution_info.errors[0].code == "MountVolumeFailed"
    assert message in done.execution_info.errors[0].message


def test_job_mounts_are_gone_after_the_job(hand: Hand) -> None:
    hand.run("ls $AZ_BATCHAI_JOB_MOUNT_ROOT")

    (node,) = hand.stand.control("GET", "nodes")
    assert hand.text() == "logs\n"
    assert list(Path(node["folder"], "jobs/job/mounts").iterdir()) == []


def test_every_kind_of_volume_is_a_folder_of_this_machine(
    make: Callable[..., Hand], tmp_path: Path
) -> None:
    for name in ("data", "nfs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    hand = make(
        folders={"account/data": str(tmp_path / "data")},
        unmanaged={"mount -t nfs a:/b": str(tmp_path / "nfs")},
    ).ready()
    server = {
        "vmSize": "STANDARD_D2",
        "sshConfiguration": {
            "userAccountSettings": {"adminUserName": "u", "adminUserPassword": "p"}
        },
        "dataDisks": {"diskSizeInGB": 1, "diskCount": 1, "storageAccountType": "Standard_LRS"},
    }
    made = hand.client.file_servers.begin_create(
        "group", "space", "nfs", {"properties": server}
    ).result()
    key = {"accountName": "account", "credentials": {"accountKey": "k"}}
    volumes = {
        "azureFileShares": [SHARE],
        "azureBlobFileSystems": [{**key, "containerName": "data", "relativeMountPath": "blob"}],
        "fileServers": [{"fileServer": {"id": made.id}, "relativeMountPath": "server"}],
        "unmanagedFileSystems": [
            {"mountCommand": "mount -t nfs a:/b", "relativeMountPath": "more"}
        ],
    }
    command = "cd $AZ_BATCHAI_JOB_MOUNT_ROOT; echo 1 >server/x; cat blob/file more/file server/x"

    done = hand.run(command, mountVolumes=volumes)

    assert done.execution_state == "succeeded", done.execution_info.errors
    assert hand.text() == "datanfs1\n"


def test_a_log_in_a_container_is_seen_when_the_job_is_over(hand: Hand) -> None:
    blob = {
        "accountName": "account",
        "containerName": "logs",
        "credentials": {"accountKey": "k"},
        "relativeMountPath": "logs",
    }
    hand.submit(
        "echo 1; until [ -e go ]; do sleep 0.05; done",
        mountVolumes={"azureBlobFileSystems": [blob]},
    )
    until(lambda: hand.job().execution_state == "running")
    (node,) = hand.stand.control("GET", "nodes")
    folder = until(lambda: next(Path(node["folder"], "jobs").glob("job/hostfile"), None)).parent
    until(lambda: list((hand.folder / "storage/account/logs").rglob("stdout.txt")))

    before = hand.files()
    (folder / "go").touch()
    hand.over()

    assert before == {}
    assert hand.text() == "1\n"


def test_closing_ends_every_process(make: Callable[..., Hand]) -> None:
    hand = make().ready()
    hand.submit("echo $$; sleep 300")
    until(lambda: "stdout.txt" in hand.files() and hand.text())
    pid = int(hand.text())

    hand.stand.close()

    assert not Path(f"/proc/{pid}").exists()


def test_many_files_come_page_by_page(hand: Hand) -> None:
    directory = {"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs"}
    hand.run("cd $AZ_BATCHAI_OUTPUT_MODEL; touch a b c d e", outputDirectories=[directory])

    found = hand.files("MODEL", max_results=2)

    assert list(found) == ["a", "b", "c", "d", "e"]
    assert hand.operations().count("Jobs_ListOutputFiles") == 3


def test_a_file_may_be_told_of_late(make: Callable[..., Hand]) -> None:
    hand = make(list_lag_s=60.0).ready()
    hand.run("echo 1")
    before = hand.files()

    hand.stand.control("PUT", "settings", {"list_lag_s": 0.0})

    assert before == {}
    assert hand.text() == "1\n"


@pytest.mark.parametrize(
    ("given", "told"), [(None, 7 * 86400), ("PT90S", 90), ("01:00:00", 3600), ("P1D", 86400)]
)
def test_the_limit_of_a_job_is_told(hand: Hand, given: str | None, told: int) -> None:
    path = "/workspaces/space/experiments/experiment/jobs/job?api-version=2018-05-01"
    asked = hand.asked(constraints={"maxWallClockTime": given} if given else None)

    assert ask(hand, "PUT", path, {"properties": asked})[0] == 200

    assert hand.job().constraints.max_wall_clock_time.total_seconds() == told
