"""The first process of a job, from the claim to the last save: by its own parts, and as a service starts it."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from runspec_agent.base import end_causes, program_hooks
from runspec_agent.base.job_env import LOST, STOPPED, Failure
from runspec_agent.base.task_identity import (
    TaskIdentity,
    place,
    rename,
    resume_node,
    values,
    variable,
)
from runspec_agent.job.agent import Agent
from runspec_agent.retry import attempts
from runspec_agent.retry.failure_count import AGAIN
from runspec_agent.store.base import Bucket
from runspec_agent.store.manifest import MANIFEST, OBJECTS, parsed
from runspec_jobs.provider.payload import pack_agent, strip_boot
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.placeholders import tasks, variable as core_variable
from tests.support.agent.breakable_stores import Way
from tests.support.agent.metadata_services import NOTICE, Machine
from tests.support.agent.process_nodes import fake_mpirun as fake_mpirun
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.process

ZIPAPP = pack_agent()
DIGEST = hashlib.sha256(ZIPAPP).hexdigest()
RECORD: dict[str, Any] = {
    "run": "r",
    "shape": "single",
    "nodes": 1,
    "slots": 1,
    "launch": "none",
    "attempts": 1,
    "sweep": [],
    "mounts": [],
    "outputs": [],
    "requirements": [],
    "build_constraints": [],
}
WORDS = "RUNSPEC_JOB=BATCH_ID RUNSPEC_ATTEMPT=BATCH_TRY RUNSPEC_INDEX=BATCH_INDEX RUNSPEC_RANK=BATCH_NODE"
MODEL = {"name": "my-model", "path": "/out/model", "sync_s": None}


# Which job this is


@pytest.mark.parametrize(
    ("env", "record", "found"),
    [
        ({"RUNSPEC_JOB": "j"}, {}, TaskIdentity("j", 0, 0, 1)),
        ({"RUNSPEC_JOB": "j", "RUNSPEC_ATTEMPT": "3"}, {}, TaskIdentity("j", 0, 0, 3)),
        ({"RUNSPEC_JOB": "j", "RUNSPEC_TASK": "3"}, {}, TaskIdentity("j", 3, 0, 1)),
        (
            {"RUNSPEC_JOB": "j:7", "RUNSPEC_INDEX": "7"},
            {"shape": "array"},
            TaskIdentity("j", 7, 0, 1),
        ),
        (
            {"RUNSPEC_JOB": "j:7", "RUNSPEC_INDEX": "7"},
            {"shape": "array", "nodes": 3},
            TaskIdentity("j", 2, 1, 1),
        ),
        (
            {"RUNSPEC_JOB": "j#2", "RUNSPEC_RANK": "2"},
            {"shape": "nodes", "nodes": 3},
            TaskIdentity("j", 0, 2, 1),
        ),
        (
            {"RUNSPEC_JOB": "j", "RUNSPEC_ATTEMPT": "2", "RUNSPEC_ATTEMPTS_BEFORE": "3"},
            {},
            TaskIdentity("j", 0, 0, 5),
        ),
    ],
)
def test_a_job_knows_its_place(
    env: dict[str, str], record: dict[str, Any], found: TaskIdentity
) -> None:
    """All that belong together have the id that the claim is by."""
    assert place(env, {**RECORD, **record}) == found


@pytest.mark.parametrize(("index", "there"), [("5", True), ("6", True), ("7", False)])
def test_an_index_beyond_those_of_all_nodes_is_a_node_that_has_come_back(
    index: str, there: bool
) -> None:
    """Of two tasks of three nodes, the fifth node is back after two attempts."""
    record = {"nodes": 3, "shape": "array", "elastic": {"max": 3}, "sweep": [["a", ["1", "2"]]]}
    env = {"RUNSPEC_JOB": "j", "RUNSPEC_INDEX": index, "RUNSPEC_ATTEMPT": "1"}
    returned = {"returned/6": b'{"node": 4, "before": 2}'}

    assert resume_node(env, record, returned.get) is there

    if index == "6":
        assert place(env, {**RECORD, **record}) == TaskIdentity("6", 1, 1, 3)
        assert env["RUNSPEC_CLAIM"] == "returned/4-2.claim"
    else:
        assert "RUNSPEC_CLAIM" not in env


def test_variables_get_the_names_of_the_contract() -> None:
    """Where the service gives them."""
    env = {"RUNSPEC_WORDS": "A=B C=D", "B": "1"}

    rename(env)

    assert env == {"RUNSPEC_WORDS": "A=B C=D", "B": "1", "A": "1"}


names = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True)
sweeps = st.dictionaries(
    names, st.lists(st.text("abc", min_size=1), min_size=1, max_size=3, unique=True), max_size=3
)


@given(sweeps)
@settings(max_examples=60)
def test_tasks_have_the_values_that_were_planned(sweep: dict[str, list[str]]) -> None:
    """In the order of runspec_jobs.spec.placeholders.tasks, under the same names."""
    spec = Spec.model_construct(sweep={name: tuple(among) for name, among in sweep.items()})
    planned = [dict(found) for found in tasks(spec)]

    assert [values(list(sweep.items()), n) for n in range(len(planned))] == planned
    for name in sweep:
        assert variable("SWEEP", name) == core_variable("sweep", name)


# Whether it is tried again


@pytest.fixture
def one(bucket: Bucket, tmp_path: Path) -> Iterator[Any]:
    """Make an agent of a try of this run."""
    made: list[Agent] = []

    def agent_of(attempt: int = 1, rank: int = 0, **record: Any) -> Agent:
        env = {"RUNSPEC_RUN": "r", "RUNSPEC_JOB": "j", "RUNSPEC_ATTEMPT": str(attempt)}
        env["RUNSPEC_RANK"] = str(rank)
        made.append(Agent(bucket, env, None, {**RECORD, **record}))
        return made[-1]

    yield agent_of
    for found in made:
        os.rmdir(found.folder)


@pytest.mark.parametrize("code", [0, STOPPED])
def test_success_and_a_stop_are_told_as_they_are(one: Any, code: int) -> None:
    """A machine that was taken away is the service's to replace."""
    agent = one(attempts=3)
    agent.own = False

    assert agent.judge(code) == code


def test_a_stop_that_nobody_asked_for_is_a_failure(one: Any) -> None:
    assert [one(n, attempts=2).judge(STOPPED) for n in (1, 2)] == [AGAIN, STOPPED]


def test_the_last_stop_of_a_program_does_not_look_like_a_reclaimed_machine(one: Any) -> None:
    """Services that start reclaimed jobs again must not see it; the end record has it."""
    assert one(1, attempts=1, ends=True).judge(STOPPED) == 1


