"""The process that a batch script of Slurm becomes: signals, time, notes, tries. Slurm's own words are stand-ins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base import limits
from runspec_agent.base.job_env import LOST, STOPPED
from runspec_agent.store.folder import FolderBucket
from runspec_jobs.provider.payload import pack_agent
from tests.support.agent.shells import program
from tests.support.little_memory import NEEDS_MORE, little_memory as little_memory
from tests.support.wait import SOON_S

pytestmark = pytest.mark.slow  # processes that wait for each other

RECORD: dict[str, Any] = {
    "run": "r",
    "shape": "single",
    "nodes": 1,
    "slots": 1,
    "launch": "none",
    "attempts": 1,
    "spot_attempts": 3,
    "sweep": [],
    "mounts": [],
    "outputs": [],
    "requirements": [],
    "build_constraints": [],
}
NODES = {"shape": "nodes", "nodes": 2}
# Starts each node as srun does, and gives the highest code; a signal ends the step at once.
SRUN = """
pids=
trap 'kill -9 $pids' TERM
for rank in 0 1; do
  SLURM_NODEID=$rank RUNSPEC_HOST=node-$rank setsid "$@" >>"$FOLDER/log-$rank" 2>&1 & pids="$pids $!"
done
echo $pids >"$FOLDER/step"
code=0
for pid in $pids; do wait $pid; got=$?; [ $got -le $code ] || code=$got; done
exit $code
"""
SCONTROL = """
case "$*" in *show*) echo "$SHOWN"; exit ;; esac
echo "scontrol $*" >>"$FOLDER/asked"
[ -z "$DISABLED" ] || { echo "Requested operation is presently disabled for job 7"; exit 1; }
"""


class Slurm:
    """Runs `batch` in the environment of a batch script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "inside.pyz").write_bytes(pack_agent())
        for name, script in (("srun", SRUN), ("scontrol", SCONTROL)):
            program(folder / "bin", name, script)
        self.store = FolderBucket({"RUNSPEC_STORE": f"file://{folder}/shared"})
        self.jobs: list[subprocess.Popen[str]] = []

    @property
    def agent(self) -> list[str]:
        return [sys.executable, "-IS", str(self.folder / "inside.pyz"), "job"]

    def starts(
        self,
        *argv: str,
        record: Mapping[str, Any] = {},
        words: Any = None,
        to: Any = None,
        **env: str,
    ) -> subprocess.Popen[str]:
        """Start a try whose program is *argv*; *words*: what batch starts, the agent unless said otherwise."""
        found = {**RECORD, "argv": list(argv), **record}
        self.store.put("runs/r/record.json", json.dumps(found).encode())
        started = words or [*(["srun"] if found["nodes"] > 1 else []), *self.agent]
        whole = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "FOLDER": str(self.folder),
            "TMPDIR": str(self.folder),
            "RUNSPEC_RUN": "r",
            "RUNSPEC_STORE": f"file://{self.folder}/shared",
            "RUNSPEC_JOB": "7",
            "RUNSPEC_TASK": "0",
            "RUNSPEC_ATTEMPT": "1",
            "RUNSPEC_ENDS": "1",
            "RUNSPEC_BELOW": "@",
            "RUNSPEC_GRACE_S": "5",
            "RUNSPEC_WORDS": "RUNSPEC_RANK=SLURM_NODEID",
            "SLURM_JOB_ID": "7",
            "SLURMD_NODENAME": "node-a",
            **env,
        }
        line = [*self.agent[:-1], "batch", "--", *started]
        streams: dict[str, Any] = {"stdout": to or subprocess.PIPE, "stderr": subprocess.STDOUT}
        job = subprocess.Popen(line, env=whole, text=True, start_new_session=True, **streams)
        self.jobs.append(job)
        return job

    def runs(self, *argv: str, **how: Any) -> tuple[int, str]:
        """Give the code, and what was said."""
        return self.ends(self.starts(*argv, **how))

    def ends(self, job: subprocess.Popen[str]) -> tuple[int, str]:
        out, _ = job.communicate(timeout=60)
        return job.returncode, out

    def begun(self, count: int) -> None:
        """Have so many tries begun."""
        for number in range(1, count + 1):
            self.store.put(f"runs/r/begun/0/{number}", b"")

    def note(self, who: str = "batch", attempt: int = 1) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.store.get(f"runs/r/ends/0/{attempt}/{who}") or b"{}"
        )
        return found

    def asked(self) -> str:
        found = self.folder / "asked"
        return found.read_text() if found.exists() else ""

    def until(self, true: Callable[[], object]) -> None:
        end = time.monotonic() + 60
        while not true():
            assert time.monotonic() < end
            time.sleep(0.02)

    def up(self, *ranks: int) -> None:
        self.until(lambda: all((self.folder / f"up-{rank}").exists() for rank in ranks))


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    found = Slurm(tmp_path)
    yield found
    for job in found.jobs:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.communicate()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def sh(script: str) -> tuple[str, ...]:
    return ("sh", "-c", script)


