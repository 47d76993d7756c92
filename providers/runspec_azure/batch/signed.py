"""Jobs that access the store with signed URLs, one for each blob: for images without Python.

The agent is runspec_agent's signed.sh, as on AWS Batch, which needs a POSIX sh, and curl, GNU wget or python3.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from runspec_azure import store_layout
from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import blob
from runspec_jobs.provider import Facts, Mount, Problem, Scope, Spec, Step
from runspec_jobs.provider.commands import argv
from runspec_jobs.provider.job_manifest import OUTPUT_TAR, blob_name
from runspec_jobs.provider.payload import signed_scripts
from runspec_jobs.provider.signed_urls import (
    Line,
    list_upload_lines,
    signed_job_lines,
    signed_problems,
)

# The limit of one Put Blob: https://learn.microsoft.com/rest/api/storageservices/put-blob#remarks
MOST_BYTES = 5000 << 20
START = "start.sh"
COMMAND = "/bin/sh -c 'exec /bin/sh \"$AZ_BATCH_TASK_WORKING_DIR/start.sh\" 2>&1'"
# The index of the log, as `runspec_agent.transfer.log_times` writes it in other jobs. The loop ends with the command,
# which takes the place of the shell with the number $$; its last second has no line.
TIMES = "stdout.times"
NOTES = """\
(
  _rs_n=0
  : >"$AZ_BATCH_TASK_WORKING_DIR/stdout.times"
  while kill -0 $$; do
    _rs_m=$(($(wc -c <"$AZ_BATCH_TASK_DIR/stdout.txt")))
    [ "$_rs_m" -eq "$_rs_n" ] || echo "$_rs_m $(date +%s)" >>"$AZ_BATCH_TASK_WORKING_DIR/stdout.times"
    _rs_n=$_rs_m
    sleep 1
  done
) >/dev/null 2>&1 &
"""
# Permissions of a signature for a blob: https://learn.microsoft.com/rest/api/storageservices/create-service-sas
READ, WRITE = "r", "cw"


def mark(rights: str, where: str) -> dict[str, str]:
    """Return the placeholder in a plan for the signed URL of a blob; the client signs it with *rights*."""
    return {"$signed": f"{rights} {where}"}


def files_key(run: str, options: BatchOptions) -> str:
    return store_layout.key(options, "runs", run, "files")


def start(run: str, options: BatchOptions) -> dict[str, Any]:
    """Return the resource file of a task that is the script to start."""
    where = store_layout.key(options, "runs", run, START)
    return {"httpUrl": mark(READ, where), "filePath": START}


def steps(spec: Spec, run: str, facts: Facts) -> Iterator[Step]:
    """Yield the steps that write the command and the list of files; they are deleted with the record.

    The command is in a file, with each word quoted, because the splitting of command lines is undocumented.
    """
    options: BatchOptions = facts.options
    command = ("/bin/sh", "-c", *signed_scripts(), *argv(spec))
    text = f"{NOTES}exec {shlex.join(command)}\n"
    container = options.container or ""
    where = store_layout.key(options, "runs", run, START)
    yield Step(
        "start",
        "write the job's command",
        Scope.RUN,
        blob("BlockBlob_Upload", container, where, text),
    )
    listed = {"lines": list(lines(spec, run, facts))}
    do = blob("BlockBlob_Upload", container, files_key(run, options), listed)
    yield Step("files", "sign what the job reads and writes", Scope.RUN, do)


def lines(spec: Spec, run: str, facts: Facts) -> Iterator[Line]:
    """Yield the lines of the list that runspec_agent's signed.sh reads, one NAME=VALUE each."""
    options: BatchOptions = facts.options
    claim = store_layout.key(options, "runs", run, "claim")

    def mount(folder: Mount) -> Iterator[Line]:
        source = facts.sources[folder.name]
        url = mark(READ, store_layout.key(options, "blobs", blob_name(source)))
        yield from list_upload_lines(folder, source, url)

    def output(name: str, task: int) -> Iterator[Line]:
        where = store_layout.key(options, "runs", run, "outputs", name, str(task), "0", OUTPUT_TAR)
        yield [f"put={task} ", mark(WRITE, where)]
        # An attempt does not know whether it is the first.
        yield [f"again={task} ", mark(READ, where)]

    def usage(task: int) -> Line:
        where = store_layout.key(options, "runs", run, "usage", str(task), "0/0")
        return [f"usage={task} ", mark(WRITE, where)]

    def end(task: int) -> Line:
        where = store_layout.key(options, "runs", run, "ends", str(task), "signed")
        return [f"end={task} ", mark(WRITE, where)]

    yield "header=x-ms-blob-type: BlockBlob"
    yield f"most={MOST_BYTES}"
    # With only the permission to create, writing to an existing blob would be a 403.
    claimed: list[Line] = [["claim=", mark(WRITE, claim)], ["holder=", mark(READ, claim)]]
    yield from signed_job_lines(spec, claimed, mount, output, usage, end)


def problems(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """Yield problems of a spec that needs more than signed URLs, each with a hint."""
    hint = "remove files: signed from the profile and use an image with python3"
    yield from signed_problems(spec, hint)
    for i, mount in enumerate(spec.mounts):
        if mount.scheme != "file":
            message = "a signed URL permits access to one blob, not to all blobs under a prefix or to a file system"
            yield Problem(("mounts", i, "source"), message, f"mount a folder, or {hint}")
    if options.identity:
        message = "the profile sets both identity and files: signed, which exclude each other"
        yield Problem(("provider",), message, "remove one of them from the profile")
