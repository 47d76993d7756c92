"""The status of runs: of the Job, its pods, and the end records of the agents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runspec_agent.base.end_causes import STOPPED
from runspec_jobs.provider import (
    Attempt,
    NodeStatus,
    RunspecError,
    Seat,
    State,
    Status,
)
from runspec_jobs.provider.elastic_tasks import elastic_status
from runspec_jobs.provider.node_ends import AWAY, NodeEnds
from runspec_jobs.provider.types import blamed, tell_halted
from runspec_kubernetes import attempts, reasons
from runspec_kubernetes.attempts import Pod, Return
from runspec_kubernetes.errors import Refused
from runspec_kubernetes.naming import CANCELLED, QUEUE_LABEL, RUN_LABEL, collection
from runspec_kubernetes.session import Session
from runspec_kubernetes.store_layout import RECORD
from runspec_objects.run_files import RunFiles
from runspec_objects.store import Store

Object = Mapping[str, Any]
CANCEL = "cancelled by runspec"
NOT_NEEDED = (
    "not-needed"  # the value of CANCELLED of an elastic job that was over while nodes waited
)
# Why a Job fails whose tasks were stopped one by one. If a deadline ended it, which a policy of the cluster may set,
# missing pods prove nothing.
BY_INDEX = ("FailedIndexes", "MaxFailedIndexesExceeded")
SHOWN = 1000  # nodes in a status while the job runs; at its end, all are listed


class RecordMaps:
    """What a profile without a store keeps of runs: their records, in ConfigMaps."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    def read(self, key: str) -> bytes | None:
        _, run, name = key.split("/", 2)
        path = self.runs.path("configmaps", run)
        kept = (self.runs.session.read(path) or {}) if name == RECORD else {}
        text = kept.get("data", {}).get(name)
        return None if text is None else str(text).encode()

    def read_all(self, keys: Sequence[str]) -> list[bytes | None]:
        return [self.read(key) for key in keys]

    def names(self, prefix: str) -> Sequence[str]:
        return ()


