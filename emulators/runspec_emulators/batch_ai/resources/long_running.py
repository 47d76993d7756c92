"""Operations that take long, and the provisioning states of what they make and delete."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from runspec_emulators.batch_ai.api.responses import Pending, Response
from runspec_emulators.batch_ai.model import Resource
from runspec_emulators.batch_ai.world import World


def under_way(world: World, done: Callable[[], bool], result: Callable[[], Response]) -> Response:
    """Answer an operation that takes `operation_s` at least, and until it is *done*."""
    due = time.monotonic() + world.settings.operation_s
    pending = Pending(lambda: time.monotonic() >= due and done(), result)
    return world.operations.answer(pending, world.settings.retry_after_s)


def created(world: World, resource: Resource, value: Callable[[], Any]) -> Response:
    """Answer a request that makes *resource*, whose provisioningState is `creating` until then."""
    if world.settings.operation_s:
        resource.provision("creating")
        world.after(world.settings.operation_s, lambda: settled(resource))
    return under_way(
        world, lambda: resource.provisioning_state != "creating", lambda: Response(200, value())
    )


def settled(resource: Resource) -> None:
    if resource.provisioning_state == "creating":
        resource.provision("succeeded")


def deleted(world: World, resource: Resource, gone: Callable[[], bool]) -> Response:
    resource.provision("deleting")
    return under_way(world, gone, lambda: Response(200))


NOTHING = Response(204)  # deleting what is not there: response 204 of every Delete
