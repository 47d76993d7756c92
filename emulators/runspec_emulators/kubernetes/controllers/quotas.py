"""The quota controller: what is used of each resource quota.

https://kubernetes.io/docs/concepts/policy/resource-quotas/
"""

from __future__ import annotations

from runspec_emulators.kubernetes.api import admission, quantity
from runspec_emulators.kubernetes.resources import QUOTAS
from runspec_emulators.kubernetes.world import Object, World, key_of


def sync(world: World) -> None:
    """Write what is used. The lock of the world is held."""
    for quota in list(world.all(QUOTAS)):
        namespace = quota["metadata"]["namespace"]
        used = {k: quantity.write(v) for k, v in admission.used(world, namespace, quota).items()}
        status = {"hard": dict(quota["spec"].get("hard") or {}), "used": used}

        def change(changed: Object, status: Object = status) -> None:
            changed["status"] = status

        world.change(QUOTAS, *key_of(quota), change)
