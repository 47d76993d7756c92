"""Stop tasks of a sweep and release nodes of elastic jobs, by requests in the store that their agents read.

A pod that waits for a machine is deleted, which is a failure of its index: "PodGC will also mark them as failed". Its
Job makes it again, as often as the spec has attempts, and the agent of one that starts all the same leaves at once.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-garbage-collection
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from runspec_jobs.provider import Conflict, Released, Seat, State
from runspec_jobs.provider.elastic_tasks import OTHER_VERSION
from runspec_kubernetes import lookup, reasons
from runspec_kubernetes.attempts import Pod
from runspec_kubernetes.errors import Refused
from runspec_kubernetes.naming import QUEUE_LABEL, ending
from runspec_kubernetes.session import MERGE
from runspec_kubernetes.status import (
    NOT_NEEDED,
    Object,
    Runs,
    is_cancelled,
    over_indexes,
    state_of,
)
from runspec_kubernetes.store_layout import agent_name
from runspec_objects.store import Store

FIXED = "nodes that have left cannot come back {}: the Job cannot get more indexes"
TRIES = 5  # while others change the Job at the same moment


class Stops:
    """Ends parts of runs."""

    def __init__(self, runs: Runs, files: Store) -> None:
        self.runs, self.files = runs, files
        self._asked: dict[str, set[int]] = {}

    def stop(self, run: str, tasks: Collection[int]) -> None:
        """Have the agents of *tasks* end them, and delete their pods that wait."""
        record, job = self.runs.record(run), self.runs.job(run)
        if record is None or job is None or state_of(job, {}).terminal:
            return
        if run not in self._asked:
            self._asked[run] = self.runs.kept.numbers(run, "stop/")
        asked = self._asked[run]
        if new := sorted(set(tasks) - asked):
            self._permit(run, job, record, len(asked) + len(new))
            for task in new:
                self.files.put_new(f"runs/{run}/stop/{task}", b"")
                asked.add(task)
        self._end_waiting(run, lambda seat: seat[0] in tasks, record["nodes"])

    def _permit(self, run: str, job: Object, record: Any, stopped: int) -> None:
        """Let as many indexes more fail as tasks were stopped: `maxFailedIndexes` counts these, and can be changed."""
        spec = job["spec"]
        if spec.get("maxFailedIndexes") is None:
            return
        most = min(spec["completions"], record["max_failed"] - 1 + stopped)
        if most > spec["maxFailedIndexes"]:
            self._change(run, job, {"spec": {"maxFailedIndexes": most}})

    def _change(self, run: str, job: Object, body: dict[str, Any]) -> None:
        metadata = {**body.get("metadata", {}), "uid": job["metadata"]["uid"]}
        self.runs.session.send(
            "PATCH",
            self.runs.path("jobs", run),
            body={**body, "metadata": metadata},
            content_type=MERGE,
            action=f"change the Job {run}",
        )

    def release(self, run: str, away: Collection[Seat], back: Collection[Seat]) -> Released:
        """Have the nodes *away* leave, and those of *back* come back once their indexes are over.

        A node that runs ends by itself with 0, which its Job does not repeat.
        """
        record, job = self.runs.record(run), self.runs.job(run)
        if record is None or job is None:
            return Released((), ())
        per_task, gone = int(record["nodes"]), self.runs.released(run)
        newest, most = self.runs.newest(run, record), int(job["spec"]["completions"])
        awaited = {divmod(node, per_task) for node, index in newest.items() if index >= most}
        if not away and not back:
            return Released(gone | awaited, set(), _never_back(job))
        for task, rank in sorted(set(away) - gone):
            self.files.put_new(f"runs/{run}/released/{task * per_task + rank}", b"")
        going = {*away, *(gone & set(back))}
        if going:
            self._end_waiting(run, lambda seat: seat in going, per_task)
        done, failed = over_indexes(job)
        over = {divmod(node, per_task) for node, index in newest.items() if index in done | failed}
        ended = state_of(job, {}).terminal
        leaving = set() if ended else going - over - awaited
        if ended or self.runs.elastic_end(run, record) is not None:
            return Released(gone | set(away), leaving)
        come = (set(back) - set(away) - leaving) & (gone | awaited)
        self._bring_back(run, record, come, awaited)
        return Released((gone | set(away)) - come, leaving)

    def _bring_back(
        self, run: str, record: Mapping[str, Any], come: set[Seat], awaited: set[Seat]
    ) -> None:
        """Have the Job run an index more for each node that comes back.

        An index is announced before the record of the release is deleted, and asked for after it: so the node never
        starts while there is one, and an interrupted call can be continued.
        """
        for task, rank in sorted(come):
            node = task * int(record["nodes"]) + rank
            if (task, rank) not in awaited:
                self._announce(run, record, node, self._attempts(run, node, task, rank))
            self.files.remove([f"runs/{run}/released/{node}"])
        if come:
            self._grow(run, 1 + max(each.place for each in self.runs.returns(run)))

    def _announce(self, run: str, record: Mapping[str, Any], node: int, before: int) -> None:
        """Take the next index that no node has, for *node* with *before* attempts."""
        text = json.dumps({"node": node, "before": before}).encode()
        taken = self.runs.kept.numbers(run, "returned/")
        index = max([*taken, int(record["count"]) * int(record["nodes"]) - 1]) + 1
        while not self.files.put_new(f"runs/{run}/returned/{index}", text):
            index += 1

    def _attempts(self, run: str, node: int, task: int, rank: int) -> int:
        """Return the number of the last attempt of a node, of which its pod or its end record is there."""
        pods = self.runs.pods(run).get(node, ())
        ended = self.runs.kept.count_ended(run, task, rank)
        return max([ended, *(pod.attempt for pod in pods)])

    def _grow(self, run: str, indexes: int) -> None:
        """Have the Job of a run that goes on have so many *indexes*, if it has fewer.

        https://kubernetes.io/docs/concepts/workloads/controllers/job/#elastic-indexed-jobs
        """
        for left in reversed(range(TRIES)):
            job = self.runs.job(run)
            if job is None or is_cancelled(job) or state_of(job, {}).terminal:
                return
            if int(job["spec"]["completions"]) >= indexes:
                return
            version = {"resourceVersion": job["metadata"].get("resourceVersion")}
            spec = {"completions": indexes, "parallelism": indexes}
            try:
                self._change(run, job, {"metadata": version, "spec": spec})
                return
            except Conflict:  # it has changed, or was cancelled
                if not left:
                    raise

    def reconcile(self, run: str) -> Sequence[str]:
        """Delete pods of tasks that `max_failed` ends, and end an elastic job that is over and waits for machines."""
        record = self.runs.record(run)
        if record is None:
            return ()
        per_task = int(record["nodes"])
        self._count_failed(run, record)
        if halted := self.runs.halted(run, record):
            self._end_waiting(run, lambda seat: seat[0] in halted, per_task)
        alive = [pod for of in self.runs.pods(run).values() for pod in of if not pod.over]
        if not record.get("elastic") or not alive or any(not _waits(pod) for pod in alive):
            return ()
        job = self.runs.job(run)
        if job is None or self.runs.elastic_end(run, record) is None:
            return ()
        marked = ending(job, NOT_NEEDED)
        if state_of(job, {}) is State.WAITING and not lookup.is_leaving(job):
            self._change(run, job, marked)
        pods = f"{len(alive)} {'pod' if len(alive) == 1 else 'pods'}"
        return [f"ended {pods} that waited for machines, because the elastic job is over"]

    def _count_failed(self, run: str, record: Mapping[str, Any]) -> None:
        """Count tasks of several nodes for `max_failed` that have failed together with their agents.

        Kubernetes counts those of one node, by `maxFailedIndexes`.
        """
        job = self.runs.job(run) if "max_failed" in record else None
        if job is None or job["spec"].get("maxFailedIndexes") is not None:
            return
        if is_cancelled(job) or state_of(job, {}).terminal:
            return
        failed = {index // int(record["nodes"]) for index in over_indexes(job)[1]}
        put = partial(self.files.put_new, content=b"")
        self.runs.kept.count_failed(run, record, failed, put)

    def _end_waiting(self, run: str, concerns: Callable[[Seat], bool], per_task: int) -> None:
        pods = [of[-1] for of in self.runs.pods(run, anew=True).values()]
        _delete(self.runs, [p for p in pods if concerns(divmod(p.place, per_task)) and _waits(p)])


def end_held(runs: Runs, run: str) -> Sequence[str]:
    """Delete pods whose job has ended, and that other containers keep alive until SIGTERM ends these, too.

    Until then the Job neither counts an index nor starts another pod in its place.
    """
    pods = [pod for of in runs.pods(run).values() for pod in of]
    held = [pod for pod in pods if pod.held and not lookup.is_leaving(pod.body)]
    _delete(runs, held)
    return [f"deleted the pod {pod.name}: {reasons.held(pod.body)}" for pod in held]


def _delete(runs: Runs, pods: Iterable[Pod]) -> None:
    for pod in pods:
        body = {"preconditions": {"uid": pod.body["metadata"]["uid"]}}
        path, what = runs.path("pods", pod.name), f"delete the pod {pod.name}"
        try:
            runs.session.send("DELETE", path, body=body, action=what)
        except (Conflict, Refused) as exc:  # it was replaced, or is gone
            if isinstance(exc, Refused) and exc.code != 404:
                raise


def _never_back(job: Object) -> str:
    """Return why nodes of a Job cannot come back, or an empty string."""
    spec, pod = job["spec"], job["spec"].get("template", {}).get("spec", {})
    agents = [volume.get("configMap", {}).get("name") for volume in pod.get("volumes", ())]
    if agent_name() not in agents:
        return OTHER_VERSION
    if QUEUE_LABEL in (job["metadata"].get("labels") or {}):
        return FIXED.format("in a queue of Kueue")
    # https://kubernetes.io/docs/concepts/workloads/controllers/job/#elastic-indexed-jobs
    grows = spec.get("completions") == spec.get("parallelism")
    return "" if grows else FIXED.format("with max_parallel")


def _waits(pod: Pod) -> bool:
    return pod.phase == "Pending" and not lookup.is_leaving(pod.body)
