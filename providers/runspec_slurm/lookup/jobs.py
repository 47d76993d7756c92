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
    Released,
    Response,
    RunspecError,
    Seat,
    State,
    Status,
    Unavailable,
)
from runspec_jobs.provider.elastic_tasks import seat, seated, seats_of, task_of
from runspec_jobs.provider.job_manifest import read_record
from runspec_jobs.provider.types import list_halted, tell_halted
from runspec_slurm import reasons, task_stop
from runspec_slurm.lookup.arrays import Arrays, Pace
from runspec_slurm.lookup.ownership import JobOwnership
from runspec_slurm.naming import array_of, run_of, suffix
from runspec_slurm.queue import Queue, Row
from runspec_slurm.status import states, unknown_outcomes
from runspec_slurm.status.unknown_outcomes import UnknownOutcomes
from runspec_slurm.status.workspace_poll import BATCH, AttemptKey, Note, Seen, WorkspacePoller
from runspec_slurm.store import records
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore, part_name
from runspec_slurm.task_stop import JobStopper

# The claim of a run that must not begin any more: `runspec_agent.job.agent`.
CANCELLED = "cancelled"
COMPLETED = "COMPLETED"
SHOWN = 100  # nodes in a status while the job runs; at its end, all are listed
# Arguments: the run, the name of a claim while it is written, CANCELLED, and for each array the end of the names of its
# files. Keeps the id of the job that claimed the array, and replaces the claim so that no job can begin.
REPLACE_CLAIMS = """\
r=runs/$1 t=runs/$1/$2 w=$3; shift 3
[ -f "$r/record.json" ] || exit 0
for s do
case $(cat -- "$r/claim$s" 2>/dev/null) in
*[!0-9]*|"") ;;
*) ln -- "$r/claim$s" "$r/job$s" 2>/dev/null ;;
esac
printf %s "$w" >"$t" && mv -f -- "$t" "$r/claim$s" || exit 1
done
"""


# Argument: the run. Standard input: numbers of tasks.
REQUEST_STOPS = f"""\
[ -f "runs/$1/record.json" ] || exit {NOTHING}
mkdir -p "runs/$1/stop" && cd "runs/$1/stop" || exit 1
while read -r t; do : >"$t" || exit 1; done
"""


# Arguments: the run, and `max_failed`. Standard input: numbers of tasks. Once `max_failed` is reached, tasks end that
# have not failed, so no more are counted.
COUNT_FAILED = f"""\
[ -f "runs/$1/record.json" ] || exit {NOTHING}
mkdir -p "runs/$1/failed" && cd "runs/$1" || exit 1
[ "$(ls failed | wc -l)" -lt "$2" ] || exit 0
while read -r t; do [ -e "stop/$t" ] || : >>"failed/$t" || exit 1; done
"""


