"""What Slurm's commands say is read as it is meant, and what they refuse is told with a way out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import NoAnswer, RemoteError, Unavailable
from runspec_slurm import discover, queue, reasons, timing
from runspec_slurm.options import SlurmOptions
from runspec_slurm.queue import Past, Queue, Row
from runspec_slurm.session.process import Done
from runspec_slurm.session.transport import Here
from runspec_slurm.store.workspace import WorkspaceStore
from tests.support.slurm.specs import spec

LINE = "7|N/A|RUNNING|None|0|1|1|10|NONE|node1|/w|job-a1|".replace("|", queue.BETWEEN)


class Says(Here):
    """A way on which every command says the same."""

    def __init__(self, done: Done) -> None:
        self.done = done
        self.asked = 0

    def run(
        self,
        script: str,
        args: Sequence[str] = (),
        content: Iterable[bytes] | None = None,
        timeout_s: float = timing.DEFAULT.command_s,
    ) -> Done:
        self.asked += 1
        return self.done


def said(code: int, out: str = "", err: str = "", *, lost: bool = False) -> Queue:
    return Queue(WorkspaceStore(Says(Done(code, out.encode(), err, lost)), "/w"))


def told(text: str) -> str:
    """Give lines with Slurm's separator in place of ¦."""
    return text.replace("¦", queue.BETWEEN)


def test_rows_are_read_whatever_stands_in_a_reason_a_folder_or_a_name() -> None:
    text = told(
        "7¦N/A¦FAILED¦a|b¦768¦2¦1¦10¦20¦node[1-2]¦/w|x¦a|b c¦\n8¦0-1¦PENDING¦X¦0¦0¦5¦N/A¦N/A¦¦¦n¦"
    )

    found = list(queue.rows(text))

    assert found == [
        Row("7", (0,), "FAILED", "a|b", 3, 2, 10.0, 20.0, "node[1-2]", "/w|x", "a|b c", 1.0),
        Row("8", (0, 1), "PENDING", "X", 0, 0, None, None, "", "", "n", 5.0),
    ]


def test_lines_that_are_no_rows_are_skipped() -> None:
    assert list(queue.rows("\nsqueue: warning\n")) == []


def test_the_accounting_is_read_with_signals_and_arrays() -> None:
    text = told(
        "12_0¦NODE_FAIL¦0:0¦5¦9¦4¦/w¦a|b\n12_0¦COMPLETED¦0:0¦15¦19¦9¦/w¦a|b\n"
        "12_1¦CANCELLED by 7¦0:15¦5¦9¦4¦/w¦a|b\n12_[2-3]¦PENDING¦0:0¦Unknown¦Unknown¦4¦/w¦a|b\n"
    )

    assert list(queue.pasts(text)) == [
        Past(0, "NODE_FAIL", 0, 5.0, 9.0, "/w", "a|b", 4.0),
        Past(0, "COMPLETED", 0, 15.0, 19.0, "/w", "a|b", 9.0, 1),
        Past(1, "CANCELLED", 143, 5.0, 9.0, "/w", "a|b", 4.0),
        Past(2, "PENDING", 0, None, None, "/w", "a|b", 4.0),
        Past(3, "PENDING", 0, None, None, "/w", "a|b", 4.0),
    ]


@pytest.mark.parametrize("words", queue.UNSURE)
def test_a_submission_that_may_have_happened_is_no_answer(words: str) -> None:
    found = said(1, err=f"sbatch: error: Batch job submission failed: {words}")

    with pytest.raises(NoAnswer, match="Batch job submission failed"):
        found.submit("job-a1", [], "")


def test_a_submission_that_nobody_heard_of_again_is_no_answer() -> None:
    with pytest.raises(NoAnswer):
        said(-9, lost=True).submit("job-a1", [], "")
    with pytest.raises(NoAnswer, match="no job id"):
        said(0, out="").submit("job-a1", [], "")


@pytest.mark.parametrize(("words", "way"), queue.WAYS)
def test_a_refusal_of_slurm_is_shown_with_a_hint(words: str, way: str) -> None:
    with pytest.raises(RemoteError) as told:
        said(1, err=f"sbatch: error: {words}\nsbatch: note").submit("job-a1", [], "")

    assert words in told.value.message
    assert (told.value.hint, told.value.transient) == (way, False)


def test_a_temporary_error_of_slurm_is_transient() -> None:
    with pytest.raises(RemoteError) as told:
        said(1, err="sbatch: error: Slurm temporarily unable to accept job").submit("a", [], "")

    assert told.value.transient


