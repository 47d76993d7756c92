"""Probes of Azure Batch: assumptions about autoscale formulas, terminated tasks and their files."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from runspec_azure.batch import job as jobs, status
from runspec_azure.batch.client import AzureClient
from runspec_azure.batch.decision import decide
from runspec_azure.batch.infrastructure import autoscale, pool
from runspec_azure.batch.options import BatchOptions
from runspec_azure.batch.probes.store import observation
from runspec_azure.errors import code_of, status_of
from runspec_azure.naming import batch, pairs
from runspec_azure.session import responses
from runspec_jobs.provider import Facts, RemoteError, RunspecError, Spec, Unavailable
from runspec_jobs.provider.probe import Observation, ProbeContext

SHOWN_S = 180.0  # for a change to become visible
MACHINE_S = 1200.0  # the time for a machine and its task to start
PAUSE_S = 2.0
TEXT = "日本語"
LISTEN = (
    f'trap "echo told" TERM; echo ready {TEXT}; i=0; '
    "while [ $i -lt 900 ]; do sleep 1; i=$((i+1)); done"
)
STDOUT = "stdout.txt"
Found = Mapping[str, Any]


class Bench:
    """Resources that probes of a session share: a pool without machines, one with a machine, and a job on each."""

    def __init__(self, options: BatchOptions) -> None:
        self.options = options
        self._pools: dict[str, str] = {}
        self._jobs: dict[str, str] = {}

    def pool(self, client: AzureClient, context: ProbeContext, nodes: int) -> str:
        """Return a pool of *nodes* machines; a pool with machines is the profile's, if it names one."""
        if nodes and self.options.pool:
            return self.options.pool
        name = f"runspec-{context.name}-{nodes}"
        if name not in self._pools:
            self._pools[name] = name
            context.note(f"pool {name}", _az("pool", name), batch("Pool_Delete", {"poolId": name}))
            context.tell(f"making the pool {name}")
            client.call(batch("Pool_Add", body=self._of(name, nodes)))
        return name

    def _of(self, name: str, nodes: int) -> dict[str, Any]:
        options = self.options.model_copy(update={"pool": None, "identity": None})
        content = pool.content(decide(spec(1), Facts(options)))
        targets = f"{autoscale.DEDICATED} = {nodes}; {autoscale.SPOT} = 0;"
        request = {"id": name, "autoScaleFormula": targets, "metadata": pairs({"runspec": "pool"})}
        return {**content, **request}

    def job(self, client: AzureClient, context: ProbeContext, nodes: int, text: str) -> str:
        """Return a job of two tasks that run *text*, on a pool of *nodes* machines."""
        where = self.pool(client, context, nodes)
        name = f"{context.name}-{nodes}"
        if name not in self._jobs:
            self._jobs[name] = name
            context.note(f"job {name}", _az("job", name), batch("Job_Delete", {"jobId": name}))
            info, mark = {"poolId": where}, pairs({"runspec": name})
            body = {
                "id": name,
                "poolInfo": info,
                "onAllTasksComplete": "noaction",
                "metadata": mark,
            }
            client.call(batch("Job_Add", body=body))
            added(client, name, [0, 1], text)
        return name


def _az(what: str, name: str) -> str:
    return f"az batch {what} delete --{what}-id {name} --yes"


def spec(nodes: int, capacity: str = "on-demand") -> Spec:
    """Return a spec of the smallest job on *nodes* machines."""
    fields = {"apiVersion": "runspec/v1", "name": "probe", "provider": "azure-batch", "run": "true"}
    return Spec.model_validate({**fields, "cluster": {"nodes": nodes, "capacity": capacity}})


def added(client: AzureClient, job: str, numbers: Sequence[int], text: str) -> list[Found]:
    """Add tasks; return the answer of the service for each."""
    line = f"/bin/sh -c '{text}'"
    body = {"value": [{"id": jobs.task_id(n), "commandLine": line} for n in numbers]}
    answer = client.session.make("Task_AddCollection", {"jobId": job}, body)
    return list(answer["value"])


