"""torchrun and PyTorch, really, for a fixed group: what the stand-ins of other tests are taken for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.test_elastic_torch import torch as torch  # a fixture
from tests.support.agent.process_nodes import Nodes

pytestmark = pytest.mark.slow

SUMS = """\
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
where = os.environ["RUNSPEC_RANK"], os.environ["RUNSPEC_SLOTS"], os.environ["LOCAL_RANK"]
with open(f"said-{dist.get_rank()}", "w") as file:
    file.write(" ".join([str(dist.get_world_size()), str(int(total)), *where]))
dist.destroy_process_group()
"""


def test_processes_of_all_nodes_are_one_world(torch: Path, tmp_path: Path) -> None:
    """They add up, and each has its own node's rank, folder and words."""
    words = {"RUNSPEC_LAUNCH": "torchrun", "RUNSPEC_SLOTS": "2", "RUNSPEC_LEASE_S": "120"}
    (tmp_path / "sums.py").write_text(SUMS)
    nodes = Nodes(tmp_path, 2, words, os.environ["PATH"])
    try:
        nodes.start_all(["python", str(tmp_path / "sums.py")])

        assert nodes.codes(300) == [0, 0], [nodes.said(rank) for rank in range(2)]
        assert nodes.left() == []
    finally:
        nodes.close()
    found = {
        path.name: f"{path.parent.name}: {path.read_text()}" for path in tmp_path.rglob("said-*")
    }
    assert found == {
        f"said-{rank}": f"node {rank // 2}: 4 10 {rank // 2} 2 {rank % 2}" for rank in range(4)
    }
