"""The names of the blobs of jobs, and the steps that write them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Protocol

from runspec_azure.naming import blob
from runspec_azure.session import clouds
from runspec_jobs.provider import Facts, Request, Scope, Spec, Step
from runspec_jobs.provider.job_manifest import blob_name, job_record, uploads
from runspec_jobs.provider.payload import pack_agent

STATE = "state.json"  # the state of a run, with which other machines adopt it
AGENT_SHA256 = hashlib.sha256(pack_agent()).hexdigest()


class Place(Protocol):
    """The options of both providers that describe the store."""

    @property
    def storage_account(self) -> str | None: ...

    @property
    def container(self) -> str | None: ...

    @property
    def prefix(self) -> str: ...

    @property
    def blob_url(self) -> str | None: ...

    @property
    def cloud(self) -> clouds.Name | None: ...


def endpoint(options: Place) -> str:
    """Return the URL of the account's Blob endpoint."""
    account = options.storage_account or ""
    return (options.blob_url or clouds.of(options).blob_url(account)).rstrip("/")


def store(options: Place) -> str:
    """Return the root of all blobs, as a URL for jobs."""
    return f"{endpoint(options)}/{options.container or ''}/{options.prefix}"


def key(options: Place, *parts: str) -> str:
    return "/".join((options.prefix, *parts))


def agent_key(options: Place) -> str:
    """Return the name of the agent's blob."""
    return key(options, "inside", f"{AGENT_SHA256}.pyz")


def steps(spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the steps that upload shared files: the agent, and folders."""
    options: Place = facts.options
    agent = {"$inside": AGENT_SHA256}
    yield _upload(options, "inside", "upload the agent", agent_key(options), agent)
    for name, what, source in uploads(spec, facts):
        title = f"upload {what} ({source.counted}, {source.bytes:,} bytes)"
        where = key(options, "blobs", blob_name(source))
        yield _upload(options, f"upload-{name}", title, where, {"$file": name})


def _upload(options: Place, step: str, title: str, where: str, body: Any) -> Step:
    """Return a step that uploads a blob; it can be read at once, so no settling time is needed."""
    container = options.container or ""
    do = blob("BlockBlob_Upload", container, where, body)
    return Step(step, title, Scope.SITE, do, blob("Blob_Delete", container, where))


def record(spec: Spec, run: str, facts: Facts, *, shape: str, **more: Any) -> Step:
    """Return the step that writes the record of the job beside its files."""
    options: Place = facts.options
    body = json.dumps(job_record(spec, run, facts, shape=shape, **more), sort_keys=True)
    container = options.container or ""
    do = blob("BlockBlob_Upload", container, key(options, "runs", run, "record.json"), body)
    where = {"container": container, "prefix": key(options, "runs", run, "")}
    undo = Request("runspec", "empty_prefix", where)
    return Step("record", "write the job's record", Scope.RUN, do, undo)
