"""In which order tests are dealt out to the workers of `--dist loadgroup`, and what is dealt out as one.

What takes longest is begun first, so that no worker is alone with it at the end. The rest is mixed: tests that wait and
tests that compute run side by side. A file whose tests share what is dear to make is one piece, and so is a file of
quick tests; any other test is a piece of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
# Parts of ids, the longest first, by `pytest --durations`; it is no mistake if one is no longer the longest.
LONGEST = (
    "e2e/test_hands_on",
    "wherever_the_service_fails[aws-batch]",
    "e2e/test_main_job",
    "faults/test_kill",
    "e2e/test_aws_saved",
    "wherever_the_service_fails[azure-batch]",
    "e2e/test_podman",
    "e2e/test_batchai_gc",
    "e2e/test_aws_podman",
    "faults/test_disk",
    "faults/test_aws.py",
    "faults/test_slurm",
    "e2e/test_batchai_logs",
    "e2e/test_pre_commit",
    "e2e/test_provider_guide",
    "e2e/test_batchai_recipes",
    "e2e/test_launch",
    "faults/test_a",
)
# Files whose tests share an environment, images, or a run.
TOGETHER = (
    "test_hands_on test_main_job test_podman test_rehearsal_podman test_batchai_gc test_batchai_recipes "
    "test_pre_commit test_provider_guide test_launch test_slurm test_slurm_machines test_slurm_podman"
).split()
APART = ("contract", "e2e", "faults")  # folders of tests that take seconds each


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Give *items* in the order they are to be dealt out in, each marked with the piece it is part of."""
    found = []
    for item in items:
        piece = piece_of(item)
        if piece is not None:
            item.add_marker(pytest.mark.xdist_group(piece))
        found.append((rank(item.nodeid), zlib.crc32((piece or item.nodeid).encode()), item))
    return [item for _, _, item in sorted(found, key=lambda one: one[:2])]


def rank(nodeid: str) -> int:
    """Give the place among the longest, or the one after them."""
    return next((n for n, part in enumerate(LONGEST) if part in nodeid), len(LONGEST))


def piece_of(item: pytest.Item) -> str | None:
    """Give the name of what *item* is dealt out with; None where it goes alone."""
    path = item.path
    if path.stem not in TOGETHER and any(path.is_relative_to(TESTS / name) for name in APART):
        return None
    return f"{path.parent.name}/{path.stem}"
