"""A world of its own for each case: a home, a spec, what the job really did, and what must hold of them."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from runspec_local.supervisor.child import SAMPLER
from tests.support import json_documents
from tests.support.process_table import children
from tests.support.profiles import own_profile
from tests.support.root import ROOT

MEMORY = Path("/dev/shm")  # where fsync costs nothing: what it is for is tested by its order
LIMIT_S = 120.0  # of one command line, on a machine that does other things as well
KILLED = -signal.SIGKILL
UNKNOWN = 75  # the same command again is safe
TRIES = 4

SPEC = """\
apiVersion: runspec/v1
name: {name}
provider: local
cluster: {{nodes: {nodes}}}
mounts: [{{name: src, source: ./src, target: /job/src}}]
outputs: [{{name: out, path: /job/out}}]
env: {{TRUTH: {truth}}}
secrets: {{TOKEN: token}}
run: |
  words=$(cat "${{mounts.src}}/one" "${{mounts.src}}/two")
  echo "$RUNSPEC_RUN $RUNSPEC_RANK $RUNSPEC_ATTEMPT $words" >> "$TRUTH"
  echo done > "${{outputs.out}}/done"
  {last}
"""
PROFILE = 'providers: {local: {secrets: {token: "env:CANARY"}, grace: 1s}}\n'
QUICK, LONG, STUBBORN = ":", "exec sleep 300", "trap '' TERM; while :; do sleep 0.1; done"


@dataclass(frozen=True)
class Ended:
    """How one command line ended, and the steps it took."""

    code: int
    out: str
    err: str
    steps: tuple[Mapping[str, Any], ...]

    @property
    def labels(self) -> list[str]:
        return [step["label"] for step in self.steps if step["n"] is not None]


class Driver:
    """The fork server of drive.py, as its clients see it, one in each thread; it has the wires of *sdks*."""

    def __init__(self, *sdks: str) -> None:
        line = [sys.executable, "-m", "tests.faults.drive", *sdks]
        self._server = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        self._numbers = itertools.count(1)
        self._heard = threading.Condition()
        self._over = False
        self.pids: dict[int, int] = {}
        self.codes: dict[int, int] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, case: Mapping[str, Any]) -> int:
        assert self._server.stdin
        with self._heard:
            number = next(self._numbers)
            self._server.stdin.write(json.dumps({**case, "id": number}).encode() + b"\n")
            self._server.stdin.flush()
        assert self._comes(number, self.pids, LIMIT_S), "the fork server has died"
        return number

    def wait(self, number: int, limit_s: float = LIMIT_S) -> int | None:
        """Give the exit code, less than 0 for a signal; None when it is still running after *limit_s*."""
        return self.codes[number] if self._comes(number, self.codes, limit_s) else None

    def _comes(self, number: int, where: Mapping[int, int], limit_s: float) -> bool:
        with self._heard:
            self._heard.wait_for(lambda: number in where or self._over, limit_s)
            return number in where

    def _listen(self) -> None:
        assert self._server.stdout
        for line in self._server.stdout:
            found = json.loads(line)
            with self._heard:
                where, kind = (self.pids, "pid") if "pid" in found else (self.codes, "code")
                where[found["id"]] = found[kind]
                self._heard.notify_all()
        with self._heard:
            self._over = True
            self._heard.notify_all()

    def close(self) -> None:
        assert self._server.stdin and self._server.stdout
        self._server.stdin.close()
        self._server.wait(LIMIT_S)
        self._server.stdout.close()


@dataclass
class World:
    """One folder with all that a case makes and finds."""

    driver: Driver
    folder: Path
    last: str = QUICK
    canary: str = field(default_factory=lambda: secrets.token_hex(12))
    log: list[Ended] = field(default_factory=list)
    count: int = 0
    patience_s: float = 60.0
    """How long processes may take to end that were to end."""

    nodes: ClassVar[str] = "2"
    saving: ClassVar[tuple[str, ...]] = ("0", "1")
    """The nodes whose outputs are kept."""

    def __post_init__(self) -> None:
        for name in ("src", "home.tmp", "traces"):
            (self.folder / name).mkdir()
        (self.folder / "src" / "one").write_text("one ")
        (self.folder / "src" / "two").write_text("two")
        own_profile(self.folder / ".config").write_text(PROFILE)
        self.spec()

    def spec(self, name: str = "faults", last: str | None = None) -> str:
        """Write a spec and give its file's name."""
        path = self.folder / f"{name}.yaml"
        path.write_text(self.written(name, last or self.last))
        return path.name

    def written(self, name: str, last: str) -> str:
        return SPEC.format(name=name, truth=self.folder / "truth", last=last, nodes=self.nodes)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def start(self, *words: str, **how: Any) -> tuple[int, int]:
        """Start a command line; give what `wait` and `pid` know it by."""
        self.count += 1
        traces = self.folder / "traces"
        case = {
            "words": words,
            "world": str(self.folder),
            "cwd": str(self.folder),
            "out": str(traces / f"{self.count}.out"),
            "err": str(traces / f"{self.count}.err"),
            "trace": str(traces / f"{self.count}.steps"),
            "env": self.environment(),
            **how,
        }
        return self.driver.start(case), self.count

    def environment(self) -> dict[str, str]:
        """Give the whole environment of a command line."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "home.tmp"),
            "RUNSPEC_HOME": str(self.home),
            "CANARY": self.canary,
            "NO_COLOR": "1",
            "TERM": "dumb",
            "LC_ALL": "C.UTF-8",
        }

    def wait(self, started: tuple[int, int], limit_s: float = LIMIT_S) -> Ended:
        number, count = started
        code = self.driver.wait(number, limit_s)
        if code is None:
            os.kill(self.driver.pids[number], signal.SIGKILL)
            code = self.driver.wait(number)
            raise AssertionError(f"a command line hung: {self._text(count, 'err')}")
        steps = self.steps(self.folder / "traces" / f"{count}.steps")
        ended = Ended(code, self._text(count, "out"), self._text(count, "err"), steps)
        self.log.append(ended)
        return ended

    def let(self, *started: tuple[int, int]) -> None:
        """Let command lines go on until each has ended, or waits for a lock."""
        for number, _ in started:
            await_that(partial(self._idle, number), "an end or a lock")

    def _idle(self, number: int) -> bool:
        return self.driver.wait(number, 0.02) is not None or waits(self.driver.pids[number])

    def run(self, *words: str, **how: Any) -> Ended:
        ended = self.wait(self.start(*words, **how))
        if ended.code >= 0 and json_documents.of_json(words):
            json_documents.check(words, ended.out)
        return ended

    def again(self, *words: str, **how: Any) -> Ended:
        """Repeat a command line as its exit codes ask for, at most four times."""
        for _ in range(TRIES):
            if self.run(*words, **how).code != UNKNOWN:
                break
        return self.log[-1]

    def steps(self, trace: Path) -> tuple[Mapping[str, Any], ...]:
        """Give what a process wrote down of its steps."""
        lines = trace.read_text().splitlines() if trace.exists() else []
        return tuple(json.loads(line) for line in lines)

    def _text(self, count: int, kind: str) -> str:
        path = self.folder / "traces" / f"{count}.{kind}"
        return path.read_text() if path.exists() else ""

    # What is there

    def runs(self) -> list[dict[str, Any]]:
        """Give every run that the records know, destroyed ones too. Raises when they cannot be read."""
        listed = self.run("list", "--all", "--json")
        assert listed.code == 0, f"list exits with {listed.code}: {listed.err}"
        found: list[dict[str, Any]] = json.loads(listed.out)["runs"]
        return found

    def truth(self) -> list[list[str]]:
        """Give what the nodes of every job wrote down outside of runspec's reach."""
        path = self.folder / "truth"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def await_truth(self, lines: int) -> None:
        await_that(lambda: len(self.truth()) >= lines, f"{lines} nodes that run")

    def processes(self) -> dict[int, str]:
        """Give the processes that belong to this world, by their words or their environment."""
        return dict(processes(str(self.folder)))

    def await_quiet(self) -> dict[int, str]:
        """Give the processes that are left after `patience_s`; returns as soon as there are none."""
        end = time.monotonic() + self.patience_s
        while (left := self.processes()) and time.monotonic() < end:
            time.sleep(0.05)
        return left

    def supervisors(self) -> list[int]:
        """Give the supervisors, without their parents and what samples their nodes, which have the same words."""
        found = self.processes().items()
        both = {pid for pid, words in found if "supervis" in words or "reaper" in words}
        both = {pid for pid in both if _name(pid) not in (None, SAMPLER)}
        below = children()
        return [pid for pid in both if both.isdisjoint(below.get(pid, ()))]

    def close(self) -> None:
        for pid in self.processes():
            with_no_error(pid, signal.SIGKILL)
        self.await_quiet()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def stopped_at(world: World, started: tuple[int, int]) -> Iterator[None]:
    """Wait until a command line that was started with `do="stop"` has stopped; let it go on afterwards."""
    pid = world.driver.pids[started[0]]
    await_that(lambda: state_of(pid) in ("T", None), "a process that stops")
    try:
        yield
    finally:
        with_no_error(pid, signal.SIGCONT)