@pytest.mark.parametrize("kind", ["folder"], indirect=True)
@pytest.mark.parametrize(("code", "told"), [(AGAIN, 143), (1, 143), (0, 0)])
def test_a_node_that_another_one_has_ended_records_sigterm(
    one: Any, bucket: Bucket, code: int, told: int
) -> None:
    """Its exit code tells the service what to do."""
    agent = one(ends=True)
    agent.begun, agent.cause = True, end_causes.PEER

    assert agent.note(code, None) == code

    assert recorded(bucket) == [f"0/1/0-{told}-peer"]


def test_a_failure_is_tried_again_until_its_tries_are_used_up(
    one: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last one tells the code."""
    assert [one(n, attempts=3).judge(4) for n in (1, 2, 3)] == [AGAIN, AGAIN, 4]

    assert "runspec: failed with 4; this was attempt 2 of 3\n" in capsys.readouterr().err


def test_only_failures_are_counted(one: Any) -> None:
    """Not the attempts that machines were taken away in."""
    assert [one(n, attempts=2).judge(4) for n in (3, 7)] == [AGAIN, 4]


def test_a_try_that_is_judged_twice_counts_once(one: Any) -> None:
    """Its exit may have been lost on the way to the service."""
    assert [one(1, attempts=2).judge(4) for _ in range(2)] == [AGAIN, AGAIN]


def test_nodes_count_their_own_failures(one: Any) -> None:
    """Rank 1 and rank 10 are two."""
    one(1, rank=10, attempts=2).judge(4)

    assert one(1, rank=1, attempts=2).judge(4) == AGAIN


def test_the_programs_own_75_does_not_go_on_for_ever(one: Any) -> None:
    """It is a code like another, and the service must not see it after the last try."""
    assert [one(n, attempts=2).judge(AGAIN) for n in (1, 2)] == [AGAIN, 1]


def test_the_programs_own_code_does_not_end_a_sweep(one: Any) -> None:
    """Only the agent ends with the code that does; what the program's was is in the note."""
    assert [one(n, attempts=2, stops=77).judge(77) for n in (1, 2)] == [AGAIN, AGAIN]
    assert one(3, attempts=2).judge(77) == 77

    noted = [found.key for found in one().bucket.listing("runs/r/failures/0-0/")]
    assert noted[-2:] == ["runs/r/failures/0-0/2-77", "runs/r/failures/0-0/3-77"]


def test_a_node_that_a_launcher_lost_is_not_counted(one: Any) -> None:
    """It is no failure of the job."""
    agent = one(1, attempts=1, launch="mpi")
    agent.own = False

    assert agent.judge(LOST) == LOST
    assert one(2, attempts=1, launch="mpi").judge(4) == 4


def test_a_run_that_was_destroyed_is_not_begun(bucket: Bucket) -> None:
    """There is nothing to do."""
    with pytest.raises(Failure, match="the run r has been destroyed"):
        attempts.read_record(bucket, "runs/r/")


# As a service starts it


@cache
def oldest() -> str:
    """Give the oldest Python that is here: jobs run in any from 3.6 on."""
    for name in ("python3.6", "python3.7", "python3.8", "python3.9"):
        found = shutil.which(name)
        if (
            found
            and not subprocess.run([found, "-c", "import ssl"], capture_output=True).returncode
        ):
            return found
    return sys.executable


def default_signals() -> None:
    """Set SIGTERM to what a service leaves it at, whatever this process does with it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))


class Service:
    """Starts jobs as services do, with their own variables, and streams that are a log.

    AWS Batch gives a text that gets the zipapp; Azure Batch puts the zipapp there; on a shared folder it is there.
    """

    def __init__(self, bucket: Bucket, folder: Path) -> None:
        self.bucket, self.folder = bucket, folder
        self.python = oldest()
        self.jobs: list[subprocess.Popen[str]] = []
        bucket.put(f"inside/{DIGEST}.pyz", ZIPAPP)

    def starts(
        self, *words: str, record: Mapping[str, Any] = {}, at: str = "root", **env: str
    ) -> subprocess.Popen[str]:
        text = json.dumps({**RECORD, **record})
        self.bucket.put("runs/r/record.json", text.encode())
        kept = "PATH RUNSPEC_STORE RUNSPEC_BLOB_URL RUNSPEC_REGION RUNSPEC_SAS AWS_ENDPOINT_URL_S3".split()
        kept += ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
        whole = {k: os.environ[k] for k in kept if k in os.environ} | {
            "RUNSPEC_RUN": "r",
            "RUNSPEC_INSIDE_SHA256": DIGEST,
            "RUNSPEC_WORDS": WORDS,
            "RUNSPEC_BELOW": str(self.folder / at),
            "RUNSPEC_HOST": "here",
            "LC_ALL": "C",
            "TMPDIR": str(self.folder),
            "BATCH_ID": "job-1",
            "BATCH_TRY": "1",
            **env,
        }
        line = [self.python, "-IS", "-c", strip_boot(), *words]
        if not whole["RUNSPEC_STORE"].startswith("s3:"):
            app = self.folder / "inside.pyz"
            if not app.exists():  # others may be reading it
                app.write_bytes(ZIPAPP)
            line[2:4] = [str(app), "job", *["--"] * bool(words)]
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        job = subprocess.Popen(
            line,
            env=whole,
            text=True,
            start_new_session=True,
            preexec_fn=default_signals,  # noqa: PLW1509 - nothing else runs in this process
            **streams,
        )
        self.jobs.append(job)
        return job

    def runs(self, *words: str, **how: Any) -> tuple[int, str, str]:
        """Give the exit code and both streams."""
        job = self.starts(*words, **how)
        out, err = job.communicate(timeout=60)
        return job.returncode, out, err

    def output(self, path: str, place: str = "my-model/0/0") -> bytes | None:
        """Give what was saved last of a file."""
        at = f"runs/r/outputs/{place}/"
        entry = parsed(self.bucket.get(at + MANIFEST), MANIFEST).files.get(path)
        return None if entry is None else self.bucket.get(at + OBJECTS + entry.object)


@pytest.fixture
def service(bucket: Bucket, tmp_path: Path) -> Iterator[Service]:
    found = Service(bucket, tmp_path)
    yield found
    for job in found.jobs:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.communicate()


def sh(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


def test_the_program_gets_its_words_and_the_log_all_of_its_lines(service: Service) -> None:
    """Byte for byte; the last line too, with or without its end."""
    script = 'for w; do echo "<$w>"; done; echo err >&2; printf last'

    code, out, err = service.runs(*sh(script), "sh", "a b", "", "$HOME", "it's", "é")

    assert (code, out, err) == (0, "<a b>\n<>\n<$HOME>\n<it's>\n<é>\nlast", "err\n")


def test_arguments_come_from_the_record_of_the_job(service: Service) -> None:
    record = {"argv": [*sh('for w; do echo "<$w>"; done'), "sh", "a b", "$HOME 'x", "é"]}

    assert service.runs(record=record)[1] == "<a b>\n<$HOME 'x>\n<é>\n"


@pytest.mark.parametrize("kind", [pytest.param("blob", marks=pytest.mark.slow)], indirect=True)
def test_the_program_does_not_see_the_signature(service: Service) -> None:
    """It stands in no log by accident. It is no wall: it is the same user's process that has it."""
    sas = os.environ["RUNSPEC_SAS"]

    code, out, err = service.runs("env")

    assert code == 0 and "RUNSPEC_RUN=r\n" in out
    assert "RUNSPEC_SAS" not in out and sas not in out + err


def left(folder: Path) -> list[str]:
    """Return what agents have left in their temporary folder: a service's own zipapp is not theirs."""
    return [path.name for path in folder.glob("runspec-*")]


@pytest.mark.parametrize("script", ["true", "exit 3", "kill -9 $$"])
def test_the_agent_removes_its_files_after_any_end(
    service: Service, tmp_path: Path, script: str
) -> None:
    """Neither what the agent needed for now, nor a zipapp that it got from the store."""
    service.runs(*sh(script))

    assert left(tmp_path) == []


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
def test_the_next_agent_removes_files_of_a_killed_one(service: Service, tmp_path: Path) -> None:
    service.runs(*sh("kill -9 $PPID; exec sleep 60"))
    assert len(left(tmp_path)) == 1

    service.runs("true", BATCH_ID="job-2")

    assert left(tmp_path) == []


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
def test_a_signal_at_any_time_leaves_nothing(service: Service, tmp_path: Path) -> None:
    """From when the text has begun until the program runs, and then."""
    for delay_s in [0.04 * n for n in range(12)]:
        job = service.starts(*sh("exec sleep 60"))
        time.sleep(delay_s)
        job.terminate()
        job.communicate(timeout=60)

        assert (left(tmp_path), delay_s) == ([], delay_s)


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
def test_jobs_that_begin_at_once_take_nothing_from_each_other(
    service: Service, tmp_path: Path
) -> None:
    """All but one are duplicates, which have nothing to do."""
    jobs = [service.starts("true", BATCH_ID=f"job-{n}") for n in range(6)]

    ends = [(job.communicate(timeout=60), job.returncode)[1] for job in jobs]

    assert (ends, left(tmp_path)) == ([0] * 6, [])


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
def test_the_folder_of_a_job_that_lives_is_left_to_it(service: Service, tmp_path: Path) -> None:
    other = service.starts(*sh("echo up; exec sleep 60"))
    assert other.stdout is not None and other.stdout.readline() == "up\n"
    (its,) = left(tmp_path)
    (tmp_path / "runspec-other").mkdir()  # of another program, or of an older version

    service.runs("true", BATCH_ID="job-2")

    assert sorted(left(tmp_path)) == sorted([its, "runspec-other"])


def test_the_contract_is_kept(service: Service, tmp_path: Path) -> None:
    """All the variables, and the words that stand for them; secrets and the user's own are untouched."""
    record = {
        "shape": "array",
        "slots": 4,
        "sweep": [["lr", ["a", "é"]], ["seed", ["1", "2"]]],
        "outputs": [MODEL],
    }
    env = {
        "BATCH_INDEX": "2",
        "BATCH_TRY": "2",
        "SECRET": "s3 cret\nx",
        "PYTHONPATH": "/x",
        "IFS": "y",
    }

    code, out, err = service.runs(
        *sh('env; echo "SCRIPT $1"'), "sh", "${sweep.lr}+${outputs.my-model}", record=record, **env
    )

    assert (code, err) == (0, "")
    for line in (
        "RUNSPEC_RUN=r",
        "RUNSPEC_JOB=job-1",
        "RUNSPEC_TASK=2",
        "RUNSPEC_ATTEMPT=2",
        "RUNSPEC_RANK=0",
        "RUNSPEC_NODES=1",
        "RUNSPEC_SLOTS=4",
        "RUNSPEC_SWEEP_LR=é",
        "RUNSPEC_SWEEP_SEED=1",
        f"RUNSPEC_OUTPUT_MY_MODEL={tmp_path}/root/out/model",
        f"SCRIPT é+{tmp_path}/root/out/model",
        "SECRET=s3 cret\nx",
        "PYTHONPATH=/x",
    ):
        assert line + "\n" in out


def test_mounts_and_outputs_lie_below_runspec_below(
    service: Service, bucket: Bucket, tmp_path: Path
) -> None:
    """RUNSPEC_BELOW stands for the root that a process does not have."""
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("deep/日")
        info.size = 4
        archive.addfile(info, BytesIO(b"code"))
    bucket.put("blobs/c.tar", buffer.getvalue())
    bucket.put("store/data/x é", b"data")
    record = {
        "mounts": [
            {"name": "code", "target": "/in/code", "kind": "tar", "key": "blobs/c.tar"},
            {"name": "data", "target": "/in/data", "kind": "prefix", "key": "store/data/"},
            {"name": "all", "target": "/in/all", "kind": "folder", "path": "fs/mine"},
        ],
        "outputs": [MODEL],
    }
    script = (
        'cat "$1/deep/日" "$2/x é"; echo shared >"$3/s"; mkdir "$RUNSPEC_OUTPUT_MY_MODEL/d"; '
        'echo saved >"$RUNSPEC_OUTPUT_MY_MODEL/d/é"'
    )

    found = service.runs(
        *sh(script), "sh", "${mounts.code}", "${mounts.data}", "${mounts.all}", record=record
    )

    assert found == (0, "codedata", "")
    assert (tmp_path / "root/mnt/runspec/fs/mine/s").read_text() == "shared\n"
    assert service.output("d/é") == b"saved\n"
    saved = parsed(service.bucket.get("runs/r/outputs/my-model/0/0/" + MANIFEST), MANIFEST)
    assert list(saved.files) == ["d/é"]


def test_outputs_are_saved_when_the_program_fails(service: Service) -> None:
    """And its code is the job's."""
    code, _, err = service.runs(
        *sh('echo x >"$RUNSPEC_OUTPUT_MY_MODEL/f"; exit 3'), record={"outputs": [MODEL]}
    )

    assert (code, err) == (3, "")
    assert service.output("f") == b"x\n"


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
def test_a_file_that_cannot_be_saved_fails_the_job(service: Service, way: Way) -> None:
    """Exit 1, a line for each, and the rest is there."""
    way.breaks("403", "PUT", "/objects/", times=100)

    code, _, err = service.runs(
        *sh('cd "$RUNSPEC_OUTPUT_MY_MODEL"; echo x >good'), record={"outputs": [MODEL]}
    )

    assert code == 1
    assert err.startswith("runspec: not saved: output 'my-model': the store refuses runs/r/outputs")
    assert service.output("good") is None


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
@pytest.mark.parametrize(("own", "shown"), [(0, 1), (3, 3)])
def test_a_full_store_does_not_change_the_code_of_the_program(
    service: Service, way: Way, own: int, shown: int
) -> None:
    """And no other attempt follows, for which there would be no room either."""
    for part in ("/outputs/", "/failures/", "/ends/"):
        way.breaks("507", "PUT", part, times=100)

    code, _, err = service.runs(
        *sh(f'echo x >"$RUNSPEC_OUTPUT_MY_MODEL/x"; exit {own}'),
        record={"outputs": [{**MODEL, "sync_s": None}], "attempts": 2, "ends": True},
    )

    assert code == shown
    assert "the store refuses" in err and ": 507" in err


def test_an_attempt_that_a_full_store_lets_not_begin_has_the_code_of_the_one_before(
    one: Any,
) -> None:
    """Azure Batch starts it after any failure."""
    assert one(1, attempts=2).in_full_store() is None

    assert one(1, attempts=2).judge(3) == AGAIN

    assert one(2, attempts=2).in_full_store() == 3


def test_an_output_has_the_files_that_its_patterns_name(service: Service) -> None:
    output = {**MODEL, "include": ["*.pt"], "exclude": ["old*"]}
    script = 'cd "$RUNSPEC_OUTPUT_MY_MODEL"; mkdir a; touch a/new.pt old.pt log.txt'

    code, _, err = service.runs(*sh(script), record={"outputs": [output], "attempts": 1})

    assert code == 0, err
    saved = [service.output(name) for name in ("a/new.pt", "old.pt", "log.txt")]
    assert saved == [b"", None, None]


def test_sigterm_reaches_the_program_and_what_it_writes_then_is_saved(service: Service) -> None:
    """Within the grace; the code says that it was asked to stop."""
    script = (
        "trap 'echo last >\"$RUNSPEC_OUTPUT_MY_MODEL/f\"; echo bye; exit 0' TERM; echo up; "
        "while :; do sleep 0.05; done"
    )
    job = service.starts(*sh(script), record={"outputs": [MODEL]})
    assert job.stdout is not None and job.stdout.readline() == "up\n"

    job.send_signal(signal.SIGTERM)

    out, err = job.communicate(timeout=LIMIT_S)
    assert (job.returncode, out, err) == (STOPPED, "bye\n", "")
    assert service.output("f") == b"last\n"


def test_a_program_that_does_not_listen_is_killed_after_its_grace(service: Service) -> None:
    """And what it wrote is saved before the service ends us."""
    script = "trap '' TERM; echo x >\"$RUNSPEC_OUTPUT_MY_MODEL/f\"; echo up; while :; do sleep 0.05; done"
    job = service.starts(*sh(script), record={"outputs": [MODEL]}, RUNSPEC_GRACE_S="0.3")
    assert job.stdout is not None and job.stdout.readline() == "up\n"
    began = time.monotonic()

    job.send_signal(signal.SIGTERM)

    job.communicate(timeout=LIMIT_S)
    assert job.returncode == STOPPED
    assert 0.3 <= time.monotonic() - began < 20  # the grace of who names none
    assert service.output("f") == b"x\n"


def test_a_later_attempt_goes_on_from_what_was_saved(service: Service) -> None:
    """On another machine; what it did not save itself stays saved."""
    record = {"outputs": [MODEL], "attempts": 2}
    script = 'cd "$RUNSPEC_OUTPUT_MY_MODEL"; cat step 2>/dev/null; echo $RUNSPEC_ATTEMPT >>step; '

    codes = [
        service.runs(*sh(script + end), record=record, at=f"machine-{n}", BATCH_TRY=str(n))[:2]
        for n, end in ((1, "exit 9"), (2, ":"))
    ]

    assert codes == [(AGAIN, ""), (0, "1\n")]
    assert service.output("step") == b"1\n2\n"


# How it has ended

ENDS = {"ends": True, "attempts": 1}


def recorded(bucket: Bucket) -> list[str]:
    return [one.key.removeprefix("runs/r/ends/") for one in bucket.listing("runs/r/ends/")]


@pytest.mark.parametrize(
    ("code", "exits"), [(0, 0), (3, 3), (75, 1), (77, 77), (124, 124), (137, 137), (143, 1)]
)
def test_the_end_record_has_the_exit_code_of_the_program(
    service: Service, bucket: Bucket, code: int, exits: int
) -> None:
    """Also if the service must not see that code, because it would start another attempt."""
    assert service.runs(*sh(f"exit {code}"), record=ENDS)[0] == exits

    assert recorded(bucket) == [f"0/1/0-{code}-program"]


def test_a_failed_attempt_that_another_follows_has_an_end_record(
    service: Service, bucket: Bucket
) -> None:
    record = {**ENDS, "attempts": 2}

    assert service.runs(*sh("exit 3"), record=record)[0] == AGAIN
    assert service.runs("true", record=record, BATCH_TRY="2")[0] == 0

    assert recorded(bucket) == ["0/1/0-3-program", "0/2/0-0-program"]


def test_a_setup_that_fails_is_a_failure_of_its_own(service: Service, bucket: Bucket) -> None:
    """It counts as others do, and another attempt runs it again."""
    record = {**ENDS, "attempts": 2}
    words = program_hooks.wrap(
        sh('[ "$RUNSPEC_ATTEMPT" = 2 ] || exit 3'), sh('echo "up $RUNSPEC_SETUP"')
    )

    assert service.runs(*words, record=record)[0] == AGAIN
    assert service.runs(*words, record=record, BATCH_TRY="2")[:2] == (0, "up \n")

    times = [name for name in recorded(bucket) if "-setup-" in name]
    assert set(recorded(bucket)) - set(times) == {"0/1/0-3-setup", "0/2/0-0-program"}
    assert [name.rpartition("-")[0] for name in times] == ["0/1/0-setup", "0/2/0-setup"]
    assert all(int(name.rpartition("-")[2]) < LIMIT_S for name in times)


def test_a_signal_a_refusal_and_a_lost_save_are_causes_of_their_own(
    service: Service, bucket: Bucket, tmp_path: Path
) -> None:
    job = service.starts(*sh("echo up; exec sleep 60"), record=ENDS)
    assert job.stdout is not None and job.stdout.readline() == "up\n"
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=LIMIT_S)
    service.runs("no-such-program", record=ENDS, BATCH_TRY="2")
    gone = 'rm -r "$RUNSPEC_OUTPUT_MY_MODEL"; ln -s /dev/null "$RUNSPEC_OUTPUT_MY_MODEL"'
    service.runs(*sh(gone), record={**ENDS, "outputs": [MODEL]}, BATCH_TRY="3")

    assert recorded(bucket) == ["0/1/0-143-stopped", "0/2/0-127-program", "0/3/0-1-unsaved"]


