"""ListJobs: the jobs of a queue, or the children of a job, page by page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runspec_emulators.aws.batch.describe import summary, visible
from runspec_emulators.aws.batch.environments import the_queue
from runspec_emulators.aws.batch.jobs import Job
from runspec_emulators.aws.batch.resources import named
from runspec_emulators.aws.batch.world import World
from runspec_emulators.aws.errors import refused
from runspec_emulators.aws.paging import position, token

MOST_FILTERED = 100  # ListJobs, maxResults: "When --filters is used"
MOST = 1000  # the same: "When --job-status is used", and "If neither parameter is used"


def listed(world: World, params: dict[str, Any]) -> dict[str, Any]:
    """Newest first for a queue, by index for children. The filter "doesn't apply to child jobs"."""
    if "jobQueue" in params:
        queue = the_queue(world, params["jobQueue"])
        jobs = [j for j in world.jobs if j.queue == queue.name and j.parent is None]
        filters = params.get("filters", [])
        for rule in filters:
            check_filter(rule)
        wanted = [j for j in jobs if all(passes(j, f) for f in filters)]
    else:
        filters = []
        wanted = children(world, params)
    if not filters:
        status = params.get("jobStatus", "RUNNING")
        wanted = [job for job in wanted if job.status == status]
    lag_s = world.settings.list_lag_s
    seen = [job for job in wanted if visible(world, job, lag_s)]
    sign = -1 if "jobQueue" in params else 1
    return page(sorted(seen, key=lambda j: sign * j.number), sign, params, bool(filters))


def children(world: World, params: Mapping[str, Any]) -> list[Job]:
    job_id = params.get("arrayJobId") or params["multiNodeJobId"]
    parent = world.jobs.get(job_id)
    kind = "is_array" if "arrayJobId" in params else "is_multinode"
    if parent is None or not getattr(parent, kind):
        raise refused(f"Job not found: {job_id}")
    return parent.children


def page(jobs: list[Job], sign: int, params: Mapping[str, Any], filtered: bool) -> dict[str, Any]:
    """Return one page. The token names the last job shown, so new jobs do not move the pages."""
    most = MOST_FILTERED if filtered else MOST
    last = position(params)
    rest = [j for j in jobs if last is None or sign * j.number > last]
    count = min(params.get("maxResults", most), most)
    shown = rest[:count]
    more = {"nextToken": token(sign * shown[-1].number)} if len(rest) > count else {}
    return {"jobSummaryList": [summary(job) for job in shown], **more}


FILTERS: dict[str, Callable[[Job, str], bool]] = {
    "JOB_NAME": lambda job, value: starred(value.lower(), job.name.lower()),
    "JOB_DEFINITION": lambda job, value: of_definition(value, job.definition["arn"]),
    "BEFORE_CREATED_AT": lambda job, value: job.created_ms < int(value),
    "AFTER_CREATED_AT": lambda job, value: job.created_ms > int(value),
}
"""ListJobs, filters."""


def check_filter(rule: Mapping[str, Any]) -> None:
    if rule.get("name") not in FILTERS:
        raise refused(f"Invalid filter: {rule.get('name')}; there are {sorted(FILTERS)}")
    numeric = rule["name"].endswith("CREATED_AT")
    if numeric and not all(value.isdecimal() for value in rule.get("values", ())):
        raise refused(f"{rule['name']} needs milliseconds since 1970")


def passes(job: Job, rule: Mapping[str, Any]) -> bool:
    test = FILTERS[rule["name"]]
    return any(test(job, value) for value in rule.get("values", ()))


def starred(pattern: str, text: str) -> bool:
    """Match a whole text, or its start where the pattern ends with an asterisk."""
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def of_definition(value: str, arn: str) -> bool:
    if value.startswith("arn:"):
        return value == arn
    return starred(value, named(arn).partition(":")[0])