def task(client: AzureClient, job: str, number: int) -> Found:
    return client.session.look("Task_Get", {"jobId": job, "taskId": jobs.task_id(number)})


def terminated(client: AzureClient, job: str, number: int) -> None:
    client.session.make("Task_Terminate", {"jobId": job, "taskId": jobs.task_id(number)})


def _await(done: Callable[[], bool], context: ProbeContext, longest_s: float) -> float:
    """Wait until *done*; return the seconds that this took. Raise Unavailable after *longest_s*."""
    began = time.monotonic()
    while not done():
        if time.monotonic() - began > longest_s:
            raise Unavailable(
                f"the probe waited {longest_s:.0f} s for the service without a result"
            )
        context.sleep(PAUSE_S)
    return time.monotonic() - began


def _seen(ask: Callable[[], Found], state: str, context: ProbeContext) -> Found:
    """Return the result of *ask* once it is in *state*, or as it is after SHOWN_S, which is an observation, too."""
    end = time.monotonic() + SHOWN_S
    while (resource := ask()).get("state") != state and time.monotonic() < end:
        context.sleep(PAUSE_S)
    return resource


def formulas_are_taken(client: AzureClient, context: ProbeContext, bench: Bench) -> Observation:
    path = {"poolId": bench.pool(client, context, 0)}
    until = f"{datetime.now(UTC) + timedelta(minutes=4):%Y-%m-%dT%H:%M:%SZ}"
    wrong = []
    for nodes in (1, 4):
        for capacity in ("on-demand", "spot", "spot-then-on-demand"):
            facts = Facts(bench.options.model_copy(update={"pool": None}))
            decision = decide(spec(nodes, capacity), facts)
            text = autoscale.formula(decision, nodes).replace(autoscale.CLOCK, until)
            body = {"autoScaleFormula": text}
            answer = client.session.make("Pool_EvaluateAutoScale", path, body)
            result = responses.one("Pool_EvaluateAutoScale", answer)
            if result.get("error") or f"{autoscale.DEDICATED}=" not in result.get("results", ""):
                wrong.append(f"{capacity} of {nodes}: {result.get('error', result)}")
    return observation(not wrong, "; ".join(wrong) or "6 formulas were evaluated without an error")


def enabled_twice(client: AzureClient, context: ProbeContext, bench: Bench) -> Observation:
    """Check the error code of the second request, which the client accepts from a pool that is scaling up."""
    path = {"poolId": bench.pool(client, context, 0)}
    body = {"autoScaleFormula": f"{autoscale.DEDICATED} = 0;"}
    codes = []
    _await(lambda: _steady(client, path), context, SHOWN_S)
    for _ in range(2):
        try:
            client.session.make("Pool_EnableAutoScale", path, body)
            codes.append("accepted")
        except RunspecError as exc:
            codes.append(code_of(exc) or exc.message)
    holds = codes[0] == "accepted" and codes[1] in (
        "TooManyEnableAutoScaleRequests",
        "PoolBeingResized",
    )
    return observation(holds, f"two requests in a row: {', '.join(codes)}")


def _steady(client: AzureClient, path: Mapping[str, str]) -> bool:
    return client.session.look("Pool_Get", path).get("allocationState") == "steady"


def collection_names_each(client: AzureClient, context: ProbeContext, bench: Bench) -> Observation:
    name = bench.job(client, context, 0, "true")
    results = added(client, name, [1, 2], "true")
    seen = [(result.get("status"), (result.get("error") or {}).get("code")) for result in results]
    holds = sorted(seen, key=str) == [("clienterror", "TaskExists"), ("success", None)]
    return observation(holds, f"one task that existed and one that did not: {seen}")