@pytest.mark.parametrize(
    "attempts,exits,then", [(1, 124, ""), (2, AGAIN, ""), (1, 124, "kill $PPID; sleep 0.3;")]
)
def test_a_timeout_saves_says_so_and_counts_as_a_failure(
    service: Service, bucket: Bucket, attempts: int, exits: int, then: str
) -> None:
    """Also if the service tells the agent to end meanwhile, as it does when the first node has ended."""
    record = {"ends": True, "attempts": attempts, "timeout_s": 0.5, "outputs": [MODEL]}
    trap = f"trap 'echo last >\"$RUNSPEC_OUTPUT_MY_MODEL/f\"; {then} exit 0' TERM"
    script = f"{trap}; while :; do sleep 0.05; done"

    code, _, err = service.runs(*sh(script), record=record)

    assert (code, service.output("f")) == (exits, b"last\n")
    assert "runspec: the attempt took longer than its timeout of 0.5 s" in err
    assert recorded(bucket) == ["0/1/0-124-timeout"]


def test_a_program_gets_the_signal_before_its_timeout(service: Service, bucket: Bucket) -> None:
    record = {**ENDS, "timeout_s": 60, "signal": {"name": "USR1", "before_s": 59.5}}
    script = "trap 'echo saved; exit 4' USR1; while :; do sleep 0.05; done"

    code, out, err = service.runs(*sh(script), record=record)

    assert (code, out) == (4, "saved\n")
    assert "runspec: USR1 was sent to processes of the program: 1" in err
    assert recorded(bucket) == ["0/1/0-4-program"]


