"""The intervals and limits of a client are in one frozen value, which tests replace without patching modules."""

from __future__ import annotations

import ast
import dataclasses
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.root import ROOT

CLIENTS = {
    "runspec_aws.timing",
    "runspec_azure.batch.timing",
    "runspec_batchai.timing",
    "runspec_kubernetes.timing",
    "runspec_local.timing",
    "runspec_slurm.timing",
    "runspec_parallelcluster.timing",
}
# What works without a client, or in another process; `decision` and `job` have the time limits of jobs.
OTHERS = {"check", "decision", "discover", "doctor", "job", "probes", "supervisor"}
# Limits of services and of formats, which no client may choose, and those of tools that know no client.
FIXED = {
    "runspec_aws/errors.py:IN_USE_S",
    "runspec_aws/signed.py:LONGEST_S",
    "runspec_azure/signed.py:LONGEST_S",
    "runspec_azure/session/transport.py:LONGEST_PAUSE_S",
    "runspec_aws/store/layout.py:STOP_S",
    "runspec_azure/signed.py:EARLY_S",
    "runspec_azure/session/key_vault.py:FIRST_PAUSE_S",
    "runspec_azure/session/key_vault.py:GONE_S",
    "runspec_azure/session/key_vault.py:LONGEST_PAUSE_S",
    "runspec_azure/batch/plan.py:STOP_S",
    "runspec_azure/batch/status.py:CLOCK_S",
    "runspec_batchai/session.py:RENEWED_S",
    "runspec_batchai/status.py:QUEUED_S",
    "runspec_azure/resources/price_list.py:ANSWER_S",
    "runspec_imports/kube_pods.py:GRACE_S",
    "runspec_kubernetes/store_layout.py:STOP_S",
    "runspec_images/image_build.py:ANSWER_S",
    "runspec_images/image_registry.py:ANSWER_S",
    "runspec_images/registry_logins.py:ANSWER_S",
    "runspec_local/orphans.py:YOUNG_S",
    "runspec_objects/object_store.py:TIMEOUT_S",
    "runspec_local/session/container_engine.py:ANSWER_S",
    "runspec_local/session/container_engine.py:PAUSE_S",
    "runspec_local/session/gpus.py:ANSWER_S",
    "runspec_local/session/pythons.py:RUNS_S",
    "runspec_local/session/uv.py:STOP_S",
    "runspec_slurm/lookup/ownership.py:SKEW_S",
    "runspec_slurm/cleanup.py:DAY_S",
    "runspec_parallelcluster/session/install.py:INSTALL_S",
    "runspec_slurm/store/local_workspace.py:FRESH_S",
}


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_a_timing_is_frozen_and_complete(name: str) -> None:
    module = importlib.import_module(name)
    found = module.Timing()

    assert found == module.DEFAULT
    assert all(isinstance(one, int | float | tuple) for one in dataclasses.asdict(found).values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.poll_s = 0.0


def test_no_module_has_an_interval_of_its_own() -> None:
    paths = (ROOT / "providers").rglob("*.py")
    parts = ((path, path.relative_to(ROOT / "providers")) for path in paths)
    found = {
        f"{short}:{name}"
        for path, short in parts
        if not OTHERS & {*short.parts, short.stem}
        for name in constants(path)
    }

    assert found == FIXED


def constants(path: Path) -> Iterator[str]:
    """Yield the constants of a module whose names end with the unit of seconds."""
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (n.id for n in names if isinstance(n, ast.Name) and n.id.endswith("_S"))