class Runs:
    """The Jobs of runs and their pods."""

    def __init__(self, session: Session, store: Store | None) -> None:
        self.session, self.store = session, store
        self.namespace = session.options.namespace
        self.kept = RunFiles(RecordMaps(self) if store is None else store)
        self._ends: dict[str, NodeEnds] = {}
        self._names: dict[str, set[str]] = {}  # of end records in pods, also in those that are gone
        self._pods: dict[str, tuple[float, dict[int, list[Pod]]]] = {}
        self._returns: dict[
            str, dict[str, Mapping[str, int]]
        ] = {}  # by run, as they were announced

    def path(self, kind: str, name: str) -> str:
        return f"{collection(self.namespace, kind)}/{name}"

    def job(self, run: str) -> dict[str, Any] | None:
        """Return the Job of *run*, or None."""
        return self.session.read(self.path("jobs", run), f"look for the Job {run}")

    def record(self, run: str) -> dict[str, Any] | None:
        """Return the record of *run*; None if it was destroyed."""
        return self.kept.record(run)

    def pods(self, run: str, *, anew: bool = False) -> dict[int, list[Pod]]:
        """Return the pods of *run* by index; a list is used again while it is fresh, except with *anew*."""
        now = self.session.clock.monotonic()
        known = self._pods.get(run)
        if anew or known is None or now - known[0] > self.session.timing.fresh_s:
            selector = f"{RUN_LABEL}={run}"
            listed = self.session.listed(collection(self.namespace, "pods"), labelSelector=selector)
            by_index = attempts.sorted_pods(listed)
            names = (name for of in by_index.values() for name in attempts.end_names(of))
            self._names.setdefault(run, set()).update(names)
            known = self._pods[run] = (now, self._by_node(run, by_index))
        return known[1]

    def _by_node(self, run: str, pods: dict[int, list[Pod]]) -> dict[int, list[Pod]]:
        """Return *pods* by node, also of nodes that have come back as other indexes."""
        record = self.record(run) or {}
        if not record.get("elastic") or max(pods, default=0) < _count_nodes(record):
            return pods
        nodes = attempts.renumber(pods, self.returns(run))
        return {node: of for node, of in nodes.items() if node < _count_nodes(record)}

    def returns(self, run: str) -> list[Return]:
        """Return the nodes of an elastic run that have come back, in the order of their indexes.

        Two machines may have announced the same node at once: then the index counts that its agent has claimed.
        """
        if self.store is None:
            return []
        base, known = f"runs/{run}/returned/", self._returns.setdefault(run, {})
        names = set(self.kept.names(run, "returned/"))
        new = [name for name in names if name.isdigit() and name not in known]
        contents = self.store.read_all([base + name for name in new])
        known |= {n: json.loads(text) for n, text in zip(new, contents, strict=True) if text}
        same: dict[tuple[int, int], list[int]] = {}
        for name, said in known.items():
            same.setdefault((said["node"], said["before"]), []).append(int(name))
        chosen = []
        for (node, before), indexes in same.items():
            claim = f"{node}-{before}.claim"
            held = self.store.read(base + claim) if len(indexes) > 1 and claim in names else None
            chosen.append(Return(int(held or min(indexes)), node, before))
        return sorted(chosen)

    def newest(self, run: str, record: Mapping[str, Any]) -> dict[int, int]:
        """Return the newest index of each node."""
        own = {node: node for node in range(_count_nodes(record))}
        return own | {each.node: each.place for each in self.returns(run)}

    def ends(self, run: str, record: Mapping[str, Any]) -> NodeEnds:
        """Return the end records of *run*, from its pods and from the store."""
        if run not in self._ends:
            self._ends[run] = NodeEnds(record, lambda: self._end_names(run), lambda names: [])
        return self._ends[run]

    def _end_names(self, run: str) -> list[str]:
        """Return the names of end records; of those of one attempt, the last one counts.

        Kueue preempts by `suspend`: a pod that it has told to end counts for nothing, and the next has its number.
        https://kueue.sigs.k8s.io/docs/tasks/troubleshooting/troubleshooting_jobs/#is-my-job-suspended
        """
        names = {*self._names.get(run, ()), *self.kept.names(run, "ends/")}
        return sorted(names, key=lambda name: not name.endswith(f"-{STOPPED}"))

    def status(self, run: str) -> Status:
        job = self.job(run)
        record = None if job is None else self.record(run)
        if job is None or record is None:
            return Status(State.GONE)
        pods = self.pods(run, anew=True)
        state = state_of(job, pods)
        nodes = self._nodes(run, job, record, pods, state)
        of_user = state is State.CANCELLED and is_cancelled(job) != NOT_NEEDED
        if state.terminal and not of_user and record.get("elastic"):
            end = self.elastic_end(run, record)
            if end is not None:
                return elastic_status(end, nodes)
        if not state.terminal:
            why = self._why(run, job, pods) if state is State.WAITING else _lingers(pods)
            return Status(state, why, None, nodes)
        return tell_halted(_ended(job, state, nodes), record.get("max_failed"))

    def elastic_end(self, run: str, record: Mapping[str, Any]) -> tuple[int, str] | None:
        """Return how an elastic job has ended according to its nodes, or None."""
        return self.kept.elastic_end(run, record, record["count"])

    def released(self, run: str) -> set[Seat]:
        """Return the nodes of an elastic run that were released."""
        record = self.record(run)
        if record is None:
            return set()
        return {divmod(number, record["nodes"]) for number in self.kept.numbers(run, "released/")}

    def stopped(self, run: str, record: Mapping[str, Any]) -> set[int]:
        """Return the tasks that were stopped one by one, or that `max_failed` has ended."""
        if not record["sweep"]:
            return set()
        return self.kept.numbers(run, "stop/") | self.halted(run, record)

    def halted(self, run: str, record: Mapping[str, Any]) -> set[int]:
        """Return the tasks that are to end because `max_failed` others have failed."""
        return self.kept.halted(run, record, record["count"])

    def _nodes(
        self,
        run: str,
        job: Object,
        record: Mapping[str, Any],
        pods: Mapping[int, list[Pod]],
        state: State,
    ) -> tuple[NodeStatus, ...]:
        completions = int(job["spec"].get("completions") or 1)
        count = _count_nodes(record) if record.get("elastic") else completions
        if count > SHOWN and not state.terminal:
            return ()
        ends, per_task = self._look_at_ends(run, record, pods, state, count), int(record["nodes"])
        # Whether a cancel or max_failed ends all that has neither succeeded nor failed.
        ending = state.terminal or bool(is_cancelled(job)) or reasons.is_true(job, "FailureTarget")
        done, failed = over_indexes(job)
        newest: Mapping[int, int] = {}
        if record.get("elastic") and (done or failed):  # no other node has come back
            newest = self.newest(run, record)
            done = frozenset(node for node, index in newest.items() if index in done)
            failed = frozenset(node for node, index in newest.items() if index in failed)
        nodes = [
            self._node(index, per_task, pods.get(index, []), ends, state, ending, done, failed)
            for index in range(count)
        ]
        if state.terminal:  # also for nodes that were to come back when the Job ended
            nodes = [
                n._replace(state=State.CANCELLED, reason=CANCEL, exit_code=None)
                if newest.get(n.task * per_task + n.rank, 0) >= completions
                else n
                for n in nodes
            ]
        return self._cancel_told(run, job, record, nodes, ends)

    def _look_at_ends(
        self,
        run: str,
        record: Mapping[str, Any],
        pods: Mapping[int, list[Pod]],
        state: State,
        count: int,
    ) -> NodeEnds:
        """Return the end records of *run*, read for all of *count* nodes whose attempts have ended."""
        if state.terminal:
            self._ends.pop(run, None)  # of an attempt that was begun again, the first end was read
        ends, per_task = self.ends(run, record), int(record["nodes"])
        over = [pod for of in pods.values() for pod in of if pod.over or pod.held]
        ends.look([(*divmod(pod.place, per_task), pod.attempt) for pod in over])
        if state.terminal:  # also attempts whose pods are gone
            ends.look([(*divmod(index, per_task), 1) for index in range(count)])
        return ends

    def _cancel_told(
        self,
        run: str,
        job: Object,
        record: Mapping[str, Any],
        nodes: list[NodeStatus],
        ends: NodeEnds,
    ) -> tuple[NodeStatus, ...]:
        """Return *nodes* with those as canceled that were released, or stopped with their task."""
        if record.get("elastic") and any(node.state.terminal for node in nodes):
            away = self.released(run)
            nodes = [
                n._replace(state=State.CANCELLED, reason=AWAY, exit_code=None)
                if n.state.terminal and (n.task, n.rank) in away
                else n
                for n in nodes
            ]
        if any(n.state is State.FAILED and n.exit_code in (None, 143) for n in nodes):
            stopped = self.stopped(run, record)
            if _is_beyond_limit(job):
                stopped |= _told_tasks(nodes, ends) - self.kept.numbers(run, "failed/")
            nodes = [
                n._replace(state=State.CANCELLED, reason=CANCEL)
                if n.task in stopped and n.state is State.FAILED and _was_told(n, ends)
                else n
                for n in nodes
            ]
        return tuple(nodes)

    def _node(
        self,
        index: int,
        per_task: int,
        pods: Sequence[Pod],
        ends: NodeEnds,
        state: State,
        ending: bool,
        done: frozenset[int],
        failed: frozenset[int],
    ) -> NodeStatus:
        task, rank = divmod(index, per_task)
        of_job = ending and index not in done and index not in failed
        over = _attempts(pods, (task, rank), ends, of_job)
        last = pods[-1] if pods else None
        is_over = index in done or index in failed or state.terminal
        attempt = max(1, last.attempt if last else len(over))
        if not is_over and last is not None and not last.over:
            if last.phase == "Running":
                why, began = last.lingers, last.began_s
                return NodeStatus(task, rank, attempt, State.RUNNING, why, None, over, began)
            return NodeStatus(
                task, rank, attempt, State.WAITING, reasons.waiting(last.body), None, over
            )
        if not is_over:
            return NodeStatus(task, rank, max(1, len(over)), State.WAITING, "", None, over)
        final = over[-1] if over else None
        code = final.exit_code if final else None
        reason = final.reason if final else ""
        proven = ends.of((task, rank, over[-1].number)) if over else ends.newest(task, rank)
        if index in done or (last is not None and last.phase == "Succeeded"):
            # Where the pod is gone, and with it what its agent has said, the exit code proves it. It is the agent's, as
            # `command` replaces the ENTRYPOINT; without a store, none that was told to end or to leave exits with 0.
            # https://kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container/
            alone = self.store is None and (last is None or last.phase != "Succeeded")
            if alone or not ends.written or (proven is not None and proven.code == 0):
                return NodeStatus(task, rank, attempt, State.SUCCEEDED, "", 0, over)
            return NodeStatus(task, rank, attempt, State.FAILED, reason, code, over)
        if state is State.FAILED and index not in failed and proven is not None and not proven.code:
            # It has ended well after the Job had failed, which then counts no pod any more: see `canRemoveFinalizer` in
            # https://github.com/kubernetes/kubernetes/blob/master/pkg/controller/job/job_controller.go
            return NodeStatus(task, rank, attempt, State.SUCCEEDED, "", 0, over)
        if state is State.CANCELLED or (index not in failed and final is None):
            return NodeStatus(task, rank, attempt, State.CANCELLED, CANCEL, code, over)
        return NodeStatus(task, rank, attempt, State.FAILED, reason, code, over)

    def _why(self, run: str, job: Object, pods: Mapping[int, list[Pod]]) -> str:
        """Return why a Job without a running pod waits."""
        for of_index in pods.values():
            last = of_index[-1]
            if not last.over and (why := reasons.waiting(last.body)):
                return why
        if job["spec"].get("suspend"):
            return self._queued(job)
        return self._refused(run)

    def _queued(self, job: Object) -> str:
        """Return why Kueue has not started a Job yet.

        https://kueue.sigs.k8s.io/docs/concepts/workload/
        """
        queue = (job["metadata"].get("labels") or {}).get(QUEUE_LABEL)
        if queue is None:
            return "the Job is suspended"
        path = f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{self.namespace}/workloads"
        selector = f"kueue.x-k8s.io/job-uid={job['metadata']['uid']}"
        try:
            listed = list(self.session.listed(path, labelSelector=selector))
        except RunspecError:  # the reason is unknown then, and the status is not
            listed = []
        said = [reasons.condition(entry, "QuotaReserved").get("message", "") for entry in listed]
        return ": ".join([f"it waits in the queue {queue} of Kueue", *filter(None, said[:1])])

    def _refused(self, run: str) -> str:
        """Return why the Job makes no pods: a quota, or a policy of admission."""
        selector = f"involvedObject.kind=Job,involvedObject.name={run},type=Warning"
        path = collection(self.namespace, "events")
        try:
            events = list(self.session.listed(path, fieldSelector=selector))
        except Refused as exc:
            if exc.code != 403:  # this login may not list events: the reason is unknown then
                raise
            events = []
        failed = [event for event in events if event.get("reason") == "FailedCreate"]
        return str(failed[-1].get("message", "")) if failed else ""