def test_a_host_without_slurm_is_told() -> None:
    with pytest.raises(RemoteError, match="has no sbatch") as told:
        said(127, err="sh: 4: sbatch: not found").submit("job-a1", [], "")

    assert "host" in (told.value.hint or "")


def test_a_job_that_is_forgotten_is_none_and_a_silent_controller_is_no_answer() -> None:
    forgotten = said(1, err="slurm_load_jobs error: Invalid job id specified")
    silent = said(
        1, err="slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    )

    assert forgotten.of_job("7") == []
    with pytest.raises(NoAnswer):
        silent.of_job("7")


def test_a_name_is_compared_whole() -> None:
    """A comma in one would be two names for squeue."""
    assert [row.job for row in said(0, out=f"/w\n{LINE}").of_name("job-a1")] == ["7"]
    assert said(0, out=f"/w\n{LINE}").of_name("job-a2") == []


def test_a_job_of_another_workspace_that_has_ended_is_not_of_this_run() -> None:
    ended = LINE.replace("RUNNING", "COMPLETED")

    assert [row.job for row in said(0, out=f"/w\n{ended}").of_name("job-a1")] == ["7"]
    assert said(0, out=f"/v\n{ended}").of_name("job-a1") == []
    assert [row.job for row in said(0, out=f"/v\n{LINE}").of_name("job-a1")] == ["7"]


@pytest.mark.parametrize("words", ["", "scancel: error: Invalid job id specified\n"])
def test_ending_a_job_that_has_ended_succeeds(words: str) -> None:
    """A job that is completing: scancel says so by its code alone (2021, of which eight bits are seen)."""
    over = said(229 if not words else 1, err=words)

    over.terminate(["7"])
    over.cancel(["7"])
    with pytest.raises(NoAnswer):
        said(229, lost=True).terminate(["7"])
    with pytest.raises(NoAnswer):
        said(230).terminate(["7"])


def test_an_accounting_that_does_not_answer_is_asked_once() -> None:
    way = Says(Done(1, b"", "Slurm accounting storage is disabled"))
    found = Queue(WorkspaceStore(way, "/w"))

    assert found.past("7") == found.past("7") == []
    assert way.asked == 1


def test_an_unreachable_cluster_submits_nothing() -> None:
    class Away(Here):
        def run(self, *args: object, **more: object) -> Done:
            raise Unavailable("login: Connection refused")

    found = Queue(WorkspaceStore(Away(), "/w"))

    with pytest.raises(RemoteError) as told:
        found.submit("job-a1", [], "")
    assert told.value.transient
    with pytest.raises(Unavailable):
        found.of_name("job-a1")


def waits(reason: str, state: str = "PENDING") -> str:
    return reasons.waiting(Row("7", (0,), state, reason, None, 0, None, None, "", "", "a"))


@pytest.mark.parametrize("reason", [name for name in reasons.WAITING if name != "None"])
def test_why_a_job_waits_is_said_in_words_and_in_slurms(reason: str) -> None:
    assert waits(reason) == f"{reasons.WAITING[reason]} ({reason})"


def test_reasons_of_no_list_are_told_too() -> None:
    assert waits("AssocGrpCpuLimit").endswith(
        "its account or QOS has reached a limit (AssocGrpCpuLimit)"
    )
    assert waits("ReqNodeNotAvail, UnavailableNodes:node1").startswith(
        "a node that it needs is down"
    )
    assert waits("SomethingNew") == "waits for a node (SomethingNew)"
    assert (
        waits("None", "SUSPENDED")
        == "is suspended by Slurm or by an administrator of the cluster (SUSPENDED)"
    )


def test_a_cluster_is_read_as_it_says() -> None:
    text = """
== config
Configuration data as of 2026
MaxArraySize            = 1001
MaxJobCount             = 10000
MinJobAge               = 300 sec
SelectType              = select/cons_tres
SLURM_VERSION           = 23.11.4

== partitions
PartitionName=gpu Default=YES State=UP MaxTime=2-00:00:00 DefaultTime=NONE MaxNodes=8 MinNodes=0 TotalNodes=4
PartitionName=old Default=NO State=DRAIN MaxTime=UNLIMITED MaxNodes=UNLIMITED TotalNodes=2

== nodes
gpu|2|8|64000|100|gpu:a100:4(S:0-1)
gpu|2|16+|32000|0|(null)
old|2|4|1|0|(null)

== mpi
MPI plugin types are...
\tpmix
\tnone
specific pmix plugin versions available: pmix_v4

== containers

== podman
/usr/bin/podman

== python
Python 3.9.2
"""
    found = discover.read(text)

    gpu, old = found["partitions"]["gpu"], found["partitions"]["old"]
    assert (gpu["max_time_s"], gpu["max_nodes"], gpu["nodes"]) == (172800, 8, 4)
    assert (gpu["cpus"], gpu["memory_mb"], gpu["disk_mb"]) == (16, 64000, 100)
    assert (gpu["gpus"], gpu["default"], gpu["state"]) == ({"a100": 4}, True, "up")
    assert (old["memory_mb"], old["disk_mb"], old["max_nodes"], old["gpus"]) == (
        None,
        None,
        None,
        {},
    )
    assert (found["max_array"], found["max_jobs"], found["remembers_s"]) == (1001, 10000, 300)
    assert (found["select"], found["version"], found["python"]) == ("cons_tres", "23.11.4", "3.9.2")
    assert (found["containers"], found["mpi"]) == (["podman"], ["none", "pmix"])


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        ({}, []),
        ({"sweep": {"seed": "1..3"}}, ["config"]),
        ({"cluster": {"gpus": 1}}, ["config"]),
        ({"container": {"image": "python:3.11"}}, ["containers"]),
        ({"launch": "mpi"}, []),
        ({"launch": "mpi", "providers": {"slurm": {"mpi": "srun"}}}, ["mpi"]),
        ({"launch": "mpi", "providers": {"slurm": {"mpi": "auto"}}}, ["mpi"]),
    ],
)
def test_a_cluster_is_asked_what_the_spec_depends_on(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], parts: list[str]
) -> None:
    """Each question is a command of Slurm's, and a plan is to cost no more for it."""
    asked = list[Sequence[str]]()

    class Hears(Says):
        def run(self, script: str, args: Sequence[str] = (), *_: Any, **__: Any) -> Done:
            asked.append(args)
            return self.done

    monkeypatch.setattr(discover, "transport", lambda *_: Hears(Done(0, b"", "")))
    wanted = spec(**more)
    options = SlurmOptions(**wanted.providers.get("slurm", {}), python="py")

    discover.survey(wanted, options)

    assert asked == [["py", *parts]]


