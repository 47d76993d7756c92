"""How a node has ended is in its record, wherever there is room for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_agent.base.failure import NoSpace
from runspec_agent.base.task_identity import TaskIdentity
from runspec_agent.retry import end_record
from runspec_agent.retry.end_record import End
from runspec_agent.store.folder import FolderBucket

NODE = TaskIdentity("j", 4, 1, 2)


class FullBucket(FolderBucket):
    """A store that takes empty objects alone."""

    def put(self, key: str, content: bytes) -> None:
        if content:
            raise NoSpace("the store is full")
        super().put(key, content)


@pytest.mark.parametrize("kind", [FolderBucket, FullBucket])
def test_the_end_of_a_node_is_known_also_from_a_full_store(
    kind: type[FolderBucket], tmp_path: Path
) -> None:
    bucket = kind({"RUNSPEC_STORE": f"file://{tmp_path}"})

    end_record.write(bucket, "runs/r/", NODE, End(75, "program", setup_s=12), "node-a")

    assert end_record.find(bucket, "runs/r/", NODE) == End(75, "program", setup_s=12)