def _lingers(pods: Mapping[int, list[Pod]]) -> str:
    """Return why all pods of a Job that run do no more work, or are about to end; else an empty string."""
    why = [pod.lingers for of in pods.values() for pod in of if pod.phase == "Running"]
    return why[0] if why and all(why) else ""


def _attempts(pods: Sequence[Pod], seat: Seat, ends: NodeEnds, of_job: bool) -> tuple[Attempt, ...]:
    """Return the ended attempts of an index, also those whose pods are gone.

    *of_job*: the last one has ended with its Job. Another one that was told to end was reclaimed.
    """
    known = {pod.attempt: attempts.of_pod(pod, seat, ends) for pod in pods if pod.over}
    newest = max((pod.attempt for pod in pods), default=1)
    for number in range(1, newest + 1):
        end = ends.of((*seat, number))
        live = any(pod.attempt == number for pod in pods)
        if number in known or live:
            continue
        if end is not None:
            reclaimed = end.preempted or (end.told and not (of_job and number == newest))
            reason = end.reason(ends.record)
            known[number] = Attempt(number, end.code, reason, reclaimed, setup_s=end.setup_s)
        elif number < newest:
            known[number] = Attempt(
                number, None, "its pod is gone: the node was lost", reclaimed=True
            )
    return tuple(known[number] for number in sorted(known))


