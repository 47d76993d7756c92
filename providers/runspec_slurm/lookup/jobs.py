"""The jobs of runs: finding the job that owns a run, its status, and stopping it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from runspec_jobs.provider import (
    NoAnswer,
    NodeStatus,
    Response,
    RunspecError,
    State,
    Status,
    Unavailable,
    read_record,
    seated,
    seats_of,
)
from runspec_slurm import reasons, task_stop
from runspec_slurm.lookup.ownership import JobOwnership
from runspec_slurm.queue import Queue, Row
from runspec_slurm.status import states, unknown_outcomes
from runspec_slurm.status.unknown_outcomes import UnknownOutcomes
from runspec_slurm.status.workspace_poll import BATCH, AttemptKey, Note, Seen, WorkspacePoller
from runspec_slurm.store import elastic_records
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore, part_name
from runspec_slurm.task_stop import JobStopper
from runspec_slurm.timing import Clock, Timing

# The claim of a run that must not begin any more: `runspec_agent.job.agent`.
CANCELLED = "cancelled"
COMPLETED = "COMPLETED"
SHOWN = 100  # nodes in a status while the job runs; at its end, all are listed
# Arguments: the run, the name of the claim while it is written, and CANCELLED. Keeps the id of the job that claimed the
# run, and replaces the claim so that no job can begin.
REPLACE_CLAIM = """\
r=runs/$1 t=runs/$1/$2
[ -f "$r/record.json" ] || exit 0
case $(cat -- "$r/claim" 2>/dev/null) in
*[!0-9]*|"") ;;
*) ln -- "$r/claim" "$r/job" 2>/dev/null ;;
esac
printf %s "$3" >"$t" && mv -f -- "$t" "$r/claim"
"""


# Argument: the run. Standard input: numbers of tasks.
REQUEST_STOPS = f"""\
[ -f "runs/$1/record.json" ] || exit {NOTHING}
mkdir -p "runs/$1/stop" && cd "runs/$1/stop" || exit 1
while read -r t; do : >"$t" || exit 1; done
"""


class Pace:
    """Decides when to poll the controller: at once after a change of the run, else less and less often."""

    def __init__(self, timing: Timing, clock: Clock) -> None:
        self.timing, self.clock = timing, clock
        self.rows: list[Row] = []
        self._mark: Any = None
        self.next_s = 0.0
        self.pause_s = timing.ask_first_s

    def due(self, mark: Any) -> bool:
        """Return whether to poll now. *mark* is the state of the run in the workspace."""
        if mark != self._mark:
            self._mark, self.next_s, self.pause_s = mark, 0.0, self.timing.ask_first_s
        return self.clock.monotonic() >= self.next_s

    def take(self, rows: list[Row]) -> None:
        if rows != self.rows:
            self.pause_s = self.timing.ask_first_s
        self.rows = rows
        self.next_s = self.clock.monotonic() + self.pause_s
        self.pause_s = min(self.timing.ask_last_s, self.pause_s * self.timing.ask_grows)


class Jobs:
    """Jobs, by the names of their runs. A recent answer of the controller is reused."""

    def __init__(
        self, store: WorkspaceStore, queue: Queue, poller: WorkspacePoller, grace_s: float
    ) -> None:
        self.store, self.queue, self.poller = store, queue, poller
        self.timing, self.clock = store.timing, store.clock
        self.stopper = JobStopper(queue, grace_s + store.timing.save_s)
        self.ownership = JobOwnership(store, queue)
        self.unknown = UnknownOutcomes(store)
        self._ids: dict[str, str] = {}  # from the journal
        self._records: dict[str, dict[str, Any]] = {}
        self.paces: dict[str, Pace] = {}
        self._ended: dict[str, Status] = {}
        self.doubted: set[str] = (
            set()
        )  # runs for which `find` saw other jobs, or one that has not claimed it
        self._unkept: set[str] = set()  # runs whose final status is not in the workspace

    def remember(self, run: str, job: str) -> None:
        self._ids[run] = job

    def forget(self, run: str) -> None:
        """Drop all reused answers about *run*, which has changed."""
        self.poller.forget(run)
        self.paces.pop(run, None)
        self._ended.pop(run, None)
        self._unkept.discard(run)

    def record(self, run: str) -> dict[str, Any] | None:
        """Return the record of *run*; None if the run was destroyed."""
        if run not in self._records:
            found = self.store.read("runs", run, "record.json")
            if found is None:
                return None
            self._records[run] = read_record(found, f"the record of {run}")
        return self._records[run]

    def check_mounted(self, run: str) -> None:
        """Raise Unavailable if *run*, which is not in the workspace, was submitted, and no run is in the workspace.

        A file system that is not mounted looks like an empty folder, or like none.
        """
        if run in self._ids and not self.store.holds_runs():
            place = self.store.workspace
            raise Unavailable(
                f"{self.store.way.where}: the workspace {place} does not exist or is empty",
                "check that its file system is mounted, and that the profile names the workspace of the run; if all "
                f"runs were deleted, confirm this with mkdir -p {place}/runs",
            )

    def submit(self, run: str, argv: Sequence[str], script: str) -> Response:
        """Submit the job of *run* and return it, or the job that owns the run already."""
        job, holder = self.queue.submit(run, argv, script)
        self.forget(run)
        return self._answer(run, holder if holder.isdigit() else job)

    def _answer(self, run: str, job: str) -> Response:
        self.remember(run, job)
        return {"job": job}

    def find(self, run: str) -> Response | None:
        """Return the job that claimed *run*, or else the first job named *run*."""
        self.forget(run)
        seen = self.poller.seen(run)
        if seen is None:
            return None
        jobs = sorted({row.job for row in self.queue.of_name(run)}, key=int)
        holder = seen.holder or next(iter(jobs), None)
        if not jobs:
            self.ownership.check_cluster(run)
        if jobs not in ([], [seen.holder]):
            self.doubted.add(run)
        return None if holder is None else self._answer(run, holder)

    def status(self, run: str) -> Status:
        found, record = self._status(run), self._records.get(run)
        return found if record is None else seated(found, record)

    def _status(self, run: str) -> Status:
        """Return the status of *run*, with the task numbers that Slurm uses."""
        seen = self.poller.seen(run)
        record = None if seen is None else self.record(run)
        if seen is None or record is None:
            self._records.pop(run, None)
            self.forget(run)
            self.check_mounted(run)
            return Status(State.GONE)
        if run not in self._ended and seen.last is not None:
            self._ended[run] = states.from_json(seen.last)
        if run in self._ended:
            return self._ended[run]
        job = seen.holder or self._ids.get(run)
        rows = self._rows(run, job, seen)
        if job is None and not rows:
            cancelled = seen.claim == CANCELLED
            return (
                Status(State.CANCELLED, "it had not started") if cancelled else Status(State.GONE)
            )
        return self._together(run, record, job or min((row.job for row in rows), key=int), rows)

    def _rows(self, run: str, job: str | None, seen: Seen) -> list[Row]:
        """Return the rows of the job of *run*, from the controller or from its last answer."""
        known = self.paces.setdefault(run, Pace(self.timing, self.clock))
        if job is not None and self._all_succeeded(run, seen):
            rows = [row for row in known.rows if row.job == job and self.ownership.is_of(run, row)]
            return [row._replace(state=COMPLETED) for row in rows]
        begun = frozenset(place for place, size in seen.logs.items() if size)
        if known.due((job, seen.claim, seen.ends, begun)):
            known.take(self.queue.of_name(run) if job is None else self.queue.of_job(job))
        # A controller that lost its state gives the same ids to other jobs.
        rows = [
            row for row in known.rows if job in (None, row.job) and self.ownership.is_of(run, row)
        ]
        if not rows:
            self.ownership.check_cluster(run)
        return rows

    def _all_succeeded(self, run: str, seen: Seen) -> bool:
        """Return whether each task has an exit record of success, which is final.

        The controller knows it only later, after its epilog.
        """
        last = dict[int, AttemptKey]()
        for one in seen.ends:
            if one.rank == BATCH and one.number >= last.get(one.task, one).number:
                last[one.task] = one
        record = self._records.get(run)
        if record is None or len(last) < record["count"]:
            return False
        notes = self.poller.notes(run, last.values())
        return all(notes.get(one, {}).get("code") == 0 for one in last.values())

    def _together(
        self, run: str, record: Mapping[str, Any], job: str, rows: Sequence[Row]
    ) -> Status:
        """Return the status from the controller, the workspace and, if necessary, the accounting."""
        count, seen = record["count"], self.poller.seen(run) or Seen()
        if not rows and not seen.ends and seen.fresh and seen.claim != CANCELLED:
            return Status(State.WAITING, reasons.NOT_SHOWN)
        if not task_stop.alive(rows):
            seen = self._to_the_end(run, rows) or seen
        found, cancelled = self._tasks(run, job, count, rows, seen), seen.claim == CANCELLED
        if found is None:
            return unknown_outcomes.status(seen)
        nodes = partial(_nodes, found, record, cancelled=cancelled, stops=seen.stops)
        if not all(task.over for task in found):
            few = count * record["nodes"] <= SHOWN
            return states.going(found, nodes() if few else ())
        if (other := self._other(run, job, seen)) is not None:
            return other
        silent = not cancelled and _silent(found, seen)
        if silent and not self.unknown.over(run):
            return unknown_outcomes.status(seen)
        ended = states.status(nodes(), cancelled=cancelled, stops=seen.stops)
        if not cancelled:
            ended = elastic_records.over(self.store, run, record, ended)
        if not silent:
            self._ended[run] = ended
            self._unkept.add(run)
            self.poller.forget(run)  # its last output is visible by now
        return ended

    def _tasks(
        self, run: str, job: str, count: int, rows: Sequence[Row], seen: Seen
    ) -> list[states.Task] | None:
        """Return the tasks; None if the outcome is unknown and the accounting was asked a moment ago."""
        notes = self._notes(run, seen, rows)
        found = states.tasks(count, rows, notes, seen.codes)
        if task_stop.alive(rows) or not _silent(found, seen):
            return found
        if self.unknown.just_asked(run):
            return None
        pasts = [past for past in self.queue.past(job) if self.ownership.is_of(run, past)]
        return states.tasks(count, rows, notes, seen.codes, pasts)

    def _notes(self, run: str, seen: Seen, rows: Sequence[Row]) -> Mapping[AttemptKey, Note]:
        """Return the exit records that matter: at the end all; before that, those of requeued or ended tasks."""
        if not seen.ends:
            return {}
        going = {task for row in task_stop.alive(rows) if not row.restarts for task in row.tasks}
        return self.poller.notes(run, (one for one in seen.ends if one.task not in going))

    def _to_the_end(self, run: str, rows: Sequence[Row]) -> Seen | None:
        """Poll until all exit records are visible, which may be a moment after Slurm lists the end of the job."""
        end = self.clock.monotonic() + self.timing.notes_s
        began = {
            (t, row.restarts + 1) for row in rows if row.began_s is not None for t in row.tasks
        }
        while True:
            self.poller.forget(run)
            seen = self.poller.seen(run)
            ended = {(one.task, one.number) for one in seen.ends} if seen is not None else began
            if began <= ended or self.clock.monotonic() > end:
                return seen
            self.clock.sleep(self.timing.first_pause_s)

    def _other(self, run: str, job: str, seen: Seen) -> Status | None:
        """Return the status of another job of *run* that has not ended, if none has claimed the run, or None."""
        if seen.holder is not None:
            return None
        alive = [row for row in task_stop.alive(self.queue.of_name(run)) if row.job != job]
        if not alive:
            return None
        self.remember(run, alive[0].job)
        return Status(State.WAITING, "another job of this run has not begun yet")

    def keep(self, run: str) -> None:
        """Write the final status to the workspace, if it is known, because the controller removes jobs within minutes.

        The first one that is written counts for all machines. If it cannot be written, each machine computes its own.
        """
        if run not in self._unkept:
            return
        self._unkept.discard(run)
        content = json.dumps(states.to_json(self._ended[run]))
        with contextlib.suppress(RunspecError):
            if text := self.store.put_new(content, "runs", run, "last"):
                self._ended[run] = states.from_json(json.loads(text))

    def end(self, run: str) -> None:
        """Stop every job of *run*. The claim is replaced first, so that a job that starts later exits.

        Running jobs get SIGTERM and have their grace period; after that they are cancelled.
        """
        record = self.record(run)
        if record is None:
            self.check_mounted(run)
            return
        found = self.status(run)
        if found.state.terminal and found.state is not State.GONE:  # a submission may be on its way
            return
        self.store.change(f"cancel {run}", REPLACE_CLAIM, run, part_name(), CANCELLED)
        if self.stopper.stop(run, lambda: self._of_run(run), array=record["count"] > 1):
            self.forget(run)
        else:
            self.cancel(run, wait=False)

    def stop(self, run: str, tasks: Collection[int]) -> None:
        """Stop *tasks* of *run* as `end` stops all; the stop requests are written to the workspace first."""
        record = self.record(run)
        if record is None or self.status(run).state.terminal:
            return
        tasks = seats_of(record, tasks)
        numbers = "".join(f"{task}\n" for task in sorted(tasks)).encode()
        self.store.change(f"stop tasks of {run}", REQUEST_STOPS, run, content=[numbers])
        array = record["count"] > 1
        if not self.stopper.stop(run, lambda: self._of_run(run), array=array, tasks=tasks):
            late = [
                f"{row.job}_{task}" if array else row.job
                for row in task_stop.alive(self._of_run(run))
                for task in row.tasks
                if task in tasks
            ]
            self.queue.cancel(late)
        self.forget(run)

    def cancel(self, run: str, *, wait: bool = True) -> None:
        """Cancel the jobs of *run* that have not ended, and wait until all of their processes have ended."""
        pause_s, longest_s = self.timing.first_pause_s, self.timing.gone_s
        end = self.clock.monotonic() + longest_s
        while alive := task_stop.alive(self._of_run(run)):
            self.queue.cancel(sorted({row.job for row in alive if row.state != "COMPLETING"}))
            if not wait:
                break
            if self.clock.monotonic() > end:
                raise NoAnswer(f"the job of {run} has not ended in {longest_s:.0f} s")
            self.clock.sleep(pause_s)
            pause_s = min(self.timing.longest_pause_s, pause_s * 1.5)
        self.forget(run)

    def _of_run(self, run: str) -> list[Row]:
        """Return the jobs named *run*, and the job that owns the run, which the site or its user may have renamed."""
        named, seen = self.queue.of_name(run), self.poller.seen(run)
        holder = seen.holder if seen is not None else None
        if not named:
            self.ownership.check_cluster(run)
        if holder is None or any(row.job == holder for row in named):
            return named
        held = self.queue.of_job(holder)
        return [*named, *(row for row in held if self.ownership.is_of(run, row))]


def _silent(found: Iterable[states.Task], seen: Seen) -> bool:
    """Return whether the outcome of any task is unknown, except of stopped ones."""
    return any(task.silent and task.number not in seen.stops for task in found)


def _nodes(
    found: Sequence[states.Task],
    record: Mapping[str, Any],
    *,
    cancelled: bool,
    stops: Collection[int],
) -> tuple[NodeStatus, ...]:
    each = (
        states.nodes(task, record["nodes"], cancelled=cancelled or task.number in stops)
        for task in found
    )
    return tuple(node for nodes in each for node in nodes)
