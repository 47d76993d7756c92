"""What a node of Kubernetes costs, by the prices of the profile."""

from __future__ import annotations

from runspec_jobs.provider import Capacity, Facts, Spec
from runspec_jobs.provider.machines import ChosenMachine, Offer, unknown_machine
from runspec_kubernetes.decision import decide
from runspec_kubernetes.options import KubernetesOptions

KEYS = {
    Capacity.ON_DEMAND: "price: USD",
    Capacity.SPOT: "spot_price: USD",
    Capacity.SPOT_THEN_ON_DEMAND: "price: USD, spot_price: USD",
}


def offer(spec: Spec, facts: Facts) -> Offer:
    """Return a node for each pod: Kubernetes does not say which of them share one."""
    options: KubernetesOptions = facts.options
    decision = decide(spec, facts)
    prices = {Capacity.SPOT: options.spot_price, Capacity.ON_DEMAND: options.price}
    # One of both; the dearer one bounds the cost.
    known = [usd for usd in prices.values() if usd is not None]
    prices[Capacity.SPOT_THEN_ON_DEMAND] = max(known) if len(known) == len(prices) else None
    usd, key = prices[decision.capacity], KEYS[decision.capacity]
    if usd is None:
        what = f"the price of a node hour is unknown: set providers: {{kubernetes: {{{key}}}}} in the profile"
        return Offer((), why=what, attempts=decision.attempts)
    spot = "" if decision.capacity is Capacity.ON_DEMAND else "spot "
    node = unknown_machine(f"a {spot}node of kubernetes")
    node = node._replace(gpus=decision.gpus or None, gpu=spec.cluster.gpu_model)
    why = "the profile's price of a node; pods that share one cost less"
    return Offer((ChosenMachine(node, usd, None, why),), attempts=decision.attempts)