def _was_told(node: NodeStatus, ends: NodeEnds) -> bool:
    end = ends.of((node.task, node.rank, node.attempt))
    return end is None or end.told


def _is_beyond_limit(job: Object) -> bool:
    """Return whether the Job ends because of `maxFailedIndexes`.

    It also counts tasks whose agents have recorded nothing, such as those that were killed with all of their container.
    """
    kinds = ("Failed", "FailureTarget")
    return any(reasons.condition(job, kind).get("reason") == BY_INDEX[1] for kind in kinds)


def _told_tasks(nodes: Sequence[NodeStatus], ends: NodeEnds) -> set[int]:
    """Return the tasks of which each node that has failed was told to end, and has recorded that."""
    failed = [node for node in nodes if node.state is State.FAILED]
    of_failed = {node: ends.of((node.task, node.rank, node.attempt)) for node in failed}
    own = {node.task for node, end in of_failed.items() if end is None or not end.told}
    return {node.task for node in failed} - own


def state_of(job: Object, pods: Mapping[int, list[Pod]]) -> State:
    """Return the state of a Job with *pods*."""
    if reasons.is_true(job, "Complete"):
        return State.SUCCEEDED
    if reasons.is_true(job, "Failed"):
        return State.CANCELLED if is_cancelled(job) else State.FAILED
    alive = [pod for of in pods.values() for pod in of if not pod.over]
    leaving = any("deletionTimestamp" in pod.body["metadata"] for of in pods.values() for pod in of)
    # Pods of a suspended Job are deleted: until then, what is known of them changes.
    if is_cancelled(job) and not alive and not leaving:
        return State.CANCELLED
    return State.RUNNING if any(pod.phase == "Running" for pod in alive) else State.WAITING


