"""Folders put into a bucket: one large file, and many small ones, all to the same server."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from bench.installs import ours, peer
from bench.measure import Command, in_rounds, peak_mb
from bench.rows import Bench, Row

HOST, BUCKET, KEY = "127.0.0.1", "bench", "rehearsal"
LARGE_BYTES = 1 << 30
SMALL, SMALL_BYTES = 10_000, 4096
UP_S, LEAST_ROUNDS = 30.0, 5
STAGE = f"""
import gc
gc.disable()  # as runspec does while it imports; here no garbage needs it either
import sys
from pathlib import Path
from runspec_jobs.load.bundle import bundle
from runspec_jobs.provider import Request
from runspec_aws.client import AwsClient
from runspec_aws.options import AwsOptions
client = AwsClient(AwsOptions(region="us-east-1", bucket="{BUCKET}"))
params = {{"Bucket": "{BUCKET}", "Key": "runspec/folder.tar", "Body": {{"$file": "code"}}}}
client.stage(Request("s3", "put_object", params), bundle(Path(sys.argv[1])), lambda done, whole: None)
"""
EACH = f"""
import os, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import obstore
from obstore.store import S3Store
store = S3Store("{BUCKET}", endpoint=os.environ["AWS_ENDPOINT_URL"], region="us-east-1",
    virtual_hosted_style_request=False, client_options={{"allow_http": True, "timeout": "10 minutes"}})
def put(path):
    small = path.stat().st_size < 1 << 20
    obstore.put(store, f"obstore/{{path.name}}", path.read_bytes() if small else path)
with ThreadPoolExecutor(16) as pool:
    list(pool.map(put, Path(sys.argv[1]).iterdir()))
"""


def upload(bench: Bench) -> Iterator[Row]:
    """Stage a folder as apply does, its hashing included, beside tools that copy folders."""
    for what, folder in (
        ("upload 1 GiB", large(bench.room / "large")),
        ("upload 10,000 x 4 KiB", small(bench.room / "small", SMALL)),
    ):
        yield from _rows(bench, what, _commands(bench, folder), 1.2 if "1 GiB" in what else 1.0)


def _rows(bench: Bench, what: str, commands: Mapping[str, Command], limit: float) -> Iterator[Row]:
    """Each round has a new server: rclone's lists unfinished uploads as S3 does until the first one has ended."""
    rounds, around = max(LEAST_ROUNDS, bench.rounds // 5), partial(_server, bench)
    timings = dict(zip(commands, in_rounds([*commands.values()], rounds, around), strict=True))
    peaks = {}
    with _server(bench) as env:
        for name, command in commands.items():
            peaks[name] = peak_mb(command, env)
    mine = timings.pop("runspec")
    fastest = min(timings, key=lambda name: timings[name].wall_s)
    for name, theirs in timings.items():
        most = limit if name == fastest else None
        yield Row(f"{what}, wall", mine.wall_s, "s", name, theirs.wall_s, at_most=most)
        yield Row(f"{what}, CPU", mine.cpu_s, "s", name, theirs.cpu_s)
        yield Row(f"{what}, peak memory", peaks["runspec"], "MB", name, peaks[name])


def _commands(bench: Bench, folder: Path) -> Mapping[str, Command]:
    python = ours(bench.room, "aws").command("python")
    copy = ("copy", str(folder), f"bench:{BUCKET}/rclone", "--ignore-times", "--s3-no-check-bucket")
    aws = ("s3", "cp", "--recursive", "--only-show-errors", str(folder), f"s3://{BUCKET}/aws/")
    found: dict[str, tuple[str, ...]] = {
        "runspec": (python, "-c", STAGE, str(folder)),
        "aws s3 cp": (peer("awscli").command("aws"), *aws),
        "rclone": (peer("rclone").command("rclone"), *copy, "--transfers", "16"),
        "obstore put": (peer("obstore").command("python"), "-c", EACH, str(folder)),
    }
    return {name: Command(argv, cwd=bench.room) for name, argv in found.items()}


@contextlib.contextmanager
def _server(bench: Bench) -> Iterator[Mapping[str, str]]:
    """Serve S3 from a new folder, and give the variables that lead every tool there."""
    folder = bench.room / "served"
    (folder / BUCKET).mkdir(parents=True)
    with socket.socket() as free:
        free.bind((HOST, 0))
        place = f"{HOST}:{free.getsockname()[1]}"
    rclone = peer("rclone").command("rclone")
    serve = [rclone, "serve", "s3", "--addr", place, "--auth-key", f"{KEY},{KEY}", str(folder)]
    process = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await(place, lambda: process.poll() is None)
        yield {
            **bench.env,
            "AWS_ENDPOINT_URL": f"http://{place}",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "RCLONE_CONFIG": os.devnull,
            "RCLONE_CONFIG_BENCH_TYPE": "s3",
            "RCLONE_CONFIG_BENCH_PROVIDER": "Other",
            "RCLONE_CONFIG_BENCH_ENDPOINT": f"http://{place}",
            "RCLONE_CONFIG_BENCH_ENV_AUTH": "true",
        }
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def _await(place: str, alive: Callable[[], bool]) -> None:
    host, _, port = place.partition(":")
    end = time.monotonic() + UP_S
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            if not alive() or time.monotonic() > end:
                sys.exit("bench: rclone serve s3 does not start")
            time.sleep(0.05)


def large(folder: Path) -> Path:
    """Make a folder with one file of 1 GiB, which nothing can make smaller."""
    folder.mkdir()
    block = os.urandom(1 << 20)
    with (folder / "large").open("wb") as file:
        for _ in range(LARGE_BYTES // len(block)):
            file.write(block)
    return folder


def small(folder: Path, count: int) -> Path:
    """Make a folder with *count* files of 4 KiB."""
    folder.mkdir()
    for n in range(count):
        (folder / f"{n}").write_bytes(os.urandom(SMALL_BYTES))
    return folder
