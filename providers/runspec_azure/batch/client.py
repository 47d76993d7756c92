"""The hands of the Azure Batch provider: it sends the requests of a plan, and finds what they made."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from runspec.provider import (
    Answer,
    Bundle,
    Client,
    Conflict,
    Facts,
    Litter,
    NoAnswer,
    OutputFile,
    Progress,
    RemoteError,
    Request,
    Status,
    Step,
    Stream,
    inside_zipapp,
)
from runspec_azure.batch import job, times
from runspec_azure.batch.litter import Collector
from runspec_azure.batch.options import BatchOptions
from runspec_azure.batch.streams import Logs
from runspec_azure.batch.tasks import Tasks
from runspec_azure.blobs import Blobs
from runspec_azure.errors import code_of, status_of
from runspec_azure.session import Session
from runspec_azure.stores import INSIDE_SHA256

PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
# https://learn.microsoft.com/en-us/rest/api/batchservice/batch-status-and-error-codes
GONE = frozenset({"PoolNotFound", "JobNotFound", "BlobNotFound"})
LEAVING = frozenset({"PoolBeingDeleted", "JobBeingDeleted"})
EXISTS = frozenset({"PoolExists", "JobExists"})
OVER = frozenset({"JobCompleted", "JobBeingTerminated", "JobTerminating"})


def connect(facts: Facts) -> Client:
    return AzureClient(facts.options)


class AzureClient:
    """Talks to Azure Batch and Blob storage."""

    @property
    def poll_s(self) -> float:
        return times.POLL_S

    def __init__(self, options: BatchOptions) -> None:
        self.session = Session(options)
        self.blobs = Blobs(self.session)
        self.tasks = Tasks(self.session, self.blobs)
        self.logs = Logs(self.session, self.blobs, self.tasks)

    def call(self, request: Request) -> Answer:
        path = request.params.get("path", {})
        if request.operation == "empty_prefix":
            self.blobs.empty(request.params["prefix"])
            return {}
        if request.operation == "Blob_Delete":
            self.blobs.remove(path["blob"])
            return {}
        if request.operation == "BlockBlob_Upload":
            self.blobs.put(path["blob"], _body(request.params["body"]))
            return {"blob": path["blob"]}
        if request.operation.endswith("_Delete"):
            return self._undo(request)
        self.tasks.forget()
        return self._make(request)

    def _make(self, request: Request) -> Answer:
        path, body = request.params.get("path", {}), request.params["body"]
        try:
            answer = self.session.make(request.operation, path, self.blobs.with_urls(body))
        except RemoteError as exc:
            return self._adopted(request, exc)
        if request.operation == "Task_AddCollection":
            _refuse_refused(answer)
        return named(request)

    def _adopted(self, request: Request, exc: RemoteError) -> Answer:
        """Take what is there for what was asked, where it is the same: its id was chosen by us."""
        code = code_of(exc)
        if code in EXISTS and (found := self._find(request)) is not None:
            return found
        if code in LEAVING or code in EXISTS:
            raise RemoteError(exc.message, "it is being deleted; wait", transient=True) from exc
        if request.operation == "Job_Patch" and code in OVER:
            return named(request)
        raise exc

    def _undo(self, request: Request) -> Answer:
        """Take something away, and wait until it is gone."""
        path = request.params["path"]
        if request.operation == "Pool_Delete":
            self._refuse_if_used(path["poolId"])
        look = request.operation.replace("_Delete", "_Get")
        try:
            self.session.make(request.operation, path)
        except RemoteError as exc:
            if status_of(exc) == 404:
                return {}
            if code_of(exc) not in LEAVING:
                raise
        self.tasks.forget()
        self._await(lambda: self._got(look, path) is None, request)
        return {}

    def _refuse_if_used(self, pool: str) -> None:
        """Raise Conflict while jobs are on *pool*, whoever's they are: their tasks would never end."""
        for found in self.session.pages("Job_List", query={"$select": "id,state,poolInfo"}):
            on_it = found.get("poolInfo", {}).get("poolId") == pool
            if on_it and found["state"] not in ("completed", "deleting", "terminating"):
                what = f"{found['id']} is {found['state']} on {pool}"
                raise Conflict(f"{what}: it would lose its machines", "end it first, or wait")

    def _await(self, done: Callable[[], bool], request: Request) -> None:
        pause_s, end = PAUSE_S, time.monotonic() + times.GONE_S
        while not done():
            if time.monotonic() > end:
                raise NoAnswer(f"{request.operation}: not done in {times.GONE_S:.0f} s")
            time.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 1.5)

    def _got(self, operation: str, path: Mapping[str, str]) -> Mapping[str, Any] | None:
        try:
            return self.session.look(operation, path)
        except RemoteError as exc:
            if status_of(exc) == 404:
                return None
            raise

    def find(self, step: Step) -> Answer | None:
        return self._find(step.do)

    def _find(self, do: Request) -> Answer | None:
        path, body = do.params.get("path", {}), do.params["body"]
        if do.operation == "BlockBlob_Upload":
            return None if self.blobs.size(path["blob"]) is None else {"blob": path["blob"]}
        if do.operation == "Pool_Add":
            return self._same("Pool_Get", {"poolId": body["id"]}, do, ("vmSize",))
        if do.operation == "Job_Add":
            return self._same("Job_Get", {"jobId": body["id"]}, do, ("poolInfo", "metadata"))
        if do.operation == "Task_AddCollection":
            there = self.tasks.ids(path["jobId"])
            return named(do) if all(task["id"] in there for task in body["value"]) else None
        found = self._got("Job_Get", path)
        done = found is not None and found.get("onAllTasksComplete") == "terminatejob"
        return named(do) if done else None

    def _same(
        self, look: str, path: Mapping[str, str], do: Request, keys: Sequence[str]
    ) -> Answer | None:
        """Give what is there by that name, if it is ours. Raises Conflict if it is not."""
        found, body = self._got(look, path), do.params["body"]
        if found is None or found.get("state") == "deleting":
            return None
        for key in keys:
            if _plain(found.get(key)) != _plain(body[key]):
                what = f"{body['id']} is there already, and its {key} is another"
                raise Conflict(what, "take it away, or choose another prefix")
        return named(do)

    def settled(self, step: Step) -> bool:
        """A pool takes jobs at once; its machines come later."""
        return True

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Answer:
        key = request.params["path"]["blob"]
        self.blobs.put_folder(key, bundle, progress)
        return {"blob": key}

    def state(self, run: str) -> Status:
        return self.tasks.status(run)

    def cancel(self, run: str) -> None:
        """The claim is taken first: a task that starts later leaves."""
        if self.tasks.record(run) is None:
            return
        self.blobs.put_new(b"cancelled", "runs", run, "claim")
        self.tasks.forget()
        if self.tasks.status(run).state.terminal:
            return
        try:
            body = {"terminateReason": job.CANCELLED}
            self.session.make("Job_Terminate", {"jobId": run}, body)
        except RemoteError as exc:
            if status_of(exc) not in (404, 409):
                raise
        self.tasks.forget()

    def litter(self, runs: Collection[str], made: Collection[str]) -> Iterable[Litter]:
        return Collector(self.session, self.blobs).litter(runs, made)

    def streams(self, run: str) -> Sequence[Stream]:
        return self.logs.streams(run)

    def outputs(self, run: str) -> Sequence[OutputFile]:
        return self.blobs.outputs(run)


