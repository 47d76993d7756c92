"""A path that the user of an image may not make is named with a way out."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.base.job_env import Failure
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.store.folder import FolderBucket
from runspec_agent.transfer.workdir import Workdir

RECORD: dict[str, Any] = {
    "mounts": [{"name": "code", "kind": "folder", "path": "x", "target": "/job/code"}],
    "outputs": [{"name": "model", "path": "/job/model", "sync_s": None}],
    "requirements": [],
}


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workdir:
    """The folders of a node whose user may make none, as in an image with another USER than root."""
    made = Workdir(
        FolderBucket({"RUNSPEC_STORE": f"file://{tmp_path}"}),
        RECORD,
        {"RUNSPEC_BELOW": str(tmp_path)},
        "/f",
    )

    def refuse(path: str, *_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "makedirs", refuse)
    return made


def test_an_output_that_the_user_may_not_make_is_named_with_a_way_out(workdir: Workdir) -> None:
    with pytest.raises(
        Failure, match=r"output 'model': .*/job/model cannot be made by user \d+ .*/tmp/model"
    ):
        workdir.outputs(TaskIdentity("j", 0, 1, 0), "below")


def test_a_mount_that_the_user_may_not_make_is_named_with_a_way_out(workdir: Workdir) -> None:
    with pytest.raises(Failure, match=r"mount 'code': .*/job/code cannot be made by user \d+"):
        workdir.mounted(0)
