"""The client of Kubernetes: it sends the requests of a plan, and finds what they made."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from runspec_jobs.provider import (
    Bundle,
    Client,
    Conflict,
    Facts,
    MembershipChange,
    NoAnswer,
    Orphan,
    OutputFile,
    Places,
    Progress,
    Released,
    Request,
    Response,
    Seat,
    Status,
    Step,
    Submits,
    UsageError,
    requests_of,
)
from runspec_jobs.provider.machines import Usage
from runspec_jobs.provider.paths import read_stored
from runspec_jobs.provider.payload import pack_agent
from runspec_jobs.provider.streams.log_streams import Stream, TimedChunk
from runspec_jobs.provider.types import ExecSpec, Route
from runspec_kubernetes import lookup, shell, store_claim, timing
from runspec_kubernetes.cleanup import OrphanFinder
from runspec_kubernetes.errors import Refused
from runspec_kubernetes.job import READ_ENTRYPOINT
from runspec_kubernetes.logs import Logs, PodStream
from runspec_kubernetes.naming import RUN_LABEL, collection, create, delete, ending, literal
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.session import MERGE, Session
from runspec_kubernetes.status import Runs, is_cancelled, state_of
from runspec_kubernetes.store_layout import agent_sha256
from runspec_kubernetes.task_stop import Stops, end_held
from runspec_kubernetes.timing import Clock, Timing
from runspec_objects.store import Store

if TYPE_CHECKING:
    from runspec_kubernetes.store import ObjectStore

STATE = "state.json"  # the state of a run in the store, with which other machines adopt it
KEPT = "-state"  # the end of the name of the ConfigMap that has it, without a store
MOST_KEPT = 1_000_000  # bytes in a ConfigMap, which holds 1 MiB with its names
CHANGES = 20  # of a Job by its controller, while a request to cancel it is on the way
SIGNED_HOURS = 7 * 24  # of a signature for a container


def connect(facts: Facts) -> Client:
    options: KubernetesOptions = facts.options
    return (StoreClient if options.store else KubernetesClient)(options)


class KubernetesClient:
    """A client of the API server, and of the store."""

    def __init__(
        self,
        options: KubernetesOptions,
        timing: Timing = timing.DEFAULT,
        clock: Clock = timing.CLOCK,
    ) -> None:
        self.options, self.timing, self.clock = options, timing, clock
        self.session = Session(options, timing, clock)
        self.store: Store | None = _open_store(options)
        if (options.store or "").startswith("pvc:") and self.store is None:
            self.store = store_claim.open_store(self.session, self.call)
        self.runs = Runs(self.session, self.store)
        self.logs = Logs(self.runs)

    @property
    def poll_s(self) -> float:
        return self.timing.poll_s

    @property
    def _files(self) -> Store:
        if self.store is None:
            raise UsageError("the profile has no `store`", "see runspec docs kubernetes")
        return self.store

    def call(self, request: Request) -> Response:
        if request.operation == "in_turn":
            for part in requests_of(request):
                self.call(part)
            return {}
        if request.operation not in ("delete", "remove"):
            self.session.refuse_old()
        if request.operation == READ_ENTRYPOINT:
            from runspec_images.image_registry import read_config

            program = read_config(**request.params).write_program()
            return {**program, "code": literal(program["code"])}
        if request.service == "store":
            return self._call_store(request)
        if request.operation == "delete":
            return self._delete(request)
        body = self._filled(request.params["body"])
        name = body["metadata"]["name"]
        what = f"make the {body['kind']} {name}"
        made = self.session.send(
            "POST", request.params["path"], request.params["query"], body, action=what
        )
        if "uid" not in made.get("metadata", {}):
            raise NoAnswer(f"{what}: the reply was cut off")
        return lookup.answer_of(made)

    def _call_store(self, request: Request) -> Response:
        params = request.params
        if request.operation == "put":
            self._files.put(params["key"], params["body"].encode())
            return {"key": params["key"]}
        if "prefix" in params:
            self._files.empty(params["prefix"])
        else:
            self._files.remove([params["key"]])
        return {}

    def _filled(self, value: Any) -> Any:
        """Return *value* with the agent and signatures in the place of their marks."""
        if isinstance(value, Mapping):
            if value.keys() == {"$inside"}:
                if value["$inside"] != agent_sha256():
                    raise Conflict(
                        "another version of runspec planned this run",
                        "use that version, or apply --new",
                    )
                return base64.b64encode(pack_agent()).decode("ascii")
            if value.keys() == {"$signed"}:
                return cast("ObjectStore", self.store).sign(SIGNED_HOURS)
            return {key: self._filled(inner) for key, inner in value.items()}
        return [self._filled(inner) for inner in value] if isinstance(value, list) else value

    def _delete(self, request: Request) -> Response:
        """Delete an object of ours with its uid as a precondition, and wait until it no longer exists.

        https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/delete-options/
        """
        path, clock, run = request.params["path"], self.clock, request.params.get("run")
        if run and path == self.runs.path("configmaps", run):  # the record of a run without a store
            self._delete(delete(self.options, "configmaps", run + KEPT, run))
        end, pause_s = clock.monotonic() + self.timing.gone_s, self.timing.first_pause_s
        asked = ""
        while (existing := self.session.read(path)) is not None:
            lookup.refuse_foreign(existing, run)
            uid = existing["metadata"]["uid"]
            if asked and uid != asked:
                return {}  # somebody has made another one
            body = {**request.params["body"], "preconditions": {"uid": uid}}
            if not lookup.is_leaving(existing) and self._delete_one(path, body):
                asked = uid
            if clock.monotonic() > end:
                raise NoAnswer(
                    f"delete {path.rpartition('/')[2]}: not gone after {self.timing.gone_s:.0f} s"
                )
            clock.sleep(pause_s)
            pause_s = min(self.timing.longest_pause_s, pause_s * 1.5)
        return {}

    def _delete_one(self, path: str, body: Mapping[str, Any]) -> bool:
        """Return whether the object is being deleted, and not replaced by another one."""
        try:
            self.session.send("DELETE", path, body=body, action=f"delete {path.rpartition('/')[2]}")
        except Refused as exc:
            if exc.code != 404:
                raise
        except Conflict:
            return False
        return True

    def find(self, step: Step) -> Response | None:
        request = step.do
        if request.operation == READ_ENTRYPOINT:
            return None  # it is read again
        if request.service == "store":
            key = request.params["key"]
            return None if self._files.size(key) is None else {"key": key}
        return lookup.find(self.session, request)

    def settled(self, step: Step) -> bool:
        return True

    def stage(self, request: Request, bundle: Bundle, progress: Progress) -> Response:
        self.session.refuse_old()
        self._files.put_folder(request.params["key"], bundle, progress)
        return {"key": request.params["key"]}

    def state(self, run: str) -> Status:
        return self.runs.status(run)

    def cancel(self, run: str) -> None:
        # Without a record there is no Job either, and an undo that was not needed would leave the claim.
        if self.store is not None and self.runs.record(run) is not None:
            self.store.put_new(f"runs/{run}/claim", b"cancelled")
        for left in reversed(range(CHANGES)):
            job = self.runs.job(run)
            if job is None or is_cancelled(job) or state_of(job, {}).terminal:
                return
            lookup.refuse_foreign(job, run)
            try:
                self._change("jobs", job, ending(job, "true"), f"cancel {run}")
                return
            except Conflict:  # it has changed, and perhaps ended
                if not left:
                    raise

    def _change(self, kind: str, existing: Mapping[str, Any], body: Any, action: str) -> None:
        """Change the version of an object that was read: no run that has ended becomes a canceled one."""
        known, changed = existing["metadata"], body.get("metadata", {})
        read = {key: known[key] for key in ("uid", "resourceVersion") if key in known}
        path, whole = self.runs.path(kind, known["name"]), {**body, "metadata": {**changed, **read}}
        self.session.send("PATCH", path, body=whole, content_type=MERGE, action=action)

    def reconcile(self, run: str) -> Sequence[str]:
        return end_held(self.runs, run)

    def find_orphans(self, runs: Collection[str], made: Collection[str]) -> Iterable[Orphan]:
        return OrphanFinder(self.session, self.store).find_orphans(runs, made)

    def keep_state(self, run: str, content: bytes) -> None:
        """Write the state to a ConfigMap; nobody adopts a run whose state is too large for one."""
        name, text = run + KEPT, base64.b64encode(content).decode("ascii")
        made = create(self.options, "configmaps", name, run, binaryData={STATE: text})
        if len(content) > MOST_KEPT:
            self._delete(delete(self.options, "configmaps", name, run))
        elif (existing := self.session.read(self.runs.path("configmaps", name))) is None:
            self.call(made)
        else:
            lookup.refuse_foreign(existing, run)
            self._change("configmaps", existing, {"binaryData": {STATE: text}}, f"replace {name}")

    def kept_state(self, run: str) -> bytes | None:
        kept = self.session.read(self.runs.path("configmaps", run + KEPT)) or {}
        text = kept.get("binaryData", {}).get(STATE)
        return None if text is None else base64.b64decode(text)

    def kept_runs(self) -> Sequence[str]:
        path = collection(self.options.namespace, "configmaps")
        listed = (entry["metadata"] for entry in self.session.listed(path, labelSelector=RUN_LABEL))
        return [data["labels"][RUN_LABEL] for data in listed if data["name"].endswith(KEPT)]

    def changes(self, run: str) -> Sequence[MembershipChange]:
        return self.runs.kept.changes(run)

    def streams(self, run: str) -> Sequence[Stream]:
        return self.logs.streams(run)

    def read_timed(self, stream: Stream, position: str | None) -> TimedChunk:
        assert isinstance(stream, PodStream), "BUG: it is not a stream of this client"
        return stream.timed(position)

    def shell(
        self, run: str, task: int, rank: int, words: Sequence[str], *, terminal: bool
    ) -> ExecSpec:
        return shell.shell(self.runs, run, task, rank, words, terminal=terminal)

    def tunnel(self, run: str, task: int, rank: int, port: int) -> Route:
        return shell.tunnel(self.runs, run, task, rank, port)

    def places(self, run: str) -> Places:
        where = f"pods with the label runspec/run={run} in the namespace {self.options.namespace}"
        kept = f"{self.options.store}/runs/{run}/outputs" if self.options.store else ""
        return Places(where, kept)


class StoreClient(KubernetesClient):
    """A client of a profile with a store."""

    @cached_property
    def stops(self) -> Stops:
        return Stops(self.runs, self._files)

    def stop(self, run: str, tasks: Collection[int]) -> None:
        self.stops.stop(run, tasks)

    def release(
        self, run: str, away: Collection[Seat], back: Collection[Seat], submits: Submits
    ) -> Released:
        return self.stops.release(run, away, back)

    def reconcile(self, run: str) -> Sequence[str]:
        return [*super().reconcile(run), *self.stops.reconcile(run)]

    def outputs(self, run: str) -> Sequence[OutputFile]:
        return self._files.outputs(f"runs/{run}/outputs/")

    def publish(self, run: str) -> Sequence[str]:
        refused = self._files.publish(f"runs/{run}/outputs/")
        return [f"{name!r} is not a valid key of the store" for name in refused]

    def usage(self, run: str, most: int | None) -> Usage:
        return self.runs.kept.usage(run, most)

    def keep_state(self, run: str, content: bytes) -> None:
        key = f"runs/{run}/{STATE}"
        self._files.put(key, content)
        self._files.refuse_without_conditions(key, content)

    def kept_state(self, run: str) -> bytes | None:
        return self._files.read(f"runs/{run}/{STATE}")

    def kept_runs(self) -> Sequence[str]:
        names = self._files.names("runs/")
        return sorted({name.partition("/")[0] for name in names})


def _open_store(options: KubernetesOptions) -> Store | None:
    store = options.store or ""
    if not store or store.startswith("pvc:"):
        return None
    from runspec_kubernetes.store import ObjectStore

    keys = options.store_keys.items()
    return ObjectStore(options, {name: read_stored(where, name) for name, where in keys})
