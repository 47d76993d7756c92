"""Folders put into Blob storage: one large file, and many small ones, beside tools that copy folders."""

from __future__ import annotations

import contextlib
import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from bench import sink
from bench.installs import ROOT, ours, peer
from bench.measure import Around, Command, Timing, in_rounds, peak_mb
from bench.rows import Bench, Row
from bench.upload import large, small
from runspec_emulators.azure_services.blob import Blobs

ACCOUNT, CONTAINER, SMALL, LEAST_ROUNDS = "bench", "bench", 5_000, 5
KEY = "YmVuY2g="
# The upload alone: without what else `apply` does, such as reading the spec, writing the journal and submitting.
STAGE = f"""
import os, sys
from pathlib import Path
from runspec_jobs.load.bundle import bundle
from runspec_jobs.provider import Request
from runspec_azure.batch.client import AzureClient
from runspec_azure.batch.options import BatchOptions
client = AzureClient(BatchOptions(batch_url="http://127.0.0.1:9", storage_account="{ACCOUNT}",
    storage_key="env:BENCH_KEY", container="{CONTAINER}", blob_url=os.environ["BENCH_URL"]))
params = {{"path": {{"container": "{CONTAINER}", "blob": "batch/x.tar"}}, "body": {{"$file": "code"}}}}
request = Request("blob", "BlockBlob_Upload", params)
client.stage(request, bundle(Path(sys.argv[1])), lambda done, whole: None)
"""
# The same for azure-batch-ai, where each file is a blob, because Batch AI mounts them as they are.
STAGE_FILES = f"""
import os, sys
from pathlib import Path
from runspec_jobs.load.bundle import bundle
from runspec_jobs.provider import Request
from runspec_batchai.client import BatchAiClient
from runspec_batchai.options import BatchAiOptions
client = BatchAiClient(BatchAiOptions(storage_account="{ACCOUNT}", secrets={{"storage-key": "env:BENCH_KEY"}},
    storage_key="storage-key", container="{CONTAINER}", blob_url=os.environ["BENCH_URL"],
    arm_url="http://127.0.0.1:9", subscription="00000000-0000-0000-0000-000000000000"))
request = Request("runspec", "upload_folder", {{"path": {{"prefix": "batchai/x/"}}, "body": {{"$file": "code"}}}})
client.stage(request, bundle(Path(sys.argv[1])), lambda done, whole: None)
"""
OBSTORE = f"""
import os, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import obstore
from obstore.store import AzureStore
store = AzureStore("{CONTAINER}", account_name="{ACCOUNT}", account_key=os.environ["BENCH_KEY"],
    endpoint=os.environ["BENCH_URL"], client_options={{"allow_http": True}})
def put(path):
    small = path.stat().st_size < 1 << 20
    obstore.put(store, f"obstore/{{path.name}}", path.read_bytes() if small else path)
with ThreadPoolExecutor(16) as pool:
    list(pool.map(put, Path(sys.argv[1]).iterdir()))
"""
SDK = f"""
import os, sys
from pathlib import Path
from azure.storage.blob import ContainerClient
login = {{"account_name": "{ACCOUNT}", "account_key": os.environ["BENCH_KEY"]}}
with ContainerClient(os.environ["BENCH_URL"], "{CONTAINER}", credential=login) as container:
    for path in Path(sys.argv[1]).iterdir():
        with path.open("rb") as file:
            container.upload_blob(f"sdk/{{path.name}}", file, overwrite=True, max_concurrency=int(sys.argv[2]))
"""


def to_sink(bench: Bench) -> Iterator[Row]:
    """Stage a folder as apply does, its hashing included, beside tools that copy folders."""
    yield from _uploads(bench, "a sink", partial(_sink, bench))


def to_azurite(bench: Bench) -> Iterator[Row]:
    """The same, to a server that keeps what it gets, and takes longer than any of them."""
    yield from _uploads(bench, "Azurite", partial(_azurite, bench))


def _uploads(bench: Bench, place: str, around: Around) -> Iterator[Row]:
    folder = bench.room / "small-blob"
    if not folder.exists():
        small(folder, SMALL)
        large(bench.room / "large-blob")
    yield from _rows(bench, f"1 GiB to {place}", bench.room / "large-blob", around)
    yield from _rows(bench, f"{SMALL:,} x 4 KiB to {place}", folder, around)