# Argument: the run. Standard input: nodes that are released, each after a plus, or asked for again, after a minus.
NOTE_RELEASED = f"""\
[ -f "runs/$1/record.json" ] || exit {NOTHING}
mkdir -p "runs/$1/released" && cd "runs/$1/released" || exit 1
while read -r how t; do case $how in +) : >"$t" ;; *) rm -f -- "$t" ;; esac || exit 1; done
"""


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
        self._ids: dict[str, str] = {}  # from the journal, by the names of the jobs
        self._records: dict[str, dict[str, Any]] = {}
        self.paces: dict[str, Pace] = {}
        self._ended: dict[str, Status] = {}
        self.doubted: set[str] = (
            set()
        )  # runs for which `find` saw other jobs, or one that has not claimed it
        self.due: dict[str, Sequence[states.Task]] = {}  # killed tasks to requeue, by runs
        self.failed: dict[str, set[int]] = {}  # failed tasks, by runs
        self._unkept: set[str] = set()  # runs whose final status is not in the workspace

    def remember(self, name: str, job: str) -> None:
        self._ids[name] = job

    def forget(self, run: str) -> None:
        """Drop all reused answers about *run*, which has changed."""
        self.poller.forget(run)
        self.paces.pop(run, None)
        self._ended.pop(run, None)
        self._unkept.discard(run)

    def record(self, run: str) -> dict[str, Any] | None:
        """Return the record of *run*; None if the run was destroyed."""
        if run not in self._records:
            content = self.store.read("runs", run, "record.json")
            if content is None:
                return None
            self._records[run] = read_record(content, f"the record of {run}")
        return self._records[run]

    def check_mounted(self, run: str) -> None:
        """Raise Unavailable if *run*, which is not in the workspace, was submitted, and no run is in the workspace.

        A file system that is not mounted looks like an empty folder, or like none.
        """
        if run in self._ids and not self.store.holds_runs():
            workspace = self.store.workspace
            raise Unavailable(
                f"{self.store.way.where}: the workspace {workspace} does not exist or is empty",
                "check that its file system is mounted, and that the profile names the workspace of the run; if all "
                f"runs were deleted, confirm this with mkdir -p {workspace}/runs",
            )

    def submit(self, name: str, argv: Sequence[str], script: str) -> Response:
        """Submit the job of a run with that *name*, and return it, or the job that has its place already."""
        job, holder = self.queue.submit(name, argv, script)
        self.forget(run_of(name))
        return self._answer(name, holder if holder.isdigit() else job)

    def _answer(self, name: str, job: str) -> Response:
        self.remember(name, job)
        return {"job": job}

    def find(self, name: str) -> Response | None:
        """Return the job that has the place of *name* by its claim, or else the first job with that name."""
        run = run_of(name)
        self.forget(run)
        seen = self.poller.seen(run)
        if seen is None:
            return None
        jobs = sorted({row.job for row in self.queue.of_name(name)}, key=int)
        claimed = seen.holder(array_of(name))
        holder = claimed or next(iter(jobs), None)
        if not jobs:
            self.ownership.check_cluster(run)
        if jobs not in ([], [claimed]):
            self.doubted.add(name)
        return None if holder is None else self._answer(name, holder)

    def status(self, run: str) -> Status:
        status, record = self._status(run), self._records.get(run)
        return status if record is None else seated(status, record)

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
        arrays = Arrays.of(run, record)
        jobs = self._held(arrays, seen)
        rows = self._rows(arrays, jobs, seen)
        if not jobs and not rows:
            cancelled = seen.claim == CANCELLED
            return (
                Status(State.CANCELLED, "it had not started") if cancelled else Status(State.GONE)
            )
        first = {arrays.number(r): r.job for r in sorted(rows, key=lambda r: -int(r.job))}
        jobs = {**first, **jobs}
        return self._together(arrays, record, jobs, [*rows, *arrays.missing({*jobs, *seen.claims})])

    def _held(self, arrays: Arrays, seen: Seen) -> dict[int, str]:
        """Return the jobs that own the arrays, from the claims or from the journal."""
        each = zip(arrays.numbers, arrays.names, strict=True)
        holders = {number: seen.holder(number) or self._ids.get(name) for number, name in each}
        return {number: job for number, job in holders.items() if job is not None}

    def _rows(self, arrays: Arrays, jobs: Mapping[int, str], seen: Seen) -> list[Row]:
        """Return the rows of the jobs of a run, from the controller or from its last answer."""
        run = arrays.run
        known = self.paces.setdefault(run, Pace(self.timing, self.clock))

        def is_own(row: Row) -> bool:
            """A controller that lost its state gives the same ids to other jobs."""
            mine = jobs.get(arrays.number(row)) in (None, row.job)
            return mine and self.ownership.is_of(run, row)

        if jobs and self._all_succeeded(run, seen):
            return [row._replace(state=COMPLETED) for row in known.rows if is_own(row)]
        begun = frozenset(place for place, size in seen.logs.items() if size)
        if known.due((jobs, seen.claims, seen.ends, begun)):
            known.take(arrays.placed(self._listed(arrays, jobs), jobs))
        rows = [row for row in known.rows if is_own(row)]
        if not rows:
            self.ownership.check_cluster(run)
        return rows

    def _listed(self, arrays: Arrays, jobs: Mapping[int, str]) -> list[Row]:
        """Return the rows of *jobs*, and those with the names of the arrays whose jobs are not known."""
        names = [n for i, n in zip(arrays.numbers, arrays.names, strict=True) if i not in jobs]
        rows = self.queue.of_job(*jobs.values()) if jobs else []
        return [*rows, *(self.queue.of_name(*names) if names else ())]

    def _all_succeeded(self, run: str, seen: Seen) -> bool:
        """Return whether each task has an exit record of success, which is final.

        The controller knows it only later, after its epilog.
        """
        last = dict[int, AttemptKey]()
        for end in seen.ends:
            if end.rank == BATCH and end.number >= last.get(end.task, end).number:
                last[end.task] = end
        record = self._records.get(run)
        if record is None or len(last) < record["count"]:
            return False
        notes = self.poller.notes(run, last.values())
        return all(notes.get(end, {}).get("code") == 0 for end in last.values())

    def _together(
        self,
        arrays: Arrays,
        record: Mapping[str, Any],
        jobs: Mapping[int, str],
        rows: Sequence[Row],
    ) -> Status:
        """Return the status from the controller, the workspace and, if necessary, the accounting."""
        run, seen = arrays.run, self.poller.seen(arrays.run) or Seen()
        if not rows and not seen.ends and seen.fresh and seen.claim != CANCELLED:
            return Status(State.WAITING, reasons.NOT_SHOWN)
        if not task_stop.alive(rows):
            seen = self._to_the_end(run, rows) or seen
        seen = seen._replace(stops=seen.stops | list_halted(record, seen.failed, arrays.total))
        tasks, cancelled = self._tasks(arrays, jobs, rows, seen), seen.claim == CANCELLED
        if tasks is None:
            return unknown_outcomes.status(seen)
        nodes = partial(_nodes, tasks, record, cancelled=cancelled, stops=seen.stops)
        if not all(task.over for task in tasks):
            few = arrays.total * record["nodes"] <= SHOWN
            return states.going(tasks, nodes() if few else ())
        if (other := self._other(arrays, jobs, seen)) is not None:
            return other
        silent = not cancelled and _silent(tasks, seen)
        if silent and not self.unknown.over(run):
            return unknown_outcomes.status(seen)
        ended = states.status(nodes(), cancelled=cancelled, stops=seen.stops | seen.released)
        if not cancelled:
            ended = records.is_elastic_over(self.store, run, record, ended)
            ended = tell_halted(ended, record.get("max_failed"))
        if not silent:
            self._ended[run] = ended
            self._unkept.add(run)
            self.poller.forget(run)  # the last output of the run is visible by now
        return ended

    def _tasks(
        self, arrays: Arrays, jobs: Mapping[int, str], rows: Sequence[Row], seen: Seen
    ) -> list[states.Task] | None:
        """Return the tasks; None if the outcome is unknown and the accounting was asked a moment ago."""
        run, total, each = arrays
        notes = self._notes(run, seen, rows)
        tasks = self._marked(run, seen, states.tasks(total, rows, notes, seen.codes, each=each))
        tasks = [t._replace(away=t.number in seen.released and t.waits) for t in tasks]
        if task_stop.alive(rows) or not _silent(tasks, seen):
            return tasks
        if self.unknown.just_asked(run):
            return None
        silent = {task.number // each for task in tasks if task.silent}
        pasts = [
            past
            for array, job in jobs.items()
            if array in silent
            for past in arrays.past(array, self.queue.past(job))
            if self.ownership.is_of(run, past)
        ]
        return states.tasks(total, rows, notes, seen.codes, pasts, each)

    def _marked(self, run: str, seen: Seen, tasks: list[states.Task]) -> list[states.Task]:
        """Return *tasks*, with the killed tasks marked that have another attempt."""
        record = self.record(run) if seen.claim != CANCELLED else None
        dead = record is not None and any(map(unknown_outcomes.is_killed, tasks))
        if record and dead and records.read_elastic_end(self.store, run, record) is None:
            tasks = unknown_outcomes.marked(tasks, record, seen.stops)
        self.due[run] = [task for task in tasks if task.due]
        self.failed[run] = {t.number for t in tasks if record and unknown_outcomes.has_failed(t)}
        return tasks

    def _notes(self, run: str, seen: Seen, rows: Sequence[Row]) -> Mapping[AttemptKey, Note]:
        """Return the exit records that matter: at the end all; before that, those of requeued or ended tasks."""
        if not seen.ends:
            return {}
        going = {task for row in task_stop.alive(rows) if not row.restarts for task in row.tasks}
        return self.poller.notes(run, (end for end in seen.ends if end.task not in going))

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

    def _other(self, arrays: Arrays, jobs: Mapping[int, str], seen: Seen) -> Status | None:
        """Return the status of another job of a run that has not ended, if none has claimed its place, or None."""
        names = [n for i, n in zip(arrays.numbers, arrays.names, strict=True) if not seen.holder(i)]
        rows = task_stop.alive(self.queue.of_name(*names)) if names else []
        alive = [row for row in rows if row.job not in jobs.values()]
        if not alive:
            return None
        self.remember(alive[0].name, alive[0].job)
        return Status(State.WAITING, "another job of this run has not begun yet")

    def keep(self, run: str) -> None:
        """Write the final status to the workspace, if it is known, because the controller removes jobs within minutes.

        The first one that is written counts for all machines. If it cannot be written, each machine computes its own.
        """
        if run not in self._unkept:
            return
        self._unkept.discard(run)
        content = json.dumps(states.to_json(self._ended[run]))
        # Only a copy, which another command can write while the controller knows the jobs.
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
        status = self.status(run)
        self.end_held(run)
        if (
            status.state.terminal and status.state is not State.GONE
        ):  # a submission may be on its way
            return
        ends = map(suffix, Arrays.of(run, record).numbers)
        self.store.change(f"cancel {run}", REPLACE_CLAIMS, run, part_name(), CANCELLED, *ends)
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
                row.task_id(task) if array else row.job
                for row in task_stop.alive(self._of_run(run))
                for task in row.tasks
                if task in tasks
            ]
            self.queue.cancel(late)
        self.forget(run)

    def count_failed(self, run: str) -> None:
        """Count tasks for `max_failed` that have failed together with their agents."""
        record, seen = self.record(run), self.poller.seen(run)
        if record is None or seen is None or run in self._ended or "max_failed" not in record:
            return
        new = self.failed.pop(run, set()) - seen.failed - seen.stops
        if new and len(seen.failed) < record["max_failed"]:
            numbers = "".join(f"{task}\n" for task in sorted(new)).encode()
            most = str(record["max_failed"])
            self.store.change(f"count tasks of {run}", COUNT_FAILED, run, most, content=[numbers])
            self.forget(run)

    def release(self, run: str, away: Collection[Seat], back: Collection[Seat]) -> Released:
        """Hold the nodes *away* in the queue, which one that runs does itself, and let those of *back* run again."""
        self.forget(run)
        seen, record = self.poller.seen(run), self.record(run)
        if seen is None or record is None:
            return Released((), ())
        if not away and not back:
            # A command that deleted the record of a node and was killed before it let the node go, on any machine.
            held = {task for row in self._of_run(run) if _is_held(row) for task in row.tasks}
            return Released({seat(record, task, 0) for task in seen.released | held}, ())
        leave = {task_of(record, *node)[0] for node in away}
        come = {task_of(record, *node)[0] for node in back} - leave
        rows = self._rows_of(run, leave | come)
        stuck = {task for task in come & seen.released if _runs(rows.get(task))}
        self._note_released(run, leave - seen.released, (come - stuck) & seen.released)
        self.queue.hold(_ids(rows, (t for t in leave if not _is_held(rows.get(t)))))
        held = {task for task in come - stuck if _is_held(rows.get(task))}
        self.queue.let_go(_ids(rows, held))
        dead = (come - stuck) & seen.released - {
            t for t, row in rows.items() if states.alive(row.state)
        }
        self.queue.start_again(_ids(rows, dead))
        self.forget(run)
        leaving = {task for task in leave if _runs(rows.get(task))} | stuck | held
        gone = (seen.released | leave) - (come - stuck)
        return Released({seat(record, t, 0) for t in gone}, {seat(record, t, 0) for t in leaving})

    def _rows_of(self, run: str, tasks: Collection[int]) -> dict[int, Row]:
        rows = self._of_run(run) if tasks else ()
        return {task: row for row in rows for task in row.tasks if task in tasks}

    def _note_released(self, run: str, away: Collection[int], back: Collection[int]) -> None:
        """Write the records of the nodes *away* to the workspace, and delete those of *back*."""
        lines = [
            f"{name} {task}\n"
            for name, tasks in (("+", away), ("-", back))
            for task in sorted(tasks)
        ]
        if lines:
            content = "".join(lines).encode()
            self.store.change(f"release nodes of {run}", NOTE_RELEASED, run, content=[content])

    def end_held(self, run: str) -> None:
        """Cancel the released nodes of a run that has ended: nobody will ask for them."""
        seen = self.poller.seen(run)
        if seen is not None and seen.released and self.status(run).state.terminal:
            rows = task_stop.alive(self._of_run(run))
            held = [r.task_id(t) for r in rows for t in r.tasks if t in seen.released]
            self.queue.cancel(held)

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
        """Return the jobs named like *run*, and those that own its arrays, which may have been renamed."""
        seen, record = self.poller.seen(run), self.record(run)
        arrays = Arrays(run) if record is None else Arrays.of(run, record)
        named = self.queue.of_run(run) if record is None else self.queue.of_name(*arrays.names)
        held = {} if seen is None else {n: job for n in arrays.numbers if (job := seen.holder(n))}
        if not named:
            self.ownership.check_cluster(run)
        absent = sorted(set(held.values()) - {row.job for row in named})
        others = self.queue.of_job(*absent) if absent else []
        rows = [*named, *(row for row in others if self.ownership.is_of(run, row))]
        return arrays.placed(rows, held)


