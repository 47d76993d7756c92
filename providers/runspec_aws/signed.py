"""Jobs that access the store with signed URLs: for images without Python, and accounts without a job role."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_aws.naming import s3
from runspec_aws.options import AwsOptions
from runspec_aws.store.layout import SHARED, key
from runspec_jobs.provider import Facts, Mount, Problem, Request, Scope, Spec, Step
from runspec_jobs.provider.job_manifest import OUTPUT_TAR, blob_name
from runspec_jobs.provider.payload import signed_scripts
from runspec_jobs.provider.signed_urls import (
    Line,
    list_upload_lines,
    signed_job_lines,
    signed_problems,
)

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html
LONGEST_S = 7 * 86_400

START = ("/bin/sh", "-c", *signed_scripts())  # the command of a container before the user's own


def mark(method: str, where: str) -> dict[str, str]:
    """Return the placeholder in a plan for the signed URL of a key; the client signs it for *method*."""
    return {"$signed": f"{method} {where}"}


def files_key(run: str, options: AwsOptions) -> str:
    return key(options, "runs", run, "files")


def step(spec: Spec, run: str, facts: Facts) -> Step:
    """Return the step that writes the list of files to read and write; it is deleted with the record."""
    options: AwsOptions = facts.options
    do: Request = s3(
        "put_object",
        Bucket=options.bucket or "",
        Key=files_key(run, options),
        Body={"lines": list(lines(spec, run, facts))},
    )
    return Step("files", "sign what the job reads and writes", Scope.RUN, do)


def lines(spec: Spec, run: str, facts: Facts) -> Iterator[Line]:
    """Yield the lines of the list that runspec_agent's signed.sh reads, one NAME=VALUE each."""
    options: AwsOptions = facts.options
    again = spec.retry.attempts > 1 or spec.retry.spot_attempts > 1
    claim = key(options, "runs", run, "claim")

    def mount(folder: Mount) -> Iterator[Line]:
        if folder.scheme == "shared":
            yield f"link={SHARED}/{folder.place}"
            return
        source = facts.sources[folder.name]
        url = mark("GET", key(options, "blobs", blob_name(source)))
        yield from list_upload_lines(folder, source, url)

    def output(name: str, task: int) -> Iterator[Line]:
        where = key(options, "runs", run, "outputs", name, str(task), "0", OUTPUT_TAR)
        yield [f"put={task} ", mark("PUT", where)]
        if again:
            yield [f"back={task} ", mark("GET", where)]

    def usage(task: int) -> Line:
        # The number of the attempt is not known when the URL is signed.
        return [f"usage={task} ", mark("PUT", key(options, "runs", run, "usage", str(task), "0/0"))]

    def end(task: int) -> Line:
        return [f"end={task} ", mark("PUT", key(options, "runs", run, "ends", str(task), "signed"))]

    claimed: list[Line] = [["claim=", mark("CLAIM", claim)], ["holder=", mark("GET", claim)]]
    return signed_job_lines(spec, claimed, mount, output, usage, end, hidden=143)


def problems(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    """Yield problems of a spec that needs more than signed URLs, each with a hint."""
    hint = "set job_role and remove files: signed in the profile"
    yield from signed_problems(spec, hint)
    for i, mount in enumerate(spec.mounts):
        if mount.scheme == "store" or mount.is_foreign:
            message = "a signed URL permits access to one object, not to all objects under a prefix"
            yield Problem(("mounts", i, "source"), message, f"mount a folder, or {hint}")
    yield from _times(spec, options)


def _times(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    good_s = options.signed_for
    if good_s > LONGEST_S:
        hint = "set signed_for: 7d or less"
        yield Problem(("provider",), f"signed_for: {good_s} s, but S3 accepts 7 days at most", hint)
    elif spec.outputs and (spec.timeout or 0) >= good_s:
        message = f"{spec.timeout} s, but the URLs for outputs are valid for {good_s} s"
        yield Problem(
            ("timeout",), message, "increase providers.aws-batch.signed_for, to 7d at most"
        )
    message = (
        f"files: signed: the URLs are valid for {_length(good_s)} from now, and expire earlier with "
        "temporary credentials: the wait in the queue, the job and its outputs must fit into this time"
    )
    yield Problem(("provider",), message, severity="note")
    if spec.retry.attempts > 1:
        message = "with files: signed, AWS Batch counts the attempts: a preempted attempt counts as a failure"
        yield Problem(("retry", "attempts"), message, severity="note")


def _length(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    return f"{hours} h" if hours and not rest else f"{seconds // 60} min"
