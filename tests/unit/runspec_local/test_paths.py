"""`/job/...` of a spec is true in a job without a container, and whoever cannot have it is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.state import run_record
from runspec_local import status
from runspec_local.supervisor import process
from runspec_namespaces import kernel_support
from tests.support.requirements import lack, need
from tests.support.wait import until

pytestmark = pytest.mark.process

Capture = pytest.CaptureFixture[str]
HEAD = "apiVersion: runspec/v1\nname: toy\nprovider: local\n"
MOUNTS = "mounts: [{name: code, source: ./src, target: /job/code}]\n"
OUTPUTS = "outputs: [{name: model, path: /job/model}]\n"
PATHS = MOUNTS + OUTPUTS


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/t.sh").write_text(
        "echo made by $RUNSPEC_RANK > /job/model/made\ncat /job/model/made\n"
    )


def write(text: str) -> None:
    Path("job.yaml").write_text(HEAD + text)


def allowed() -> None:
    if why := kernel_support.refusal():
        lack(f"a kernel that allows mount namespaces ({why})")


def test_a_program_finds_its_mounts_and_outputs_at_the_paths_of_the_spec(capsys: Capture) -> None:
    allowed()
    write(f"{PATHS}cluster: {{nodes: 2}}\ncommand: [sh, /job/code/t.sh]\n")

    code = run(["apply", "job.yaml"])

    printed = capsys.readouterr()
    assert code == 0, printed.err
    assert sorted(printed.out.splitlines()) == ["[node 0] made by 0", "[node 1] made by 1"]
    assert run(["fetch", "toy", "out"]) == 0
    found = sorted(path.read_text() for path in Path("out").rglob("made"))
    assert found == ["made by 0\n", "made by 1\n"]
    assert not Path("/job").exists()


def test_the_next_attempt_finds_them_too(capsys: Capture) -> None:
    allowed()
    again = "retry: {attempts: 2}\nrun: '[ -e /job/model/first ] || { touch /job/model/first; exit 3; }'\n"
    write(f"{OUTPUTS}{again}")

    assert run(["apply", "job.yaml"]) == 0, capsys.readouterr().err


def begun(script: str) -> Path:
    """Start a job that runs *script* and goes on, and return its folder."""
    write(f"{PATHS}providers: {{local: {{grace: 1s}}}}\nrun: |\n  {script}\n  exec sleep 600\n")
    assert run(["apply", "-d", "job.yaml"]) == 0
    folder = Path(os.environ["RUNSPEC_HOME"], "local/runs", run_record.list_runs("toy")[-1].run)
    until((folder / "tasks/0/nodes/0/job/model/made").exists)
    return folder


def test_a_shell_is_where_the_program_is() -> None:
    allowed()
    need("nsenter")
    begun("sh /job/code/t.sh")
    words = ["shell", "toy", "--", "sh", "-c", "pwd; cat /job/model/made; exit 5"]

    done = subprocess.run(
        [sys.executable, "-m", "runspec_jobs", *words], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout.splitlines()[-1]) == (5, "made by 0"), done.stderr
    assert done.stdout.splitlines()[0].endswith("/tasks/0/nodes/0")
    assert run(["destroy", "toy"]) == 0


def test_nothing_is_left_of_a_run_whose_supervisor_is_killed() -> None:
    allowed()
    folder = begun("(setsid sleep 600 &); sh /job/code/t.sh")
    who = status.supervisor(folder)
    assert who is not None and list(process.belonging(folder.name))

    os.kill(who["pid"], signal.SIGKILL)

    until(lambda: not list(process.belonging(folder.name)))
    assert run(["destroy", "toy"]) == 0
    assert not folder.exists() and str(folder) not in Path("/proc/self/mountinfo").read_text()


def test_plan_and_apply_name_the_placeholders_where_the_paths_are_not_true(capsys: Capture) -> None:
    off = "providers: {local: {namespace: false}}\n"
    write(f"{PATHS}{off}command: [sh, /job/code/t.sh]\n")

    for verb, code in (("plan", 0), ("apply", 1)):
        assert run([verb, "job.yaml"]) == code

        told = capsys.readouterr().err
        assert "note: command[1]: processes do not find /job/code, /job/model here" in told
        assert "hint: write ${mounts.code}, ${outputs.model}" in told


def test_a_folder_of_the_machine_stays_what_it_is(capsys: Capture) -> None:
    allowed()
    write("outputs: [{name: model, path: /etc/model}]\nrun: test -e /etc/passwd\n")

    assert run(["apply", "job.yaml"]) == 0

    told = capsys.readouterr().err
    what = "processes do not find /etc/model here, because this machine has /etc itself"
    assert f"outputs[0].path: {what}" in told
    assert (
        "processes do not find /etc, because this machine has /etc itself" in told
    )  # by the client


def test_a_machine_that_refuses_has_the_job_run_without() -> None:
    need("unshare", "setpriv")
    write(f"{PATHS}run: |\n  sh ${{mounts.code}}/t.sh || test ! -e /job\n")
    shut = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
    words = [sys.executable, "-m", "runspec_jobs", "apply", "job.yaml"]

    done = subprocess.run(
        ["unshare", "-Ur", "/bin/sh", "-c", shut, "sh", *words],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "because this machine allows no mount namespace (unshare" in done.stderr


def test_doctor_says_whether_paths_are_true(capsys: Capture) -> None:
    allowed()

    run(["doctor", "local"])

    assert (
        "ok  local: processes find mounts and outputs at the paths of the spec\n"
        in capsys.readouterr().out
    )
