"""`runspec list`, `status` and `logs`."""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

from runspec import apply as engine, logs as log, record
from runspec.cli import applying, console
from runspec.errors import OK, JobFailed, RunspecError
from runspec.journal import Memory
from runspec.provider import State, Status, Stream
from runspec.record import Record
from runspec.report import plain

SAVE_PAUSE_S = 0.2


def list_runs(args: Namespace) -> int:
    rows = [(r, r.memory()) for r in record.all_runs()]
    rows = [(r, memory) for r, memory in rows if args.all or not memory.deleted]
    if args.json:
        found = [_row(r, memory) for r, memory in rows]
        console.out_json(found)
        return OK
    if not rows:
        console.tell("no runs yet: runspec apply job.yaml starts one")
    for r, memory in rows:
        row = _row(r, memory)
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(memory.born))
        console.out(f"{row['run']:48} {row['provider']:14} {row['state']:11} {began}")
    return OK


def _row(of: Record, memory: Memory) -> dict[str, object]:
    status = standing(of, memory)
    return {
        "run": of.run,
        "name": of.name,
        "provider": of.plan.provider,
        "state": "destroyed" if memory.deleted else status.state,
        "reason": status.reason,
        "began": memory.born,
    }


def standing(of: Record, memory: Memory) -> Status:
    """Give how a run stands: as kept once it has ended, else as its service says."""
    if memory.status is not None or memory.deleted:
        return memory.status or Status(State.GONE)
    if any(step.id not in memory.answers for step in of.plan.steps):
        hint = "the same apply goes on with it"
        return Status(State.WAITING, f"its apply was cut off or is still at work; {hint}")
    try:
        _, client, _ = applying.connect(of)
        return client.state(of.run)
    except RunspecError as exc:
        return Status(State.WAITING, f"not known now: {exc.message}")


def status(args: Namespace) -> int:
    of = record.find(args.run)
    memory = of.memory()
    found = standing(of, memory)
    row = {**_row(of, memory), **asdict(found), "want": memory.want}
    if args.json:
        console.out_json(row)
        return OK
    console.out(f"{of.run} {row['state'] if not memory.deleted else 'destroyed'}")
    if found.reason:
        console.out(f"  why: {plain(found.reason)}")
    if found.exit_code is not None:
        console.out(f"  exit code: {found.exit_code}")
    for node in found.nodes:
        code = "" if node.exit_code is None else f", exit code {node.exit_code}"
        tries = f", try {node.attempt}" if node.attempt > 1 else ""
        console.out(f"  task {node.task} node {node.rank}: {node.state}{code}{tries}")
    return OK


def logs(args: Namespace) -> int:
    of = record.find(args.run)
    _, client, _ = applying.connect(of)
    wanted = log.chosen(args.node, args.task)
    if args.save:
        return _save(of, args, wanted)
    if args.follow:
        return applying.watch(of, client, args, applying.wait_limit(args), wanted)
    show = applying.show(of, args)
    for line in log.everything(client, of.run, wanted):
        show(line)
    return OK


def _save(of: Record, args: Namespace, wanted: log.Wanted) -> int:
    """Save a copy of every stream, while the run goes on if that was asked for."""
    _, client, _ = applying.connect(of)

    def over() -> bool:
        return not args.follow or client.state(of.run).state.terminal

    if args.follow:
        while not over() and not log.tail(client).streams(of.run):
            time.sleep(SAVE_PAUSE_S)
    streams: list[Stream] = [s for s in log.tail(client).streams(of.run) if wanted(s)]
    saved = []
    for stream, path in log.names(streams, Path(args.save)):
        size = log.save(stream, path, over, lambda: time.sleep(SAVE_PAUSE_S))
        saved.append({"path": str(path), "bytes": size, "node": stream.rank, "task": stream.task})
        if not args.json:
            console.tell(f"saved {path} ({size:,} bytes)")
    if args.json:
        console.out_json(saved)
    if args.follow:
        with of.opened() as journal:
            ended = client.state(of.run)
            engine.note_end(journal, ended)
        return OK if ended.state is State.SUCCEEDED else JobFailed.exit_code
    return OK
