"""The secret of a run is in the vault while its job reads it, and nowhere afterwards, wherever kills and faults come.

All other requests are those of a single job, which test_azure.py tries.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import partial

import pytest

from runspec_emulators.azure_services.blob import Blobs
from tests.faults import chosen
from tests.faults.azure_vault import TRUST, VaultCloud
from tests.faults.cells import spread
from tests.faults.cloud import AT_ONCE, New, new_cloud
from tests.faults.conftest import drivers
from tests.faults.struck import Case, traced
from tests.faults.world import Driver
from tests.support import certificates
from tests.support.fault_proxy import FAULTS
from tests.support.requirements import need

pytestmark = pytest.mark.slow

OWN = (" vault /", "Secret_")  # in the labels of requests to the vault, and of calls of the client


@pytest.fixture(scope="module")
def pool() -> Iterator[list[Driver]]:
    with drivers(AT_ONCE, VaultCloud.sdk) as found:
        yield found


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blobs]:
    need("azurite")
    certificate = certificates.made(tmp_path_factory.mktemp("certificate"))
    with pytest.MonkeyPatch.context() as patch:
        for name in TRUST:
            patch.setenv(name, str(certificate.authority))
        with Blobs(tmp_path_factory.mktemp("blobs"), certificate=certificate) as found:
            yield found


@pytest.fixture(scope="module")
def accounts(encrypted: Blobs) -> Mapping[bool, New]:
    """What makes an account and a vault for each world, by whether the vault has purge protection."""
    return {
        protected: partial(new_cloud, VaultCloud, blobs=encrypted, has_purge_protection=protected)
        for protected in (False, True)
    }


def select(places: Mapping[int, str]) -> dict[int, str]:
    return {at: label for at, label in places.items() if any(word in label for word in OWN)}


PROTECTED = pytest.param("destroy", True, id="destroy, with purge protection")


@pytest.mark.parametrize(
    ("verb", "protected"), [("apply", False), ("given up", False), ("destroy", False), PROTECTED]
)
def test_killed_at_the_vault_and_repeated_it_is_as_if_nothing_had_happened(
    pool: list[Driver], accounts: Mapping[bool, New], verb: str, protected: bool
) -> None:
    account = accounts[protected]
    kills, case = select(traced(pool[0], account, verb).kills()), Case(verb)

    wrong = spread(
        pool, lambda driver, at: case.killed(driver, account, at), chosen.spaced([*kills])
    )

    assert len(kills) >= 4
    assert {kills[at]: what for at, what in wrong.items()} == {}


@pytest.mark.parametrize(("verb", "protected"), [("apply", False), ("destroy", False), PROTECTED])
def test_a_request_to_the_vault_that_goes_wrong_changes_nothing_in_the_end(
    pool: list[Driver], accounts: Mapping[bool, New], verb: str, protected: bool
) -> None:
    account = accounts[protected]
    strikes, case = select(traced(pool[0], account, verb).strikes()), Case(verb)
    cells = chosen.spaced(list(itertools.product(FAULTS, strikes)))

    wrong = spread(pool, lambda driver, cell: case.broken(driver, account, *cell), cells)

    assert strikes
    assert {(strikes[at], fault): what for (fault, at), what in wrong.items()} == {}
