"""Connects to the services of runs on record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from runspec_jobs.errors import Damaged
from runspec_jobs.load import registry
from runspec_jobs.machines.spent import write_rates
from runspec_jobs.provider import (
    Capacity,
    Client,
    Facts,
    Provider,
    Spec,
    SupportsOffer,
    SupportsPrices,
    SupportsReconcile,
    SupportsRehydration,
)
from runspec_jobs.provider.machines import NOT_READ, ListedPrices, Offer
from runspec_jobs.spec import placeholders
from runspec_jobs.state import price_cache
from runspec_jobs.state.run_record import Record


def connect(record: Record) -> tuple[Provider, Client, Facts]:
    """Return the provider of a run on record, a client for it, and the facts that it was planned from."""
    provider = registry.load(record.plan.provider)
    facts = record.read_facts(provider)
    return provider, rehydrate(provider.connect(facts), record), facts


def rehydrate(client: Client, record: Record) -> Client:
    """Return *client*, after passing it the answers in the journal of a run if it can use them."""
    if isinstance(client, SupportsRehydration):
        client.remember(record.run, record.read_memory().answers)
    return client


def make_reconciler(client: Client, run: str) -> Callable[[], Sequence[str]]:
    """Return a function that has *client* reconcile *run*, and returns a line for each thing that was ended."""
    if isinstance(client, SupportsReconcile):
        return partial(client.reconcile, run)
    return tuple


def read_offer(
    provider: Provider, spec: Spec, facts: Facts, profile_prices: Mapping[str, float] = {}
) -> tuple[Offer, ListedPrices]:
    """Return the machines for *spec*, and the prices that were read for where it runs; no plan depends on these.

    *profile_prices* are the prices of the profile, which come first.
    """
    if isinstance(provider, SupportsPrices):
        listed = price_cache.read_prices(provider.price_list(facts.options))
        first = listed._replace(usd_hour={**listed.usd_hour, **profile_prices})
        return provider.offer(spec, facts, first), listed
    if isinstance(provider, SupportsOffer):
        return provider.offer(spec, facts), NOT_READ
    return Offer(()), NOT_READ


def record_rates(
    provider: Provider, spec: Spec, facts: Facts, profile_prices: Mapping[str, float]
) -> Mapping[str, Any] | None:
    """Return for the record of a run the machines that it may get, and their prices; None if there is no price.

    *profile_prices* are the prices of the profile.
    """
    offer, listed = read_offer(provider, spec, facts, profile_prices)
    offers = bool(offer.machines or offer.standing)  # Slurm offers none: the user knows its nodes
    if not offers and provider.name not in profile_prices:
        return None
    names = {machine.machine.name for machine in offer.machines}
    profile_prices = {
        **{name: usd for name, usd in listed.usd_hour.items() if name in names},
        **profile_prices,
    }
    # The price of spot machines changes, so the price on record is only a bound for them.
    spot = offers and spec.cluster.capacity is not Capacity.ON_DEMAND
    return write_rates(offer, profile_prices, spot=spot)


def count_nodes(record: Record) -> tuple[int, int]:
    """Return the number of nodes of each task of a run, and the number of its tasks."""
    spec = record.spec
    return spec.cluster.nodes.max, placeholders.count_tasks(spec.sweep)


def read_spec(record: Record) -> Spec | None:
    """Return the spec of a run, or None if this version of runspec cannot read it."""
    try:
        return record.spec
    except Damaged:  # an older or newer version wrote it, with fields that this one refuses
        return None
