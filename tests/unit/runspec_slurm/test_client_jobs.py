"""One run has one job on a real Slurm, and is told rightly, whatever the controller has heard, said or forgotten."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_emulators.slurm import Cluster
from runspec_jobs.provider import (
    NoAnswer,
    RemoteError,
    Request,
    Scope,
    State,
    Status,
    Step,
    Unavailable,
)
from runspec_slurm import cleanup, reasons, timing
from runspec_slurm.client import SlurmClient
from runspec_slurm.options import SlurmOptions
from runspec_slurm.queue import ENDED
from tests.support.requirements import need
from tests.support.slurm.login_node import login
from tests.support.slurm.shared_cluster import PROGRAMS

pytestmark = pytest.mark.slow
LIMIT_S = 60.0
# The commands of a cluster that has a job of somebody else with the same id, and none with the name of a run.
OTHER_CLUSTER = """\
#!/bin/sh
case "$*" in
*config*) echo "ClusterName             = other" ;;
*--jobs=JOB*) printf '%s\\n' 'JOB|N/A|FAILED|None|256|0|1|1|2|node1|/elsewhere|theirs|' | tr '|' '\\037' ;;
esac
"""
HOUR_S = 3600
# As the batch script of a plan: who has not the claim leaves; the end is noted. $1 is what it does.
SCRIPT = """\
#!/bin/sh
cd "$SLURM_SUBMIT_DIR/runs/$SLURM_JOB_NAME" || exit 1
id=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID} task=${SLURM_ARRAY_TASK_ID:-0} try=$((${SLURM_RESTART_COUNT:-0}+1))
printf %s "$id" >"claim.$$" && ln "claim.$$" claim 2>/dev/null
rm -f "claim.$$"
[ "$(cat claim)" = "$id" ] || exit 0
"""
NOTE = """
mkdir -p "ends/$task/$try"
printf '{"code": %s}' "$code" >"ends/$task/$try/.n" && mv "ends/$task/$try/.n" "ends/$task/$try/batch"
exit "$code"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of its own, since it is stopped; it forgets jobs within seconds, and its commands give up in one."""
    need(*PROGRAMS)
    more = {"MinJobAge": 2, "MessageTimeout": 2}
    with Cluster(tmp_path_factory.mktemp("jobs"), nodes=2, more=more) as found:
        yield found


QUICK = timing.Timing(notes_s=0.5)


@pytest.fixture
def client(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SlurmClient:
    for name, value in cluster.env.items():
        monkeypatch.setenv(name, value)
    options = SlurmOptions(workspace=str(tmp_path / "workspace"))
    return SlurmClient(options, timing=QUICK)


def again(client: SlurmClient) -> SlurmClient:
    """Give the client of another process, perhaps on another machine."""
    return SlurmClient(SlurmOptions(workspace=client.store.workspace), timing=QUICK)


def prepared(
    client: SlurmClient, run: str, does: str, *more: str, count: int = 1, **record: Any
) -> Step:
    """Put down the record of *run*, and give the step that submits its job."""
    text = json.dumps({"count": count, "nodes": 1, **record})
    client.call(Request("folder", "put", {"key": f"runs/{run}/record.json", "content": text}))
    argv = ["--parsable", f"--job-name={run}", "--open-mode=append", "--export=NONE", *more]
    argv += [f"--output=runs/{run}/logs/{'%a' if count > 1 else '0'}-0.txt"]
    bound = any(word.startswith("--array=") for word in more)
    argv += [f"--array=0-{count - 1}"] if count > 1 and not bound else []
    script = f"{SCRIPT}{does}\ncode=$?\n{NOTE}"
    do = Request("slurm", "sbatch", {"argv": argv, "script": script})
    undo = Request("slurm", "scancel", {"name": run})
    return Step("job", "submit", Scope.RUN, do, undo, 20.0)


def until(client: SlurmClient, run: str, *states: State) -> Status:
    end = time.monotonic() + LIMIT_S
    while (found := client.state(run)).state not in states:
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


def over(client: SlurmClient, run: str) -> Status:
    return until(client, run, State.SUCCEEDED, State.FAILED, State.CANCELLED, State.GONE)


def printed(client: SlurmClient, run: str) -> bytes:
    return b"".join(stream.read(None).data for stream in client.streams(run))


def test_a_controller_that_was_stopped_makes_one_job_that_counts(
    client: SlurmClient, cluster: Cluster
) -> None:
    """It takes the request when it goes on, though sbatch has given up; then there are two."""
    step = prepared(client, "lost-1", "echo begun; sleep 1; echo done; true")
    with cluster.frozen():
        with pytest.raises(NoAnswer, match="Socket timed out"):
            client.call(step.do)
        with pytest.raises(NoAnswer):
            again(client).find(step)

    answer = client.call(step.do)

    assert again(client).find(step) == answer
    assert over(client, "lost-1").state is State.SUCCEEDED
    named = client.queue.of_name("lost-1")
    assert printed(client, "lost-1") == b"begun\ndone\n", named
    assert client.store.read("runs", "lost-1", "job") == answer["job"].encode()


def test_a_lost_reply_is_found_by_name_and_nothing_is_made_again(
    client: SlurmClient, cluster: Cluster
) -> None:
    step = prepared(client, "lost-2", "echo begun; sleep 1; true")
    with cluster.frozen(), pytest.raises(NoAnswer):
        client.call(step.do)

    end = time.monotonic() + step.settle_s
    while (found := again(client).find(step)) is None:
        assert time.monotonic() < end

    assert over(client, "lost-2").state is State.SUCCEEDED
    assert [row.job for row in client.queue.of_name("lost-2")] in ([found["job"]], [])


@pytest.mark.parametrize(
    ("begin", "end"), [("echo Welcome to 7;", ""), ("", " | sed 's/$/;site/'")]
)
def test_output_of_a_sites_own_sbatch_is_no_job_id(
    client: SlurmClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: str, end: str
) -> None:
    """What stands in a claim and is no job's would have every job of the run leave."""
    own = tmp_path / "bin" / "sbatch"
    own.parent.mkdir()
    own.write_text(f'#!/bin/sh\n{begin} {shutil.which("sbatch")} "$@"{end}\n')
    own.chmod(0o755)
    step = prepared(client, "site-1", "echo begun; true")
    monkeypatch.setenv("PATH", f"{own.parent}:{os.environ['PATH']}")

    answer = client.call(step.do)

    assert client.store.read("runs", "site-1", "claim") == answer["job"].encode()
    assert over(client, "site-1").state is State.SUCCEEDED
    assert printed(client, "site-1") == b"begun\n"