WAITS = 'echo >"$FOLDER/up-$RUNSPEC_RANK"; while :; do sleep 0.05; done'
SAVES = f"trap 'echo >\"$FOLDER/saved-$RUNSPEC_RANK\"; exit 9' TERM; {WAITS}"


# How it ends


@pytest.mark.parametrize("code", [0, 3])
def test_the_end_of_a_try_is_noted(slurm: Slurm, code: int) -> None:
    """By the node and for the whole, with where and when: the service forgets."""
    before = time.time()

    found = slurm.runs(*sh(f"echo hi; exit {code}"))

    assert found == (code, "hi\n")
    for who in ("0", "batch"):
        note = slurm.note(who)
        assert (note["code"], note["why"], note["node"]) == (code, None, "node-a")
        assert before - 1 < note["began_s"] <= note["ended_s"] < time.time() + 1
    assert slurm.asked() == ""


def test_a_container_that_does_not_start_is_recorded(slurm: Slurm) -> None:
    """An image that cannot be pulled, or no podman."""
    for code, engine, why in (
        (125, "podman", "the container did not start: its image cannot be pulled"),
        (255, "apptainer", "the container did not start: its image cannot be pulled"),
    ):
        assert slurm.runs(words=["sh", "-c", f"exit {code}", engine])[0] == code
        assert slurm.note()["code"] == code
        assert slurm.note()["why"].startswith(why)
    assert slurm.runs(words=["sh", "-c", "exit 69", "podman"])[0] == 69
    assert slurm.note()["why"] is None  # the agent has said it

    code, said = slurm.runs(words=["no-such-engine"])

    assert (code, said) == (127, "runspec: 'no-such-engine': command not found\n")
    assert slurm.note()["why"] == "'no-such-engine': command not found"


def test_an_image_that_cannot_be_pulled_has_another_attempt_where_a_rule_says_so(
    slurm: Slurm,
) -> None:
    rules = [{"reason": "image", "action": "retry"}]
    record = {"attempts": 2, "retry_on": rules}
    words = ["sh", "-c", "exit 125", "podman"]

    codes = [slurm.runs(words=words, record=record, RUNSPEC_ATTEMPT=n)[0] for n in "12"]

    assert codes == [LOST, 125]
    assert slurm.asked() == "scontrol requeue 7\n"


def test_exit_code_0_without_a_record_is_no_success(slurm: Slurm) -> None:
    """As of an image whose ENTRYPOINT ends without starting the agent."""
    code, said = slurm.runs("true", words=["true"])

    assert (code, said) == (
        1,
        "runspec: the agent recorded no end: the program may not have run\n",
    )
    assert (slurm.note()["code"], slurm.note()["why"]) == (1, said[len("runspec: ") : -1])


def test_a_program_begins_in_a_folder_of_its_own(slurm: Slurm) -> None:
    """Where its mounts and outputs are, on this node; nothing of it stays."""
    record = {"outputs": [{"name": "o", "path": "/out", "sync_s": None}]}

    code, said = slurm.runs(
        *sh('pwd; echo x >"$RUNSPEC_OUTPUT_O/f"; echo "$RUNSPEC_OUTPUT_O"'), record=record
    )

    here, out = said.split()
    assert (code, out) == (0, f"{here}/out") and here.startswith(f"{slurm.folder}/runspec-")
    assert slurm.store.get("runs/r/outputs/o/0/0/f") == b"x\n"
    assert list(slurm.folder.glob("runspec-*")) == []


