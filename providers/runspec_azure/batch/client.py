"""The client of the Azure Batch provider: it sends the requests of a plan, and finds what they made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from runspec_azure import store_layout
from runspec_azure.batch import job, timing
from runspec_azure.batch.cleanup import OrphanFinder, Reconciler, Stops
from runspec_azure.batch.infrastructure import autoscale, built_image, run_secrets
from runspec_azure.batch.logs import Logs, TaskStream
from runspec_azure.batch.options import BatchOptions
from runspec_azure.batch.status import Tasks
from runspec_azure.batch.task_stop import Releases
from runspec_azure.batch.timing import Timing
from runspec_azure.errors import code_of, status_of
from runspec_azure.session.clients import Session
from runspec_azure.store import Blobs
from runspec_azure.store_layout import AGENT_SHA256, STATE
from runspec_azure.timing import CLOCK, Clock
from runspec_images.image_build import build_and_push, find_built
from runspec_images.image_plan import BUILD
from runspec_images.image_registry import ImageConfig, read_config
from runspec_jobs.provider import (
    AlreadyExists,
    Bundle,
    Client,
    Conflict,
    CredentialsError,
    Facts,
    MembershipChange,
    NoAnswer,
    Orphan,
    OutputFile,
    Places,
    Progress,
    Released,
    RemoteError,
    Request,
    Response,
    Seat,
    Status,
    Step,
    Submits,
)
from runspec_jobs.provider.elastic_tasks import seats_of
from runspec_jobs.provider.machines import Usage
from runspec_jobs.provider.payload import pack_agent
from runspec_jobs.provider.streams.log_streams import Stream, TimedChunk

# https://learn.microsoft.com/en-us/rest/api/batchservice/batch-status-and-error-codes
LEAVING = frozenset({"PoolBeingDeleted", "JobBeingDeleted"})
EXISTS = frozenset({"PoolExists", "JobExists", *LEAVING})
MAKES_POOL = frozenset({"Pool_Add", "Pool_Create"})
# Refusals of a pool that is being resized, or that another run has just scaled up.
AWAKE = frozenset({"PoolBeingResized", "TooManyEnableAutoScaleRequests"})
ARCHITECTURE = "amd64"  # of all machines that runspec chooses: `vm_sizes`
OVER = frozenset({"JobCompleted", "JobBeingTerminated", "JobTerminating"})


def connect(facts: Facts) -> Client:
    return AzureClient(facts.options, timing.DEFAULT)


class AzureClient:
    """A client of Azure Batch and Blob storage."""

    def __init__(
        self, options: BatchOptions, timing: Timing = timing.DEFAULT, clock: Clock = CLOCK
    ) -> None:
        self.timing, self.clock = timing, clock
        self.session = Session(options)
        self.blobs = Blobs(self.session, lambda: clock.sleep(timing.copy_s))
        self.tasks = Tasks(self.session, self.blobs, timing, clock)
        self.stops = Stops(self.blobs, self.tasks)
        self.releases = Releases(self.session, self.blobs, self.tasks)
        self.reconciler = Reconciler(self.tasks)
        self.logs = Logs(self.session, self.blobs, self.tasks)
        self._tell: Callable[[str], None] = lambda text: None
        self._made_awake: set[str] = set()  # pools that requests of this client have made

    @property
    def poll_s(self) -> float:
        return self.timing.poll_s

    @cached_property
    def signer(self) -> Any:
        """Return the signer; its SDK takes long to load, so commands that only read do not load it."""
        from runspec_azure.signed import Signer

        return Signer(self.blobs, self.timing.signature_s, self.clock)

    def call(self, request: Request) -> Response:
        path = request.params.get("path", {})
        if request.operation == job.READ:
            return self._read_config(request.params["image"]).write_program()
        if request.operation == run_secrets.SET:
            self.session.vault.set(path["name"], request.params["body"])
            return {}
        if request.operation == run_secrets.DELETE:
            self.session.vault.delete(path["name"])
            return {}
        if request.operation == "empty_prefix":
            self.blobs.empty(request.params["prefix"])
            return {}
        if request.operation == "Blob_Delete":
            self.blobs.remove([path["blob"]])
            return {}
        if request.operation == "BlockBlob_Upload":
            # Plans name files by their keys; the signed URLs of them exist only in what is sent.
            content = blob_content(self.signer.with_urls(request.params["body"]))
            self.blobs.put(path["blob"], content)
            return {"blob": path["blob"]}
        if request.operation.endswith("_Delete"):
            return self._undo(request)
        self.tasks.forget()
        if request.operation == "Pool_EnableAutoScale":
            return self._wake(request)
        return self._make(request)

    def _read_config(self, image: str) -> ImageConfig:
        try:
            login = built_image.login(self.session, image)
        except CredentialsError as refusal:
            # The registry of somebody else may permit anonymous pulls:
            # https://learn.microsoft.com/azure/container-registry/anonymous-pull-access
            try:
                return read_config(image, ARCHITECTURE)
            except CredentialsError:
                raise refusal from None
        return read_config(image, ARCHITECTURE, login)

    def _make(self, request: Request) -> Response:
        body = self._timed(self.signer.with_urls(request.params["body"]))
        try:
            answer = self._sent(request, body)
        except RemoteError as exc:
            if request.operation == "Job_Patch" and code_of(exc) in OVER:
                return named(request)
            # The resource exists; for a pool, the service says so by failing the condition "If-None-Match: *".
            if code_of(exc) in EXISTS or (status_of(exc) == 412 and request.service == "arm"):
                raise AlreadyExists(exc.message, exc.hint) from exc
            raise
        if request.operation in MAKES_POOL:
            # The formula of a new pool has its machines start at once.
            self._made_awake.add(named(request)["id"])
        if request.operation == "Task_AddCollection":
            _refuse_refused(answer)
        return named(request)

    def _wake(self, request: Request) -> Response:
        """Have a pool scale up now. A refusal means that it is scaling already; its next evaluation is in five minutes.

        Nothing is sent for a pool that this client has just made. After a crash in between, the request is sent:
        the pool is being resized and refuses it, or accepts the same formula again.
        """
        path = request.params["path"]
        if path["poolId"] in self._made_awake:
            return {}
        try:
            self.session.make(request.operation, path, self._timed(request.params["body"]))
        except (RemoteError, NoAnswer) as exc:
            if code_of(exc) not in AWAKE:
                raise
        return {}

    def _sent(self, request: Request, body: Any) -> Any:
        path = request.params.get("path", {})
        if request.service == "arm":
            return self.session.management.make_pool(path, body)
        return self.session.make(request.operation, path, body)

    def _undo(self, request: Request) -> Response:
        """Delete something, and wait until it no longer exists."""
        path = request.params["path"]
        if request.operation == "Pool_Delete":
            # Batch deletes a pool with running tasks, too.
            self._refuse_if_used(path["poolId"])
            self._made_awake.discard(path["poolId"])
        look = request.operation.replace("_Delete", "_Get")
        try:
            self.session.make(request.operation, path)
        except RemoteError as exc:
            if status_of(exc) == 404:
                return {}
            if code_of(exc) not in LEAVING:
                raise
        self.tasks.forget()
        # Until then, the name cannot be used again: 409 PoolBeingDeleted or JobBeingDeleted.
        self._await(lambda: self._got(look, path) is None, request)
        return {}

    def _refuse_if_used(self, pool: str) -> None:
        """Raise Conflict while *pool* has jobs, also those of other users: their tasks would never end."""
        for entry in self.session.pages("Job_List", query={"$select": "id,state,poolInfo"}):
            on_it = entry.get("poolInfo", {}).get("poolId") == pool
            if on_it and entry["state"] not in ("completed", "deleting", "terminating"):
                message = f"cannot delete pool {pool}: its job {entry['id']} is {entry['state']}"
                raise Conflict(message, "cancel the job first, or wait until it has ended")

    def _await(self, done: Callable[[], bool], request: Request) -> None:
        pause_s, longest_s = self.timing.first_pause_s, self.timing.gone_s
        end = self.clock.monotonic() + longest_s
        while not done():
            if self.clock.monotonic() > end:
                raise NoAnswer(f"{request.operation}: not finished after {longest_s:.0f} s")
            self.clock.sleep(pause_s)
            pause_s = min(self.timing.longest_pause_s, pause_s * 1.5)

    def _got(self, operation: str, path: Mapping[str, str]) -> Mapping[str, Any] | None:
        try:
            return self.session.look(operation, path)
        except RemoteError as exc:
            if status_of(exc) == 404:
                return None
            raise

    def find(self, step: Step) -> Response | None:
        # What was read before a crash is read again, and a secret that was stored is stored again: it may have changed.
        return None if step.do.operation in (job.READ, run_secrets.SET) else self._find(step.do)

    def _find(self, do: Request) -> Response | None:
        if do.operation == BUILD:
            image = do.params["image"]
            return find_built(image, built_image.login(self.session, image))
        path, body = do.params.get("path", {}), do.params["body"]
        if do.operation == "BlockBlob_Upload":
            return None if self.blobs.size(path["blob"]) is None else {"blob": path["blob"]}
        if do.service == "arm":
            return self._same_pool(path["poolName"], body)
        if do.operation == "Pool_Add":
            return self._same("Pool_Get", {"poolId": body["id"]}, do, ("vmSize",))
        if do.operation == "Job_Add":
            return self._same("Job_Get", {"jobId": body["id"]}, do, ("poolInfo", "metadata"))
        if do.operation == "Pool_EnableAutoScale":
            mark = body["autoScaleFormula"][autoscale.CLOCK].partition("\n")[0]
            return {} if _awake(self._got("Pool_Get", path) or {}, mark) else None
        if do.operation == "Task_AddCollection":
            # A collection may have been accepted in part; sending it again adds the tasks that are missing.
            there = self.tasks.ids(path["jobId"])
            return named(do) if all(task["id"] in there for task in body["value"]) else None
        thing = self._got("Job_Get", path)
        done = thing is not None and thing.get("onAllTasksComplete") == "terminatejob"
        return named(do) if done else None

    def _same(
        self, look: str, path: Mapping[str, str], do: Request, keys: Sequence[str]
    ) -> Response | None:
        """Return the answer of *do* if its resource exists. Raise Conflict if a different one has its name."""
        thing, body = self._got(look, path), do.params["body"]
        if thing is None or thing.get("state") == "deleting":
            return None
        for key in keys:
            if not holds(thing.get(key), body[key]):
                message = f"{body['id']} exists already with a different {key}"
                raise Conflict(message, "delete it, or set another prefix in the profile")
        return named(do)

    def _same_pool(self, name: str, body: Mapping[str, Any]) -> Response | None:
        """Return a pool of the Resource Manager, if it exists. Raise Conflict if a different one has its name."""
        pool = self._got("Pool_Get", {"poolId": name})
        if pool is None or pool.get("state") == "deleting":
            return None
        identities = pool.get("identity", {}).get("userAssignedIdentities", ())
        there = {
            "vmSize": _plain(pool.get("vmSize")),
            "identity": {_plain(identity.get("resourceId")) for identity in identities},
        }
        wanted = {
            "vmSize": _plain(body["properties"]["vmSize"]),
            "identity": {
                _plain(identity) for identity in body["identity"]["userAssignedIdentities"]
            },
        }
        for key in (key for key in wanted if there[key] != wanted[key]):
            message = f"{name} exists already with a different {key}"
            raise Conflict(message, "delete it, or set another prefix in the profile")
        return {"id": name}

    def settled(self, step: Step) -> bool:
        """Return true: a pool accepts jobs at once, and its machines start later."""
        return True

    def listen(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Response:
        if request.operation == BUILD:
            login = built_image.login(self.session, request.params["image"])
            return build_and_push(bundle, request.params, login, self._tell, progress)
        key = request.params["path"]["blob"]
        self.blobs.put_folder(key, bundle, progress)
        return {"blob": key}

    def state(self, run: str) -> Status:
        status = self.tasks.status(run)
        if status.state.terminal:
            self.logs.ended.add(run)
        return status

    def cancel(self, run: str) -> None:
        """Claim the run first, so that a task that starts later exits; then terminate the job."""
        if self.tasks.record(run) is None:
            return
        self.blobs.put_new(self.blobs.key("runs", run, "claim"), b"cancelled")
        self.tasks.forget()
        if self.tasks.status(run).state.terminal:
            return
        try:
            body = {"terminateReason": job.CANCELLED}
            self.session.make("Job_Terminate", {"jobId": run}, body)
        except RemoteError as exc:
            # The job is gone, or it ends already.
            if status_of(exc) not in (404, 409):
                raise
        self.tasks.forget()

    def reconcile(self, run: str) -> Sequence[str]:
        record = self.tasks.record(run)
        if record is not None:
            self.tasks.count_failed(run, record)
            if halted := self.tasks.halted(run, record):
                self.stops.stop(run, record, halted)
        return self.reconciler.reconcile(run)

    def stop(self, run: str, tasks: Collection[int]) -> None:
        record = self.tasks.record(run)
        if record is None or self.tasks.status(run).state.terminal:
            return
        if not record["sweep"]:
            self.cancel(run)
            return
        self.stops.stop(run, record, seats_of(record, tasks))

    def release(
        self, run: str, away: Collection[Seat], back: Collection[Seat], submits: Submits
    ) -> Released:
        def add(ids: Collection[str]) -> None:
            for request in submits("Task_AddCollection"):
                params = request.params
                if value := [task for task in params["body"]["value"] if task["id"] in ids]:
                    self.call(request._replace(params={**params, "body": {"value": value}}))

        return self.releases.release(run, away, back, add)

    def changes(self, run: str) -> Sequence[MembershipChange]:
        return self.tasks.kept.changes(run)

    def keep_state(self, run: str, content: bytes) -> None:
        key = self.blobs.key("runs", run, STATE)
        self.blobs.put(key, content)
        # Two commands that write at once would each believe in its own write on a store without conditions.
        if not self.blobs.on_azure:
            self.blobs.refuse_without_conditions(key, content)

    def kept_state(self, run: str) -> bytes | None:
        return self.tasks.kept.read(run, STATE)

    def kept_runs(self) -> Sequence[str]:
        return self.blobs.folders(self.blobs.key("runs", ""))

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterable[Orphan]:
        return OrphanFinder(self.session, self.blobs).find_orphans(runs, made)

    def streams(self, run: str) -> Sequence[Stream]:
        return self.logs.streams(run)

    def read_timed(self, stream: Stream, position: str | None) -> TimedChunk:
        assert isinstance(stream, TaskStream), "BUG: it is not a stream of this client"
        return stream.timed(position)

    def outputs(self, run: str) -> Sequence[OutputFile]:
        return self.blobs.outputs(self.blobs.key("runs", run, "outputs", ""))

    def places(self, run: str) -> Places:
        kept = f"{store_layout.store(self.session.options)}/runs/{run}"
        return Places(f"{kept}/logs", f"{kept}/outputs")

    def usage(self, run: str, most: int | None) -> Usage:
        return self.tasks.kept.usage(run, most)

    def publish(self, run: str) -> Sequence[str]:
        refused = self.blobs.publish(self.blobs.key("runs", run, "outputs", ""))
        return [f"{name!r} is not a valid blob name" for name in refused]

    def _timed(self, value: Any) -> Any:
        until = datetime.now(UTC) + timedelta(seconds=self.timing.woken_s)
        return autoscale.with_time(value, until)


def _awake(pool: Mapping[str, Any], mark: str) -> bool:
    """Return whether the formula of a pool has *mark*, or the pool has machines or is being resized anyway."""
    counts = ("currentDedicatedNodes", "currentLowPriorityNodes")
    targets = ("targetDedicatedNodes", "targetLowPriorityNodes")
    if f"{mark}\n" in pool.get("autoScaleFormula", "") or pool.get("allocationState") == "resizing":
        return True
    return any(pool.get(key) for key in (*counts, *targets))


def named(do: Request) -> Response:
    """Return the names of what a request makes; the answers of the service have nothing useful."""
    body = do.params["body"]
    if do.service == "arm":
        return {"id": do.params["path"]["poolName"]}
    if do.operation == "Task_AddCollection":
        return {"tasks": len(body["value"])}
    return {"id": body["id"]} if "id" in body else {}


def _refuse_refused(answer: Any) -> None:
    """Raise for the first task of a collection that was not added; one that exists was added by an earlier request.

    https://learn.microsoft.com/en-us/rest/api/batchservice/tasks/create-task-collection
    """
    if not isinstance(answer, dict) or "value" not in answer:
        raise NoAnswer("Task_AddCollection: the reply was cut off")
    for result in answer["value"]:
        error = result.get("error", {})
        status, code = result.get("status"), error.get("code")
        if status == "success" or code == "TaskExists":
            continue
        text = error.get("message", {}).get("value", "").partition("\n")[0]
        message = f"{result.get('taskId', 'a task')}: {code or status or 'no status'}: {text}"
        if status not in ("clienterror", "servererror"):
            raise NoAnswer(f"Task_AddCollection: {message}")
        raise RemoteError(message, transient=status == "servererror")


def holds(actual: Any, wanted: Any) -> bool:
    """Return whether *actual* contains all of *wanted*: the service adds members, reorders lists and ignores case."""
    if isinstance(wanted, Mapping):
        there: Any = actual if isinstance(actual, Mapping) else {}
        return all(holds(there.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return all(any(holds(other, value) for other in actual or ()) for value in wanted)
    return bool(_plain(actual) == _plain(wanted))


def _plain(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def blob_content(value: Any) -> bytes:
    """Return the bytes to send: text as it is, lists as lines, and the agent by its hash."""
    if isinstance(value, str):
        return value.encode()
    if "lines" in value:
        return "".join(f"{''.join(line)}\n" for line in value["lines"]).encode()
    if value["$inside"] != AGENT_SHA256:
        raise Conflict(
            "another version of runspec planned this run",
            "use that version, or apply --new",
        )
    return pack_agent()