def _silent(tasks: Iterable[states.Task], seen: Seen) -> bool:
    """Return whether the outcome of any task is unknown, except of stopped ones."""
    return any(task.silent and task.number not in seen.stops for task in tasks)


def _nodes(
    tasks: Sequence[states.Task],
    record: Mapping[str, Any],
    *,
    cancelled: bool,
    stops: Collection[int],
) -> tuple[NodeStatus, ...]:
    each = (
        states.nodes(
            task._replace(timeout_s=record.get("timeout_s")),
            record["nodes"],
            cancelled=cancelled or task.number in stops,
        )
        for task in tasks
    )
    return tuple(node for nodes in each for node in nodes)


def _runs(row: Row | None) -> bool:
    return row is not None and states.alive(row.state) and row.state not in states.WAITING


def _is_held(row: Row | None) -> bool:
    """Return whether the row is of tasks that wait until somebody lets them go."""
    if row is None or not states.alive(row.state):
        return False
    return row.state == "REQUEUE_HOLD" or row.reason.startswith("JobHeld") or "held" in row.reason


def _ids(rows: Mapping[int, Row], tasks: Iterable[int]) -> list[str]:
    """Return Slurm's ids of *tasks*, as far as it lists them."""
    return [rows[task].task_id(task) for task in sorted(tasks) if task in rows]