def test_secrets_come_from_a_file_and_are_in_no_note(slurm: Slurm) -> None:
    """Any bytes but NUL; neither where they lie, nor that there are notes, is said to the program."""
    slurm.store.put("runs/r/secrets", b"A=x=1\n'y\0B=\xc3\xa9\0EMPTY=\0")

    code, said = slurm.runs(
        *sh('printf "%s|" "$A" "$B" "$EMPTY"; env'), RUNSPEC_SECRETS="runs/r/secrets"
    )

    assert code == 0 and said.startswith("x=1\n'y|é||")
    assert "RUNSPEC_SECRETS" not in said and "RUNSPEC_ENDS" not in said


def test_secrets_that_are_gone_are_one_clear_line(slurm: Slurm) -> None:
    found = slurm.runs("true", RUNSPEC_SECRETS="runs/r/secrets")

    assert found == (2, "runspec: the secrets of this run have been deleted from its store\n")


# The claim


def test_a_second_job_of_a_run_leaves_without_a_note(slurm: Slurm) -> None:
    """A lost reply may have made two: what the first has noted stays."""
    slurm.runs(*sh("exit 3"))

    found = slurm.runs("true", RUNSPEC_JOB="8")

    assert found == (0, "runspec: duplicate of 7, leaving\n")
    assert slurm.note()["code"] == 3


def test_a_run_that_was_cancelled_does_not_begin(slurm: Slurm) -> None:
    slurm.store.put("runs/r/claim", b"cancelled")

    assert slurm.runs("true") == (STOPPED, "runspec: cancelled, leaving\n")
    assert slurm.note() == {}


# Signals and time


def test_a_task_that_was_stopped_does_not_begin_again(slurm: Slurm) -> None:
    slurm.store.put("runs/r/stop/1", b"")

    code, out = slurm.runs(*sh("echo PROGRAM"), RUNSPEC_TASK="1", RUNSPEC_ATTEMPT="2")
    other, own = slurm.runs(*sh("echo PROGRAM"), RUNSPEC_TASK="2")

    assert (code, "PROGRAM" in out, "its task was stopped" in out) == (143, False, True)
    assert (other, "PROGRAM" in own) == (0, True)


def test_a_stop_reaches_the_program_and_is_a_stop(slurm: Slurm) -> None:
    """Slurm tells this process alone, before the time limit."""
    job = slurm.starts(*sh(SAVES))
    slurm.up(0)

    job.send_signal(signal.SIGTERM)

    assert slurm.ends(job)[0] == STOPPED
    assert (slurm.folder / "saved-0").exists()
    assert (slurm.note()["code"], slurm.note()["why"]) == (STOPPED, "told to end")
    assert slurm.asked() == ""


def test_a_stop_goes_to_the_agents_and_not_to_srun(slurm: Slurm) -> None:
    """Srun would end its step at once, and Slurm tell all processes of it."""
    job = slurm.starts(*sh(SAVES), record=NODES)
    slurm.up(0, 1)

    job.send_signal(signal.SIGTERM)
    slurm.until(lambda: slurm.store.get("runs/r/ends/0/1/told"))
    job.send_signal(signal.SIGTERM)

    assert slurm.ends(job)[0] == STOPPED
    assert slurm.store.get("runs/r/ends/0/1/told") == b"[15]"
    assert [(slurm.folder / f"saved-{rank}").exists() for rank in (0, 1)] == [True, True]
    assert slurm.asked() == ""
    assert [slurm.note(who)["code"] for who in ("0", "1", "batch")] == [STOPPED] * 3


def shown(end_s: float) -> str:
    """Give what scontrol shows of a job that Slurm ends at that time."""
    return time.strftime("JobId=7 EndTime=%Y-%m-%dT%H:%M:%S Deadline=N/A", time.localtime(end_s))


def stopped(slurm: Slurm, **how: Any) -> tuple[int, str]:
    """Run a job whose batch script gets SIGTERM while its program runs."""
    job = slurm.starts(*sh(SAVES), **how)
    slurm.up(0)
    job.send_signal(signal.SIGTERM)
    return slurm.ends(job)


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_time_limit_of_slurm_is_a_timeout_and_no_cancellation(
    slurm: Slurm, attempts: int
) -> None:
    """A job without `timeout` has that of its partition. Slurm sends the signal before the end."""
    code, _ = stopped(slurm, record={"attempts": attempts}, SHOWN=shown(time.time() + 60))

    assert code == (124 if attempts == 1 else LOST)
    assert (slurm.note()["own"], slurm.note()["cause"]) == (124, "timeout")
    assert slurm.note()["why"].startswith("timeout: Slurm's time limit for the job is over")
    assert ("requeue 7" in slurm.asked()) is (attempts == 2)