def waiting_task_ends(client: AzureClient, context: ProbeContext, bench: Bench) -> Observation:
    name = bench.job(client, context, 0, "true")
    terminated(client, name, 0)
    ended_task = _seen(lambda: task(client, name, 0), "completed", context)
    other, info = task(client, name, 1)["state"], ended_task.get("executionInfo", {})
    seen = f"the task is {ended_task['state']} ({info.get('exitCode')}, {info.get('result')}), the other one is {other}"
    return observation((ended_task["state"], other) == ("completed", "active"), seen)


def job_ends_with_its_tasks(
    client: AzureClient, context: ProbeContext, bench: Bench
) -> Observation:
    name = bench.job(client, context, 0, "true")
    for task in client.session.pages("Task_List", {"jobId": name}):
        if task["state"] != "completed":
            client.session.make("Task_Terminate", {"jobId": name, "taskId": task["id"]})
    client.call(batch("Job_Patch", {"jobId": name}, {"onAllTasksComplete": "terminatejob"}))
    ended_job = _seen(lambda: client.session.look("Job_Get", {"jobId": name}), "completed", context)
    reason = ended_job.get("executionInfo", {}).get("terminateReason")
    holds = ended_job["state"] == "completed" and reason in status.ALL_OVER
    return observation(holds, f"the job is {ended_job['state']}, its terminateReason {reason}")


def _running(client: AzureClient, context: ProbeContext, bench: Bench) -> str:
    """Return a job whose first task prints and then waits. Raise Unavailable if no machine starts."""
    name = bench.job(client, context, 1, LISTEN)
    done = ("running", "completed")
    _await(lambda: task(client, name, 0)["state"] in done, context, MACHINE_S)
    return name


def _file(client: AzureClient, name: str) -> bytes:
    path = {"jobId": name, "taskId": jobs.task_id(0), "filePath": STDOUT}
    return client.session.part("File_GetFromTask", path, 0, 1 << 16)


def live_file(client: AzureClient, context: ProbeContext, bench: Bench) -> Observation:
    name = _running(client, context, bench)
    path = {"jobId": name, "taskId": jobs.task_id(0), "filePath": STDOUT}
    want = f"ready {TEXT}\n".encode()

    def printed() -> bool:
        try:
            return client.session.part("File_GetFromTask", path, 0, 1 << 16).startswith(want)
        except RemoteError as exc:
            if status_of(exc) in (404, 409, 416):
                return False
            raise

    _await(printed, context, SHOWN_S)
    kind = client.session.head("File_GetFromTask", path).get("Content-Type")
    cut = client.session.part("File_GetFromTask", path, 1, 8)
    return observation(cut == want[1:8], f"content type {kind}; a range of 7 bytes had {len(cut)}")


def beyond_the_end(client: AzureClient, context: ProbeContext, bench: Bench) -> Observation:
    name = _running(client, context, bench)
    path = {"jobId": name, "taskId": jobs.task_id(0), "filePath": STDOUT}
    try:
        data = client.session.part("File_GetFromTask", path, 1 << 20, 1 << 21)
    except RemoteError as exc:
        status = status_of(exc)
        return observation(status in (404, 409, 416), f"{status} {code_of(exc)}")
    return observation(not data, f"the answer had {len(data)} bytes")


def told_to_end(client: AzureClient, context: ProbeContext, bench: Bench) -> Observation:
    name = _running(client, context, bench)
    terminated(client, name, 0)
    ended_task = _seen(lambda: task(client, name, 0), "completed", context)
    info, has_notice = ended_task.get("executionInfo", {}), b"told" in _file(client, name)
    seen = (
        f"the task is {ended_task['state']}, exit code {info.get('exitCode')}, result {info.get('result')}; "
        f"the program got {'' if has_notice else 'no '}SIGTERM, and its file can still be read"
    )
    return observation(ended_task["state"] == "completed" and info.get("result") == "failure", seen)