KILL_AGENT = sh("kill -s KILL $PPID; sleep 60")


@pytest.mark.parametrize("attempts,exits", [(1, 137), (2, AGAIN)])
def test_a_killed_agent_is_a_failure_as_any_other(
    service: Service, bucket: Bucket, tmp_path: Path, attempts: int, exits: int
) -> None:
    """Its parent counts it, and leaves no process and no folder behind."""
    code, _, err = service.runs(*KILL_AGENT, record={**ENDS, "attempts": attempts})

    assert (code, "runspec: the agent was killed by signal 9" in err) == (exits, True)
    assert recorded(bucket) == ["0/1/0-137-killed"]
    counted = [found.key for found in bucket.listing("runs/r/failures/")]
    assert counted == ["runs/r/failures/0-0/1-137"]
    assert left(tmp_path) == []


def test_signals_reach_an_agent_through_its_parent(service: Service, bucket: Bucket) -> None:
    script = "trap 'echo USR1' USR1; trap 'echo TERM; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    job = service.starts(*sh(script), record=ENDS)
    assert job.stdout is not None and job.stdout.readline() == "up\n"

    job.send_signal(signal.SIGUSR1)
    assert job.stdout.readline() == "USR1\n"
    job.send_signal(signal.SIGTERM)
    out, _ = job.communicate(timeout=LIMIT_S)

    assert (job.returncode, out) == (STOPPED, "TERM\n")
    assert recorded(bucket) == ["0/1/0-143-stopped"]


