"""A chain that several commands are about at once, and the end of all that was started for it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs import state_folder
from runspec_jobs.api.chains import (
    SKIPPED,
    ChainRun,
    JobStatus,
    apply_chain,
    get_chain,
    load_chain,
)
from runspec_jobs.api.lifecycle import runs
from runspec_jobs.engine.chain.jobs import ChainJobs
from runspec_jobs.errors import CredentialsError, Damaged, RunspecError
from runspec_jobs.state import chain_record
from runspec_local.client import LocalClient
from tests.support.wait import until
from tests.unit.runspec_jobs.test_chains import MADE, PREPARE, TRAIN, Chained, ids, job, states

pytestmark = pytest.mark.process

FIRST = job("first", "true")
FAILING = job("second", "exit 3", "needs: [first]\n")


class Killed(BaseException):
    """Ends a command where `kill -9` would."""


@pytest.fixture
def chained(tmp_path: Path) -> Chained:
    return Chained(tmp_path)


def chain() -> ChainRun:
    known = get_chain("all")
    assert known is not None
    return known


def test_destroy_of_a_chain_also_deletes_the_runs_in_whose_place_others_have_come(
    chained: Chained,
) -> None:
    chained(FIRST, FAILING)
    chained(FIRST, FAILING)
    chained(FIRST)  # the second job is not in the chain any more
    assert len(runs("second")) == 2

    chain().destroy()

    assert runs() == []
    assert chain().record.earlier == ()


def test_destroy_of_a_chain_ends_a_job_whose_apply_was_killed_as_it_started_it(
    chained: Chained, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LocalClient.call

    def call(self: LocalClient, step: Any) -> Any:
        answer = real(self, step)
        if step.operation == "start":
            raise Killed
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(LocalClient, "call", call)
        with pytest.raises(Killed):
            chained(job("first", "sleep 60"))
    chain().destroy()

    assert runs() == []


def test_a_cancel_while_apply_starts_a_job_starts_no_job(
    chained: Chained, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first job has ended before the second is started, so only the second is cancelled.
    monkeypatch.setattr(ChainJobs, "waits_by_service", lambda self, job: [])
    canceling = threading.Thread(target=lambda: chain().cancel())

    def confirm() -> None:
        if get_chain("all") is not None and chain().jobs.get("first") is not None:
            canceling.start()
            until(lambda: chain().record.want == "cancel")

    ends = chained(FIRST, job("second", "sleep 60", "needs: [first]\n"), confirm=confirm)
    canceling.join()

    assert states(ends) == {"first": "succeeded", "second": SKIPPED}
    assert ends["second"].reason == "the chain was cancelled"
    assert runs("second") == []


def test_a_failed_job_that_another_apply_has_started_meanwhile_is_not_started_again(
    chained: Chained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ChainJobs, "waits_by_service", lambda self, job: []
    )  # as between two services
    other: list[JobStatus] = []

    def hear(status: JobStatus) -> None:
        if status.job == "first" and status.state == "succeeded":
            other.extend(apply_chain(load_chain(chained.path)))

    ends = chained(FIRST, FAILING, on_status=hear)

    assert [one.run for one in other] == [one.run for one in ends.values()]
    assert states(ends) == {"first": "succeeded", "second": "failed"}
    assert len(runs("second")) == 1


def test_two_applies_of_a_chain_at_once_start_each_job_once(chained: Chained) -> None:
    texts = (job("first", "sleep 0.3"), FAILING)
    chained.path.write_text("---\n".join(texts))
    others: list[JobStatus] = []
    thread = threading.Thread(target=lambda: others.extend(apply_chain(load_chain(chained.path))))

    thread.start()
    ends = chained(*texts)
    thread.join()

    assert [one.run.id for one in others if one.run] == ids(ends)
    assert len(runs()) == 2


def test_a_middle_run_that_was_destroyed_by_its_id_is_started_again_alone(
    chained: Chained,
) -> None:
    texts = (
        job("first", "echo 1 > ${outputs.data}/a", MADE),
        job(
            "second",
            "cp ${mounts.in}/a ${outputs.data}",
            MADE + "mounts: [{name: in, source: 'run://first/data', target: /job/in}]\n",
        ),
        job(
            "third",
            "cat ${mounts.in}/a",
            "mounts: [{name: in, source: 'run://second/data', target: /job/in}]\n",
        ),
    )
    before = chained(*texts)
    assert before["second"].run is not None
    before["second"].run.destroy()

    after = chained(*texts)

    assert set(states(after).values()) == {"succeeded"}
    assert after["first"].run == before["first"].run
    assert after["second"].run != before["second"].run


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"path": "a"', '"path": "../../../a"'),
        ('"path": "a"', '"path": "/a"'),
        ('"link": "a"', '"link": "../../../../a"'),
        ('"object": "', '"object": "../../'),
        ('"size": 2', '"size": -2'),
        ("{", ""),
    ],
)
def test_a_hostile_manifest_of_an_output_gives_a_job_no_files(
    chained: Chained, before: str, after: str
) -> None:
    ends = chained(PREPARE)
    assert ends["prepare"].run is not None
    runs_folder = ends["prepare"].run.record.folder.parents[1] / "local/runs"
    (manifest,) = runs_folder.glob("*/outputs/data/0/0/.runspec/manifest.json")
    manifest.write_text(manifest.read_text().replace(before, after))

    try:
        ends = chained(PREPARE, TRAIN)
    except RunspecError:
        return  # this machine has refused it

    assert states(ends)["train"] == "failed"
    assert chained.lines == []


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"format": "runspec.chain/v1"}',
        b'{"format": "runspec.chain/v9", "name": "all"}',
        b"[" * 100_000,
        b'{"format": "runspec.chain/v1", "name": 1, "path": {}, "needs": 7, "runs": [], "want": 0}',
        b'{"name": "all", "path": "/a", "needs": {}, "runs": {"a": "../../../etc"}, "want": "run"}',
        b'{"name": "all", "path": "/\\u0000", "needs": {}, "runs": {}, "want": "run"}',
        b'{"name": "all", "path": "/a", "needs": {"a": {"b": 7}}, "runs": {}, "want": "run"}',
    ],
)
def test_a_damaged_record_of_a_chain_is_told_and_no_other_chain_is_lost(
    chained: Chained, damage: bytes
) -> None:
    chained(FIRST)
    chained.path = chained.path.with_name("other.yaml")
    chained(job("third", "true"))
    (record,) = state_folder.find_chains_folder().glob("all-*.json")
    record.write_bytes(damage)

    with pytest.raises(Damaged):
        get_chain("all")
    assert [one.name for one in chain_record.all_chains()] == ["other"]


def test_a_secret_that_a_later_job_lacks_stops_the_chain_before_its_first_job(
    chained: Chained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    notify = job("notify", "true", "needs: [first]\nsecrets: {HOOK: caller}\n")
    with pytest.raises(CredentialsError, match="env:HOOK is not set"):
        chained(FIRST, notify)
    assert runs() == []

    monkeypatch.setenv("HOOK", "x")
    assert set(states(chained(FIRST, notify)).values()) == {"succeeded"}
    monkeypatch.delenv("HOOK")
    assert set(states(chained(FIRST, notify)).values()) == {"succeeded"}  # nothing is to start


def test_a_secret_that_a_failed_job_lacks_now_starts_no_job_of_the_chain_again(
    chained: Chained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", "x")
    notify = job("notify", "exit 3", "needs: [first]\nsecrets: {HOOK: caller}\n")
    assert states(chained(FIRST, notify))["notify"] == "failed"
    monkeypatch.delenv("HOOK")

    with pytest.raises(CredentialsError, match="env:HOOK is not set"):
        chained(job("first", "true; true"), notify)
    assert len(runs("first")) == 1