def test_of_two_jobs_the_one_that_has_the_run_is_kept_and_told_of(client: SlurmClient) -> None:
    """Whichever was submitted last: here by somebody who knew nothing of the first."""
    step = prepared(client, "two-1", "echo begun; sleep 3; true", "--begin=now")
    first = client.call(step.do)

    second = again(client).call(step.do)

    assert second == first
    assert over(client, "two-1").state is State.SUCCEEDED
    assert printed(client, "two-1") == b"begun\n"


def test_a_run_that_the_controller_has_forgotten_is_told_from_the_workspace(
    client: SlurmClient,
) -> None:
    client.call(prepared(client, "old-1", "echo hello; exit_with() { return 7; }; exit_with").do)
    until(client, "old-1", State.RUNNING, State.FAILED)
    end = time.monotonic() + LIMIT_S
    while client.queue.of_name("old-1"):
        assert time.monotonic() < end
        time.sleep(0.2)

    found = again(client).state("old-1")

    assert (found.state, found.exit_code, found.reason) == (State.FAILED, 7, "exited with code 7")
    assert again(client).state("old-1") == found
    assert printed(again(client), "old-1") == b"hello\n"


def test_a_job_that_slurm_forgot_before_its_record_is_visible_has_not_failed(
    client: SlurmClient,
) -> None:
    """MinJobAge may be less than what a file server's clients take to see what others wrote."""
    client.call(prepared(client, "doubt-1", "echo hello; exit 0").do)
    end = time.monotonic() + LIMIT_S
    while client.queue.of_name("doubt-1") or not printed(client, "doubt-1"):
        assert time.monotonic() < end
        time.sleep(0.2)
    run = Path(client.store.workspace, "runs/doubt-1")
    then = time.time() - 90  # when nothing is waited for that was submitted just now
    os.utime(run / "claim", (then, then))

    found = again(client).state("doubt-1")
    (run / "ends/0/1").mkdir(parents=True)
    (run / "ends/0/1/batch").write_text('{"code": 0}')

    assert (found.state, found.reason) == (State.RUNNING, reasons.NOT_KNOWN)
    assert again(client).state("doubt-1").state is State.SUCCEEDED