def test_an_agent_whose_batch_script_keeps_the_timeout_does_not(
    service: Service, bucket: Bucket
) -> None:
    record = {"timeout_s": 0.1}

    found = service.runs("sleep", "0.5", record=record, RUNSPEC_TIMEOUT_S="60")

    assert found == (0, "", "")
    assert recorded(bucket) == []  # no field of the record asks for them


# The notice of a spot machine

SPOT = {"spot": True, "outputs": [MODEL], "attempts": 1}


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as found:
        yield found


def noticed(service: Service, machine: Machine, script: str) -> tuple[int, str, str]:
    """Run *script*, which says "up", on a machine that then has a notice."""
    job = service.starts(*sh(script), record=SPOT, RUNSPEC_GRACE_S="20", **machine.env())
    assert job.stdout is not None and job.stdout.readline() == "up\n"
    machine.ends = NOTICE
    out, err = job.communicate(timeout=60)
    return job.returncode, out, err


@pytest.mark.slow
def test_a_notice_ends_the_program_saves_and_is_no_failure(
    service: Service, bucket: Bucket, machine: Machine
) -> None:
    script = (
        "trap 'echo last >\"$RUNSPEC_OUTPUT_MY_MODEL/f\"; exit 9' TERM; echo up; "
        "while :; do sleep 0.05; done"
    )

    found = noticed(service, machine, script)

    said = "runspec: the machine will be reclaimed at 2026-11-21T20:22:00Z: the program is told to end\n"
    assert found == (STOPPED, "", said)
    assert service.output("f") == b"last\n"
    assert list(bucket.listing("runs/r/failures/")) == []


@pytest.mark.slow
def test_a_program_that_ends_well_after_the_notice_is_tried_again(
    service: Service, machine: Machine
) -> None:
    """It may have saved half of its work and left, as is usual at SIGTERM."""
    script = "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"

    assert noticed(service, machine, script)[0] == STOPPED


def test_a_job_has_nothing_to_suffer_where_there_is_no_machine_to_ask(service: Service) -> None:
    """It is as fast, and says nothing."""
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = f"http://127.0.0.1:{silent.getsockname()[1]}"

        found = service.runs("true", record=SPOT, AWS_EC2_METADATA_SERVICE_ENDPOINT=there)

    assert found == (0, "", "")
    assert time.monotonic() - began < 20  # one that waited for three answers would take 21 s


def test_only_jobs_that_may_be_on_spot_ask(service: Service, machine: Machine) -> None:
    machine.ends = NOTICE

    service.runs("sleep", "0.5", **machine.env())

    assert machine.calls == []


# Tasks that are stopped

SWEEP = {"shape": "array", "sweep": [["n", ["a", "b"]]], "outputs": [MODEL]}


def test_a_task_that_was_stopped_does_not_begin_again_and_the_others_do(
    service: Service, bucket: Bucket
) -> None:
    bucket.put("runs/r/stop/1", b"")

    other = service.runs("echo", "begun", record=SWEEP, BATCH_INDEX="0")
    code, out, err = service.runs("echo", "begun", record=SWEEP, BATCH_INDEX="1", BATCH_TRY="2")

    assert other[:2] == (0, "begun\n")
    assert (code, out, err) == (STOPPED, "", "runspec: its task was stopped, leaving\n")