def _rows(bench: Bench, what: str, folder: Path, around: Around) -> Iterator[Row]:
    commands = _commands(bench, folder)
    rounds = max(LEAST_ROUNDS, bench.rounds // 3)
    timings = dict(zip(commands, in_rounds([*commands.values()], rounds, around), strict=True))
    peaks = _peaks(commands, folder, around)
    mine = {name: timings.pop(name) for name in ("azure-batch", "azure-batch-ai")}
    fastest = min(timings, key=lambda name: timings[name].wall_s)
    for own, timing in mine.items():
        for name, theirs in timings.items():
            yield from _beside(f"{what}, {own}", timing, name, theirs, first=name == fastest)
            more = f"{what}, {own}, memory"
            yield Row(more, peaks[own], "MB", name, peaks[name])


def _beside(what: str, mine: Timing, name: str, theirs: Timing, *, first: bool) -> Iterator[Row]:
    most = 1.0 if first else None
    yield Row(f"{what}, wall", mine.wall_s, "s", name, theirs.wall_s, at_most=most)
    yield Row(f"{what}, CPU", mine.cpu_s, "s", name, theirs.cpu_s)


def _peaks(commands: Mapping[str, Command], folder: Path, around: Around) -> Mapping[str, float]:
    """Give the most memory of each; nobody was fast by sending less."""
    whole, found = sum(file.stat().st_size for file in folder.iterdir()), {}
    with around() as env:
        for name, command in commands.items():
            found[name] = peak_mb(command, env)
            if "BENCH_SENT" in env and (sent := _sent(env["BENCH_SENT"])) < whole:
                raise RuntimeError(f"{name} has sent {sent:,} of {whole:,} bytes")
    return found


def _sent(place: str) -> int:
    """Give the bytes that the sink was sent since it was asked the last time."""
    link = http.client.HTTPConnection(place, timeout=30)
    with contextlib.closing(link):
        link.request("GET", "/sent")
        return int(link.getresponse().read().split()[0])


def _commands(bench: Bench, folder: Path) -> Mapping[str, Command]:
    python = ours(bench.room, "azure").command("python")
    copy = ("copy", str(folder), f"bench:{CONTAINER}/rclone", "--ignore-times", "--transfers", "16")
    found: dict[str, tuple[str, ...]] = {
        "azure-batch": (python, "-c", STAGE, str(folder)),
        "azure-batch-ai": (python, "-c", STAGE_FILES, str(folder)),
        "SDK": (python, "-c", SDK, str(folder), "1"),
        "rclone": (peer("rclone").command("rclone"), *copy, "--azureblob-no-check-container"),
        "obstore put": (python, "-c", OBSTORE, str(folder)),
    }
    if "large" in folder.name:  # the SDK sends several blocks of one blob at the same time
        found["SDK, 8 at once"] = (python, "-c", SDK, str(folder), "8")
    return {name: Command(argv, cwd=bench.room) for name, argv in found.items()}


@contextlib.contextmanager
def _sink(bench: Bench) -> Iterator[Mapping[str, str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.sink"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout, "BUG: no pipes"
    try:
        place = f"{sink.HOST}:{process.stdout.readline().strip()}"
        yield {**_env(bench, f"http://{place}/{ACCOUNT}", KEY), "BENCH_SENT": place}
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def _azurite(bench: Bench) -> Iterator[Mapping[str, str]]:
    """It keeps all in memory: a new one for each round, since what is overwritten stays a while."""
    with Blobs(bench.room / f"azurite-{time.monotonic_ns()}", ACCOUNT) as blobs:
        blobs.make_container(CONTAINER)
        yield _env(bench, blobs.url, blobs.key)


def _env(bench: Bench, url: str, key: str) -> Mapping[str, str]:
    """Give the variables that lead every tool to *url*."""
    return {
        **bench.env,
        "BENCH_URL": url,
        "BENCH_KEY": key,
        "RCLONE_CONFIG": os.devnull,
        "RCLONE_CONFIG_BENCH_TYPE": "azureblob",
        "RCLONE_CONFIG_BENCH_ACCOUNT": ACCOUNT,
        "RCLONE_CONFIG_BENCH_KEY": key,
        "RCLONE_CONFIG_BENCH_ENDPOINT": url,
    }
