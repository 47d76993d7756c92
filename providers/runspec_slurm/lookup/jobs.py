"""The jobs of runs: which of them has a run, how it stands, and how it is ended."""

from __future__ import annotations

import json
import time
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
from runspec_slurm import reasons, task_stop, timing
from runspec_slurm.lookup.ownership import JobOwnership
from runspec_slurm.queue import Queue, Row
from runspec_slurm.status import states, unknown_outcomes
from runspec_slurm.status.unknown_outcomes import UnknownOutcomes
from runspec_slurm.status.workspace_poll import BATCH, Note, Seen, Try, WorkspacePoller
from runspec_slurm.store import elastic_records
from runspec_slurm.store.workspace import NOTHING, WorkspaceStore, part_name
from runspec_slurm.task_stop import Endings

CANCELLED = (
    "cancelled"  # stands in the claim of a run that is to begin no more: `runspec_agent.job.agent`
)
COMPLETED = "COMPLETED"
SHOWN = 100  # nodes that a status lists while the job runs; at its end, all
PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
# run, the name of a claim until it is one: the job's id goes on to be known, and no job may begin from here on.
LET_NOBODY = """\
r=runs/$1 t=runs/$1/$2
[ -f "$r/record.json" ] || exit 0
case $(cat -- "$r/claim" 2>/dev/null) in
*[!0-9]*|"") ;;
*) ln -- "$r/claim" "$r/job" 2>/dev/null ;;
esac
printf %s "$3" >"$t" && mv -f -- "$t" "$r/claim"
"""


# run; the numbers of tasks come in
LET_STOP = f"""\
[ -f "runs/$1/record.json" ] || exit {NOTHING}
mkdir -p "runs/$1/stop" && cd "runs/$1/stop" || exit 1
while read -r t; do : >"$t" || exit 1; done
"""