def test_a_task_hears_that_it_is_stopped_and_saves_what_it_wrote(
    service: Service, bucket: Bucket
) -> None:
    """Where its service kills what it ends."""
    script = 'trap "echo told >$RUNSPEC_OUTPUT_MY_MODEL/f; exit 0" TERM; echo begun; while :; do sleep 0.1; done'
    job = service.starts(*sh(script), record={**SWEEP, "stop_s": 0.1}, BATCH_INDEX="1")
    assert job.stdout is not None
    job.stdout.readline()

    bucket.put("runs/r/stop/1", b"")

    job.communicate(timeout=60)
    assert (job.returncode, service.output("f", "my-model/1/0")) == (STOPPED, b"told\n")


def test_a_stopped_task_exits_with_another_code_where_its_service_would_repeat_it(
    service: Service, bucket: Bucket
) -> None:
    record = {**SWEEP, **ENDS, "stop_s": 0.1, "repeats_stopped": True}
    job = service.starts(*sh("echo begun; exec sleep 60"), record=record, BATCH_INDEX="1")
    assert job.stdout is not None
    job.stdout.readline()

    bucket.put("runs/r/stop/1", b"")

    job.communicate(timeout=60)
    assert (job.returncode, recorded(bucket)) == (1, ["1/1/0-143-stopped"])
    again = service.runs("true", record=record, BATCH_INDEX="1", BATCH_TRY="2")
    assert again[0] == 1
    assert "1/2/0-143-stopped" in recorded(bucket)


def test_a_program_that_was_killed_exits_with_another_code_where_its_service_would_repeat_it(
    service: Service, bucket: Bucket
) -> None:
    record = {**ENDS, "attempts": 2, "repeats_killed": True}

    codes = [service.runs(*sh("exit 137"), record=record, BATCH_TRY=n)[0] for n in "12"]

    assert codes == [AGAIN, 1]
    assert recorded(bucket) == ["0/1/0-137-program", "0/2/0-137-program"]


def test_the_end_is_noted_in_a_file_of_the_service(service: Service, tmp_path: Path) -> None:
    note = tmp_path / "note"

    service.runs(*sh("exit 3"), record=ENDS, RUNSPEC_END_FILE=str(note))

    assert note.read_text() == "0/1/0-3-program\n"


# Nodes of an array, which are tried together

NODES = {"shape": "array", "nodes": 2}