def test_a_cancelled_job_has_not_reached_a_limit(slurm: Slurm) -> None:
    job = slurm.starts(*sh(SAVES), SHOWN=shown(time.time() + 60))
    slurm.up(0)
    slurm.store.put("runs/r/claim", b"cancelled")
    job.send_signal(signal.SIGTERM)

    assert slurm.ends(job)[0] == STOPPED
    assert slurm.note()["why"] == "told to end"


def test_a_timeout_uses_an_attempt_as_any_failure(slurm: Slurm) -> None:
    """And the next one may go on from what the program has saved."""
    found = slurm.runs(*sh(SAVES), record={"attempts": 2}, RUNSPEC_TIMEOUT_S="1")

    assert (found[0], slurm.asked()) == (LOST, "scontrol requeue 7\n")
    assert slurm.store.get("runs/r/failures/0-0/1-124") is not None
    assert (slurm.note()["own"], slurm.note()["cause"]) == (124, "timeout")


def test_a_timeout_of_mpi_says_what_may_have_been_waited_for(slurm: Slurm) -> None:
    """MPI ends no other rank after an exception of Python on one of them."""
    slurm.runs(record={"launch": "mpi"}, words=["sleep", "60"], RUNSPEC_TIMEOUT_S="0.2")

    assert "start Python by `python -m mpi4py`" in slurm.note()["why"]


def test_a_shim_of_python_does_not_come_before_the_path_of_the_spec(slurm: Slurm) -> None:
    """`pyenv exec` puts the folder of its Python first, for the batch script and again for each node."""
    path = f"/spec:{slurm.folder / 'bin'}:{os.environ['PATH']}"
    shim = program(
        slurm.folder / "shims", "python3", f'PATH=/shim:$PATH exec {sys.executable} "$@"'
    )
    words = [str(shim), *slurm.agent[1:]]

    _, said = slurm.runs(
        *sh('echo "$PATH|$RUNSPEC_PATH"'), words=words, RUNSPEC_PATH=path, PATH=path
    )

    assert said == f"{path}|\n"


def test_the_step_of_the_nodes_leaves_room_for_steps_of_the_program(slurm: Slurm) -> None:
    """An srun of the program would wait for the memory of the nodes until the timeout."""
    slurm.runs(*sh('echo "$SLURM_OVERLAP" >"$FOLDER/overlap-$RUNSPEC_RANK"'), record=NODES)

    assert (slurm.folder / "overlap-0").read_text() == "1\n"


@pytest.mark.parametrize("record", [{}, NODES], ids=["one", "two"])
def test_the_time_of_a_try_is_kept(slurm: Slurm, record: Any) -> None:
    """Slurm itself counts minutes, and is up to another half late. The program can save what it has."""
    began = time.monotonic()

    code, said = slurm.runs(*sh(SAVES), record=record, RUNSPEC_TIMEOUT_S="2.5")

    assert (code, said) == (124, "runspec: timeout: not done after 2.5 s\n")
    assert 2.5 <= time.monotonic() - began < SOON_S
    assert (slurm.folder / "saved-0").exists()
    assert slurm.note()["why"] == "timeout: not done after 2.5 s"
    assert "scontrol" not in slurm.asked()


def test_a_node_that_fails_ends_the_others(slurm: Slurm) -> None:
    """Srun goes on with what is left; the first node's end is the job's."""
    script = f'[ "$RUNSPEC_RANK" = 0 ] && exit 6; {SAVES}'

    code, said = slurm.runs(*sh(script), record=NODES)

    why = "node 0 has exited with 6: the other nodes are told to end"
    assert (code, said, slurm.note()["why"]) == (6, f"runspec: {why}\n", why)
    assert (slurm.note("1")["code"], slurm.asked()) == (STOPPED, "")


def test_the_first_node_speaks_for_the_job(slurm: Slurm) -> None:
    """Srun tells the highest code of all."""
    found = slurm.runs(*sh("exit $((3 + 2 * RUNSPEC_RANK))"), record=NODES)

    assert found[0] == slurm.note()["code"] == 3


# Tries


