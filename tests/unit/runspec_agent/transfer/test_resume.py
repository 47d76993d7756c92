"""A run that resumes another one begins with its saves, until it has saved something itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base.job_env import Failure
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.store.folder import FolderBucket
from runspec_agent.transfer import resume, run_output
from runspec_agent.transfer.output_saver import Saver
from runspec_agent.transfer.workdir import Workdir

OTHER = "job-7k2m9p"
OUTPUT = {"name": "state", "path": "/state", "sync_s": None, "keep": 2}


@pytest.fixture
def store(tmp_path: Path) -> FolderBucket:
    return FolderBucket({"RUNSPEC_STORE": f"file://{tmp_path / 'store'}"})


@pytest.fixture(autouse=True)
def other(store: FolderBucket, tmp_path: Path) -> None:
    """Another run has saved steps 1, 2 and 3, of which it keeps the last two, with a link and an empty folder."""
    saver, folder = Saver(store), tmp_path / "other"
    (folder / "empty").mkdir(parents=True)
    os.symlink("step", folder / "latest")
    os.symlink(folder / "empty", folder / "whole")
    saver.add("state", str(folder), f"runs/{OTHER}/outputs/state/0/0/", None, keep=2)
    for step in "123":
        (folder / "step").write_text(step)
        assert saver.whole() == []


def node(store: FolderBucket, folder: Path, **record: Any) -> Saver:
    """Prepare the outputs of a node in *folder*, and return the saver of them."""
    began = {"run": OTHER, "saves": {"state": {"0/0": 3}}, **record}
    job: dict[str, Any] = {"mounts": [], "outputs": [OUTPUT], "requirements": [], "resume": began}
    scratch = folder.with_suffix(".own")
    scratch.mkdir(exist_ok=True)
    env = {"RUNSPEC_BELOW": str(folder)}
    return Workdir(store, job, env, str(scratch)).outputs(TaskIdentity("j", 0, 0, 1), "runs/r/o/")


def test_an_output_begins_with_the_save_of_the_other_run(
    store: FolderBucket, tmp_path: Path
) -> None:
    node(store, tmp_path / "a")

    state = tmp_path / "a/state"
    assert (state / "step").read_text() == "3"
    assert (state / "empty").is_dir()
    assert os.readlink(state / "latest") == "step"


def test_an_output_begins_with_the_save_of_the_number_that_was_asked_for(
    store: FolderBucket, tmp_path: Path
) -> None:
    node(store, tmp_path / "a", saves={"state": {"0/0": 2}})

    assert (tmp_path / "a/state/step").read_text() == "2"


def test_an_output_without_a_save_begins_empty(store: FolderBucket, tmp_path: Path) -> None:
    node(store, tmp_path / "a", saves={"state": {"1/0": 3}})

    assert list((tmp_path / "a/state").iterdir()) == []


def test_another_attempt_begins_with_the_save_of_its_own_run(
    store: FolderBucket, tmp_path: Path
) -> None:
    saver = node(store, tmp_path / "a")
    (tmp_path / "a/state/step").write_text("4")
    assert saver.whole() == []

    node(store, tmp_path / "b")

    assert (tmp_path / "b/state/step").read_text() == "4"


def test_a_save_that_is_gone_is_named_with_a_way_out(store: FolderBucket, tmp_path: Path) -> None:
    with pytest.raises(Failure, match=f"save 1 of {OTHER} is gone.*runspec apply without --resume"):
        node(store, tmp_path / "a", saves={"state": {"0/0": 1}})


def test_a_copy_of_the_saves_is_read_from_a_folder_of_this_machine(
    store: FolderBucket, tmp_path: Path
) -> None:
    copy = tmp_path / "copy/state"
    copy.parent.mkdir()
    os.rename(tmp_path / f"store/runs/{OTHER}/outputs/state/0/0", copy)

    node(store, tmp_path / "a", **{"from": {"0/0": str(copy.parent)}})

    assert (tmp_path / "a/state/step").read_text() == "3"


def test_the_agent_begins_an_output_of_a_job_of_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saves = '"saves": {"state": {"0/0": 3}}'
    record = f'{{"run": "{OTHER}", {saves}, "seen": "/job/state"}}'
    words = [str(tmp_path / "store"), record, "state"]

    assert resume.main([*words, "0/0", str(tmp_path / "a")]) == 0
    assert os.readlink(tmp_path / "a/whole") == "/job/state/empty"
    assert (tmp_path / "a/step").read_text() == "3"
    assert f"output 'state' begins with save 3 of {OTHER}" in capsys.readouterr().err

    gone = [words[0], record.replace("3}", "9}"), "state", "0/0", str(tmp_path / "b")]
    assert resume.main(gone) == 2
    with pytest.raises(Failure, match="usage: resume STORE"):
        resume.main(words)


@pytest.mark.parametrize("nodes", [0, 1])
def test_absolute_links_of_an_output_lead_to_where_a_job_of_this_machine_sees_it(
    tmp_path: Path, nodes: int
) -> None:
    more = f', "nodes": {nodes}' if nodes else ""
    where = f'"name": "x", "run": "{OTHER}", "key": "runs/{OTHER}/outputs/state/"'
    record = f'{{{where}, "task": 0{more}, "seen": "/job/in"}}'

    code = run_output.main([f"{tmp_path}/store", record, str(tmp_path / "new")])

    inner = "node-0/" if nodes else ""
    assert code == 0
    assert os.readlink(tmp_path / "new" / inner / "whole") == f"/job/in/{inner}empty"
