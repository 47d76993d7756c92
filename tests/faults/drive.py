"""Runs the real command line in child processes whose every step is counted.

`python -m tests.faults.drive SDK...` is a fork server: it imports runspec once, and what the wires of these SDKs need,
then forks for each line of JSON that it reads (a `Case`), and answers with a line when the child has ended. So a case
costs milliseconds and not an interpreter.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import select
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runspec_jobs.cli import app
from runspec_jobs.cli.commands.verbs import VERBS
from runspec_jobs.load import registry
from runspec_jobs.plan import model
from runspec_jobs.state import atomic_io, journal, run_record
from runspec_local import client, store
from runspec_local.client import LocalClient
from tests.faults.boundaries import Boundaries, tree
from tests.support.root import ROOT

HOOKED = (
    "import sys; sys.path[:0] = [{root!r}, sys.argv.pop(1), sys.argv.pop(1)]; "
    "from tests.faults.hooked import supervise; supervise({wanted!r})"
)


# The safeguards, each taken away


def without_intent() -> None:
    """The journal does not say what is begun."""
    real = journal.Journal.add

    def add(self: journal.Journal, event: str, **fields: Any) -> None:
        if event != "begun":
            real(self, event, **fields)

    journal.Journal.add = add  # type: ignore[method-assign]


def without_find() -> None:
    """Nothing is ever found."""
    LocalClient.find = lambda self, step: None  # type: ignore[method-assign]


def without_locks() -> None:
    """Locks hold nobody back."""
    fcntl.flock = lambda fd, how: None


def without_run_lock() -> None:
    real = atomic_io.hold_lock

    def locked(path: Path, *args: Any, **how: Any) -> Any:
        own = path.with_name(f"{path.name}.{os.getpid()}") if path.name == "lock" else path
        return real(own, *args, **how)

    atomic_io.hold_lock = locked


def without_fsync() -> None:
    os.fsync = lambda fd: None


def without_rename() -> None:
    """Files and folders are written where they are to be, bit by bit."""

    def write(path: Path, data: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, atomic_io.PRIVATE_FILE)
        atomic_io.write_all(fd, data)
        os.fsync(fd)
        os.close(fd)

    def create(
        text: bytes,
        plan: Any,
        facts: Any,
        base: Path,
        name: str,
        profile: Path | None = None,
        machines: Any = None,
        about: Any = None,
    ) -> run_record.Record:
        found = run_record.Record(run_record.find_runs_folder() / plan.run)
        atomic_io.make_folder(found.folder)
        atomic_io.write(found.folder / "job.yaml", text)
        atomic_io.write(found.folder / "plan.json", run_record.format_json(model.write_plan(plan)))
        atomic_io.write(
            found.folder / "facts.json",
            run_record.format_json(run_record.write_facts(facts, base, profile, machines)),
        )
        with found.open_journal() as opened:
            opened.add("born", run=plan.run, digest=plan.digest)
        return found

    atomic_io.write, run_record.create = write, create


def without_whole_folders() -> None:
    """A folder gets its name before its files."""
    real = Path.with_name

    def with_name(self: Path, name: str) -> Path:
        return self if name.startswith(".new-") else real(self, name)

    Path.with_name = with_name  # type: ignore[method-assign, assignment]
    store.swap_name = lambda fresh, path: None


SAFEGUARDS: Mapping[str, Callable[[], None]] = {
    "intent": without_intent,
    "find": without_find,
    "locks": without_locks,
    "run lock": without_run_lock,
    "fsync": without_fsync,
    "rename": without_rename,
    "whole folders": without_whole_folders,
    "claim": lambda: None,  # the supervisor's own: hooked.py takes it away
}


def wired(sdk: str) -> Any:
    """Give the module that has the wire of *sdk*."""
    return importlib.import_module(f"tests.faults.wire_{sdk}")


# One case


def child(case: Mapping[str, Any]) -> int:
    """Carry out one command line as the process that we are from now on."""
    for fd, path in ((1, case["out"]), (2, case["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), fd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(case["env"])
    os.chdir(case["cwd"])
    tempfile.tempdir = None  # as asked for by the environment of this case
    steps = Boundaries(case["world"], case["trace"], case.get("at"), case.get("do", "kill"))
    if case.get("look"):
        steps.look = lambda: tree(Path(case["world"], "home"))
    steps.install()
    for name in case.get("without", ()):
        SAFEGUARDS[name]()
    steps.watch(LocalClient)
    if "wire" in case:
        wired(case["sdk"]).installed(steps, **case["wire"])
    if wanted := case.get("supervisor"):
        client.BOOTSTRAP = HOOKED.format(root=str(ROOT), wanted={"world": case["world"], **wanted})
    code = app.run(case["words"])
    steps.step("end")
    return code


def fork(case: Mapping[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        code = child(case)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - a child must not go on as its parent
        traceback.print_exc()
        code = 99  # of the harness itself
    os._exit(code)


def serve() -> None:
    """Answer each case with `{"id": ..., "pid": ...}`, and again with its `code` when it has ended."""
    for module in {verb.module for verb in VERBS.values() if verb.module is not None}:
        importlib.import_module(f"runspec_jobs.cli.{module}")
    registry.load("local")
    for sdk in sys.argv[1:]:
        wired(sdk).warm()
    running: dict[int, tuple[int, int]] = {}
    rest = b""
    while True:
        ready, _, _ = select.select([0, *running], [], [])
        for fd in ready:
            if fd:
                number, pid = running.pop(fd)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                os.close(fd)
                answer({"id": number, "code": code})
                continue
            data = os.read(0, 1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                case = json.loads(line)
                pid = fork(case)
                running[os.pidfd_open(pid)] = (case["id"], pid)
                answer({"id": case["id"], "pid": pid})


def answer(found: Mapping[str, Any]) -> None:
    os.write(1, json.dumps(found).encode() + b"\n")


if __name__ == "__main__":
    serve()
