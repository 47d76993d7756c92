"""What a job on ParallelCluster may cost, and its cluster while nothing runs, is known before it is applied."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_ec2 import ec2_catalogue
from runspec_jobs.load import registry
from runspec_jobs.machines.estimate import Work, estimate
from runspec_jobs.provider import SupportsOffer, SupportsPolicy, Unavailable
from runspec_jobs.provider.machines import ListedPrices, Offer
from runspec_parallelcluster import PROVIDER
from runspec_parallelcluster.decision import decide
from tests.support.slurm.parallelcluster_specs import facts, options, spec

GONE = "until `runspec destroy --shared`"


def offered(cluster: dict[str, Any] | None = None, **settings: Any) -> Offer:
    of = spec(cluster=cluster or {})
    return PROVIDER.offer(of, facts(of, **settings))


def priced(found: Offer) -> list[tuple[str, float | None]]:
    return [(one.machine.name, one.usd) for one in found.machines]


def standing(found: Offer) -> dict[str, float | None]:
    return {one.what: one.usd_hour for one in found.standing}


def test_the_provider_makes_an_offer() -> None:
    assert isinstance(registry.load("parallelcluster"), SupportsOffer)


def test_the_machines_are_those_of_the_queue_and_others_are_alternatives() -> None:
    cluster = {"cpus": 4, "memory": "8GiB"}
    found = offered(cluster)

    (choice,) = decide(spec(cluster=cluster), options()).queues.values()
    assert [name for name, _ in priced(found)] == list(choice.queue.instance_types)
    assert priced(found)[0] == ("m5a.xlarge", 0.172)
    assert found.catalogue == f"on demand in us-east-1, {ec2_catalogue().version}"
    families = {one.machine.family for one in found.machines}
    assert len(found.alternatives) == 2
    assert not families & {one.machine.family for one in found.alternatives}


def test_a_job_of_two_queues_has_the_machines_of_both_once() -> None:
    found = offered({"capacity": "spot-then-on-demand", "cpus": 4})

    names = [name for name, _ in priced(found)]
    assert names[0] == "c6a.xlarge"
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "settings,machines",
    [
        ({"instance_types": ["g5.xlarge"]}, [("g5.xlarge", 1.006)]),
        ({"instance_types": ["g99.xlarge"]}, [("g99.xlarge", None)]),
        ({"queues": {"a": {"instance_types": ["g5.xlarge"]}}}, [("g5.xlarge", 1.006)]),
    ],
)
def test_machines_of_the_profile_have_their_prices(
    settings: dict[str, Any], machines: list[tuple[str, float | None]]
) -> None:
    found = offered(**settings)

    assert priced(found) == machines
    assert found.alternatives == ()


def test_the_head_node_costs_money_until_the_cluster_is_deleted() -> None:
    assert standing(offered())[f"the head node, m6i.xlarge, {GONE}"] == 0.192
    assert standing(offered(head_node="c6i.large"))[f"the head node, c6i.large, {GONE}"] == 0.085
    assert standing(offered(head_node="x99.large"))[f"the head node, x99.large, {GONE}"] is None


def test_standing_costs_use_the_prices_of_the_list() -> None:
    of = spec(cluster={})
    services = {"nat gateway": 2.0, "ebs gp3": 3.0, "public ipv4": 4.0, "lustre scratch": 730.0}
    listed = ListedPrices({"m6i.xlarge": 5.0, "g5.xlarge": 6.0}, services=services)
    more: dict[str, Any] = {
        "min_count": 2,
        "instance_types": ["g5.xlarge"],
        "storage": {"a": {"mount": "/a", "size_gib": 1200}},
    }

    found = PROVIDER.offer(of, facts(of, **more), listed).standing

    assert [one.usd_hour for one in found if one.usd_hour] == [5.0, 4.0, 12.0, 1200.0, 2.0, 6.0]
    assert [one.usd_gb_month for one in found if one.usd_gb_month] == [3.0]


def test_no_policy_is_made_up_and_the_rights_to_read_prices_are_named() -> None:
    provider = registry.load("parallelcluster")
    assert isinstance(provider, SupportsPolicy)

    with pytest.raises(Unavailable) as refused:
        provider.policy((), options(), of_job=False)

    assert "pricing:GetProducts" in str(refused.value.hint)


def test_machines_that_always_run_are_a_standing_cost() -> None:
    found = standing(offered(min_count=2, instance_types=["g5.xlarge"]))
    unknown = standing(offered(min_count=1, instance_types=["g5.xlarge", "g99.xlarge"]))

    assert found[f"2 x the machines of the queue 'ondemand', {GONE}"] == 2.012
    assert unknown[f"1 x the machines of the queue 'ondemand', {GONE}"] is None


def test_a_new_file_system_is_a_standing_cost_and_one_that_is_there_is_not() -> None:
    there = {"mount": "/data", "file_system": "fs-0123456789abcdef0"}
    new, kept = {"mount": "/w", "size_gib": 2400}, {"mount": "/w", "keep": True}

    def files(**storage: Any) -> dict[str, float | None]:
        found = standing(offered(storage=storage)).items()
        return {
            what.partition(" (price of ")[0]: usd for what, usd in found if "file system" in what
        }

    # 0.14 USD for a GB and month, of 730 hours
    scratch = {f"the file system 'w', FSx for Lustre with 2,400 GiB, {GONE}": 2400 * 0.14 / 730}
    assert files(w=new) == pytest.approx(scratch)
    assert list(files(w=kept)) == [
        "the file system 'w', FSx for Lustre with 1,200 GiB, also after the cluster is deleted"
    ]
    assert files(data=there) == {}


@pytest.mark.parametrize(
    "throughput,usd_gb_month", [(125, 0.145), (250, None), (500, None), (1000, None)]
)
def test_a_persistent_file_system_has_the_price_of_its_throughput(
    throughput: int, usd_gb_month: float | None
) -> None:
    storage = {"w": {"mount": "/w", "kind": "persistent", "throughput": throughput}}
    (usd,) = [u for what, u in standing(offered(storage=storage)).items() if "'w'" in what]

    assert usd == (usd_gb_month and pytest.approx(1200 * usd_gb_month / 730))


def test_the_disk_and_the_address_of_the_head_node_have_prices_of_their_region_and_day() -> None:
    found = {one.what: (one.usd_hour, one.usd_gb_month) for one in offered().standing}

    (disk,) = [what for what in found if "the disk of the head node" in what]
    (address,) = [what for what in found if "the public address of the head node" in what]
    assert found[disk] == (None, 0.08) and "(price of us-east-1, 20" in disk
    assert found[address] == (0.005, None) and "(price of us-east-1, 20" in address


def test_tasks_of_a_sweep_share_machines_of_which_queues_have_a_limit() -> None:
    cluster = {"gpus": 1, "gpu_type": "A100", "capacity": "spot-then-on-demand"}
    of = spec(cluster=cluster, sweep={"a": "1..20"})
    found = PROVIDER.offer(of, facts(of, max_count=3))

    assert found.shares["p4d.24xlarge"] == pytest.approx(1 / 8)
    assert found.limits["p4d.24xlarge"] == 2 * 3  # a queue for spot, and one on demand
    assert offered({"cpus": 2}).shares == {}


@pytest.mark.parametrize(
    ("memory", "share"), [({}, 0.5), ({"memory": "3GiB"}, pytest.approx(0.8, 0.1))]
)
def test_memory_counts_if_the_spec_requests_it(memory: dict[str, str], share: float) -> None:
    of = spec(cluster={"cpus": 1, **memory}, sweep={"a": "1..20"})
    found = PROVIDER.offer(of, facts(of, instance_types=["c6i.large"]))

    assert found.shares == {"c6i.large": share}


def test_standing_costs_name_the_network_and_storage_of_a_cluster() -> None:
    found = standing(offered())

    assert (
        f"the cluster's zone in Route 53, and its dashboard and logs in CloudWatch, {GONE}" in found
    )
    (gateway,) = [(what, usd) for what, usd in found.items() if what.startswith("a NAT gateway")]
    price = "besides 0.045 USD for each GB (price of us-east-1, 2026-08-01)"
    assert gateway == (f"a NAT gateway, if the subnets have one, {price}", 0.045)


def test_deleting_the_cluster_ends_all_costs_but_those_of_what_it_does_not_have() -> None:
    storage = {"w": {"mount": "/w", "keep": True}, "s": {"mount": "/s"}}
    left = [one.what for one in offered(storage=storage, min_count=1).standing if not one.shared]

    assert [what.partition(",")[0] for what in left] == [
        "the file system 'w'",
        "a NAT gateway",
        "each machine for 10 minutes after its last job",
    ]


def test_machines_stay_for_some_minutes_after_their_last_job() -> None:
    what = "each machine for 5 minutes after its last job"

    assert standing(offered(idle_minutes=5, instance_types=["g5.xlarge"]))[what] == 1.006
    assert standing(offered(idle_minutes=5, instance_types=["g99.xlarge"]))[what] is None


def test_a_cluster_of_others_has_machines_that_are_not_known() -> None:
    found = PROVIDER.offer(spec(), facts(spec(), manage=False, cluster="theirs"))

    assert (found.machines, found.why) == ((), "the queues of theirs choose the machines")
    assert list(standing(found)) == ["the cluster theirs, which runspec neither makes nor deletes"]


def test_the_bound_is_timeout_times_attempts_times_nodes() -> None:
    found = offered({"gpus": 8, "gpu_type": "H100", "nodes": 2})

    work = Work(nodes=2, tasks=1, parallel=1, timeout_s=3600, attempts=3)
    assert estimate(found, work, "parallelcluster", {}).bound_usd == pytest.approx(55.04 * 6)


@pytest.mark.parametrize(
    ("cluster", "settings"),
    [({"gpus": 1}, {}), ({"capacity": "spot"}, {}), ({}, {"queue": "none"})],
)
def test_a_job_that_no_queue_takes_is_offered_no_machine(
    cluster: dict[str, Any], settings: dict[str, Any]
) -> None:
    """`check` refuses it."""
    offer = offered(cluster, queues={"a": {"instance_types": ["c6a.xlarge"]}}, **settings)

    assert (offer.machines, offer.shares) == ((), {})
    assert offer.why == "no queue of the cluster takes the job"
