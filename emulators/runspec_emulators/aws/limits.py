"""Limits that only the documentation's text states: one table, and the source of each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from runspec_emulators.aws.errors import refused
from runspec_emulators.aws.models import Request
from runspec_emulators.aws.settings import Settings

Rule = Callable[[Any], str | None]
"""Says what is wrong with a value, or None."""

KIB = 1024


def between(least: int, most: int) -> Rule:
    def rule(value: Any) -> str | None:
        return None if least <= value <= most else f"must be between {least} and {most}: {value}"

    return rule


def at_most(most: int) -> Rule:
    def rule(value: Any) -> str | None:
        return None if len(value) <= most else f"at most {most}: {len(value)}"

    return rule


def like(pattern: str) -> Rule:
    def rule(value: Any) -> str | None:
        return None if re.fullmatch(pattern, value) else f"must be like {pattern}: {value!r}"

    return rule


def at_least(least: int) -> Rule:
    def rule(value: Any) -> str | None:
        return None if value >= least else f"must be at least {least}: {value}"

    return rule


def no_empty_string(value: Any) -> str | None:
    # the words: github.com/boto/boto3/issues/3612
    return None if all(value) else "Command cannot be empty"


def not_reserved(value: Any) -> str | None:
    return "is reserved: AWS_BATCH" if value.startswith("AWS_BATCH") else None


def attempts_too(value: Any) -> str | None:
    return "needs attempts" if "evaluateOnExit" in value and "attempts" not in value else None


def one_list(value: Any) -> str | None:
    given = [k for k in ("jobQueue", "arrayJobId", "multiNodeJobId") if k in value]
    return (
        None if len(given) == 1 else f"exactly one of jobQueue, arrayJobId, multiNodeJobId: {given}"
    )


class Limit(NamedTuple):
    """A value of some operations must obey a rule. *path* is like `dependsOn[].jobId`."""

    operations: str
    path: str
    rule: Rule
    source: str


NAME = r"[A-Za-z0-9_-]{1,128}"
CONTAINERS = (
    ("RegisterJobDefinition", "containerProperties"),
    ("RegisterJobDefinition", "nodeProperties.nodeRangeProperties[].container"),
    ("SubmitJob", "containerOverrides"),
    ("SubmitJob", "nodeOverrides.nodePropertyOverrides[].containerOverrides"),
)
BOTH = "SubmitJob RegisterJobDefinition"
REASONS = r"(?s)[A-Za-z0-9.:\s]{0,512}\*?"

TIMEOUT = Limit(BOTH, "timeout.attemptDurationSeconds", at_least(60), "JobTimeout")
"""A setting may lower this one, so that tests are quick."""

LIMITS: tuple[Limit, ...] = (
    Limit("SubmitJob", "jobName", like(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"), "SubmitJob, jobName"),
    Limit("RegisterJobDefinition", "jobDefinitionName", like(NAME), "its documentation"),
    Limit("CreateComputeEnvironment", "computeEnvironmentName", like(NAME), "its documentation"),
    Limit("CreateJobQueue", "jobQueueName", like(NAME), "its documentation"),
    Limit("SubmitJob", "arrayProperties.size", between(2, 10_000), "SubmitJob, arrayProperties"),
    Limit("SubmitJob", "dependsOn", at_most(20), "SubmitJob, dependsOn"),
    Limit(
        "SubmitJob", "schedulingPriorityOverride", between(0, 9999), "schedulingPriorityOverride"
    ),
    Limit("RegisterJobDefinition", "schedulingPriority", between(0, 9999), "schedulingPriority"),
    Limit(BOTH, "retryStrategy.attempts", between(1, 10), "RetryStrategy, attempts"),
    Limit(BOTH, "retryStrategy.evaluateOnExit", at_most(5), "RetryStrategy, evaluateOnExit"),
    Limit(BOTH, "retryStrategy", attempts_too, "RetryStrategy, evaluateOnExit"),
    Limit(BOTH, "retryStrategy.evaluateOnExit[].onExitCode", like(r"\d{0,512}\*?"), "onExitCode"),
    Limit(BOTH, "retryStrategy.evaluateOnExit[].onReason", like(REASONS), "onReason"),
    Limit(BOTH, "retryStrategy.evaluateOnExit[].onStatusReason", like(REASONS), "onStatusReason"),
    TIMEOUT,
    Limit("TerminateJob TerminateJobs CancelJob", "reason", at_most(1024), "TerminateJob, reason"),
    Limit("TerminateJobs", "jobs", at_most(50), "TerminateJobs, jobs"),
    Limit("DescribeJobs", "jobs", at_most(100), "DescribeJobs, jobs"),
    Limit("DescribeJobDefinitions", "jobDefinitions", at_most(100), "its documentation"),
    Limit("ListJobs", "", one_list, "ListJobs"),
    Limit("ListJobs", "filters", at_most(1), "ListJobs, filters"),
    Limit("ListJobs", "maxResults", between(1, 10_000), "ListJobs, maxResults"),
    Limit(
        "CreateJobQueue UpdateJobQueue",
        "jobStateTimeLimitActions[].maxTimeSeconds",
        between(600, 86_400),
        "JobStateTimeLimitAction",
    ),
    Limit(
        "RegisterJobDefinition",
        "containerProperties.image",
        like(r"[A-Za-z0-9\-_:./#@]{1,255}"),  # @: EcsContainer, image has digests, too
        "ContainerProperties, image",
    ),
    Limit(
        "RegisterJobDefinition",
        "containerProperties.linuxParameters.swappiness",
        between(0, 100),
        "LinuxParameters, swappiness",
    ),
    Limit(
        "RegisterJobDefinition",
        "containerProperties.volumes[].name",
        like(r"[A-Za-z0-9_-]{1,255}"),
        "Volume, name",
    ),
    *(
        Limit(operation, f"{path}.environment[].name", not_reserved, "environment")
        for operation, path in CONTAINERS
    ),
    *(
        Limit(operation, f"{path}.command", no_empty_string, "ContainerOverrides, command")
        for operation, path in CONTAINERS
        if operation == "SubmitJob"
    ),
)

# User guide, "Service quotas"; the words: github.com/ASFHyP3/hyp3/issues/3041
SIZES = {"SubmitJob": (30, "Job"), "RegisterJobDefinition": (24, "Job definition")}


def find_values(value: Any, path: str) -> Iterator[Any]:
    """Yield the values that a path leads to; none where something on the way is not given."""
    step, _, rest = path.partition(".")
    if not path:
        yield value
        return
    name = step.removesuffix("[]")
    if not isinstance(value, Mapping) or name not in value:
        return
    inner = value[name] if step.endswith("[]") else [value[name]]
    for inner_item in inner:
        yield from find_values(inner_item, rest)


def check(request: Request, settings: Settings) -> None:
    """Raise ServiceError for the first limits that a request of batch breaks."""
    if request.operation in SIZES:
        most, what = SIZES[request.operation]
        if request.bytes > most * KIB:
            size = -(-len(json.dumps(request.params).encode()) // KIB)
            raise refused(f"{what} size must be less than {most} KiB, got {size} KiB")
    shortest = at_least(settings.min_timeout_s)
    problems = [
        f"{limit.path}: {problem}".removeprefix(": ")
        for limit in LIMITS
        if request.operation in limit.operations.split()
        for value in find_values(request.params, limit.path)
        if (problem := (shortest if limit is TIMEOUT else limit.rule)(value))
    ]
    if problems:
        raise refused("; ".join(problems))