def is_cancelled(job: Object) -> str:
    """Return the mark of a Job that runspec has ended, and "" for any other."""
    return str((job["metadata"].get("annotations") or {}).get(CANCELLED, ""))


def _ended(job: Object, state: State, nodes: tuple[NodeStatus, ...]) -> Status:
    if state is State.CANCELLED:
        return Status(state, "", None, nodes)
    bad = blamed(nodes)
    if bad is not None:
        return Status(State.FAILED, bad.reason, bad.exit_code, nodes)
    if state is State.FAILED:
        said = reasons.condition(job, "Failed")
        tasks = {node.state for node in nodes} if said.get("reason") in BY_INDEX else set()
        if tasks == {State.CANCELLED}:
            return Status(State.CANCELLED, "", None, nodes)
        if State.CANCELLED in tasks and State.SUCCEEDED in tasks:
            return Status(State.SUCCEEDED, "", 0, nodes)
        return Status(state, str(said.get("message") or said.get("reason", "")), None, nodes)
    if nodes and all(node.state is State.CANCELLED for node in nodes):
        return Status(State.CANCELLED, "", None, nodes)
    return Status(State.SUCCEEDED, "", 0, nodes)


def over_indexes(job: Object) -> tuple[frozenset[int], frozenset[int]]:
    """Return the indexes of a Job that have succeeded, and those that have failed."""
    status = job.get("status", {})
    names = ("completedIndexes", "failedIndexes")
    done, failed = (indexes_of(status.get(name, "")) for name in names)
    return done, failed


def _count_nodes(record: Mapping[str, Any]) -> int:
    return int(record.get("count") or 1) * int(record["nodes"])


def indexes_of(text: str) -> frozenset[int]:
    """Return the indexes in the short form of the API.

    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobStatus

    >>> sorted(indexes_of("1,3-5,7"))
    [1, 3, 4, 5, 7]
    """
    numbers: set[int] = set()
    for part in filter(None, str(text or "").split(",")):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return frozenset(numbers)