def test_a_failure_that_is_to_be_tried_again_is_queued_again(slurm: Slurm) -> None:
    """By itself, and noted before: nothing may be left to do when Slurm ends it."""
    script = sh("[ $RUNSPEC_ATTEMPT = 2 ] || exit 4")

    code, said = slurm.runs(*script, record={"attempts": 2})

    assert (code, slurm.asked()) == (LOST, "scontrol requeue 7\n")
    assert (slurm.note()["code"], slurm.note()["again"]) == (LOST, True)
    assert said == "runspec: failed with 4; this was attempt 1 of 2\n"
    assert slurm.runs(*script, record={"attempts": 2}, RUNSPEC_ATTEMPT="2") == (0, "")
    assert (slurm.note(attempt=2)["code"], slurm.note(attempt=2)["again"]) == (0, False)


@pytest.mark.parametrize("code", [124, 126, 127, 137, 143])
def test_a_code_of_the_program_is_its_own_whatever_it_means_elsewhere(
    slurm: Slurm, code: int
) -> None:
    """`kill $bg; wait $bg` ends with 143: no node was lost, and nobody told the program to end."""
    found = slurm.runs(*sh(f"exit {code}"))

    assert (found, slurm.asked()) == ((code, ""), "")
    assert (slurm.note()["code"], slurm.note()["why"]) == (code, None)


def test_a_program_that_a_signal_killed_has_failed_by_itself(slurm: Slurm) -> None:
    assert slurm.runs(*sh("kill -TERM $$")) == (STOPPED, "")
    assert (slurm.note()["why"], slurm.asked()) == (None, "")


def test_an_own_143_uses_the_attempts_of_a_failure(slurm: Slurm) -> None:
    codes = [
        slurm.runs(*sh("exit 143"), record={"attempts": 2}, RUNSPEC_ATTEMPT=attempt)[0]
        for attempt in "12"
    ]

    assert (codes, slurm.asked()) == ([LOST, STOPPED], "scontrol requeue 7\n")


def test_an_own_143_of_another_node_is_a_failure_of_the_job(slurm: Slurm) -> None:
    script = '[ "$RUNSPEC_RANK" = 0 ] || exit 143'

    assert slurm.runs(*sh(script), record=NODES)[0] == STOPPED
    assert slurm.asked() == ""


def killed_agent(slurm: Slurm, **how: Any) -> tuple[int, str]:
    """Run a job whose agent gets SIGKILL while its program runs."""
    job = slurm.starts(*sh(WAITS), **how)
    slurm.up(0)
    (agent,) = children(job.pid)
    os.kill(agent, signal.SIGKILL)
    return slurm.ends(job)


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_killed_agent_is_a_failure_with_the_attempts_of_one(slurm: Slurm, attempts: int) -> None:
    """As the kernel kills it for its memory: the batch script lives, and requeues the job."""
    code, _ = killed_agent(slurm, record={"attempts": attempts})

    assert code == (LOST if attempts > 1 else 137)
    assert slurm.asked() == ("scontrol requeue 7\n" if attempts > 1 else "")
    assert slurm.store.get("runs/r/failures/0-0/1-137") is not None
    assert slurm.note()["why"] == "the agent of node 0 was killed by signal 9"
    assert slurm.note()["again"] is (attempts > 1)


def test_a_killed_agent_of_an_elastic_node_is_a_lost_node(slurm: Slurm) -> None:
    record = {"shape": "array", "elastic": {"min": 1, "max": 2}, "nodes": 1, "count": 2}
    words = ["sh", "-c", "kill -KILL $$"]
    array = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "0"}

    assert slurm.runs(record=record, words=words, **array)[0] == LOST
    assert slurm.asked() == "scontrol requeue 7_0\n"
    assert list(slurm.store.listing("runs/r/failures/")) == []


# Runs two nodes, and kills the agent of the second one, as srun reports it.
SRUN_OF_KILLED = """
for rank in 0 1; do
  SLURM_NODEID=$rank RUNSPEC_HOST=node-$rank setsid "$@" >>"$FOLDER/log-$rank" 2>&1 & pid=$!
done
until [ -e "$FOLDER/up-0" ] && [ -e "$FOLDER/up-1" ]; do sleep 0.05; done
kill -KILL $pid
echo "srun: error: node-1: task 1: Killed" >&2
wait
exit 137
"""


