"""Which tests of the contract take their time."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
SLOW = {
    "aws-batch",
    "aws-batch-signed",
    "azure-batch",
    "azure-batch-ai",
    "parallelcluster",
    "slurm",
}  # each test of a client has servers of its own


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and item.path.parent == HERE:
            params = item.callspec.params.values() if hasattr(item, "callspec") else ()
            if "trials" in item.fixturenames and SLOW & {p for p in params if isinstance(p, str)}:
                item.add_marker(pytest.mark.slow)
                if "aws-batch-signed" in params and "wherever_a_call_goes_wrong" in item.name:
                    item.add_marker(pytest.mark.matrix)  # the calls are those of aws-batch
