"""Connects to the services of runs on record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from runspec_jobs.errors import Damaged
from runspec_jobs.load import registry
from runspec_jobs.machines.spent import write_rates
from runspec_jobs.provider import (
    NOT_READ,
    Capacity,
    Client,
    Facts,
    ListedPrices,
    Offer,
    Provider,
    Spec,
    SupportsOffer,
    SupportsPrices,
    SupportsReconcile,
    SupportsRehydration,
)
from runspec_jobs.spec import placeholders
from runspec_jobs.state import price_cache
from runspec_jobs.state.run_record import Record


def connect(of: Record) -> tuple[Provider, Client, Facts]:
    """Return the provider of a run on record, a client for it, and the facts that it was planned from."""
    provider = registry.load(of.plan.provider)
    facts = of.read_facts(provider)
    return provider, rehydrate(provider.connect(facts), of), facts


def rehydrate(client: Client, of: Record) -> Client:
    """Return *client*, after passing it the answers in the journal of a run if it can use them."""
    if isinstance(client, SupportsRehydration):
        client.remember(of.run, of.read_memory().answers)
    return client


def make_reconciler(client: Client, run: str) -> Callable[[], Sequence[str]]:
    """Return a function that has *client* reconcile *run*, and returns a line for each thing that was ended."""
    if isinstance(client, SupportsReconcile):
        return partial(client.reconcile, run)
    return tuple


def read_offer(
    provider: Provider, spec: Spec, facts: Facts, own: Mapping[str, float] = {}
) -> tuple[Offer, ListedPrices]:
    """Return the machines for *spec*, and the prices that were read for where it runs; no plan depends on these.

    *own* are the prices of the profile, which come first.
    """
    if isinstance(provider, SupportsPrices):
        listed = price_cache.read_prices(provider.price_list(facts.options))
        first = listed._replace(usd_hour={**listed.usd_hour, **own})
        return provider.offer(spec, facts, first), listed
    if isinstance(provider, SupportsOffer):
        return provider.offer(spec, facts), NOT_READ
    return Offer(()), NOT_READ


def record_rates(
    provider: Provider, spec: Spec, facts: Facts, own: Mapping[str, float]
) -> Mapping[str, Any] | None:
    """Return for the record of a run the machines that it may get, and their prices; None if there is no price.

    *own* are the prices of the profile.
    """
    offer, listed = read_offer(provider, spec, facts, own)
    offers = bool(offer.machines or offer.standing)  # not so for Slurm, whose nodes the user knows
    if not offers and provider.name not in own:
        return None
    names = {one.machine.name for one in offer.machines}
    own = {**{name: usd for name, usd in listed.usd_hour.items() if name in names}, **own}
    spot = offers and spec.cluster.capacity is not Capacity.ON_DEMAND
    return write_rates(offer, own, spot=spot)


def count_nodes(of: Record) -> tuple[int, int]:
    """Return the number of nodes of each task of a run, and the number of its tasks."""
    found = of.spec
    return found.cluster.nodes.max, placeholders.count_tasks(found.sweep)


def read_spec(of: Record) -> Spec | None:
    """Return the spec of a run, or None if this version of runspec cannot read it."""
    try:
        return of.spec
    except Damaged:
        return None