def test_how_a_run_ended_stays_though_its_notes_are_none(client: SlurmClient) -> None:
    """A job that was ended before it began leaves nothing but what the controller says for a while."""
    client.call(prepared(client, "early-1", "true", "--begin=now+1hour").do)
    until(client, "early-1", State.WAITING)
    client.cancel("early-1")
    found = over(client, "early-1")
    client.reconcile("early-1")
    end = time.monotonic() + LIMIT_S
    while client.queue.of_name("early-1"):
        assert time.monotonic() < end
        time.sleep(0.2)

    assert found.state is State.CANCELLED
    assert again(client).state("early-1") == found


def test_a_job_that_starts_after_cancel_leaves(client: SlurmClient) -> None:
    """A lost call may have submitted one: cancel first takes the claim from every job."""
    step = prepared(client, "late-1", "echo begun; sleep 60; true")
    client.call(step.do)
    until(client, "late-1", State.RUNNING)
    end = time.monotonic() + LIMIT_S
    while printed(client, "late-1") != b"begun\n":
        assert time.monotonic() < end
        time.sleep(0.05)
    client.cancel("late-1")
    over(client, "late-1")

    client.queue.submit("late-1", step.do.params["argv"], step.do.params["script"])

    end = time.monotonic() + LIMIT_S
    while any(row.state in ("PENDING", "RUNNING") for row in client.queue.of_name("late-1")):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert printed(client, "late-1").count(b"begun") == 1


def test_a_job_that_is_still_on_its_way_when_its_run_is_cancelled_never_runs(
    client: SlurmClient,
) -> None:
    """Sbatch was called, and whoever called it has heard nothing: there is no job to end yet."""
    step = prepared(client, "way-1", "echo begun; sleep 60; true")

    client.cancel("way-1")
    client.call(step.do)

    assert over(client, "way-1").state is State.CANCELLED
    client.jobs.cancel("way-1")
    assert printed(client, "way-1").count(b"begun") == 0


def test_no_line_is_lost_while_a_job_is_queued_again(client: SlurmClient) -> None:
    does = 'echo "try $try"; [ "$try" -gt 1 ] || { scontrol requeue "$SLURM_JOB_ID"; sleep 60; }'
    client.call(prepared(client, "again-1", does, "--requeue").do)
    data, position = b"", None

    end = time.monotonic() + LIMIT_S
    while True:
        assert time.monotonic() < end
        status = client.state("again-1")
        for stream in client.streams("again-1"):
            while (chunk := stream.read(position)).data:
                data, position = data + chunk.data, chunk.position
        if status.state.terminal:
            break
        time.sleep(0.05)

    assert status.state is State.SUCCEEDED
    assert [node.attempt for node in status.nodes] == [2]
    assert [line for line in data.splitlines() if line.startswith(b"try")] == [b"try 1", b"try 2"]
    assert data == printed(again(client), "again-1")


