"""`pcluster` is called with nothing secret on its command line, and each of its answers means one thing."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import CredentialsError, NoAnswer, RemoteError, Unavailable
from runspec_parallelcluster.session import install
from runspec_parallelcluster.session.pcluster import Cli, NotThere, StopFirst, failure
from tests.support.slurm.parallelcluster_specs import options
from tests.support.wait import SOON_S

# Notes how it was called, then does what the test wants.
PROGRAM = """#!/bin/sh
printf '%s\\n' "$@" >"$NOTES/argv"
env >"$NOTES/env"
for word; do [ -f "$word" ] && { cp -p "$word" "$NOTES/file"; echo "$word" >"$NOTES/where"; }; done
. "$NOTES/do"
"""


class Program:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.notes, self.path = folder / "notes", folder / "pcluster"
        self.notes.mkdir()
        self.path.write_text(PROGRAM)
        self.path.chmod(0o755)
        (folder / "node").write_text("#!/bin/sh\n")
        (folder / "node").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        monkeypatch.setenv("NOTES", str(self.notes))

    def does(self, script: str) -> None:
        (self.notes / "do").write_text(script)

    def says(self, answer: Any, code: int = 0) -> None:
        (self.notes / "answer").write_text(json.dumps(answer, indent=2))
        self.does(f'cat "$NOTES/answer"; exit {code}')

    def argv(self) -> list[str]:
        return (self.notes / "argv").read_text().splitlines()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(tmp_path, monkeypatch)


def client(**settings: Any) -> Cli:
    return Cli(options(**settings), lambda line: None)


@pytest.mark.process
def test_an_answer_is_the_json_that_it_prints(program: Program) -> None:
    program.says({"clusterStatus": "CREATE_COMPLETE"})

    assert client().run("describe-cluster", "x") == {"clusterStatus": "CREATE_COMPLETE"}

    assert program.argv() == ["describe-cluster", "--cluster-name", "x", "--region", "us-east-1"]


@pytest.mark.process
def test_output_before_the_json_of_pcluster_is_skipped(program: Program) -> None:
    program.does('echo "!! Node 20 has reached {end}-of-life"; echo "{ old }"; echo \'{"a": 1}\'')

    assert client().run("describe-cluster", "x") == {"a": 1}


@pytest.mark.process
def test_the_configuration_goes_by_a_file_of_ours_alone_that_is_gone_afterwards(
    program: Program,
) -> None:
    program.says({})

    client().run("create-cluster", "x", configuration={"Region": "us-east-1"})

    kept = program.notes / "file"
    assert json.loads(kept.read_text()) == {"Region": "us-east-1"}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert not Path((program.notes / "where").read_text().strip()).exists()


@pytest.mark.process
def test_credentials_are_in_the_environment_and_on_no_command_line(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    program.says({})

    client(account_profile="work").run("create-cluster", "x", configuration={})

    env = (program.notes / "env").read_text()
    assert "AWS_SECRET_ACCESS_KEY=hush" in env and "AWS_PROFILE=work" in env
    assert "hush" not in " ".join(program.argv())


@pytest.mark.process
@pytest.mark.parametrize(
    "operation,said,error,transient",
    [
        ("describe-cluster", "Cluster 'x' does not exist or belongs to an older one.", NotThere, False),
        ("delete-cluster", "Cluster 'x' does not exist.", NotThere, False),
        ("create-cluster", "Bad Request: Cluster name 'é' is not good", RemoteError, False),
        ("create-cluster", "Unable to locate credentials", CredentialsError, False),
        ("create-cluster", "The security token included in the request is invalid", CredentialsError, False),
        ("create-cluster", "Rate exceeded", RemoteError, True),
        ("create-cluster", "Could not connect to the endpoint URL: x", NoAnswer, False),
        ("describe-cluster", "Could not connect to the endpoint URL: x", Unavailable, False),
        ("create-cluster", "Unexpected fatal exception. Please look at the logs", NoAnswer, False),
        ("describe-cluster", "Unexpected fatal exception. Please look at the logs", Unavailable, False),
    ],
)  # fmt: skip
def test_each_way_to_say_no_means_one_thing(
    program: Program, operation: str, said: str, error: type[Exception], transient: bool
) -> None:
    program.says({"message": said}, 1)

    with pytest.raises(error) as caught:
        client().run(operation, "x")

    assert type(caught.value) is error
    assert getattr(caught.value, "transient", False) is transient


def test_errors_of_validators_are_shown_and_warnings_are_not() -> None:
    wrong = [
        {"level": "ERROR", "type": "SubnetsValidator", "message": "no such subnet"},
        {"level": "WARNING", "type": "AmiValidator", "message": "hm"},
    ]

    found = failure(
        "create-cluster", {"message": "Invalid", "configurationValidationErrors": wrong}, ""
    )

    assert type(found) is RemoteError
    assert "SubnetsValidator: no such subnet" in found.message and "hm" not in found.message


def test_a_change_that_wants_the_fleet_to_stop_is_told_apart() -> None:
    stop = {
        "parameter": "MaxCount",
        "message": "All compute nodes must be stopped or QueueUpdateStrategy ...",
    }
    never = {"parameter": "Image.Os", "message": "Update actions are not currently supported"}

    one = failure("update-cluster", {"message": "no", "updateValidationErrors": [stop]}, "")
    both = failure("update-cluster", {"message": "no", "updateValidationErrors": [stop, never]}, "")

    assert (
        type(one) is StopFirst
        and one.hint
        and "update: terminate" in one.hint
        and "stop" in one.hint
    )
    assert type(both) is RemoteError and both.hint and "another name" in both.hint


@pytest.mark.process
def test_a_program_that_is_killed_may_have_done_it(program: Program) -> None:
    program.does("kill -9 $$")

    with pytest.raises(NoAnswer):
        client().run("create-cluster", "x")
    with pytest.raises(Unavailable):
        client().run("describe-cluster", "x")


@pytest.mark.process
def test_a_program_that_does_not_end_is_ended_with_all_it_started(program: Program) -> None:
    program.does('sleep 600 & echo $! >"$NOTES/child"; wait')

    began = time.monotonic()
    with pytest.raises(NoAnswer, match="no answer in"):
        Cli(options(), lambda line: None, 0.5).run("create-cluster", "x")
    assert time.monotonic() - began < SOON_S  # the child would have held the pipe for ten minutes

    child = int((program.notes / "child").read_text())
    deadline = time.monotonic() + 60
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


# Where the program is


def test_the_program_of_the_settings_comes_first(program: Program, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)

    assert install.find_pcluster(options(pcluster=str(other))) == other
    assert install.find_pcluster(options()) == program.path


def test_a_program_of_the_settings_that_is_not_there_is_an_error() -> None:
    with pytest.raises(Unavailable, match="no program"):
        install.find_pcluster(options(pcluster="/nowhere/pcluster"))


def test_our_own_is_taken_only_when_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    folder = install.own_folder()
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()

    assert install.find_pcluster(options()) is None
    (folder / install.MARK).touch()
    assert install.find_pcluster(options()) == folder / "bin" / "pcluster"


def test_a_missing_node_is_reported_before_pcluster_is_called(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program.path.parent / "node").unlink()
    monkeypatch.setenv(
        "PATH",
        f"{program.path.parent}:/bin"
        if not Path("/bin/node").exists()
        else str(program.path.parent),
    )

    with pytest.raises(Unavailable, match="pcluster needs Node"):
        client().run("describe-cluster", "x")


@pytest.mark.parametrize("beside", [True, False])
def test_the_interpreter_of_the_program_is_found(tmp_path: Path, beside: bool) -> None:
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    program = (python.parent if beside else tmp_path) / "pcluster"
    program.write_text(
        f"#!/bin/sh\n'''exec' '{python}' \"$0\" \"$@\"\n" if not beside else "#!/bin/sh\n"
    )

    assert install.python(program) == python