def test_a_killed_agent_of_another_node_ends_the_nodes_and_is_a_failure(slurm: Slurm) -> None:
    """Its heartbeats would be missed two minutes later, and only by a first node that has ended."""
    program(slurm.folder / "killed", "srun", SRUN_OF_KILLED)
    words = [str(slurm.folder / "killed" / "srun"), *slurm.agent]

    code, said = slurm.runs(*sh(SAVES), record={**NODES, "attempts": 2}, words=words)

    assert (code, slurm.asked()) == (LOST, "scontrol requeue 7\n")
    assert "srun: error: node-1: task 1: Killed\n" in said
    assert slurm.store.get("runs/r/failures/0-1/1-137") is not None
    assert slurm.note()["why"] == "the agent of node 1 was killed by signal 9"
    assert (slurm.folder / "saved-0").exists()


@pytest.mark.parametrize(("said", "again"), [("Out Of Memory", False), ("Killed", True)])
def test_srun_tells_that_a_node_ran_out_of_memory(slurm: Slurm, said: str, again: bool) -> None:
    program(slurm.folder / "killed", "srun", SRUN_OF_KILLED.replace("Killed", said))
    rules = {"retry_on": [{"reason": "oom", "action": "stop"}]}
    words = [str(slurm.folder / "killed" / "srun"), *slurm.agent]

    code, _ = slurm.runs(*sh(SAVES), record={**NODES, "attempts": 2, **rules}, words=words)

    assert code == (LOST if again else 137)


@pytest.mark.matrix
@pytest.mark.parametrize("action", ["retry", "stop"])
def test_a_program_that_runs_out_of_memory_ends_as_a_rule_says(
    little_memory: None, slurm: Slurm, action: str
) -> None:
    """The rule does not apply to a program that ends with the same exit code by itself."""
    other = "stop" if action == "retry" else "retry"
    rules = [{"reason": "oom", "action": action}, {"codes": [[137, 137]], "action": other}]
    record = {"attempts": 2, "retry_on": rules}

    out, _ = slurm.runs("python3", "-c", NEEDS_MORE, record=record)
    own, _ = slurm.runs(*sh("kill -9 $$"), record=record, RUNSPEC_TASK="1")

    assert (out, own) == ((LOST, 137) if action == "retry" else (137, LOST))


def test_a_task_of_an_array_is_queued_again_alone(slurm: Slurm) -> None:
    """The id of one of them is that of the whole array: measured, its requeue began all tasks again."""
    slurm.runs(
        *sh("exit 4"), record={"attempts": 2}, SLURM_ARRAY_JOB_ID="7", SLURM_ARRAY_TASK_ID="1"
    )

    assert slurm.asked() == "scontrol requeue 7_1\n"


def test_a_requeued_task_that_has_succeeded_runs_nothing(slurm: Slurm) -> None:
    """Somebody may have the whole of an array queued again."""
    slurm.runs("true")

    code, said = slurm.runs("echo", "twice", RUNSPEC_ATTEMPT="2")

    assert (code, said) == (
        0,
        "runspec: an earlier attempt has succeeded: this task has nothing to do\n",
    )
    assert slurm.note(attempt=2)["code"] == 0


def test_an_end_that_cannot_be_recorded_is_told(slurm: Slurm) -> None:
    ends = "$FOLDER/shared/runs/r/ends"

    _, said = slurm.runs("true", words=sh(f'rm -rf "{ends}"; : >"{ends}"'))

    assert "runspec: the exit code cannot be recorded: " in said


def test_a_job_that_may_not_be_queued_again_says_so(slurm: Slurm) -> None:
    """A cluster may forbid it."""
    code, said = slurm.runs(*sh("exit 4"), record={"attempts": 2}, DISABLED="1")

    assert code == LOST
    assert "the job cannot be requeued: Requested operation is presently disabled" in said
    assert slurm.note()["again"] is False
    assert "cannot be requeued: Requested" in slurm.note()["why"]


