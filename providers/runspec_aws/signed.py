"""Jobs that reach the store by signed URLs: for images without Python, and accounts without a job role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runspec.provider import (
    OUTPUT_TAR,
    Facts,
    Launch,
    Mount,
    Problem,
    Request,
    Scope,
    Spec,
    Step,
    blob_name,
    inside_signed,
    tasks,
    variable,
)
from runspec_aws.naming import s3
from runspec_aws.options import AwsOptions
from runspec_aws.shape import children
from runspec_aws.storage import SHARED, key

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-presigned-url.html
LONGEST_S = 7 * 86_400
MOST_OUTPUTS = 100  # children whose outputs one list of URLs is made for

START = ("/bin/sh", "-c", *inside_signed())  # the words of a container before the user's

Line = str | list[Any]


def mark(method: str, where: str) -> dict[str, str]:
    """Give what stands in a plan for the signed URL of a key; the client knows the methods."""
    return {"$signed": f"{method} {where}"}


def files_key(run: str, options: AwsOptions) -> str:
    return key(options, "runs", run, "files")


def step(spec: Spec, run: str, facts: Facts) -> Step:
    """Give the step that tells the job what to get and to send; what it makes goes with the record."""
    options: AwsOptions = facts.options
    do: Request = s3(
        "put_object",
        Bucket=options.bucket or "",
        Key=files_key(run, options),
        Body={"lines": list(lines(spec, run, facts))},
    )
    return Step("files", "sign what the job reads and writes", Scope.RUN, do)


def lines(spec: Spec, run: str, facts: Facts) -> Iterator[Line]:
    """Give the list that runspec_inside's signed.sh reads, one NAME=VALUE in each line."""
    options: AwsOptions = facts.options
    claim = key(options, "runs", run, "claim")
    yield ["claim=", mark("CLAIM", claim)]
    yield ["holder=", mark("GET", claim)]
    yield f"slots={spec.processes_per_node}"
    for mount in spec.mounts:
        yield from _mount(mount, facts)
    for name, values in reversed(list(spec.sweep.items())):
        yield f"sweep={variable('sweep', name)} {len(values)}"
        for value in values:
            yield f"value={_one_line(value)}"
    for output in spec.outputs:
        yield f"output={variable('outputs', output.name)}"
        yield f"at={output.path}"
        for task in range(len(tasks(spec))):
            where = key(options, "runs", run, "outputs", output.name, str(task), "0", OUTPUT_TAR)
            yield [f"put={task} ", mark("PUT", where)]
            if spec.retry.attempts > 1 or spec.retry.spot_attempts > 1:
                yield [f"back={task} ", mark("GET", where)]


def _mount(mount: Mount, facts: Facts) -> Iterator[Line]:
    yield f"mount={variable('mounts', mount.name)}"
    yield f"at={mount.target}"
    if mount.scheme == "shared":
        yield f"link={SHARED}/{mount.place}"
    else:
        where = key(facts.options, "blobs", blob_name(facts.sources[mount.name]))
        yield ["get=", mark("GET", where)]


def _one_line(value: str) -> str:
    """Give *value* as printf's %b undoes it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def problems(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    """Give what a shell with signed URLs cannot do, each with a way out."""
    hint = "name a job_role, and take files: signed out of the profile"
    if spec.launch is not Launch.NONE:
        yield Problem(("launch",), f"{spec.launch} needs Python and a job_role", hint)
    if spec.cluster.nodes.max > 1:
        what = "several nodes meet through the store, and signed URLs are no way to do so"
        yield Problem(("cluster", "nodes"), what, hint)
    if spec.container.requirements is not None:
        what = "packages are installed by Python, from an agent that signed URLs do not bring"
        yield Problem(("container", "requirements"), what, f"use an image that has them, or {hint}")
    for i, mount in enumerate(spec.mounts):
        if mount.scheme == "store":
            what = "a signed URL is of one object, and not of all under a prefix"
            yield Problem(("mounts", i, "source"), what, f"mount a folder, or {hint}")
    for i, output in enumerate(spec.outputs):
        if output.sync is not None:
            what = "with signed URLs an output is sent once, when the job has ended"
            yield Problem(("outputs", i, "sync"), what, f"take sync away, or {hint}", at="key")
    if spec.outputs and children(spec) > MOST_OUTPUTS:
        what = f"{children(spec):,} tasks, and outputs are signed for {MOST_OUTPUTS} at most"
        yield Problem(("sweep",), what, f"make the sweep smaller, or {hint}", at="key")
    yield from _times(spec, options)


def _times(spec: Spec, options: AwsOptions) -> Iterator[Problem]:
    good_s = options.signed_for
    if good_s > LONGEST_S:
        hint = "set signed_for: 7d or less"
        yield Problem(("provider",), f"signed_for: {good_s} s, and S3 signs for 7 days", hint)
    elif spec.outputs and (spec.timeout or 0) >= good_s:
        what = f"{spec.timeout} s, and the URLs that outputs are sent to are good for {good_s} s"
        yield Problem(("timeout",), what, "set providers.aws-batch.signed_for to more, 7d at most")
    what = (
        f"files: signed: the URLs are good for {_length(good_s)} from now, and end earlier with "
        "temporary credentials: the wait in the queue, the job and its outputs have that long"
    )
    yield Problem(("provider",), what, severity="note")
    if spec.retry.attempts > 1:
        what = "kept by AWS Batch alone: a reclaimed machine counts as a failure"
        yield Problem(("retry", "attempts"), what, severity="note")


def _length(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    return f"{hours} h" if hours and not rest else f"{seconds // 60} min"
