"""Following the logs of jobs in a rehearsed region, by the program itself."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import boto3

from runspec_emulators.aws.region import KEYS, Region
from tests.support.aws.emulated_account import PROFILE, REGION
from tests.support.wait import LIMIT_S as LIMIT_S, until as until

GROUP = "/aws/batch/job"
READY = "ready"
SAVED_S = 300.0  # for a million lines, on a machine that does other things as well


def program(*words: object) -> list[str]:
    return [sys.executable, "-m", "runspec_jobs", *map(str, words)]


def runspec(*words: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(program(*words), capture_output=True, check=False)


class Rehearsed:
    """A region with its jobs, which run below *folder*."""

    def __init__(self, folder: Path, region: Region) -> None:
        self.folder, self.region = folder, region
        self.numbers = itertools.count()
        self.batch: Any = boto3.Session(*KEYS.values(), region_name=REGION).client("batch")

    def apply(self, script: str, **keys: Any) -> tuple[str, str]:
        """Submit a job of that shell script; give the run, and the id of its job."""
        number = next(self.numbers)
        spec = {
            "apiVersion": "runspec/v1",
            "name": f"job-{number}",
            "provider": "aws-batch",
            "cluster": {"cpus": 1, "memory": "256MiB"},
            "command": ["sh", "-c", script],
            **keys,
        }
        file, profile = self.folder / f"job-{number}.yaml", self.folder / "profile.yaml"
        file.write_text(json.dumps(spec))
        own = {"aws-batch": {**PROFILE, "prefix": self.folder.name}}
        profile.write_text(json.dumps({"providers": own}))
        env = {**os.environ, "RUNSPEC_PROFILE": str(profile)}
        done = subprocess.run(
            program("apply", "--detach", file), env=env, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        run = done.stdout.decode().strip()
        found = [j["id"] for j in self.region.control("GET", "jobs") if j["name"] == run]
        return run, min(found, key=len)  # those of children are longer

    def describe(self, *jobs: str) -> list[Any]:
        found: list[Any] = self.batch.describe_jobs(jobs=list(jobs))["jobs"]
        return found

    def end(self, job: str) -> Any:
        """Wait until a job has ended, and describe it."""
        over = ("SUCCEEDED", "FAILED")
        until(lambda: self.describe(job)[0]["status"] in over)
        return self.describe(job)[0]

    def set(self, **settings: Any) -> None:
        self.region.control("PUT", "settings", settings)

    def stored(self, stream: str) -> bytes:
        """Give the whole of a stream as it is kept, what cannot be seen yet left out."""
        found = self.region.server.world.logs.stream(GROUP, stream)
        return "".join(f"{message}\n" for message in found.messages).encode()

    def stream(self, job: str, but: str | None = None) -> str | None:
        """Give the log stream of the attempt that runs, if there is one and it is another."""
        found: str | None = self.describe(job)[0].get("container", {}).get("logStreamName")
        return found if found != but else None

    def says(self, stream: str, line: str) -> bool:
        logs = self.region.server.world.logs
        streams = logs.group(GROUP).streams if logs.has_group(GROUP) else {}
        return stream in streams and line in self.stored(stream).decode().splitlines()

    def waiting(self, **keys: Any) -> Waiting:
        return Waiting(self, **keys)


class Waiting:
    """A job that says it is ready, and then runs until it is let go: lines can be put into its log."""

    def __init__(self, world: Rehearsed, **keys: Any) -> None:
        self.world, self.gate = world, world.folder / f"gate-{next(world.numbers)}"
        script = f"echo {READY}; while [ ! -e {self.gate} ]; do sleep 0.1; done"
        self.run, self.job = world.apply(script, **keys)
        until(lambda: world.describe(self.job)[0]["status"] == "RUNNING")
        self.stream: str = until(lambda: world.stream(self.job))
        until(lambda: world.says(self.stream, READY))
        self.before = world.stored(self.stream)

    def load(self, lines: Iterable[tuple[int, str]]) -> None:
        self.world.region.server.load_lines(GROUP, self.stream, lines)

    def stored(self) -> bytes:
        return self.world.stored(self.stream)

    def let_go(self) -> None:
        self.gate.touch()


def numbered(count: int, each_ms: int = 2000) -> list[tuple[int, str]]:
    """Make numbered lines from now on, many of them in every millisecond."""
    now = int(time.time() * 1000)
    return [(now + n // each_ms, f"line {n} of the job") for n in range(count)]


class Saver:
    """The program that saves a log, started again after each time it is killed."""

    def __init__(self, run: str, target: Path) -> None:
        self.line = program("logs", "--follow", "--save", target, run)
        self.cursor = target.with_name(f"{target.name}.cursor")
        self.kills = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def _place(self) -> float:
        return self.cursor.stat().st_mtime if self.cursor.exists() else 0.0

    def kill(self, after_s: float, begin: Callable[[], object] = lambda: None) -> None:
        """Kill it that long after it has got further than where it was before *begin*, and start it again."""
        before = self._place()
        begin()
        until(lambda: self._place() > before or self.process.poll() is not None)
        time.sleep(after_s)
        assert self.process.poll() is None, self.process.communicate()[1].decode()
        self.kill_now()

    def kill_now(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.kills += 1
        self.process = self._start()

    def wait(self) -> None:
        try:
            told = self.process.communicate(timeout=SAVED_S)[1]
        finally:
            self.process.kill()  # or it would slow down the next test
            self.process.communicate()
        assert self.process.returncode == 0, told.decode()


def asked(world: Rehearsed, since: float, until_s: float = float("inf")) -> Counter[str]:
    """Count the calls that came later than that many seconds after the region began, and no later than *until_s*."""
    calls = world.region.control("GET", "calls")
    return Counter(call["operation"] for call in calls if since < call["at"] <= until_s)
