"""Logs of AWS Batch, by the program itself: no line lost, none twice, whatever happens to the reader."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from runspec_rehearsal.aws.region import Objects, Region
from tests.contract.harnesses import AWS

GROUP = "/aws/batch/job"
READY = "ready"
LIMIT_S = 120.0
LATE_S = 4.0  # less than what a reader waits for after the end

pytestmark = pytest.mark.slow


def program(*words: object) -> list[str]:
    return [sys.executable, "-m", "runspec", *map(str, words)]


def runspec(*words: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(program(*words), capture_output=True, check=False)


def until(what: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """Give the first true value of *what*."""
    end = time.monotonic() + limit_s
    while not (value := what()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)
    return value


class Rehearsed:
    """A region with its jobs, which run below *folder*."""

    def __init__(self, folder: Path, region: Region) -> None:
        self.folder, self.region = folder, region
        self.numbers = itertools.count()
        self.batch: Any = boto3.Session("id", "secret", region_name=AWS["region"]).client("batch")

    def apply(self, script: str, **keys: Any) -> tuple[str, str]:
        """Submit a job of that shell script; give the run, and the id of its job."""
        number = next(self.numbers)
        spec = {
            "apiVersion": "runspec/v1",
            "name": f"job-{number}",
            "provider": "aws-batch",
            "providers": {"aws-batch": {**AWS, "prefix": self.folder.name}},
            "cluster": {"cpus": 1, "memory": "256MiB"},
            "command": ["sh", "-c", script],
            **keys,
        }
        file = self.folder / f"job-{number}.yaml"
        file.write_text(json.dumps(spec))
        done = runspec("apply", "--detach", file)
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


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    made = Objects(tmp_path_factory.mktemp("objects"))
    made.make_bucket(AWS["bucket"], AWS["region"])
    yield made
    made.close()


@pytest.fixture
def world(tmp_path: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rehearsed]:
    with Region(tmp_path / "region", AWS["region"], objects, terminate_grace_s=1.0) as region:
        for name, value in region.env.items():
            monkeypatch.setenv(name, value)
        yield Rehearsed(tmp_path, region)


# --- a million lines, and a reader that is killed ---


def numbered(count: int, each_ms: int = 2000) -> list[tuple[int, str]]:
    """Make numbered lines from now on, many of them in every millisecond."""
    now = int(time.time() * 1000)
    return [(now + n // each_ms, f"line {n} of the job") for n in range(count)]


def paced(job: Waiting, lines: list[tuple[int, str]], batch: int, seconds: float) -> None:
    """Load *lines* in batches that come over *seconds*, as from a job that prints."""
    began, count = time.monotonic(), -(-len(lines) // batch)
    for n in range(count):
        job.load(lines[n * batch : (n + 1) * batch])
        time.sleep(max(0.0, began + seconds * (n + 1) / count - time.monotonic()))


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

    def kill(self, after_s: float) -> None:
        """Kill it that long after it has got a little further, and start it again."""
        before = self._place()
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
        told = self.process.communicate(timeout=LIMIT_S)[1]
        assert self.process.returncode == 0, told.decode()


@pytest.mark.parametrize(
    ("model", "count", "batch"),
    [("serial", 1_000_000, 10_000), ("jitter", 200_000, 500), ("late", 200_000, 500)],
)
def test_a_saved_log_is_the_stored_one_however_often_its_reader_is_killed(
    world: Rehearsed, tmp_path: Path, model: str, count: int, batch: int
) -> None:
    """Throttled, in pages that are half empty, out of order and late."""
    dice = random.Random(model)
    job, lines, target = world.waiting(), numbered(count), tmp_path / "saved.log"
    world.set(log_model=model, late_s=LATE_S, late_share=0.05)
    world.set(throttle_logs=0.2, partial_pages=0.3)

    loader = threading.Thread(target=paced, args=(job, lines, batch, 8.0))
    loader.start()
    saver = Saver(job.run, target)
    for _ in range(5):
        saver.kill(dice.uniform(0, 0.5))
    loader.join()
    job.let_go()
    world.end(job.job)
    saver.kill_now()
    saver.wait()

    source = "".join(f"{text}\n" for _, text in lines).encode()
    expected = hashlib.sha256(job.before + source).hexdigest()
    assert hashlib.sha256(target.read_bytes()).hexdigest() == expected
    assert not saver.cursor.exists()
    assert saver.kills == 6


# --- what following costs ---


def asked(world: Rehearsed, since: float) -> Counter[str]:
    """Count the calls that came later than that many seconds after the region began."""
    calls = world.region.control("GET", "calls")
    return Counter(call["operation"] for call in calls if call["at"] > since)


def last_call(world: Rehearsed) -> float:
    at: float = world.region.control("GET", "calls")[-1]["at"]
    return at


def idle(world: Rehearsed, seconds: float, *words: object) -> Counter[str]:
    """Follow for so long what prints nothing; count the calls once it has begun."""
    before = asked(world, 0.0)["GetLogEvents"]
    follower = subprocess.Popen(program("logs", "-f", *words), stdout=subprocess.DEVNULL)
    try:
        until(lambda: asked(world, 0.0)["GetLogEvents"] > before + 2)
        since = last_call(world)
        time.sleep(seconds)
        return asked(world, since)
    finally:
        follower.kill()
        follower.wait()


@pytest.mark.parametrize("saved", [False, True])
def test_an_idle_follower_asks_once_a_second(world: Rehearsed, tmp_path: Path, saved: bool) -> None:
    job, seconds = world.waiting(), 10
    more = ("--save", tmp_path / "saved.log") if saved else ()

    calls = idle(world, seconds, job.run, *more)

    assert set(calls) == {"GetLogEvents", "DescribeJobs"}
    assert 5 <= calls["GetLogEvents"] <= seconds + 1
    assert 5 <= calls["DescribeJobs"] <= seconds + 1


def test_a_run_that_ended_a_while_ago_is_read_without_waiting(world: Rehearsed) -> None:
    run, job = world.apply("echo hello")
    stopped_s = world.end(job)["stoppedAt"] / 1000
    until(lambda: time.time() > stopped_s + 7)

    assert runspec("logs", run).stdout.splitlines()[-1] == b"hello"
    assert asked(world, 0.0)["GetLogEvents"] == 2


def test_a_follower_of_an_array_describes_a_hundred_jobs_at_once(world: Rehearsed) -> None:
    count = 50
    gate = world.folder / "gate"
    script = f"while [ ! -e {gate} ]; do sleep 1; done"
    run, job = world.apply(script, sweep={"n": f"1..{count}"})
    until(lambda: world.describe(job)[0]["arrayProperties"]["statusSummary"]["RUNNING"] == count)

    calls = idle(world, 10, run)

    polls = calls["GetLogEvents"] / count
    assert calls["DescribeJobs"] <= 11
    assert polls <= 11


# --- every line, of every attempt, node and task ---


def test_all_attempts_are_in_the_log_in_order_and_once(world: Rehearsed) -> None:
    run, job = world.apply("echo a try; exit 3", retry={"attempts": 3})
    names = [a["container"]["logStreamName"] for a in world.end(job)["attempts"]]

    shown = runspec("logs", run).stdout
    runspec("logs", "--save", world.folder / "saved.log", run)

    whole = b"".join(map(world.stored, names))
    assert whole.splitlines().count(b"a try") == len(names) == 3
    assert shown == whole
    assert (world.folder / "saved.log").read_bytes() == whole


def test_a_follower_sees_the_last_lines_of_an_attempt_before_the_next(world: Rehearsed) -> None:
    """Even where they come after the next attempt has begun."""
    gate = f"{world.folder}/gate-$AWS_BATCH_JOB_ATTEMPT"
    script = f"echo {READY}; while [ ! -e {gate} ]; do sleep 0.1; done; exit 3"
    run, job = world.apply(script, retry={"attempts": 2})
    first = until(lambda: world.stream(job))
    load = world.region.server.load_lines

    with subprocess.Popen(program("logs", "-f", run), stdout=subprocess.PIPE) as follower:
        (world.folder / "gate-1").touch()
        until(lambda: world.describe(job)[0]["attempts"])
        second = until(lambda: world.stream(job, but=first))
        until(lambda: world.says(second, READY))
        load(GROUP, first, [(int(time.time() * 1000), "late")])
        (world.folder / "gate-2").touch()
        shown = follower.communicate(timeout=LIMIT_S)[0]

    assert b"\nlate\n" in world.stored(first)
    assert shown == world.stored(first) + world.stored(second)


def test_each_node_of_a_gang_and_each_task_of_a_sweep_has_its_own_file(world: Rehearsed) -> None:
    nodes, gang = world.apply("echo node $RUNSPEC_RANK", cluster={"nodes": 2, "cpus": 1})
    tasks, array = world.apply("echo n ${sweep.n}", sweep={"n": [7, 8]})
    world.end(gang)
    world.end(array)

    for run, folder in ((nodes, "gang"), (tasks, "array")):
        (world.folder / folder).mkdir()
        assert runspec("logs", "--save", world.folder / folder, run).returncode == 0

    last = {f.name: f.read_text().splitlines()[-1] for f in world.folder.glob("*/*.log")}
    assert last == {
        "node-0.log": "node 0",
        "node-1.log": "node 1",
        "task-0-node-0.log": "n 7",
        "task-1-node-0.log": "n 8",
    }


def test_a_stream_that_is_not_there_yet_is_no_error(world: Rehearsed) -> None:
    world.set(starting_s=3.0)
    run, _ = world.apply("echo hello")

    now = runspec("logs", run)
    followed = runspec("logs", "-f", run)

    assert (now.returncode, now.stdout) == (0, b"")
    assert followed.returncode == 0, followed.stderr.decode()
    assert followed.stdout.splitlines()[-1] == b"hello"


def test_no_last_line_is_lost_of_fifty_jobs_that_print_and_leave(world: Rehearsed) -> None:
    run, _ = world.apply("echo last ${sweep.n}", sweep={"n": "1..50"})

    followed = runspec("logs", "-f", run)

    assert followed.returncode == 0, followed.stderr.decode()
    shown = [line.split(b"] ")[-1] for line in followed.stdout.splitlines()]
    found = sorted(line for line in shown if line.startswith(b"last "))
    assert found == sorted(b"last %d" % n for n in range(1, 51))


# --- what is no plain text ---

STRANGE = (
    rb"printf 'caf\351 \377\376\n'",
    rb"printf '10%%\r50%%\r100%%\n'",
    rb"printf '\033[31mred\033[0m \033]0;title\007 \302\233 \177\n'",
    rb"head -c 200000 /dev/zero | tr '\0' x",
    b"echo",
    b"echo end",
)


def test_strange_lines_are_saved_as_stored_and_shown_without_control_characters(
    world: Rehearsed,
) -> None:
    run, job = world.apply("; ".join(line.decode() for line in STRANGE))
    stream = world.end(job)["container"]["logStreamName"]

    shown = runspec("logs", run).stdout.decode()
    runspec("logs", "--save", world.folder / "saved.log", run)

    saved = (world.folder / "saved.log").read_bytes()
    assert saved == world.stored(stream)
    assert "caf\ufffd \ufffd\ufffd".encode() in saved
    assert b"10%\r50%\r100%\n" in saved
    assert b"x" * 200_000 + b"\n" in saved
    assert [c for c in shown if not c.isprintable() and c != "\n"] == []
    assert "\n100%\n" in shown
    assert "x" * 200_000 in shown


# --- a copy that is taken up later ---


def test_a_copy_is_taken_up_again_after_its_token_is_no_longer_good(world: Rehearsed) -> None:
    """A token is good for a day, and somebody's computer may sleep for a weekend."""
    job, target = world.waiting(), world.folder / "saved.log"
    job.load(numbered(15_000))
    saver = Saver(job.run, target)
    until(saver.cursor.exists)
    until(lambda: json.loads(saver.cursor.read_bytes())["size"] == len(job.stored()))
    saver.process.kill()
    saver.process.communicate()
    kept = json.loads(saver.cursor.read_bytes())
    attempt, size, _ = kept["position"].split(":", 2)
    saver.cursor.write_text(json.dumps({**kept, "position": f"{attempt}:{size}:f/forgotten"}))

    job.load(numbered(5_000))
    job.let_go()
    done = runspec("logs", "--follow", "--save", target, job.run)

    assert done.returncode == 0, done.stderr.decode()
    assert target.read_bytes() == job.stored()
    assert target.read_bytes().count(b"of the job\n") == 20_000
