"""The tags of environments, queues, definitions and jobs."""

from __future__ import annotations

from typing import Any

from runspec_emulators.aws.batch import definitions
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.errors import refused

MOST_TAGS = 50  # the traits of TagrisTagsMap; user guide, "Tag restrictions"


def tags_of(world: World, arn: str) -> dict[str, str]:
    """Find the tags of a resource. "ARNs for child jobs [...] aren't supported." TagResource."""
    kind, _, name = arn.split(":", 5)[-1].partition("/")
    job = world.jobs.get(name) if kind == "job" else None
    tags = {
        "compute-environment": world.environments.get(name),
        "job-queue": world.queues.get(name),
        "job-definition": definitions.find(world, name),
        "job": job if job is not None and job.parent is None else None,
    }.get(kind)
    if tags is None:
        raise refused(f"Resource not found: {arn}")
    return tags.tags


def tag(world: World, params: dict[str, Any]) -> dict[str, Any]:
    tags = tags_of(world, params["resourceArn"])
    if len({**tags, **params["tags"]}) > MOST_TAGS:
        raise refused(f"a resource has at most {MOST_TAGS} tags")
    tags.update(params["tags"])
    return {}


def untag(world: World, params: dict[str, Any]) -> dict[str, Any]:
    tags = tags_of(world, params["resourceArn"])
    for key in params["tagKeys"]:
        tags.pop(key, None)
    return {}


def tags_listed(world: World, params: dict[str, Any]) -> dict[str, Any]:
    tags = tags_of(world, params["resourceArn"])
    return {"tags": tags} if tags else {}
