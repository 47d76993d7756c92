"""Measure AWS Batch, with emulators of its services on this machine."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any

from bench.installs import ours, packaged, peer
from bench.measure import Command
from bench.rows import Bench, Row
from runspec_aws.emulator import SETTINGS
from runspec_emulators.aws.region import Objects, Region

GROUP = "/aws/batch/job"
LINES = 100_000
REQUEST = re.compile(r'"(GET|HEAD|PUT|POST|DELETE) (/\S*) HTTP')
CHILDREN = 10_000


def plan(bench: Bench) -> Iterator[Row]:
    """Measure the plan of a job, which submits nothing."""
    spec = _spec(bench, "hi", command=["echo", "hi"])
    echo = ("--workspace", "", "-s", "aws_batch", "-cfg", "queue=q", "utils.echo", "--msg", "hi")
    torchx = peer("torchx").command("torchx")
    mine, theirs = bench.in_turns(
        _ours(bench, "plan", spec), Command((torchx, "run", "--dryrun", *echo), cwd=bench.room)
    )
    name = "torchx --dryrun"
    yield Row("plan for AWS Batch, CPU", mine.cpu_s, "s", name, theirs.cpu_s, at_most=0.8)
    yield Row("plan for AWS Batch, wall", mine.wall_s, "s", name, theirs.wall_s)


def logs(bench: Bench) -> Iterator[Row]:
    """Show 100,000 lines of a job that has ended, from the same stand-in."""
    with _rehearsed(bench) as region:
        run = _run(bench, region, "apply", _spec(bench, "lines", command=["echo", "a line"]))
        stream = _loaded(region)
        time.sleep(6.0)  # lines may come late: a reader waits for that long after the end
        to = ("--aws-endpoint-url", region.server.url)
        get = (GROUP, stream, "--no-group", "--no-stream", "--start", "1d", *to)
        one = ("--log-group-name", GROUP, "--log-stream-names", stream)
        text = ("--query", "events[].[message]", "--output", "text")
        v2 = packaged("/usr/bin/aws", "awscli")  # the wheel is version 1, which has no `logs tail`
        last = ("--since", "1d", "--format", "short", "--endpoint-url", region.server.url)
        shows = f"line {LINES - 1} of the job"
        mine, tail, awslogs, awscli = bench.in_turns(
            _ours(bench, "logs", run, shows=shows),
            Command((v2, "logs", "tail", GROUP, "--log-stream-names", stream, *last), shows),
            Command((peer("awslogs").command("awslogs"), "get", *get), shows),
            Command(
                (peer("awscli").command("aws"), "logs", "filter-log-events", *one, *text), shows
            ),
            rounds=max(1, bench.rounds // 5),
            more={**region.env, "AWS_DEFAULT_REGION": region.name, "AWS_REGION": region.name},
        )
    peers = {"aws logs tail": tail, "awslogs": awslogs, "aws filter-log": awscli}
    for name, theirs in peers.items():
        what = "logs, 100,000 lines"
        yield Row(f"{what}, CPU", mine.cpu_s, "s", name, theirs.cpu_s, at_most=1.0)
        yield Row(f"{what}, wall", mine.wall_s, "s", name, theirs.wall_s)
        yield Row(f"{what}, a second", LINES / mine.wall_s, "/s", name, LINES / theirs.wall_s)
        yield Row(f"{what}, runs without the last", mine.lost, "", name, theirs.lost)


def calls(bench: Bench) -> Iterator[Row]:
    """Count the requests to the service; nothing is timed."""
    with _rehearsed(bench, capacity="none") as region:
        _run(bench, region, "apply", "--detach", _sweep(bench, "before"))
        spec = _sweep(bench, "sweep")
        counted = _counted(bench, region, "apply", "--detach", spec)
        again = _counted(bench, region, "apply", "--detach", spec)
    what = f"sweep of {CHILDREN:,}"
    yield Row(f"{what}, calls of AWS Batch", counted["batch"], "", at_most=5)
    yield Row(f"{what}, calls of S3", counted["s3"], "")
    yield Row(f"{what} again, all calls", again["batch"] + again["s3"], "", at_most=4)
    yield Row(f"{what} again, uploads", again["uploads"], "", at_most=0)


def _counted(bench: Bench, region: Region, *words: str) -> Mapping[str, int]:
    """Count the calls that one command makes; what it writes to S3 is counted by its method."""
    batch, asked = len(region.control("GET", "calls")), len(_asked(region))
    _run(bench, region, *words)
    found = _asked(region)[asked:]
    uploads = sum(method in ("PUT", "POST") for method, _ in found)
    made = len(region.control("GET", "calls")) - batch
    return {"batch": made, "s3": len(found), "uploads": uploads}


def _asked(region: Region) -> list[tuple[str, str]]:
    """Give what was asked of moto's server so far, by the log it keeps."""
    text = (region.objects.folder / "moto.log").read_text(errors="replace")
    return [(found[1], found[2]) for found in REQUEST.finditer(text)]


def _ours(bench: Bench, *words: str, shows: str = "") -> Command:
    command = ours(bench.room, "aws").command("runspec")
    return Command((command, *words), shows, cwd=bench.room)


def _run(bench: Bench, region: Region, *words: str) -> str:
    """Run one command of ours to its end; give what it printed last."""
    command = _ours(bench, *words)
    env = {**bench.env, **region.env}
    done = subprocess.run(
        command.argv, cwd=command.cwd, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"exit {done.returncode} of {' '.join(words)}\n{done.stderr[-2000:]}")
    said = (done.stdout if "--detach" in words else done.stderr).split()
    return next(word for word in reversed(said) if "-" in word)


@contextlib.contextmanager
def _rehearsed(bench: Bench, **settings: Any) -> Iterator[Region]:
    folder = bench.room / f"region-{time.monotonic_ns()}"
    objects = Objects(folder)
    try:
        objects.make_bucket(SETTINGS["bucket"], SETTINGS["region"])
        with Region(folder, SETTINGS["region"], objects, **settings) as region:
            yield region
    finally:
        objects.close()


def _loaded(region: Region) -> str:
    """Put the lines into the log of the only job, and return the name of its stream."""
    (group,) = region.server.world.logs.groups()
    (stream,) = group.streams
    now = int(time.time() * 1000)
    lines = [(now + n // 1000, f"line {n} of the job") for n in range(LINES)]
    region.server.load_lines(GROUP, stream, lines)
    return stream


def _spec(bench: Bench, name: str, **more: Any) -> str:
    spec = {
        "apiVersion": "runspec/v1",
        "name": name,
        "provider": "aws-batch",
        "cluster": {"cpus": 1, "memory": "1GiB"},
        **more,
    }
    return bench.job(name, json.dumps(spec), "aws-batch", SETTINGS)


def _sweep(bench: Bench, name: str) -> str:
    sweep = {"seed": f"1..{CHILDREN}"}
    return _spec(bench, name, sweep=sweep, command=["echo", "${sweep.seed}"])