@pytest.mark.parametrize(("attempt", "again"), [(1, True), (2, True), (3, False)])
def test_a_try_whose_nodes_were_told_to_end_is_tried_again(
    slurm: Slurm, attempt: int, again: bool
) -> None:
    """Before a preemption Slurm tells the steps and not the script. As often as retry.spot_attempts says."""
    record = {**NODES, "spot_attempts": 3}
    slurm.begun(attempt - 1)
    job = slurm.starts(*sh(SAVES), record=record, RUNSPEC_ATTEMPT=str(attempt))
    slurm.up(0, 1)

    for pid in (slurm.folder / "step").read_text().split():
        os.kill(int(pid), signal.SIGTERM)

    assert slurm.ends(job)[0] == (LOST if again else STOPPED)
    assert slurm.note(attempt=attempt)["again"] is again
    assert ("scontrol requeue 7\n" in slurm.asked()) is again


def test_a_try_that_never_began_is_no_lost_one(slurm: Slurm) -> None:
    """Slurm counts a restart for each time that the nodes do not come up: a cloud may have none for hours."""
    record = {"spot_attempts": 2}

    codes = [
        slurm.runs("true", record=record, RUNSPEC_ATTEMPT=attempt)[0]
        for attempt in ("9", "12", "15")
    ]

    assert codes == [0, 0, LOST]


def test_a_job_that_has_lost_its_nodes_too_often_does_not_begin_again(slurm: Slurm) -> None:
    """Slurm itself counts no such tries. Failures are counted by themselves."""
    record = {"attempts": 3, "spot_attempts": 2}
    slurm.store.put("runs/r/failures/0-0/2-4", b"{}")
    slurm.begun(3)

    code, said = slurm.runs("true", record=record, RUNSPEC_ATTEMPT="4")

    why = "2 attempts were preempted, and retry.spot_attempts is 2"
    assert (code, said) == (LOST, f"runspec: {why}\n")
    assert (slurm.note(attempt=4)["why"], slurm.note(attempt=4)["again"]) == (why, False)
    assert slurm.asked() == ""
    assert slurm.runs("true", record=record, RUNSPEC_ATTEMPT="3")[0] == 0


def test_a_rule_that_wants_no_attempt_after_a_lost_one_is_the_reason(slurm: Slurm) -> None:
    slurm.begun(1)
    rules = {"retry_on": [{"reason": "lost", "action": "stop"}]}

    found = slurm.runs("true", record={"spot_attempts": 1, **rules}, RUNSPEC_ATTEMPT="2")

    assert found == (LOST, "runspec: the attempt before was lost: retry.on says stop\n")
    assert slurm.runs("true", record={"spot_attempts": 1}, RUNSPEC_ATTEMPT="3")[1] == (
        "runspec: 1 attempt was preempted, and retry.spot_attempts is 1\n"
    )


# A full workspace


@pytest.fixture
def full(slurm: Slurm) -> Iterator[Slurm]:
    """A workspace that a program of the test fills."""
    shared = slurm.folder / "shared"
    shared.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "full", str(shared)], check=True)
    yield slurm
    subprocess.run(["umount", "-l", str(shared)], check=True)


FILL = 'cat /dev/zero >"$FOLDER/shared/zero" 2>/dev/null; '


@pytest.mark.root
@pytest.mark.parametrize("attempts", [1, 2])
def test_a_full_workspace_does_not_change_the_code_of_the_program(
    full: Slurm, attempts: int
) -> None:
    """What is written then is the name of an empty file. The log may be there, too."""
    with (full.folder / "shared" / "log").open("w") as log:
        job = full.starts(*sh(f"{FILL} exit 5"), record={"attempts": attempts}, to=log)
        job.wait(60)

    assert job.returncode == (5 if attempts == 1 else LOST)
    assert full.asked() == ("" if attempts == 1 else "scontrol requeue 7\n")
    named = {found.key for found in full.store.listing("runs/r/ends/0/1/")}
    assert named == {f"runs/r/ends/0/1/{who}.{job.returncode}" for who in ("0", "batch")}


@pytest.mark.root
@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param("exit 0", 0, marks=pytest.mark.matrix),
        ("exit $((5 * RUNSPEC_RANK))", 5),
        pytest.param("exit $((5 - 5 * RUNSPEC_RANK))", 5, marks=pytest.mark.matrix),
    ],
)
def test_nodes_end_together_in_a_full_workspace(full: Slurm, script: str, code: int) -> None:
    """And not when a lease has expired: nobody was lost."""
    began = time.monotonic()

    assert full.runs(*sh(FILL + script), record=NODES)[0] == code
    assert time.monotonic() - began < limits.STORE_LEASE_S
    assert full.asked() == ""
