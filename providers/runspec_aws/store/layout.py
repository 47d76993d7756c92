"""The keys of files of jobs in the bucket, and the steps that write them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from runspec_aws.decision import Decision
from runspec_aws.naming import s3
from runspec_aws.options import AwsOptions
from runspec_jobs.provider import Facts, Request, Scope, Spec, Step
from runspec_jobs.provider.job_manifest import blob_name, job_record, reach, uploads
from runspec_jobs.provider.payload import pack_agent
from runspec_jobs.provider.signed_urls import proves_end

AGENT_SHA256 = hashlib.sha256(pack_agent()).hexdigest()
STOP_S = (
    15  # between two looks of a running task at how many others have failed: each is a list request
)
SHARED = "/mnt/runspec"  # where shared file systems are mounted in jobs


def store(options: AwsOptions) -> str:
    """Return the root of all keys, as a URL for jobs."""
    return f"s3://{options.bucket or ''}/{options.prefix}"


def key(options: AwsOptions, *parts: str) -> str:
    return "/".join((options.prefix, *parts))


def steps(spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the steps that upload shared files: the agent, and folders."""
    options: AwsOptions = facts.options
    if options.files == "role":
        yield _upload(
            options,
            "inside",
            "upload the agent",
            key(options, "inside", f"{AGENT_SHA256}.pyz"),
            {"$inside": AGENT_SHA256},
        )
    for name, what, source in uploads(spec, facts):
        title = f"upload {what} ({source.counted}, {source.bytes:,} bytes)"
        where = key(options, "blobs", blob_name(source))
        yield _upload(options, f"upload-{name}", title, where, {"$file": name})


def _upload(options: AwsOptions, step: str, title: str, where: str, body: Any) -> Step:
    """Return a step that uploads an object; S3 is consistent, so no settling time is needed.

    A large folder is uploaded in parts, so the undo also deletes unfinished uploads.
    """
    request = {"Bucket": options.bucket or "", "Key": where}
    undo = s3("delete_object", **request)
    if "$file" in body:
        undo = Request("runspec", "remove_upload", {"bucket": options.bucket or "", "key": where})
    return Step(step, title, Scope.SITE, s3("put_object", **request, Body=body), undo)


def record(spec: Spec, decision: Decision, queue: str, run: str, facts: Facts) -> Step:
    """Return the step that writes the record of the job beside its files.

    Any machine that can read the bucket can adopt the run with it.
    """
    options: AwsOptions = facts.options
    body = json.dumps(described(spec, decision, queue, run, facts), sort_keys=True)
    do = s3(
        "put_object",
        Bucket=options.bucket or "",
        Key=key(options, "runs", run, "record.json"),
        Body=body,
        ContentType="application/json",
    )
    where = {"bucket": options.bucket or "", "prefix": key(options, "runs", run, "")}
    return Step(
        "record",
        "write the job's record",
        Scope.RUN,
        do,
        Request("runspec", "empty_prefix", where),
    )


def described(spec: Spec, decision: Decision, queue: str, run: str, facts: Facts) -> dict[str, Any]:
    """Return the record, which runspec_agent.job.agent and this provider's client read."""
    options: AwsOptions = facts.options
    return job_record(
        spec,
        run,
        facts,
        queue=queue,
        shape=str(decision.shape.kind),
        tries=decision.attempts,
        spot=decision.has_notices,
        log_group=options.log_group,
        **_ends(spec, options),
        **({"stop_s": STOP_S} if spec.max_failed is not None else {}),
        **reach(spec, _rule(options)),
    )


def _ends(spec: Spec, options: AwsOptions) -> dict[str, Any]:
    if options.files != "signed":
        return {"ends": True}
    return {"ends": "signed"} if proves_end(spec) else {}


def _rule(options: AwsOptions) -> str:
    """Return the setting to check for blocked connections.

    https://docs.aws.amazon.com/batch/latest/userguide/mnp-ce.html
    """
    groups = ", ".join(options.security_groups) or "of the compute environment"
    return (
        f"one of the security groups {groups} must let all TCP in from itself, and no network ACL of the subnets "
        "may deny it: https://docs.aws.amazon.com/vpc/latest/userguide/security-group-rules.html"
    )