@pytest.mark.parametrize(
    ("said", "gpus"),
    [
        ("gpu:3090:2", {"3090": 2}),
        ("gpu:2080ti:8(S:0,1),gpu:1g.5gb:7", {"2080ti": 8, "1g.5gb": 7}),
        ("gpu:a100,nic:2", {"a100": 1}),
        ("gpu", {"": 1}),
        ("mygpu:4", {}),
    ],
)
def test_gpus_are_found_whatever_their_type_is_called(said: str, gpus: dict[str, int]) -> None:
    assert discover.gpus_of(said) == gpus


def test_a_python_is_known_whatever_is_said_before_it() -> None:
    """A wrapper may warn: what is too old says its version on stderr, which is read with the rest."""
    found = discover.read("\n== python\npython3: warning: no locale\nPython 3.9.2\n")

    assert found == {"python": "3.9.2"}


def test_facts_that_the_cluster_lacks_are_left_out() -> None:
    assert discover.read("sh: scontrol: not found") == {}
    assert discover.read("\n== no python\n") == {"python": None}


def test_an_sbatch_that_was_killed_or_whose_answer_is_cut_off_may_have_submitted() -> None:
    """A shell says 137 of a command that was ended by SIGKILL."""
    for found in (said(137), said(0, out="12"), said(0, out="")):
        with pytest.raises(NoAnswer):
            found.submit("job-a1", [], "")

    assert said(0, out="12 7\n").submit("job-a1", [], "") == ("12", "7")


@pytest.mark.process
def test_an_incomplete_script_is_not_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sbatch would take it; it is what comes of a caller that is killed while it writes."""
    (tmp_path / "sbatch").write_text("#!/bin/sh\ncat >>submitted; echo 12\n")
    (tmp_path / "sbatch").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "runs/job-a1").mkdir(parents=True)

    class Cut(Here):
        def run(self, script: str, args: Sequence[str] = (), *_: object, **__: object) -> Done:
            return super().run(script, args, [b"#!/bin/sh\n"])

    with pytest.raises(RemoteError, match="arrived incomplete") as told:
        Queue(WorkspaceStore(Cut(), str(tmp_path))).submit("job-a1", [], "#!/bin/sh\ntrue\n")
    whole = Queue(WorkspaceStore(Here(), str(tmp_path))).submit("job-a1", [], "#!/bin/sh\ntrue\n")

    assert told.value.transient
    assert whole == ("12", "12")
    assert (tmp_path / "submitted").read_text() == "#!/bin/sh\ntrue\n"
    assert sorted(path.name for path in (tmp_path / "runs/job-a1").iterdir()) == ["claim", "job"]