class Pace:
    """When the controller is asked again: at once when there is news of the run, else ever less often."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._mark: Any = None
        self._next_s = 0.0
        self._pause_s = timing.ASK_FIRST_S

    def due(self, mark: Any) -> bool:
        """Return whether to ask; *mark* is what the workspace says of the run."""
        if mark != self._mark:
            self._mark, self._next_s, self._pause_s = mark, 0.0, timing.ASK_FIRST_S
        return time.monotonic() >= self._next_s

    def take(self, rows: list[Row]) -> None:
        if rows != self.rows:
            self._pause_s = timing.ASK_FIRST_S
        self.rows = rows
        self._next_s = time.monotonic() + self._pause_s
        self._pause_s = min(timing.ASK_LAST_S, self._pause_s * timing.ASK_GROWS)


class Jobs:
    """Jobs by the names of their runs. What the controller said just now it is not asked again."""

    def __init__(
        self, shelf: WorkspaceStore, queue: Queue, looks: WorkspacePoller, grace_s: float
    ) -> None:
        self.shelf, self.queue, self.looks = shelf, queue, looks
        self.endings = Endings(queue, grace_s + timing.SAVE_S)
        self.whose = JobOwnership(shelf)
        self.doubts = UnknownOutcomes(shelf)
        self._ids: dict[str, str] = {}  # as the journal has them
        self._records: dict[str, dict[str, Any]] = {}
        self._paces: dict[str, Pace] = {}
        self._ended: dict[str, Status] = {}

    def remember(self, run: str, job: str) -> None:
        self._ids[run] = job

    def forget(self, run: str) -> None:
        """Something was made or ended: ask anew."""
        self.looks.forget(run)
        self._paces.pop(run, None)
        self._ended.pop(run, None)

    def record(self, run: str) -> dict[str, Any] | None:
        """Return what the run is to do; None once it is destroyed."""
        if run not in self._records:
            found = self.shelf.read("runs", run, "record.json")
            if found is None:
                return None
            self._records[run] = read_record(found, f"the record of {run}")
        return self._records[run]

    def missed(self, run: str) -> None:
        """Nothing is there of *run*. Raises Unavailable where it was submitted, and nothing of any run is there.

        A file system that is not mounted may be an empty folder, or none.
        """
        if run in self._ids and not self.shelf.holds_runs():
            place = self.shelf.workspace
            raise Unavailable(
                f"{self.shelf.way.where}: the workspace {place} is not there, or has nothing in it",
                "is its file system mounted, and is it the workspace of then? if all of it was taken away, "
                f"mkdir -p {place}/runs says so",
            )

    def submit(self, run: str, argv: Sequence[str], script: str) -> Response:
        """Submit the job of *run*. Where another one has the run already, that is the job."""
        job, holder = self.queue.submit(run, argv, script)
        self.forget(run)
        return self._answer(run, holder if holder.isdigit() else job)

    def _answer(self, run: str, job: str) -> Response:
        self.remember(run, job)
        return {"job": job}

    def find(self, run: str) -> Response | None:
        """Return the job of *run*, by who has claimed it, or else by its name; others of that name are ended.

        One that has no claim yet gets it first, so that no other one can begin meanwhile.
        """
        self.forget(run)
        seen = self.looks.seen(run)
        if seen is None:
            return None
        rows = self.queue.of_name(run)
        jobs = sorted({row.job for row in rows}, key=int)
        holder = seen.holder
        if holder is None and jobs:
            holder = self.shelf.put_new(jobs[0], "runs", run, "claim") or jobs[0]
            holder = holder if holder.isdigit() else jobs[0]
            self.looks.forget(run)
        self.queue.cancel([row.job for row in task_stop.alive(rows) if row.job != holder])
        return None if holder is None else self._answer(run, holder)

    def status(self, run: str) -> Status:
        found, record = self._status(run), self._records.get(run)
        return found if record is None else seated(found, record)

    def _status(self, run: str) -> Status:
        """Return how *run* is; its nodes have the numbers that Slurm knows."""
        seen = self.looks.seen(run)
        record = None if seen is None else self.record(run)
        if seen is None or record is None:
            self._records.pop(run, None)
            self.forget(run)
            self.missed(run)
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
        """Return what the controller says of the job of *run*, now or a while ago."""
        known = self._paces.setdefault(run, Pace())
        if job is not None and self._all_succeeded(run, seen):
            rows = [row for row in known.rows if row.job == job and self.whose.is_of(run, row)]
            return [row._replace(state=COMPLETED) for row in rows]
        begun = frozenset(place for place, size in seen.logs.items() if size)
        if known.due((job, seen.claim, seen.ends, begun)):
            known.take(self.queue.of_name(run) if job is None else self.queue.of_job(job))
        # A controller that has lost its state gives the same ids to other jobs.
        return [row for row in known.rows if job in (None, row.job) and self.whose.is_of(run, row)]

    def _all_succeeded(self, run: str, seen: Seen) -> bool:
        """Return whether each task has noted that it has succeeded, which is its last word.

        The controller says so later: after its epilog, and when it is asked next.
        """
        last = dict[int, Try]()
        for one in seen.ends:
            if one.rank == BATCH and one.number >= last.get(one.task, one).number:
                last[one.task] = one
        record = self._records.get(run)
        if record is None or len(last) < record["count"]:
            return False
        notes = self.looks.notes(run, last.values())
        return all(notes.get(one, {}).get("code") == 0 for one in last.values())

    def _together(
        self, run: str, record: Mapping[str, Any], job: str, rows: Sequence[Row]
    ) -> Status:
        """Put together what the controller, the workspace and, where it is needed, the accounting say."""
        count, seen = record["count"], self.looks.seen(run) or Seen()
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
        if silent and not self.doubts.over(run):
            return unknown_outcomes.status(seen)
        ended = states.status(nodes(), cancelled=cancelled, stops=seen.stops)
        if not cancelled:
            ended = elastic_records.over(self.shelf, run, record, ended)
        return ended if silent else self._keep(run, ended)

    def _tasks(
        self, run: str, job: str, count: int, rows: Sequence[Row], seen: Seen
    ) -> list[states.Task] | None:
        """Return how each task stands; None where the accounting was asked just now, and did not know it either."""
        notes = self._notes(run, seen, rows)
        found = states.tasks(count, rows, notes, seen.codes)
        if task_stop.alive(rows) or not _silent(found, seen):
            return found
        if self.doubts.just_asked(run):
            return None
        pasts = [past for past in self.queue.past(job) if self.whose.is_of(run, past)]
        return states.tasks(count, rows, notes, seen.codes, pasts)

    def _notes(self, run: str, seen: Seen, rows: Sequence[Row]) -> Mapping[Try, Note]:
        """Return the notes that matter: all at the end; before that, of what was tried again or has ended."""
        if not seen.ends:
            return {}
        going = {task for row in task_stop.alive(rows) if not row.restarts for task in row.tasks}
        return self.looks.notes(run, (one for one in seen.ends if one.task not in going))

    def _to_the_end(self, run: str, rows: Sequence[Row]) -> Seen | None:
        """Look anew: what a node wrote last may come to be seen a moment later than Slurm says that it has ended."""
        end = time.monotonic() + timing.NOTES_S
        began = {
            (t, row.restarts + 1) for row in rows if row.began_s is not None for t in row.tasks
        }
        while True:
            self.looks.forget(run)
            seen = self.looks.seen(run)
            told = {(one.task, one.number) for one in seen.ends} if seen is not None else began
            if began <= told or time.monotonic() > end:
                return seen
            time.sleep(PAUSE_S)

    def _other(self, run: str, job: str, seen: Seen) -> Status | None:
        """A job that ended without ever having the run says nothing of it, where another one is alive."""
        if seen.holder is not None:
            return None
        alive = [row for row in task_stop.alive(self.queue.of_name(run)) if row.job != job]
        if not alive:
            return None
        self.remember(run, alive[0].job)
        return Status(State.WAITING, "another job of this run is to begin")

    def _keep(self, run: str, ended: Status) -> Status:
        """Keep how the run ended where everybody sees it: the controller forgets within minutes.

        Who was first has the say; where nothing can be written, each finds it out for himself.
        """
        self._ended[run] = ended
        try:
            text = self.shelf.put_new(json.dumps(states.to_json(ended)), "runs", run, "last")
        except RunspecError:
            return ended
        if text:
            self._ended[run] = states.from_json(json.loads(text))
        self.looks.forget(run)  # what it printed last is there by now
        return self._ended[run]

    def end(self, run: str) -> None:
        """End every job of *run*. The claim is taken from it first: what starts later leaves.

        What runs is told to end, and has its grace; after that, nobody is asked.
        """
        record = self.record(run)
        if record is None:
            self.missed(run)
            return
        found = self.status(run)
        if found.state.terminal and found.state is not State.GONE:  # a submission may be on its way
            return
        self.shelf.change(f"cancel {run}", LET_NOBODY, run, part_name(), CANCELLED)
        if self.endings.tell(run, lambda: self._of_run(run), array=record["count"] > 1):
            self.forget(run)
        else:
            self.take_away(run, wait=False)

    def stop(self, run: str, tasks: Collection[int]) -> None:
        """End *tasks* of *run*, as `end` does all of them; the wish is in the workspace first."""
        record = self.record(run)
        if record is None or self.status(run).state.terminal:
            return
        tasks = seats_of(record, tasks)
        numbers = "".join(f"{task}\n" for task in sorted(tasks)).encode()
        self.shelf.change(f"stop tasks of {run}", LET_STOP, run, content=[numbers])
        array = record["count"] > 1
        if not self.endings.tell(run, lambda: self._of_run(run), array=array, tasks=tasks):
            late = [
                f"{row.job}_{task}" if array else row.job
                for row in task_stop.alive(self._of_run(run))
                for task in row.tasks
                if task in tasks
            ]
            self.queue.cancel(late)
        self.forget(run)

    def take_away(self, run: str, *, wait: bool = True) -> None:
        """End what is alive of the jobs of *run*, and wait until all of their processes are gone."""
        pause_s, end = PAUSE_S, time.monotonic() + timing.GONE_S
        while alive := task_stop.alive(self._of_run(run)):
            self.queue.cancel(sorted({row.job for row in alive if row.state != "COMPLETING"}))
            if not wait:
                break
            if time.monotonic() > end:
                raise NoAnswer(f"the job of {run} has not ended in {timing.GONE_S:.0f} s")
            time.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 1.5)
        self.forget(run)

    def _of_run(self, run: str) -> list[Row]:
        """Return the jobs named *run*, and the one that has it: a site, or its user, may have renamed that."""
        named, seen = self.queue.of_name(run), self.looks.seen(run)
        holder = seen.holder if seen is not None else None
        if holder is None or any(row.job == holder for row in named):
            return named
        held = self.queue.of_job(holder)
        return [*named, *(row for row in held if self.whose.is_of(run, row))]


def _silent(found: Iterable[states.Task], seen: Seen) -> bool:
    """Return whether nobody knows how some task ended; of one that was stopped it is known."""
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
