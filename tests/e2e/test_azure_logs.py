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

from runspec_azure.batch.logs import BLOCK_BYTES
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_jobs.cli.app import run
from tests.faults import chosen
from tests.support.azure import emulated_account
from tests.support.azure.emulated_account import CONTAINER, Capture, calls, said, tasks, wait, write
from tests.support.requirements import need

pytestmark = pytest.mark.slow

COUNT = 1_000_000 if chosen.ALL else 100_000
# In bursts, so that there is something to follow; the last line comes right before the end.
PRINTS = f"""
import time
for n in range({COUNT}):
    print("line", n, "of the job: größer")
    if n % {COUNT // 10} == {COUNT // 10 - 1}:
        time.sleep(0.5)
print("the last")
"""


# 1.2 MB, of characters of three bytes: a part of 1 MiB ends within one.
JAPANESE = "学習の記録を一行ずつ書いた\n" * 31_000
PRINTS_JAPANESE = """
import sys
sys.stdout.buffer.write(("学習の記録を一行ずつ書いた\\n" * 31_000).encode())
"""
# The official description has the first two for File_GetFromTask (`produces`); text is what the file is.
CONTENT_TYPES = ("application/octet-stream", "application/json", "text/plain; charset=utf-8")


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureBatch]:
    need("azurite")
    with Blobs(tmp_path / "blobs") as blobs:
        blobs.make_container(CONTAINER)
        yield from emulated_account.prepared(blobs, tmp_path, monkeypatch)


def test_a_japanese_log_arrives_whole_under_each_content_type(
    account: AzureBatch, tmp_path: Path, capsys: Capture
) -> None:
    """While the job runs, and once more from the node after it has ended."""
    assert len(JAPANESE.encode()) > 1_200_000
    assert JAPANESE.encode()[BLOCK_BYTES] & 0xC0 == 0x80  # within a character
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "prints.py").write_text(PRINTS_JAPANESE, encoding="utf-8")
    code = {"name": "code", "source": "./code", "target": "/job/code"}
    for number, kind in enumerate(CONTENT_TYPES):
        account.control("PUT", "settings", {"file_type": kind})
        write("exec python3 ${mounts.code}/prints.py", name=f"job-{number}", mounts=[code])
        capsys.readouterr()

        followed = run(["apply", "job.yaml"])
        live = capsys.readouterr().out
        saved = run(["logs", f"job-{number}", "--follow", "--save", f"{number}.log"])

        assert (kind, followed, saved) == (kind, 0, 0)
        assert live == JAPANESE
        assert (tmp_path / f"{number}.log").read_bytes() == JAPANESE.encode()
        reads = [c for c in calls(account, "File_GetFromTask") if c["method"] == "GET"]
        assert reads, "the log was read from its node"


def test_many_lines_are_saved_whole_though_the_reader_is_killed(
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
    words = [sys.executable, "-m", "runspec_jobs", "logs", "--follow", "--save", str(target), found]
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