def test_an_array_is_told_whole_by_few_commands(
    client: SlurmClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = counted(tmp_path, monkeypatch)
    client.call(prepared(client, "many-1", 'test "$task" != 3', count=30).do)
    submitted = time.monotonic()

    found = over(client, "many-1")

    assert (found.state, found.exit_code, len(found.nodes)) == (State.FAILED, 1, 30)
    assert [node.task for node in found.nodes if node.state is State.FAILED] == [3]
    looked = time.monotonic() - submitted
    assert len(again(client).streams("many-1")) == 30
    assert asked() < 10 + 4 * looked  # 0.25 s between two looks while there is news


def test_who_follows_a_quiet_job_seldom_asks_the_controller(
    client: SlurmClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times a minute in the end; its log is read from the workspace, which costs no call."""
    client.call(prepared(client, "quiet-1", "echo begun; sleep 600").do)
    until(client, "quiet-1", State.RUNNING)
    end = time.monotonic() + LIMIT_S
    while not printed(client, "quiet-1"):
        assert time.monotonic() < end
        time.sleep(0.05)
    for _ in range(2):  # what it has printed is news, so the controller is asked once more
        client.state("quiet-1")
    asked, known = counted(tmp_path, monkeypatch), client.jobs.paces["quiet-1"]
    pauses = []

    for _ in range(40):
        known.next_s = 0.0
        client.state("quiet-1")
        pauses.append(known.pause_s)
    client.cancel("quiet-1")

    assert pauses == sorted(pauses)
    assert pauses[-1] == timing.DEFAULT.ask_last_s
    assert asked() >= 40


def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count the calls of squeue from here on."""
    log = tmp_path / "calls"
    log.write_text("")
    preceded("squeue", f"echo x >>{log}", tmp_path, monkeypatch)
    return lambda: len(log.read_text().split())


def preceded(name: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have *what* done before each call of the real command *name*."""
    folder, real = tmp_path / "bin", shutil.which(name)
    folder.mkdir()
    (folder / name).write_text(f'#!/bin/sh\n{what}\nexec {real} "$@"\n')
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_run_comes_and_goes_over_ssh_by_one_connection_and_one_shell(
    cluster: Cluster, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    env = tuple(f"{name}={value}" for name, value in cluster.env.items())
    with login(tmp_path_factory.mktemp("login"), env) as node:
        place = str(tmp_path / "workspace")
        options = SlurmOptions(workspace=place, host="127.0.0.1", ssh_options=node.options)
        client = SlurmClient(options)
        step = prepared(client, "far-1", "echo hello; true")

        answer = client.call(step.do)

        assert client.find(step) == answer
        assert over(client, "far-1").state is State.SUCCEEDED
        assert printed(client, "far-1") == b"hello\n"
        assert step.undo is not None
        client.call(step.undo)
        client.call(Request("folder", "remove_run", {"run": "far-1"}))
        assert client.state("far-1").state is State.GONE
        assert (node.connections, node.shells) == (1, 1)


def test_a_program_has_the_umask_of_who_submits_it(client: SlurmClient) -> None:
    """Files of the workspace are their owner's alone; what a program makes on a shared folder is its own matter."""
    before = os.umask(0o027)
    try:
        client.call(prepared(client, "umask-1", "umask").do)
    finally:
        os.umask(before)

    assert over(client, "umask-1").state is State.SUCCEEDED
    assert printed(client, "umask-1") == b"0027\n"


def test_nothing_is_submitted_of_a_run_that_was_destroyed(client: SlurmClient) -> None:
    step = prepared(client, "gone-1", "true")
    client.store.remove_tree("runs", "gone-1")

    with pytest.raises(RemoteError, match="destroyed meanwhile"):
        client.call(step.do)

    assert not client.queue.of_name("gone-1")


def test_a_job_of_a_run_that_was_destroyed_meanwhile_is_ended(
    client: SlurmClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = prepared(client, "late-1", "true")
    preceded("sbatch", "rm -r runs/late-1", tmp_path, monkeypatch)

    with pytest.raises(RemoteError, match="destroyed meanwhile"):
        client.call(step.do)

    rows = client.queue.of_name("late-1")
    assert rows and all(row.state in ENDED for row in rows)


def test_a_job_that_has_another_name_now_is_still_of_its_run(
    client: SlurmClient, cluster: Cluster
) -> None:
    """As a site's job_submit plugin names jobs, or `scontrol update`: it is ended with its run, and gc spares it."""
    step = prepared(client, "named-1", "echo begun; sleep 600")
    job = client.call(step.do)["job"]
    until(client, "named-1", State.RUNNING)
    cluster.run("scontrol", "update", f"jobid={job}", "jobname=other")

    (found,) = client.find_orphans(set(), set())
    client.call(Request("slurm", "scancel", {"name": "named-1"}))

    assert (found.run, found.alive) == ("named-1", True)
    assert all(row.state in ENDED for row in client.queue.of_job(job))


def test_a_run_that_another_machine_is_about_to_submit_is_left_alone(client: SlurmClient) -> None:
    """Between its record and sbatch nothing of it is in the queue, and its journal is elsewhere."""
    for run, hours in (("young-1", 23), ("old-1", 25)):
        prepared(client, run, "true")
        aged(client, run, hours * HOUR_S)

    old, young = client.find_orphans(set(), set())

    assert (old.what, old.alive) == ("run old-1", False)
    assert (young.what, young.alive) == (f"run young-1 {cleanup.COMING}", True)


def aged(client: SlurmClient, run: str, age_s: float) -> None:
    """Have nothing done to *run* for so long."""
    then = time.time() - age_s
    os.utime(Path(client.store.workspace, "runs", run), (then, then))


def test_all_memory_of_a_node_is_what_slurm_gives_and_a_resource_that_nobody_has_is_refused(
    client: SlurmClient, cluster: Cluster
) -> None:
    whole = client.call(prepared(client, "whole-1", "true", "--mem=0", "--begin=now+1hour").do)
    with pytest.raises(RemoteError, match="Invalid generic resource") as told:
        client.call(prepared(client, "other-1", "true", "--gres=nvme:1").do)

    shown = cluster.run("scontrol", "--oneliner", "show", "job", whole["job"])
    client.cancel("whole-1")

    assert "MinMemoryNode=0" in shown
    assert "gres" in (told.value.hint or "")


def test_a_job_that_has_another_name_now_is_told_as_if_it_had_not(
    client: SlurmClient, cluster: Cluster
) -> None:
    step = prepared(client, "named-2", "echo begun; until [ -e go ]; do sleep 0.1; done; true")
    job = client.call(step.do)["job"]
    until(client, "named-2", State.RUNNING)
    cluster.run("scontrol", "update", f"jobid={job}", "jobname=other")
    claim = Path(client.store.workspace, "runs/named-2/claim")
    then = claim.stat().st_mtime - 90  # when nothing is waited for that was submitted just now
    os.utime(claim, (then, then))

    going = again(client).state("named-2")
    (claim.parent / "go").touch()

    assert going.state is State.RUNNING
    assert over(client, "named-2").state is State.SUCCEEDED


def test_a_job_that_has_another_name_now_is_told_to_end_and_not_just_killed(
    client: SlurmClient, cluster: Cluster
) -> None:
    does = (
        "trap 'echo told; code=143; done=1' TERM; echo begun; until [ $done ]; do sleep 0.1; done"
    )
    job = client.call(prepared(client, "named-3", does).do)["job"]
    wait = time.monotonic() + LIMIT_S
    while printed(client, "named-3") != b"begun\n":
        assert time.monotonic() < wait
        time.sleep(0.05)
    cluster.run("scontrol", "update", f"jobid={job}", "jobname=other")

    client.cancel("named-3")
    over(client, "named-3")

    assert printed(client, "named-3").endswith(b"\ntold\n")


def test_a_folder_with_any_character_in_it_leaves_a_row_whole(
    client: SlurmClient, cluster: Cluster, tmp_path: Path
) -> None:
    """As a reason of a site's plugin, which cannot be had here."""
    odd = tmp_path / "a|b"
    odd.mkdir()
    words = ["--parsable", f"--chdir={odd}", "--output=/dev/null", "--job-name=c|d", "--wrap=:"]
    job = cluster.run("sbatch", "--hold", *words).strip()

    (row,) = client.queue.of_job(job)
    cluster.cancel(job)

    assert (row.state, row.folder, row.name) == ("PENDING", os.path.realpath(odd), "c|d")


def test_orphans_are_found_and_needed_resources_are_not(client: SlurmClient) -> None:
    for run in ("known-1", "alone-1", "dead-1"):
        step = prepared(client, run, "sleep 60")
        if run != "dead-1":
            client.call(step.do)
    client.call(Request("folder", "put", {"key": "blobs/a.tar", "content": "x"}))
    client.call(Request("folder", "put", {"key": "blobs/b.tar", "content": "xy"}))
    aged(client, "dead-1", 25 * HOUR_S)

    found = list(client.find_orphans({"known-1"}, {"blobs/a.tar"}))

    assert [(one.what, one.run, one.alive) for one in found] == [
        ("run alone-1, whose job is alive", "alone-1", True),
        ("run dead-1", "dead-1", False),
        ("upload blobs/b.tar (2 bytes)", None, True),
    ]
    for one in found:
        for request in one.remove:
            client.call(request)
    assert list(client.find_orphans({"known-1"}, {"blobs/a.tar"})) == []
    client.call(Request("slurm", "scancel", {"name": "known-1"}))


def test_tasks_that_wait_never_begin_once_they_are_stopped(
    client: SlurmClient, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    does = f'echo "task $task"; until [ -e {go} ]; do sleep 0.1; done'
    client.call(prepared(client, "few-1", does, "--array=0-3%1", count=4).do)
    until(client, "few-1", State.RUNNING)

    client.stop("few-1", {1, 3})
    go.touch()
    found = over(again(client), "few-1")

    assert (found.state, found.reason) == (State.SUCCEEDED, "2 tasks were stopped")
    assert [node.state for node in found.nodes] == [
        State.SUCCEEDED,
        State.CANCELLED,
        State.SUCCEEDED,
        State.CANCELLED,
    ]
    assert printed(client, "few-1").split() == [b"task", b"0", b"task", b"2"]


def test_of_tasks_whose_nodes_come_and_go_all_nodes_are_stopped_and_no_others(
    client: SlurmClient, tmp_path: Path
) -> None:
    """To Slurm, each of these nodes is a task."""
    go = tmp_path / "go"
    does = f"until [ -e {go} ]; do sleep 0.1; done"
    elastic = {"min": 1, "max": 2}
    client.call(prepared(client, "come-1", does, "--array=0-3%1", count=4, elastic=elastic).do)
    until(client, "come-1", State.RUNNING)

    client.stop("come-1", {1})
    go.touch()
    found = over(again(client), "come-1")

    assert {(node.task, node.rank): node.state for node in found.nodes} == {
        (0, 0): State.SUCCEEDED,
        (0, 1): State.SUCCEEDED,
        (1, 0): State.CANCELLED,
        (1, 1): State.CANCELLED,
    }


def test_a_task_that_does_not_listen_is_ended_and_the_others_are_not(
    client: SlurmClient, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    does = f"trap '' TERM; until [ -e {go} ]; do sleep 0.1; done"
    client.call(prepared(client, "deaf-1", does, count=2).do)
    until(client, "deaf-1", State.RUNNING)
    client.jobs.stopper.longest_s = 0.5

    end = time.monotonic() + LIMIT_S
    while State.CANCELLED not in [node.state for node in client.state("deaf-1").nodes]:
        assert time.monotonic() < end
        client.stop("deaf-1", {0})
        time.sleep(0.2)
    go.touch()

    found = over(client, "deaf-1")
    assert (found.state, [node.state for node in found.nodes]) == (
        State.SUCCEEDED,
        [State.CANCELLED, State.SUCCEEDED],
    )


def test_a_job_id_on_another_cluster_is_refused_and_never_read_as_gone(
    client: SlurmClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clusters may share a home: the one that does not know the job has not lost it, and submits no other."""
    step = prepared(client, "there-1", "sleep 1")
    job = client.call(step.do)["job"]
    assert client.store.read("runs", "there-1", "cluster") == b"rehearsal"
    other = again(client)
    for name in ("squeue", "scontrol"):
        stub = tmp_path / "other" / name
        stub.parent.mkdir(exist_ok=True)
        stub.write_text(OTHER_CLUSTER.replace("JOB", job))
        stub.chmod(0o755)
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{tmp_path / 'other'}:{path}")
    where = "there-1 was submitted to the cluster rehearsal, and this is the cluster other"

    for ask in (other.state, other.cancel):
        with pytest.raises(Unavailable, match=where):
            ask("there-1")
    with pytest.raises(NoAnswer, match=where):
        other.find(step)
    with pytest.raises(Unavailable, match=where):
        other.call(Request("slurm", "scancel", {"name": "there-1"}))

    monkeypatch.setenv("PATH", path)
    assert again(client).find(step) == {"job": job}
    # To its end: the cluster is stopped after this test, and the job's login shell would die in the middle.
    assert until(again(client), "there-1", State.SUCCEEDED).state is State.SUCCEEDED
