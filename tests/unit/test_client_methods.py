"""A client of which a method does nothing fails a quick test: client_methods.txt names one for each method."""

from __future__ import annotations

import gc
import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.root import ROOT

CLIENTS = {
    "LocalClient": "runspec_local.client",
    "AwsClient": "runspec_aws.client",
    "AzureClient": "runspec_azure.batch.client",
    "BatchAiClient": "runspec_batchai.client",
    "KubernetesClient": "runspec_kubernetes.client",
    "StoreClient": "runspec_kubernetes.client",
    "SlurmClient": "runspec_slurm.client",
    "ParallelClusterClient": "runspec_parallelcluster.client",
    "AwsSetupClient": "runspec_aws.setup.client",
    "BatchSetupClient": "runspec_azure.batch.setup.client",
}
# A line for each method: the class, the name of the method, and the test.
TABLE = Path(__file__).with_name("client_methods.txt")
TESTS = dict(line.split() for line in TABLE.read_text().splitlines())
# Pytest in a process that has imported its plugins: it cannot rewrite their asserts any more.
OPTIONS = ["-q", "-n", "0", "-p", "no:cacheprovider", "-m", "", "-x", "--timeout", "60"]
OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]


def resolve(client: str) -> Any:
    return getattr(importlib.import_module(CLIENTS[client]), client)


def methods() -> Iterator[str]:
    for name in CLIENTS:
        for method, value in vars(resolve(name)).items():
            if inspect.isfunction(value) and not method.startswith("__"):
                yield f"{name}.{method}"


def test_each_method_of_a_client_has_a_test_that_sees_its_absence() -> None:
    assert sorted(TESTS) == sorted(methods()), "name a quick test for each method, and no other"


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("most", [1, pytest.param(None, marks=pytest.mark.matrix, id="all")])
def test_a_method_that_does_nothing_fails_its_test(client: str, most: int | None) -> None:
    """Each in a child of this process, which has imported everything already: two seconds a method."""
    named = [(key, test) for key, test in TESTS.items() if key.startswith(f"{client}.")]
    of_client = dict(named[:most])
    cls = resolve(client)

    unbroken = run_tests(sorted(set(of_client.values())), lambda: None)
    unseen = [
        method
        for method, test in of_client.items()
        if run_tests([test], lambda method=method: empty(cls, method)) != 1  # type: ignore[misc]
    ]

    assert unbroken == 0
    assert unseen == []


def empty(cls: Any, method: str) -> None:
    """Have a method do nothing and return None."""
    setattr(cls, method.partition(".")[2], lambda self, *args, **named: None)


def run_tests(tests: list[str], prepare: Callable[[], None]) -> int:
    """Return the exit code of pytest for *tests*, in a child process that calls *prepare* first."""
    child = os.fork()
    if child == 0:
        gc.freeze()  # pytest collects garbage in the end, and would look through all that its parent has collected
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.chdir(ROOT)
        prepare()
        os._exit(int(pytest.main([*OPTIONS, *tests])))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
