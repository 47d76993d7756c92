"""The cluster of the tests: the one of RUNSPEC_KUBECONFIG, or a real control plane on this machine.

Tests take the fixture `kubernetes`, which is the path of a kubeconfig, and `namespace`, which is empty at first. Import
both from this module.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REAL_CACHE
from tests.support.kubernetes.api import Api
from tests.support.kubernetes.control_plane import (
    PROGRAMS,
    ControlPlane,
    NodePrograms,
    has_nodes,
)
from tests.support.requirements import lack, need, need_root
from tests.support.wait import until

VERSION = "1.20.2"
BUILT = Path(REAL_CACHE) / "runspec-tests" / f"kubernetes-{VERSION}"
GIVEN = "RUNSPEC_KUBECONFIG"
NAMESPACES = "/api/v1/namespaces"


def built_programs() -> Path:
    """Return the folder that `tools/build-kubernetes` has made; where it is not, skip the test or fail it in CI."""
    need_root()
    need("unshare", "setpriv", "mount")
    if not all((BUILT / program).exists() for program in PROGRAMS):
        lack(f"Kubernetes {VERSION}: tools/build-kubernetes builds it")
    return BUILT


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane | None]:
    """Give the control plane that all tests of a worker share, or None if there is a cluster of somebody else."""
    if os.environ.get(GIVEN):
        yield None
        return
    with ControlPlane(tmp_path_factory.mktemp("kubernetes"), built_programs()) as plane:
        yield plane


@pytest.fixture(scope="session")
def kubernetes(
    control_plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Give the kubeconfig of an administrator of the cluster; one without nodes gets programs of ours."""
    if control_plane is not None:
        yield control_plane.kubeconfig
        return
    given = Path(os.environ[GIVEN])
    with contextlib.ExitStack() as stack:
        if not has_nodes(given):
            need_root()
            stack.enter_context(NodePrograms(tmp_path_factory.mktemp("nodes") / "own", given))
        yield given


@pytest.fixture
def api(kubernetes: Path) -> Iterator[Api]:
    with Api.opened(kubernetes) as opened:
        yield opened


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    """Give a namespace of the test's own in which pods can run; it is deleted with all in it."""
    name = f"runspec-test-{secrets.token_hex(4)}"
    api.must("POST", NAMESPACES, {"metadata": {"name": name}})
    account = f"{NAMESPACES}/{name}/serviceaccounts/default"
    until(lambda: api.call("GET", account).status == 200)
    yield name
    api.must("DELETE", f"{NAMESPACES}/{name}")
