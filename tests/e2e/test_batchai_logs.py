"""What a job on Batch AI prints: whole to the last byte, whatever happens to links, answers and readers."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_batchai import emulator, logs
from runspec_emulators.batch_ai import BatchAI
from tests.faults import chosen
from tests.support.azure.emulated_account import wait
from tests.support.profiles import own_profile

pytestmark = pytest.mark.slow

COUNT = 1_000_000 if chosen.ALL else 200_000
LINE = "行 {} のログ: größer"
LAST = "終わり"  # no end of line follows
# In bursts, so that there is something to follow; the last line comes right before the end.
PRINTS = f"""
import sys, time
out = sys.stdout
out.reconfigure(encoding="utf-8")
for n in range({COUNT}):
    out.write({LINE!r}.format(n) + "\\n")
    if n % {COUNT // 10} == {COUNT // 10 - 1}:
        time.sleep(0.5)
out.write({LAST!r})
"""
LONG = "日本語" * 300_000
PROFILE = {
    "subscription": emulator.SUBSCRIPTION,
    **{k: v for k, v in emulator.SETTINGS.items() if k != "container"},
    "storage_account": "rehearsal",
    "secrets": {"storage-key": "env:STORAGE_KEY"},
}


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchAI]:
    with BatchAI(tmp_path / "cloud", seed=7) as found:
        for name, value in {**found.env, "STORAGE_KEY": "the-key"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(tmp_path)
        settings = {"azure-batch-ai": {**PROFILE, "arm_url": found.url}}
        own_profile().write_text(json.dumps({"providers": settings}))
        yield found


def begun(cloud: BatchAI, *command: str) -> str:
    """Start a job; give its run when it prints."""
    spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "azure-batch-ai"}
    Path("job.yaml").write_text(json.dumps({**spec, "command": command}))
    done = runspec("apply", "--detach", "job.yaml")
    wait(lambda: [j for j in cloud.control("GET", "jobs") if j["state"] != "queued"], "it runs")
    return done.stdout.decode().strip()


def states(cloud: BatchAI) -> list[str]:
    return [job["state"] for job in cloud.control("GET", "jobs")]


def program(*words: str) -> list[str]:
    return [sys.executable, "-m", "runspec_jobs", *words]


def runspec(*words: str) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(program(*words), capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done


def test_many_lines_are_saved_whole_by_a_reader_that_is_killed(
    cloud: BatchAI, tmp_path: Path
) -> None:
    """With a fifth of all reads refused, and links that end while they are used."""
    dice, target = random.Random(7), tmp_path / "saved.log"
    cloud.control("PUT", "settings", {"throttle_files": 0.2, "link_minute_s": 0.005})
    run = begun(cloud, "python3", "-c", PRINTS)
    words = ("logs", "--follow", "--save", str(target), run)

    for _ in range(5):
        reader = subprocess.Popen(program(*words), stderr=subprocess.DEVNULL)
        time.sleep(1 + dice.uniform(0, 1.5))
        reader.kill()
        reader.wait()
    runspec(*words)

    lines = "".join(f"{LINE.format(n)}\n" for n in range(COUNT))
    expected = (lines + LAST).encode()
    assert hashlib.sha256(target.read_bytes()).digest() == hashlib.sha256(expected).digest()
    outcomes = Counter(call["outcome"] for call in cloud.control("GET", "calls"))
    assert outcomes["503"] > 5 and outcomes["403"] > 0, outcomes
    borders = [expected[n] for n in range(logs.PART, len(expected), logs.PART)]
    assert [byte for byte in borders if byte & 0xC0 == 0x80]  # some are within a character


def test_no_character_is_cut_where_parts_of_a_log_meet(cloud: BatchAI) -> None:
    """A line of several parts, each of which ends within a character."""
    code = f"import sys; sys.stdout.buffer.write({LONG[:3]!r}.encode() * {len(LONG) // 3})"
    run = begun(cloud, "python3", "-c", code)

    shown = runspec("logs", "--follow", run).stdout.decode()

    assert len(LONG.encode()) > 2 * logs.PART
    assert shown.replace("\n", "") == LONG


def test_an_idle_follower_asks_less_than_once_a_second(cloud: BatchAI) -> None:
    """Of two files: what is printed as an error has its own."""
    run = begun(cloud, "sh", "-c", "echo on; echo on >&2; sleep 120")
    follower = subprocess.Popen(
        program("logs", "-f", run), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert follower.stdout is not None
        follower.stdout.readline(), follower.stdout.readline()
        time.sleep(2)
        since, begun_at = len(cloud.control("GET", "calls")), time.monotonic()
        time.sleep(12)
        asked, seconds = len(cloud.control("GET", "calls")) - since, time.monotonic() - begun_at
    finally:
        follower.kill()
        follower.communicate()

    assert 3 <= asked <= seconds


def test_an_idle_follower_of_eight_jobs_asks_no_more(cloud: BatchAI) -> None:
    spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "azure-batch-ai"}
    sweep = {"n": list(range(8))}
    more = {
        "sweep": sweep,
        "command": ["sleep", "120"],
        "providers": {"azure-batch-ai": {"max_nodes": 8}},
    }
    Path("job.yaml").write_text(json.dumps({**spec, **more}))
    run = runspec("apply", "--detach", "job.yaml").stdout.decode().strip()
    wait(lambda: states(cloud) == ["running"] * 8, "all run")
    follower = subprocess.Popen(program("logs", "-f", run), stdout=subprocess.DEVNULL)
    try:
        before = len(cloud.control("GET", "calls"))
        wait(lambda: len(cloud.control("GET", "calls")) > before + 18, "it follows")
        since, begun_at = len(cloud.control("GET", "calls")), time.monotonic()
        time.sleep(33)
        asked, seconds = len(cloud.control("GET", "calls")) - since, time.monotonic() - begun_at
    finally:
        follower.kill()
        follower.wait()

    assert 8 <= asked <= seconds
