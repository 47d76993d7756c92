"""Without a store, the state of a run is in a ConfigMap, with which another machine adopts it."""

from __future__ import annotations

import pytest

from runspec_jobs.provider import Conflict, SupportsAdoption
from runspec_kubernetes import client
from runspec_kubernetes.naming import delete
from runspec_kubernetes.options import KubernetesOptions
from tests.unit.runspec_kubernetes.fake_cluster import RUN, FakeCluster

CORE = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def bare() -> client.KubernetesClient:
    """A client of a profile without a store."""
    options = KubernetesOptions()
    made = client.KubernetesClient(options)
    made.session = made.runs.session = FakeCluster(options)
    return made


def cluster(bare: client.KubernetesClient) -> FakeCluster:
    assert isinstance(bare.session, FakeCluster)
    return bare.session


def test_a_state_is_kept_replaced_and_listed(bare: client.KubernetesClient) -> None:
    assert isinstance(bare, SupportsAdoption)
    assert bare.kept_state(RUN) is None
    bare.keep_state(RUN, b"one")
    bare.keep_state(RUN, b"\x00\xff two")

    assert bare.kept_state(RUN) == b"\x00\xff two"
    assert bare.kept_runs() == [RUN]


def test_the_state_goes_with_the_record_of_the_run(bare: client.KubernetesClient) -> None:
    cluster(bare).add("configmaps", RUN, RUN, kind="ConfigMap")
    bare.keep_state(RUN, b"one")

    bare.call(delete(bare.options, "configmaps", RUN, RUN))

    assert cluster(bare).objects == {}


def test_a_state_that_no_config_map_holds_is_not_kept(bare: client.KubernetesClient) -> None:
    bare.keep_state(RUN, bytes(client.MOST_KEPT + 1))

    assert bare.kept_runs() == []


def test_a_config_map_of_somebody_else_stays(bare: client.KubernetesClient) -> None:
    name = f"{RUN}-state"
    cluster(bare).add("configmaps", name, None, kind="ConfigMap", metadata={"labels": {}})

    with pytest.raises(Conflict):
        bare.keep_state(RUN, b"one")