@pytest.mark.slow
def test_a_node_that_cannot_prepare_ends_the_node_that_waits(
    service: Service, bucket: Bucket, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    record = {**NODES, "outputs": [MODEL]}
    first = service.starts("true", record=record, BATCH_INDEX="0", RUNSPEC_HOST="a")
    end = time.monotonic() + 60
    while bucket.get("runs/r/hosts/0/1/0,a") is None:  # until it waits
        assert time.monotonic() < end
        time.sleep(0.05)

    code, _, err = service.runs("true", record=record, at="file/x", BATCH_INDEX="1")

    assert (code, "the job cannot be prepared" in err) == (2, True)
    _, err = first.communicate(timeout=60)
    assert (first.returncode, err) == (2, "runspec: a node failed before all had joined\n")


@pytest.mark.parametrize("timeout_s,code", [(1, 124), (3600, AGAIN)])
def test_a_node_on_its_last_try_or_at_its_timeout_lets_the_others_know(
    service: Service, bucket: Bucket, timeout_s: int, code: int
) -> None:
    """No service tries it again then, and the others would wait for it."""
    record = {**NODES, "tries": 2, "limit_s": timeout_s}
    node = service.starts("true", record=record, BATCH_INDEX="1", BATCH_TRY="2")
    end = time.monotonic() + 60
    while bucket.get("runs/r/hosts/0/1/1,here") is None:  # until it waits for the other
        assert time.monotonic() < end
        time.sleep(0.05)

    node.send_signal(signal.SIGTERM)

    node.communicate(timeout=60)
    verdict = json.loads(bucket.get("runs/r/rounds/0/1/verdict") or b"[]")
    assert (node.returncode, verdict[0]) == (STOPPED, code)
    assert bucket.get("runs/r/rounds/0/1/last") == b"1"


def test_a_node_has_nothing_to_do_where_all_is_over(service: Service, bucket: Bucket) -> None:
    """Its machine was taken away between its end and its leaving."""
    bucket.put("runs/r/rounds/0/1/verdict", b'[0, "all nodes have succeeded"]')

    found = service.runs("echo", "twice", record=NODES, BATCH_INDEX="1", BATCH_TRY="2")

    assert found == (0, "", "runspec: all nodes have succeeded: this node has nothing to do\n")


# The claim


def test_a_second_job_of_a_run_leaves(service: Service, bucket: Bucket) -> None:
    """Without an error, and without having done anything."""
    service.runs("true")

    found = service.runs("echo", "twice", BATCH_ID="job-2")

    assert found == (0, "", "runspec: duplicate of job-1, leaving\n")


def test_a_retry_of_the_same_job_comes_in(service: Service) -> None:
    """And so do all the children of an array, and all nodes."""
    ids = ("job-1", "job-1:4", "job-1#1")

    assert [service.runs("echo", "in", BATCH_ID=name)[1] for name in ids] == ["in\n"] * 3


def test_a_run_that_was_cancelled_before_it_began_does_not_begin(
    service: Service, bucket: Bucket
) -> None:
    """Exit 143."""
    bucket.put("runs/r/claim", b"cancelled")

    found = service.runs("echo", "x")

    assert found == (STOPPED, "", "runspec: cancelled, leaving\n")


# One clear line


def test_a_folder_that_cannot_be_made_is_one_clear_line(service: Service, tmp_path: Path) -> None:
    """Exit 2: trying again does not help."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root/out").write_text("a file")

    code, _, err = service.runs("true", record={"outputs": [MODEL]})

    assert code == 2
    assert err.startswith("runspec: the job cannot be prepared: ") and err.count("\n") == 1


def test_an_input_that_is_not_there_is_one_clear_line(service: Service) -> None:
    """With what is missing."""
    mount = {"name": "data", "target": "/in", "kind": "prefix", "key": "store/data/"}

    found = service.runs("true", record={"mounts": [mount]})

    assert found == (2, "", "runspec: the store has no object at store/data/\n")


def test_a_lazy_mount_of_which_the_store_has_nothing_is_one_clear_line(
    service: Service, tmp_path: Path
) -> None:
    """An empty folder in its place would be taken for data."""
    mount = {"name": "data", "target": "/in", "kind": "folder", "path": "fs/sets", "exists": True}
    at = tmp_path / "root/mnt/runspec/fs/sets"

    found = service.runs("true", record={"mounts": [mount]})

    why = "the store has no object there, or this machine has not mounted it"
    assert found == (2, "", f"runspec: {at} is missing: {why}\n")
    assert not at.exists()


def test_a_lazy_mount_that_is_there_is_read_where_it_lies(service: Service, tmp_path: Path) -> None:
    mount = {"name": "data", "target": "/in", "kind": "folder", "path": "fs/sets", "exists": True}
    (tmp_path / "root/mnt/runspec/fs/sets").mkdir(parents=True)
    (tmp_path / "root/mnt/runspec/fs/sets/a").write_text("here")

    code, out, _ = service.runs("cat", "${mounts.data}/a", record={"mounts": [mount]})

    assert (code, out) == (0, "here")


def test_a_grace_that_is_no_number_is_one_clear_line(service: Service) -> None:
    """The user may have set it."""
    found = service.runs("true", RUNSPEC_GRACE_S="soon")

    assert found == (2, "", "runspec: RUNSPEC_GRACE_S: 'soon' is not a number\n")


# Several nodes


def test_the_first_node_waits_for_the_others(service: Service, tmp_path: Path) -> None:
    """Where no launcher does."""
    record = {"shape": "nodes", "nodes": 2, "outputs": [MODEL]}
    script = "echo $RUNSPEC_RANK of $RUNSPEC_NODES; [ $RUNSPEC_RANK = 0 ] || { cat fifo; exit 6; }"
    os.mkfifo(tmp_path / "fifo")
    script = script.replace("fifo", f"'{tmp_path}/fifo'")
    first, second = (
        service.starts(*sh(script), record=record, at=str(n), BATCH_NODE=str(n)) for n in range(2)
    )
    assert first.stdout is not None and first.stdout.readline() == "0 of 2\n"
    with (tmp_path / "fifo").open("w"):
        assert first.poll() is None

    assert (second.wait(LIMIT_S), first.wait(LIMIT_S)) == (6, 6)


@pytest.mark.parametrize("at_sigterm", ["143", "0"])
def test_the_first_node_ends_when_another_one_fails(service: Service, at_sigterm: str) -> None:
    """Neither the service nor a launcher ends it, and it would wait for its peer until its timeout."""
    record = {"shape": "nodes", "nodes": 2}
    script = f"[ $RUNSPEC_RANK = 0 ] || exit 6; trap 'exit {at_sigterm}' TERM; sleep 600 & wait"

    first, second = (
        service.starts(*sh(script), record=record, at=str(n), BATCH_NODE=str(n)) for n in range(2)
    )

    assert second.wait(LIMIT_S) == 6
    _, err = first.communicate(timeout=LIMIT_S)
    assert first.returncode == 6
    assert "node 1 has failed: the program is told to end" in err


@pytest.mark.parametrize("kind", ["folder"], indirect=True)
def test_a_143_of_another_node_is_a_failure_that_another_attempt_follows(
    service: Service, bucket: Bucket
) -> None:
    """The first node ends with the same code, because SIGTERM ends it then."""
    record = {**ENDS, "shape": "nodes", "nodes": 2, "attempts": 2}
    script = "[ $RUNSPEC_RANK = 0 ] || exit 143; exec sleep 600"

    first, second = (
        service.starts(*sh(script), record=record, at=str(n), BATCH_NODE=str(n)) for n in range(2)
    )

    assert (second.wait(LIMIT_S), first.wait(LIMIT_S)) == (AGAIN, AGAIN)
    assert recorded(bucket) == ["0/1/0-143-program", "0/1/1-143-program"]


@pytest.mark.parametrize("kind", ["folder"], indirect=True)
def test_the_exit_record_of_a_node_says_that_another_one_ended_it(
    service: Service, bucket: Bucket
) -> None:
    record = {"shape": "nodes", "nodes": 2}
    script = "[ $RUNSPEC_RANK = 0 ] || exit 3; exec sleep 600"

    jobs = [
        service.starts(*sh(script), record=record, at=str(n), BATCH_NODE=str(n), RUNSPEC_ENDS="1")
        for n in range(2)
    ]

    assert [job.wait(LIMIT_S) for job in jobs] == [3, 3]
    notes = [json.loads(bucket.get(f"runs/r/ends/0/1/{n}") or b"") for n in range(2)]
    assert [(note["own"], note["cause"]) for note in notes] == [(143, "peer"), (3, "program")]


@pytest.mark.parametrize("kind", ["folder"], indirect=True)
def test_the_timeout_of_another_node_is_that_of_the_job(service: Service, bucket: Bucket) -> None:
    """All nodes have the same, and one of them reaches it first."""
    record = {**ENDS, "shape": "nodes", "nodes": 2, "timeout_s": 1}
    later = {"RUNSPEC_TIMEOUT_S": "600"}  # as if the first node had begun later

    first, second = (
        service.starts(*sh("exec sleep 600"), record=record, at=str(n), BATCH_NODE=str(n), **more)
        for n, more in enumerate((later, {}))
    )

    assert (second.wait(LIMIT_S), first.wait(LIMIT_S)) == (124, 124)
    assert recorded(bucket) == ["0/1/0-124-timeout", "0/1/1-124-timeout"]


@pytest.mark.parametrize("kind", ["folder"], indirect=True)
@pytest.mark.parametrize("script", ["exec sleep 600", "[ $RUNSPEC_RANK = 1 ] || exec sleep 600"])
def test_the_timeout_of_a_node_ends_the_others_of_its_retry_round(
    service: Service, bucket: Bucket, script: str
) -> None:
    """Also if they run for less time, or wait for it and have succeeded. All record the timeout."""
    record = {**ENDS, **NODES, "timeout_s": 1, "attempts": 2}
    later = {"RUNSPEC_TIMEOUT_S": "600"}  # as if this node had begun later

    first, second = (
        service.starts(
            *sh(script), record=record, at=str(n), BATCH_INDEX=str(n), RUNSPEC_HOST="ab"[n], **more
        )
        for n, more in enumerate(({}, later))
    )

    assert (first.wait(LIMIT_S), second.wait(LIMIT_S)) == (AGAIN, AGAIN)
    assert recorded(bucket) == ["0/1/0-124-timeout", "0/1/1-124-timeout"]


@pytest.mark.parametrize("attempt", ["1", "2"])
def test_an_output_of_the_first_node_is_not_kept_of_another_one(
    service: Service, attempt: str
) -> None:
    """All have the folder; a new try has on the first node alone what was saved there."""
    record = {"shape": "nodes", "nodes": 2, "outputs": [{**MODEL, "from": "first"}]}
    service.bucket.put("runs/r/outputs/my-model/0/1/mine", b"of no run")
    script = 'cd "$RUNSPEC_OUTPUT_MY_MODEL"; echo $RUNSPEC_RANK >f'
    jobs = [
        service.starts(*sh(script), record=record, at=str(n), BATCH_NODE=str(n), BATCH_TRY=attempt)
        for n in range(2)
    ]

    assert [job.wait(LIMIT_S) for job in jobs] == [0, 0]
    assert [service.output("f", f"my-model/0/{n}") for n in range(2)] == [b"0\n", None]
    assert service.output(".runspec/manifest.json", "my-model/0/1") is None


def packed(files: Mapping[str, bytes]) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize("shape", ["nodes", "array"])
def test_each_node_fetches_each_input_once(
    service: Service, bucket: Bucket, way: Way, shape: str
) -> None:
    """Each object by one GET from each node, and by none from whoever has applied."""
    bucket.put("blobs/c.tar", packed({"a": b"A", "b/c": b"C"}))
    for name in "xyz":
        bucket.put(f"store/data/{name}", name.encode())
    mounts = [
        {"name": "code", "target": "/in/code", "kind": "tar", "key": "blobs/c.tar"},
        {"name": "data", "target": "/in/data", "kind": "prefix", "key": "store/data/"},
    ]
    record = {"shape": shape, "nodes": 3, "mounts": mounts}
    number = "BATCH_NODE" if shape == "nodes" else "BATCH_INDEX"
    script = 'cd "$RUNSPEC_MOUNT_CODE" && cat a b/c && cd "$RUNSPEC_MOUNT_DATA" && cat x y z'

    jobs = [
        service.starts(*sh(script), record=record, at=str(n), **{number: str(n)}) for n in range(3)
    ]
    out = [job.communicate(timeout=60)[0] for job in jobs]

    assert out == ["ACxyz"] * 3
    asked = Counter(
        part
        for method, path in way.calls
        for part in ("blobs/c.tar", "data/x", "data/y", "data/z")
        if method == "GET" and part in path
    )
    assert set(asked.values()) == {3}, asked
    assert len(asked) == 4


def test_a_node_whose_data_was_changed_ends_the_job(service: Service, bucket: Bucket) -> None:
    """The program of none of them begins: the first waits for the others' addresses when it hears of it."""
    key = f"blobs/{'0' * 64}.tar"
    bucket.put(key, packed({"a": b"A"}))
    mount = {"name": "code", "target": "/in/code", "kind": "tar", "key": key}
    record = {"shape": "nodes", "nodes": 2}
    second = service.starts("true", record={**record, "mounts": [mount]}, at="1", BATCH_NODE="1")
    out, err = second.communicate(timeout=60)

    first = service.runs("echo", "begun", record=record, at="0", BATCH_NODE="0")

    assert (second.returncode, out) == (2, "")
    assert "differs from the folder that was uploaded" in err
    assert first[:2] == (2, "")


def smoked(service: Service, shape: str, *hosts: str) -> list[tuple[int, str, str]]:
    """Give how each node of a smoke test ends, and what it says."""
    record = {"shape": shape, "nodes": len(hosts), "reach": "the wall"}
    number = "BATCH_NODE" if shape == "nodes" else "BATCH_INDEX"
    jobs = [
        service.starts(
            "echo", "begun", record=record, at=str(n), RUNSPEC_HOST=host, **{number: str(n)}
        )
        for n, host in enumerate(hosts)
    ]
    said = [job.communicate(timeout=60) for job in jobs]
    return [(job.returncode, *both) for job, both in zip(jobs, said, strict=True)]


@pytest.mark.parametrize("shape", ["nodes", "array"])
def test_nodes_of_a_smoke_test_begin_when_they_have_reached_each_other(
    service: Service, shape: str
) -> None:
    assert smoked(service, shape, "127.0.0.1", "127.0.0.2") == [(0, "begun\n", "")] * 2


def test_a_smoke_test_asks_for_its_gpus(service: Service, tmp_path: Path) -> None:
    """A node that lacks one ends with a code of its own."""
    tool = tmp_path / "gpu-tools/nvidia-smi"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n[ $1 != -L ] || echo 'GPU 0: NVIDIA H200 (UUID: GPU-1)'\n")
    tool.chmod(0o755)
    path = f"{tool.parent}:{os.environ['PATH']}"

    one = service.runs("echo", "begun", record={"check_gpus": 1}, PATH=path)
    two = service.runs("echo", "begun", record={"check_gpus": 2}, PATH=path)

    assert one == (0, "begun\n", "runspec: node 0: 1 GPUs answer (NVIDIA H200)\n")
    assert two == (69, "", "runspec: node 0: 1 of 2 GPUs answer\n")


@pytest.mark.parametrize("shape", ["nodes", "array"])
def test_no_node_of_a_smoke_test_begins_when_one_is_not_reached(
    service: Service, shape: str
) -> None:
    """All end with a code of their own; the first says who it is, once and before the others can end it."""
    first, second = smoked(service, shape, "127.0.0.1", "no..name")

    assert (first[:2], second[:2]) == ((68, ""), (68, ""))
    told = "runspec: 1 of 2 connections between nodes do not work"
    way, rule, last = first[2].splitlines()
    assert way.startswith("runspec: node 0 (127.0.0.1) -> node 1 (no..name) port ")
    assert way.endswith(": its name is not known there")
    assert (rule, last) == ("runspec: check: the wall", told)
    assert second[2].splitlines() == [told]


def test_a_node_that_never_came_to_its_program_is_not_waited_for(
    service: Service, bucket: Bucket
) -> None:
    """It says so to the first."""
    record = {"shape": "nodes", "nodes": 2}
    mount = {"name": "data", "target": "/in", "kind": "prefix", "key": "store/data/"}
    second = service.starts("true", record={**record, "mounts": [mount]}, at="1", BATCH_NODE="1")
    assert second.wait(LIMIT_S) == 2

    assert service.runs("true", record=record, at="0", BATCH_NODE="0")[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["nodes", "array"])
def test_a_launcher_finds_its_nodes_through_the_store(
    service: Service, fake_mpirun: str, shape: str
) -> None:
    """They have no disk in common; the log of a rank comes from where it ran."""
    record = {"shape": shape, "nodes": 3, "launch": "mpi", "outputs": [MODEL]}
    script = 'echo "$RUNSPEC_RANK $RUNSPEC_HOST $RUNSPEC_LEADER" | tee "$RUNSPEC_OUTPUT_MY_MODEL/f"'
    jobs = [
        service.starts(
            *sh(script),
            record=record,
            at=str(n),
            RUNSPEC_HOST=f"node-{n}",
            PATH=fake_mpirun,
            **{"BATCH_NODE" if shape == "nodes" else "BATCH_INDEX": str(n)},
        )
        for n in range(3)
    ]
    out = [job.communicate(timeout=60)[0] for job in jobs]

    assert [job.returncode for job in jobs] == [0, 0, 0]
    lines = [f"{n} node-{n} node-0\n" for n in range(3)]
    assert sorted(itertools.chain(*(o.splitlines(keepends=True) for o in out))) == lines
    assert [service.output("f", f"my-model/0/{n}") for n in range(3)] == [
        line.encode() for line in lines
    ]
