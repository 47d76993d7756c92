"""What a job on Azure Batch prints, saved to the last byte however often its reader is killed."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_rehearsal.azure.batch.server import AzureBatch
from runspec_rehearsal.azure.blob import Blobs
from tests.e2e import azure
from tests.e2e.azure import CONTAINER, Capture, said, tasks, wait, write
from tests.needs import need

pytestmark = pytest.mark.slow

COUNT = 1_000_000
# In bursts, so that there is something to follow; the last line comes right before the end.
PRINTS = f"""
import time
for n in range({COUNT}):
    print("line", n, "of the job: größer")
    if n % 100_000 == 99_999:
        time.sleep(0.5)
print("the last")
"""


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureBatch]:
    need("azurite")
    with Blobs(tmp_path / "blobs") as blobs:
        blobs.make_container(CONTAINER)
        yield from azure.prepared(blobs, tmp_path, monkeypatch)


def test_a_million_lines_are_saved_whole_though_the_reader_is_killed(
    account: AzureBatch, tmp_path: Path, capsys: Capture
) -> None:
    dice, target = random.Random(7), tmp_path / "saved.log"
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "prints.py").write_text(PRINTS)
    write(
        "PYTHONIOENCODING=utf-8 exec python3 ${mounts.code}/prints.py",
        mounts=[{"name": "code", "source": "./code", "target": "/job/code"}],
    )
    found = said(capsys, "apply", "job.yaml", "--detach")["run"]
    words = [sys.executable, "-m", "runspec", "logs", "--follow", "--save", str(target), found]
    wait(lambda: [t for t in tasks(account) if t["state"] == "running"], "a task runs")

    for _ in range(5):
        reader = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        time.sleep(1 + dice.uniform(0, 1.5))
        reader.kill()
        reader.wait()
    done = subprocess.run(words, capture_output=True, timeout=300, check=False)

    assert done.returncode == 0, done.stderr
    expected = "".join(f"line {n} of the job: größer\n" for n in range(COUNT)) + "the last\n"
    assert (
        hashlib.sha256(target.read_bytes()).digest() == hashlib.sha256(expected.encode()).digest()
    )