def named(do: Request) -> Answer:
    """Give the answer of a call: what it made, by name; the service's own holds nothing of use."""
    body = do.params["body"]
    if do.operation == "Task_AddCollection":
        return {"tasks": len(body["value"])}
    return {"id": body["id"]} if "id" in body else {}


def _refuse_refused(answer: Any) -> None:
    """Raise for the first task of a collection that was not added; one that is there was, by us.

    https://learn.microsoft.com/en-us/rest/api/batchservice/tasks/create-task-collection
    """
    if not isinstance(answer, dict) or "value" not in answer:
        raise NoAnswer("Task_AddCollection: the reply was cut off")
    for one in answer["value"]:
        error = one.get("error") or {}
        if one["status"] == "success" or error.get("code") == "TaskExists":
            continue
        text = error.get("message", {}).get("value", "").partition("\n")[0]
        what = f"{one['taskId']}: {error.get('code', one['status'])}: {text}"
        raise RemoteError(what, transient=one["status"] == "servererror")


def _plain(value: Any) -> Any:
    """Give what can be compared: the service may order metadata as it likes, and sizes in any case."""
    if isinstance(value, list):
        return sorted(str(sorted(one.items())) for one in value)
    return value.lower() if isinstance(value, str) else value


def _body(value: Any) -> bytes:
    """Give what is sent for a body: text as it is, our part of the job by its hash."""
    if isinstance(value, str):
        return value.encode()
    if value["$inside"] != INSIDE_SHA256:
        raise Conflict(
            "this run was planned by another version of runspec",
            "use that version, or apply --new",
        )
    return inside_zipapp()