def waits(pid: int) -> bool:
    """Say whether *pid* waits for a lock. proc_locks(5)"""
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(words[1] == "->" and words[5] == str(pid) for words in lines)


def state_of(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def with_no_error(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _name(pid: int) -> str | None:
    """Give the name of a process, or None if it is gone."""
    try:
        return content(f"/proc/{pid}/comm").decode().strip()
    except OSError:
        return None


def processes(mark: str) -> Iterator[tuple[int, str]]:
    """Give those whose words or environment have *mark*, with their words; asked for often, so it reads no more."""
    wanted = mark.encode()
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            words = content(f"/proc/{name}/cmdline")
            found = wanted in words or wanted in content(f"/proc/{name}/environ")
        except OSError:
            continue
        if found:
            yield int(name), words.replace(b"\0", b" ").decode(errors="replace")


def content(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def await_that(true: Any, what: str, limit_s: float = 180.0) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, f"waited {limit_s:.0f} s for {what}"
        time.sleep(0.02)


@contextmanager
def new_world(driver: Driver, last: str = QUICK, kind: type[World] = World) -> Iterator[World]:
    where = MEMORY if os.access(MEMORY, os.W_OK) else None
    world = kind(driver, Path(tempfile.mkdtemp(prefix="runspec-faults-", dir=where)), last)
    try:
        yield world
    finally:
        world.close()


# What must hold


def always(
    world: World, codes: Sequence[int] = (0, KILLED, UNKNOWN), jobs: int = 1
) -> Iterator[str]:
    """Give what is wrong with *world* that must hold after every verb about *jobs* specs."""
    for ended in world.log:
        if ended.code not in codes:
            yield f"exit code {ended.code}: {ended.err.strip()[-300:]}"
    for report in (world.folder / "home.tmp").iterdir():
        said = report.read_text().splitlines() if report.is_file() else ["a folder is left"]
        yield f"{report.name}: {' / '.join(said[-4:])}"
    for pid, words in world.await_quiet().items():
        yield f"process {pid} is left: {words[:200]}"
    for path in (p for p in world.home.rglob("*") if is_temporary(p.name)):
        yield f"left over: {path.relative_to(world.home)}"
    yield from shown(world)
    twice = [
        key for key, count in Counter(line_key(line) for line in world.truth()).items() if count > 1
    ]
    for key in twice:
        yield f"ran twice: {key}"
    for line in world.truth():
        if line[3:] != ["one", "two"]:
            yield f"a node found {line[3:]} in its mount"
    answered = Counter(
        step["label"]
        for ended in world.log
        for step in ended.steps
        if step["what"] == "called" and step["label"].endswith((" start", " put_folder"))
    )
    for label, count in answered.items():
        if count > jobs:
            yield f"answered {count} times: {label}"


def is_temporary(name: str) -> bool:
    return name.startswith((".new-", ".gone-")) or name.endswith(".new")


def line_key(line: Sequence[str]) -> tuple[str, ...]:
    return tuple(line[:3])


def shown(world: World) -> Iterator[str]:
    """Give the files that hold the secret."""
    canary = world.canary.encode()
    for path in world.folder.rglob("*"):
        if path.is_file() and canary in path.read_bytes():
            yield f"the secret is in {path.relative_to(world.folder)}"


def applied(world: World) -> Iterator[str]:
    """Give what is wrong after an apply that exited with 0: one job ran, and all know of it."""
    yield from always(world)
    if world.log[-1].code != 0:
        return
    ran = {(line[0], line[1]) for line in world.truth()}
    names = {run for run, _ in ran}
    if len(names) != 1 or len(ran) != 2:
        yield f"{len(names)} jobs with {len(ran)} nodes ran, not one with two"
    try:
        listed = {row["run"]: row["state"] for row in world.runs()}
    except AssertionError as exc:
        yield str(exc)
        return
    if listed != dict.fromkeys(names, "succeeded"):
        yield f"list says {listed}, and {sorted(names)} ran"
    for name in names:
        for rank in world.saving:
            if not (
                world.home / "local" / "runs" / name / "outputs" / "out" / "0" / rank / "done"
            ).exists():
                yield f"the output of node {rank} is not there"


def ended_as(
    world: World, run: str, state: str, codes: Sequence[int] = (0, KILLED, UNKNOWN)
) -> Iterator[str]:
    """Give what is wrong after *run* was to end as *state*."""
    yield from always(world, codes)
    try:
        listed = {row["run"]: row["state"] for row in world.runs()}
    except AssertionError as exc:
        yield str(exc)
        return
    if listed != {run: state}:
        yield f"list says {listed}, not that {run} is {state}"
    if state == "destroyed" and (world.home / "local" / "runs" / run).exists():
        yield "its folder is still there"
