"""Jobs that reach the store by signed URLs, one for each thing: for images without Python.

What runs is runspec_agent's signed.sh, as on AWS Batch, by any POSIX sh, and curl, GNU wget or python3.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import blob
from runspec_azure.store import layout
from runspec_jobs.provider import (
    OUTPUT_TAR,
    Facts,
    Line,
    Mount,
    Problem,
    Scope,
    Spec,
    Step,
    argv,
    blob_name,
    signed_job_lines,
    signed_problems,
    signed_scripts,
)

# Of one Put Blob: https://learn.microsoft.com/rest/api/storageservices/put-blob#remarks
MOST_BYTES = 5000 << 20
START = "start.sh"
COMMAND = "/bin/sh -c 'exec /bin/sh \"$AZ_BATCH_TASK_WORKING_DIR/start.sh\" 2>&1'"
# Of a blob: https://learn.microsoft.com/rest/api/storageservices/create-service-sas
READ, WRITE = "r", "cw"


def mark(rights: str, where: str) -> dict[str, str]:
    """Return what stands in a plan for the signed URL of a blob."""
    return {"$signed": f"{rights} {where}"}


def files_key(run: str, options: BatchOptions) -> str:
    return layout.key(options, "runs", run, "files")


def start(run: str, options: BatchOptions) -> dict[str, Any]:
    """Return the file that the job begins with, as a task has it."""
    where = layout.key(options, "runs", run, START)
    return {"httpUrl": mark(READ, where), "filePath": START}


def steps(spec: Spec, run: str, facts: Facts) -> Iterator[Step]:
    """Yield the steps that tell the job what to run, to get and to send; they go with the record.

    The user's words are in a file, each quoted: how a command line is taken apart is documented nowhere.
    """
    options: BatchOptions = facts.options
    words = ("/bin/sh", "-c", *signed_scripts(), *argv(spec))
    text = f"exec {shlex.join(words)}\n"
    container = options.container or ""
    where = layout.key(options, "runs", run, START)
    yield Step(
        "start",
        "write down what the job runs",
        Scope.RUN,
        blob("BlockBlob_Upload", container, where, text),
    )
    listed = {"lines": list(lines(spec, run, facts))}
    do = blob("BlockBlob_Upload", container, files_key(run, options), listed)
    yield Step("files", "sign what the job reads and writes", Scope.RUN, do)


def lines(spec: Spec, run: str, facts: Facts) -> Iterator[Line]:
    """Yield the list that signed.sh reads, one NAME=VALUE in each line."""
    options: BatchOptions = facts.options
    claim = layout.key(options, "runs", run, "claim")

    def mount(one: Mount) -> Iterator[Line]:
        source = facts.sources[one.name]
        yield f"sum={source.digest.removeprefix('sha256:')}"
        yield ["get=", mark(READ, layout.key(options, "blobs", blob_name(source)))]

    def output(name: str, task: int) -> Iterator[Line]:
        where = layout.key(options, "runs", run, "outputs", name, str(task), "0", OUTPUT_TAR)
        yield [f"put={task} ", mark(WRITE, where)]
        yield [f"again={task} ", mark(READ, where)]  # no try knows that it is one

    yield "header=x-ms-blob-type: BlockBlob"
    yield f"most={MOST_BYTES}"
    # To create alone is a 403 where something is.
    claimed: list[Line] = [["claim=", mark(WRITE, claim)], ["holder=", mark(READ, claim)]]
    yield from signed_job_lines(spec, claimed, mount, output)


def problems(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """Yield what a shell with signed URLs cannot do, each with a way out."""
    hint = "take files: signed out of the profile, and an image with python3"
    yield from signed_problems(spec, hint)
    for i, mount in enumerate(spec.mounts):
        if mount.scheme != "file":
            what = "a signed URL is of one blob, and not of all under a prefix or of a file system"
            yield Problem(("mounts", i, "source"), what, f"mount a folder, or {hint}")
    if options.identity:
        what = "signed URLs and an identity are two ways to the same files"
        yield Problem(("provider",), what, "take identity or files: signed away")
