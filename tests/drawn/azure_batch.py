"""Runs on an Azure Batch that answers as a test draws: the truth about them, and what a client does with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from runspec_azure.batch import timing
from runspec_azure.batch.client import AzureClient
from runspec_azure.batch.doctor import examine
from runspec_azure.batch.probes import jobs
from runspec_azure.batch.provider import PROVIDER
from runspec_jobs.provider import Facts, Request, RunspecError, Spec
from tests.drawn.azure_cloud import Cloud, Truth, ranged
from tests.drawn.azure_table import reply
from tests.support.azure.specs import options, spec
from tests.support.http_server import ReceivedRequest, Reply, Server

RUN = "n-abc123"
SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
TEXT = "学習: é 𝄞\n進捗\n".encode()
OTHER = "別のノード\n".encode()
OK_INFO = {"retryCount": 0, "requeueCount": 0}
NODE = {"poolId": "p", "nodeId": "tvm-b", "taskRootDirectory": "t"}
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers"
ACCOUNT_ID = f"{GROUP}/Microsoft.Batch/batchAccounts/jobs"
IMAGE = {
    "imageReference": {"publisher": "microsoft-dsvm", "offer": "ubuntu-hpc", "sku": "2204"},
    "nodeAgentSKUId": "batch.node.ubuntu 22.04",
    "osType": "linux",
    "verificationType": "verified",
    "capabilities": ["DockerCompatible"],
    "batchSupportEndOfLife": None,
}


class Phase(NamedTuple):
    """A run at one time: what the service knows of its job and its tasks."""

    spec: Spec
    job: Mapping[str, Any]
    tasks: Sequence[Mapping[str, Any]]


def task(number: int, state: str, **info: Any) -> dict[str, Any]:
    return {"id": f"task-{number:05}", "state": state, "executionInfo": {**OK_INFO, **info}}


SWEEP = {"run": "echo hi", "sweep": {"lr": [1, 2]}}
MARK = [{"name": "runspec", "value": RUN}]
GOING = {"id": RUN, "state": "active", "metadata": MARK, "onAllTasksComplete": "noaction"}
ENDED = {
    "terminateReason": "AllTasksComplete",
    "startTime": "2026-06-01T00:00:00Z",
    "poolId": "p",
}
OVER = {**GOING, "state": "completed", "executionInfo": ENDED}
GOOD = {"result": "success", "exitCode": 0, "failureInfo": None}
PHASES: Mapping[str, Phase] = {
    "waiting": Phase(spec(**SWEEP), GOING, [task(0, "active"), task(1, "active")]),
    "running": Phase(spec(**SWEEP), GOING, [task(0, "running"), task(1, "active")]),
    "over": Phase(
        spec(**SWEEP), OVER, [task(0, "completed", **GOOD), task(1, "completed", **GOOD)]
    ),
    "late": Phase(spec(**SWEEP), OVER, [task(0, "completed", **GOOD), task(1, "running")]),
    "gang": Phase(
        spec(run="echo hi", cluster={"nodes": 2}), GOING, [task(0, "running", failureInfo=None)]
    ),
}


class Account:
    """An account with one run, behind *server*."""

    def __init__(self, server: Server, phase: str, **profile: Any) -> None:
        self.server, self.phase = server, PHASES[phase]
        self._known: AzureClient | None = None
        where = {"batch_url": server.url, "blob_url": f"{server.url}/acct", "batch_account": "jobs"}
        keys = {"batch_key": "env:KEY", "storage_key": "env:KEY", "storage_account": "jobs"}
        self.options = options(**{**where, **keys, **profile})
        facts = Facts(self.options, {}, ())
        self.steps = {one.id: one for one in PROVIDER.plan(self.phase.spec, RUN, facts)}
        self.reset()

    def reset(self) -> None:
        """Have nothing happened yet."""
        self.cloud = cloud = Cloud()
        self.server.answering = cloud.answer
        record = self.steps["record"].do.params["body"]
        cloud.blobs["runspec/runs/n-abc123/record.json"] = record.encode()
        opened = {"number": 1, "machines": ["tvm-a", "tvm-b"]}
        cloud.blobs["runspec/runs/n-abc123/nodes/0/open"] = json.dumps(opened).encode()
        for operation, value in self.truths().items():
            cloud.says(operation, value)
        for operation in ("Pool_EnableAutoScale", "Job_Patch"):
            cloud.says(operation, None)
        for operation in ("Pool_Add", "Job_Add"):
            cloud.says(operation, None, 201)
        cloud.says("Job_Terminate", None, 202)
        cloud.says("Task_Terminate", None, 204)
        cloud.says("Task_Delete", None)
        cloud.truth["Job_Delete"] = lambda _: self._gone("Job_Get")
        cloud.truth["Pool_Delete"] = lambda _: self._gone("Pool_Get")
        for kind in ("Task", "ComputeNode"):
            cloud.truth[f"File_GetPropertiesFrom{kind}"] = head
            cloud.truth[f"File_GetFrom{kind}"] = file_part
        cloud.truth["Task_Get"] = self._task

    def _gone(self, look: str) -> Reply:
        self.cloud.truth[look] = lambda _: reply(404, {"code": "ResourceNotFound"})
        return Reply(202)

    def truths(self) -> dict[str, Any]:
        """Return what the service says of what it is asked for."""
        job = {**self.phase.job, "poolInfo": {"poolId": self.pool["id"]}}
        other = {"id": "other", "state": "active", "metadata": []}
        added = [{"status": "success", "taskId": one["id"]} for one in self.phase.tasks]
        made = self.steps["pool"].do.params["body"]
        return {
            "Job_Get": job,
            "Job_List": {"value": [job, other]},
            "Task_List": {"value": list(self.phase.tasks)},
            "Task_ListSubtasks": {"value": [{"id": 1, "nodeInfo": NODE}]},
            "Pool_Get": {**self.pool, "vmSize": made["vmSize"]},
            "Pool_List": {"value": [self.pool, {"id": "other", "state": "active", "metadata": []}]},
            "ComputeNode_List": {"value": [{"id": "tvm-a", "state": "starting"}]},
            "Account_ListSupportedImages": {"value": [IMAGE]},
            "Task_AddCollection": {"value": added},
            "Pool_EvaluateAutoScale": {"results": "$TargetDedicatedNodes=0", "error": None},
            "Task_Get": self.now(len(self.phase.tasks) - 1),
        }

    @property
    def pool(self) -> dict[str, Any]:
        made = self.steps["pool"].do.params
        name = made["body"].get("id") or made["path"]["poolName"]
        return {
            "id": name,
            "state": "active",
            "allocationState": "steady",
            "resizeErrors": None,
            "autoScaleRun": None,
            "currentDedicatedNodes": 1,
            "metadata": [{"name": "runspec", "value": "pool"}],
        }

    def told(self, operation: str) -> st.SearchStrategy[Truth] | None:
        """Return what the service may say besides, of operations whose answers are no JSON."""
        return TOLD[operation](self) if operation in TOLD else None

    def now(self, number: int) -> Mapping[str, Any]:
        """Return a task as it is now: of a job that is over, it is over, too."""
        found = self.phase.tasks[number]
        return {**found, **DONE} if self.phase.job is OVER else found

    def _task(self, asked: ReceivedRequest) -> Reply:
        return reply(200, self.now(int(asked.path.rpartition("-")[2])))

    def client(self) -> AzureClient:
        """Return a client that knows nothing yet, over connections that are there."""
        found = AzureClient(self.options, timing.DEFAULT)
        if self._known is None:
            self._known = found
        kept = self._known
        for name in ("writer", "reader"):
            found.session.__dict__[name] = getattr(kept.session, name)
        found.blobs.__dict__["native"] = kept.blobs.native
        return found


DONE = {"state": "completed", "executionInfo": {**OK_INFO, **GOOD}}


def content_of(asked: ReceivedRequest) -> bytes:
    return OTHER if "/nodes/" in asked.path else TEXT


def head(asked: ReceivedRequest) -> Reply:
    return Reply(200, {"Content-Length": str(len(content_of(asked)))})


def file_part(asked: ReceivedRequest, content_type: str = "application/octet-stream") -> Reply:
    found = ranged(
        content_of(asked), asked.headers.get("ocp-range"), {"Content-Type": content_type}
    )
    return found._replace(status=200)


# What a client does: each returns what can be compared.


def state(account: Account) -> Any:
    found = account.client().state(RUN)
    nodes = [(node.task, node.rank, node.state, node.attempt) for node in found.nodes]
    return found.state, found.exit_code, nodes


def logs(account: Account) -> Any:
    """Follow the logs as the core does: what fails is asked again, and nothing may be lost or come twice."""
    client = account.client()
    found: dict[tuple[int, int], bytes] = {}
    places: dict[tuple[int, int], str | None] = {}
    for last in (False, True):
        client.tasks.forget()  # time passes
        try:
            for stream in client.streams(RUN):
                where, more = (stream.task, stream.rank), True
                while more:
                    chunk = stream.read(places.get(where))
                    more, places[where] = bool(chunk.data), chunk.position
                    found[where] = found.get(where, b"") + chunk.data
                    whole = TEXT if stream.rank == 0 else OTHER
                    assert whole.startswith(found[where]), f"{found[where]!r} is not of {whole!r}"
        except RunspecError:
            if last:
                raise
    return found


def cancel(account: Account) -> Any:
    return account.client().cancel(RUN)


def stop(account: Account) -> Any:
    return account.client().stop(RUN, [1])


def delete_task(account: Account) -> Any:
    return account.client().releases.delete(RUN, "task-00000")


def litter(account: Account) -> Any:
    return [(one.what, one.run, one.alive) for one in account.client().find_orphans([], [])]


def doctor(account: Account) -> Any:
    return [one.ok for one in examine(account.options)]


class Context:
    """What a probe is given where nothing is written down."""

    name = "probe"

    def note(self, what: str, by_hand: str, *remove: Request) -> None: ...

    def tell(self, line: str) -> None: ...

    def sleep(self, wanted_s: float) -> None: ...


def evaluate(account: Account) -> Any:
    """Carry out the probe that asks what formulas give."""
    bench = jobs.Bench(account.options)
    return jobs.formulas_are_taken(account.client(), Context(), bench).verdict


def find(step: str) -> Callable[[Account], Any]:
    return lambda account: account.client().find(account.steps[step])


def call(step: str) -> Callable[[Account], Any]:
    return lambda account: account.client().call(account.steps[step].do)


def undo(step: str) -> Callable[[Account], Any]:
    def done(account: Account) -> Any:
        undo_ = account.steps[step].undo
        assert undo_ is not None
        if account.cloud.drawn and account.cloud.drawn[0].endswith("_Get"):
            account.cloud.often = 1  # what is there for ever is waited for, for half an hour
        return account.client().call(undo_)

    return done


def _effective(operation: str) -> Callable[[Account], st.SearchStrategy[Truth]]:
    """Have the service do what it is asked for, and say nothing of it."""
    return lambda account: st.builds(lambda: account.cloud.truth[operation])


CONTENT_TYPES = ("application/octet-stream", "application/json", "text/plain; charset=utf-8", "")


def _heads(account: Account) -> st.SearchStrategy[Truth]:
    """Draw the length of a log that grows while it is read, so that a range ends within a character."""

    def grown(first: int) -> Truth:
        asked_before: list[int] = []

        def answer(asked: ReceivedRequest) -> Reply:
            whole = len(content_of(asked))
            asked_before.append(1)
            count = min(first, whole) if len(asked_before) == 1 else whole
            return Reply(200, {"Content-Length": str(count)})

        return answer

    return st.integers(0, len(TEXT)).map(grown)


def _parts(account: Account) -> st.SearchStrategy[Truth]:
    """Draw the content type, and how much of what was asked for comes at once."""

    def of(content_type: str, most: int) -> Truth:
        def answer(asked: ReceivedRequest) -> Reply:
            found = file_part(asked, content_type)
            return found._replace(body=found.body[:most])

        return answer

    most = st.sampled_from((1000, 1000, 7, 20))
    return st.builds(of, st.sampled_from(CONTENT_TYPES), most)


TOLD: Mapping[str, Callable[[Account], st.SearchStrategy[Truth]]] = {
    "File_GetFromTask": _parts,
    "File_GetFromComputeNode": _parts,
    "File_GetPropertiesFromTask": _heads,
    "File_GetPropertiesFromComputeNode": _heads,
    "Job_Delete": _effective("Job_Delete"),
    "Pool_Delete": _effective("Pool_Delete"),
}
