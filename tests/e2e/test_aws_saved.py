"""A log of AWS Batch that is saved: as it is stored, however often the reader is killed."""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from pathlib import Path

import pytest

from tests.faults import chosen
from tests.support.aws.log_following import (
    Rehearsed,
    Saver,
    Waiting,
    numbered,
    runspec,
    until,
)

MANY = 1_000_000 if chosen.ALL else 100_000
KILLS = 5
LATE_S = 4.0  # less than what a reader waits for after the end

pytestmark = pytest.mark.slow


def paced(job: Waiting, lines: list[tuple[int, str]], batch: int, seconds: float) -> None:
    """Load *lines* in batches that come over *seconds*, as from a job that prints."""
    began, count = time.monotonic(), -(-len(lines) // batch)
    for n in range(count):
        job.load(lines[n * batch : (n + 1) * batch])
        time.sleep(max(0.0, began + seconds * (n + 1) / count - time.monotonic()))


@pytest.mark.parametrize(
    ("model", "batch", "count"),
    [
        pytest.param("serial", 10_000, MANY, marks=pytest.mark.matrix),
        pytest.param("jitter", 500, MANY, marks=pytest.mark.matrix),
        ("late", 500, MANY),
    ],
)
def test_a_saved_log_is_the_stored_one_however_often_its_reader_is_killed(
    world: Rehearsed, tmp_path: Path, model: str, batch: int, count: int
) -> None:
    """Throttled, in pages that are half empty, out of order and late."""
    dice = random.Random(model)
    job, lines, target = world.waiting(), numbered(count), tmp_path / "saved.log"
    world.set(log_model=model, late_s=LATE_S, late_share=0.05)
    world.set(throttle_logs=0.2, partial_pages=0.3)

    saver, part = Saver(job.run, target), -(-count // KILLS)
    for n in range(KILLS):
        more = lines[n * part : (n + 1) * part]
        loader = threading.Thread(target=paced, args=(job, more, batch, 1.6))
        saver.kill(dice.uniform(0, 0.5), loader.start)
        loader.join()
    job.let_go()
    world.end(job.job)
    saver.kill_now()
    saver.wait()

    source = "".join(f"{text}\n" for _, text in lines).encode()
    expected = hashlib.sha256(job.before + source).hexdigest()
    assert hashlib.sha256(target.read_bytes()).hexdigest() == expected
    assert not saver.cursor.exists()
    assert saver.kills == KILLS + 1


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
