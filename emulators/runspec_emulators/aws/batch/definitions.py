"""Job definitions: a new revision at each register, never changed afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspec_emulators.aws.batch.jobs import wish
from runspec_emulators.aws.batch.resources import Definition, named
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.errors import check_supported, refused
from runspec_emulators.aws.nodes import node_ranges
from runspec_emulators.aws.paging import page

LISTS = ("environment", "mountPoints", "ulimits", "volumes")
PAGE = 100  # DescribeJobDefinitions, maxResults
LEAST_MEMORY_MIB = 4  # ResourceRequirement, type="MEMORY"


def register(world: World, params: dict[str, Any]) -> dict[str, Any]:
    check(params)
    name = params["jobDefinitionName"]
    revisions = world.definitions.setdefault(name, [])
    revision = len(revisions) + 1
    arn = world.arn(f"job-definition/{name}:{revision}")
    revisions.append(Definition(name, revision, arn, filled(params)))
    revisions[-1].tags = dict(params.get("tags", {}))
    return {"jobDefinitionName": name, "jobDefinitionArn": arn, "revision": revision}


def check(params: Mapping[str, Any]) -> None:
    """Refuse what RegisterJobDefinition's documentation rules out."""
    check_supported(params, "ecsProperties", "eksProperties", "consumableResourceProperties")
    wanted = "nodeProperties" if params["type"] == "multinode" else "containerProperties"
    unwanted = ({"nodeProperties", "containerProperties"} - {wanted}).pop()
    if wanted not in params or unwanted in params:
        raise refused(f"type {params['type']} needs {wanted} and nothing else")
    if params["type"] == "multinode":
        if "FARGATE" in params.get("platformCapabilities", ()):
            raise refused("If the job runs on Fargate resources, multinode isn't supported")
        node_ranges.check(params["nodeProperties"])
    for container in containers(params):
        check_container(container)


def check_container(container: Mapping[str, Any]) -> None:
    """Refuse a container that lacks an image, vCPUs or memory, or that says these in both ways."""
    if not container.get("image"):
        raise refused("Container image is required")
    types = [r["type"] for r in container.get("resourceRequirements", ())]
    for old, new in (("vcpus", "VCPU"), ("memory", "MEMORY")):
        if old in container and new in types:
            raise refused(f"{new} is in both {old} and resourceRequirements")
    try:
        size = wish(container)
    except ValueError as exc:
        raise refused(f"a resource requirement is not a number: {exc}") from exc
    if size.vcpus <= 0:
        raise refused("You must specify at least one vCPU")
    if size.memory_mib < LEAST_MEMORY_MIB:
        raise refused(f"You must specify at least {LEAST_MEMORY_MIB} MiB of memory")


def containers(params: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the container properties of a definition: one, or one for each node group."""
    if "containerProperties" in params:
        return [params["containerProperties"]]
    groups = params.get("nodeProperties", {}).get("nodeRangeProperties", ())
    return [group["container"] for group in groups if "container" in group]


def filled(params: Mapping[str, Any]) -> dict[str, Any]:
    """Add the empty lists that the service shows even if a request did not have them.

    They are in the example outputs of the CLI's describe-job-definitions and describe-jobs.
    """

    def container(given: Mapping[str, Any]) -> dict[str, Any]:
        return {**{name: [] for name in LISTS}, **given}

    fields = {"parameters": {}, **params}
    if "containerProperties" in fields:
        fields["containerProperties"] = container(fields["containerProperties"])
    if "nodeProperties" in fields:
        groups = fields["nodeProperties"]["nodeRangeProperties"]
        fields["nodeProperties"] = {
            **fields["nodeProperties"],
            "nodeRangeProperties": [{**g, "container": container(g["container"])} for g in groups],
        }
    return fields


def find(world: World, reference: str) -> Definition | None:
    """Find by name (the latest active revision), name:revision, or an ARN with or without one.

    SubmitJob, jobDefinition.
    """
    name, colon, revision = named(reference).partition(":")
    revisions = world.definitions.get(name, [])
    if colon:
        return next((d for d in revisions if str(d.revision) == revision), None)
    return next((d for d in reversed(revisions) if d.status == "ACTIVE"), None)


def deregister(world: World, params: dict[str, Any]) -> dict[str, Any]:
    reference = params["jobDefinition"]
    if ":" not in named(reference):
        raise refused(f"name:revision or an ARN is needed: {reference}")
    definition = find(world, reference)
    if definition is None:
        raise refused(f"JobDefinition not found: {reference}")
    definition.status = "INACTIVE"
    return {}


def describe(world: World, params: dict[str, Any]) -> dict[str, Any]:
    listed = params.get("jobDefinitions")
    if listed is not None and len(params) > 1:
        raise refused("jobDefinitions can't be used with other parameters")
    if listed is not None:
        definitions = [d for d in (find(world, reference) for reference in listed) if d]
    else:
        definitions = [d for revisions in world.definitions.values() for d in reversed(revisions)]
        wanted = {k: params[k] for k in ("jobDefinitionName", "status") if k in params}
        of = {"jobDefinitionName": "name", "status": "status"}
        definitions = [
            d for d in definitions if all(getattr(d, of[k]) == v for k, v in wanted.items())
        ]
    return page("jobDefinitions", [detail(d) for d in definitions], params, PAGE)


def detail(definition: Definition) -> dict[str, Any]:
    return {
        **definition.params,
        "jobDefinitionArn": definition.arn,
        "revision": definition.revision,
        "status": definition.status,
        "tags": definition.tags or None,  # the model has no empty map of tags
        "containerOrchestrationType": "ECS",
    }
