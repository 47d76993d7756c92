"""Measure Azure Batch and Batch AI, with emulators of their services on this machine."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.installs import ROOT, ours
from bench.measure import Command, Sample
from bench.rows import Bench, Row
from runspec_azure.batch import emulator as batch
from runspec_batchai import emulator as batchai
from runspec_emulators import privacy
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.batch_ai import BatchAI

CHILDREN = 1_000
REQUEST = re.compile(r'"(GET|HEAD|PUT|POST|DELETE) (/\S*) HTTP')
SETTLED_S, IDLE_S, UP_S = 10.0, 30.0, 60.0
OFFLINE: Mapping[str, Mapping[str, Any]] = {
    "azure-batch": {
        "batch_url": "https://bench.westeurope.batch.azure.com",
        "storage_account": "bench",
        "storage_key": "env:BENCH",
        "container": "bench",
    },
    "azure-batch-ai": {
        "subscription": "00000000-0000-0000-0000-000000000000",
        "location": "eastus",
        "storage_account": "bench",
        "container": "bench",
        "file_share": "bench",
        "ssh_public_key": "ssh-ed25519 AAAA bench",
        "secrets": {"storage-key": "env:BENCH"},
    },
}


@dataclass(frozen=True)
class Rehearsed:
    """An account of *provider* that is nobody's: the way to it, and what was asked of it."""

    provider: str
    options: Mapping[str, Any]
    env: Mapping[str, str]
    url: str
    blobs: Blobs

    def calls(self) -> list[Mapping[str, Any]]:
        """Give every call of the service so far."""
        link = http.client.HTTPConnection(self.url.partition("//")[2], timeout=30)
        with contextlib.closing(link):
            link.request("GET", "/_rehearsal/calls", headers={privacy.HEADER: privacy.KEY})
            found: list[Mapping[str, Any]] = json.loads(link.getresponse().read())
        return found

    def asked(self) -> int:
        """Give how many requests of ours the Blob service had so far, by the log it keeps.

        Jobs ask it, too, but theirs bear a signature; ours are signed in their headers.
        """
        text = (self.blobs.folder / "azurite.log").read_text(errors="replace")
        return sum("sig=" not in target for _, target in REQUEST.findall(text))


def plan(bench: Bench) -> Iterator[Row]:
    """Say what would be done of one spec, beside the same spec on this machine."""
    local = _job(bench, "local", {})
    for provider, settings in OFFLINE.items():
        spec = _job(bench, provider, settings)
        mine, theirs = bench.in_turns(_ours(bench, "plan", spec), _ours(bench, "plan", local))
        name = "plan for local"
        yield Row(f"plan for {provider}, CPU", mine.cpu_s, "s", name, theirs.cpu_s, at_most=1.1)
        yield Row(f"plan for {provider}, wall", mine.wall_s, "s", name, theirs.wall_s)


def calls(bench: Bench) -> Iterator[Row]:
    """Count what is asked of Azure Batch and of Blob storage: nothing is timed.

    A submission finds, makes or wakes the pool, makes the job, adds its tasks, and says that it ends after them.
    """
    none = {"dedicated_quota": 0, "low_priority_quota": 0}  # nothing runs
    with _batch(bench, **none) as account:
        spec = _spec(bench, account, "sweep", sweep={"seed": f"1..{CHILDREN}"})
        first, blobs = _counted(bench, account, "apply", "--detach", spec)
        again, more = _counted(bench, account, "apply", "--detach", spec)
        woken, _ = _counted(bench, account, "apply", "--detach", "--new", spec)
    what = f"sweep of {CHILDREN:,}"
    for found, where in ((first, "a new pool"), (woken, "a pool that is there")):
        kinds = Counter(operation.partition("_")[0] for operation in found.elements())
        name = f"{what}, {where}"
        yield Row(f"{name}, calls of jobs and tasks", kinds["Job"] + kinds["Task"], "", at_most=12)
        yield Row(f"{name}, calls of the pool", kinds["Pool"], "", at_most=2)
        for operation, count in sorted(found.items()):
            yield Row(f"{name}, {operation}", count, "")
    yield Row(f"{what}, calls of Blob storage", blobs, "")
    yield Row(f"{what} again, all calls", again.total() + more, "")


def idle(bench: Bench) -> Iterator[Row]:
    """Count what a follower asks while a job prints nothing."""
    for named in (_batch, _batchai):
        with named(bench) as account:
            spec = _spec(bench, account, "idle", command=["sleep", "600"])
            run = _applied(bench, account, spec)
            service, blobs = _asked_by_follower(bench, account, run)
            Sample.of(_ours(bench, "cancel", run), {**bench.env, **account.env})
        what = f"idle follower, {account.provider}"
        minute = 60 / IDLE_S
        yield Row(f"{what}, calls a minute", (service + blobs) * minute, "", at_most=60)
        yield Row(f"{what}, of them of Blob", blobs * minute, "")


def _asked_by_follower(bench: Bench, account: Rehearsed, run: str) -> tuple[int, int]:
    """Follow *run*; give how often the service and Blob storage are asked in IDLE_S, once it is idle."""
    command, env = _ours(bench, "logs", "--follow", run), {**bench.env, **account.env}
    null = subprocess.DEVNULL
    with subprocess.Popen(
        command.argv, stdin=null, stdout=null, stderr=null, cwd=command.cwd, env=env
    ) as follower:
        time.sleep(SETTLED_S)
        before = len(account.calls()), account.asked()
        time.sleep(IDLE_S)
        found = len(account.calls()) - before[0], account.asked() - before[1]
        if follower.poll() is not None:
            raise RuntimeError(f"the follower of {run} has ended: exit {follower.returncode}")
        follower.kill()
    return found


def _counted(bench: Bench, account: Rehearsed, *words: str) -> tuple[Counter[str], int]:
    """Count the calls that one command makes: of the service by operation, of Blob storage all."""
    calls, blobs = len(account.calls()), account.asked()
    Sample.of(_ours(bench, *words), {**bench.env, **account.env})
    made = Counter(call["operation"] for call in account.calls()[calls:])
    return made, account.asked() - blobs


def _applied(bench: Bench, account: Rehearsed, spec: str) -> str:
    """Start *spec*, and give its run once it runs."""
    env = {**bench.env, **account.env}
    said = Sample.of(_ours(bench, "apply", "--detach", spec), env).output
    run = re.findall(rf"\b{Path(spec).stem}-[a-z0-9]+\b", said)[-1]
    end = time.monotonic() + UP_S
    while "running" not in Sample.of(_ours(bench, "status", run), env).output:
        if time.monotonic() > end:
            raise RuntimeError(f"{run} does not begin")
    return str(run)


def _ours(bench: Bench, *words: str) -> Command:
    return Command((ours(bench.room, "azure").command("runspec"), *words), cwd=bench.room)


@contextlib.contextmanager
def _batch(bench: Bench, **settings: Any) -> Iterator[Rehearsed]:
    folder = bench.room / f"batch-{time.monotonic_ns()}"
    with (
        Blobs(folder / "blobs", told=True) as blobs,
        AzureBatch(
            folder, batch.ACCOUNT, machine_env={"RUNSPEC_BELOW": "."}, **settings
        ) as account,
    ):
        options = {**batch.SETTINGS, **batch.ways(account.url, blobs.url, blobs.account)}
        blobs.make_container(options["container"])
        env = {**account.env, batch.BATCH_KEY: account.key, batch.STORAGE_KEY: blobs.key}
        yield Rehearsed("azure-batch", options, env, account.url, blobs)


@contextlib.contextmanager
def _batchai(bench: Bench, **settings: Any) -> Iterator[Rehearsed]:
    folder = bench.room / f"batchai-{time.monotonic_ns()}"
    with Blobs(folder / "blobs", told=True) as blobs:
        place = blobs.url.replace(blobs.account, "{account}")
        accounts = {blobs.account: blobs.key}
        with BatchAI(folder, blob_url=place, accounts=accounts, **settings) as account:
            options = {**batchai.SETTINGS, **batchai.ways(account.url, blobs, batchai.SETTINGS)}
            blobs.make_container(options["container"])
            env = {**account.env, batchai.KEY: blobs.key}
            yield Rehearsed("azure-batch-ai", options, env, account.url, blobs)


def _spec(bench: Bench, account: Rehearsed, name: str, **more: Any) -> str:
    spec = {
        "apiVersion": "runspec/v1",
        "name": name,
        "provider": account.provider,
        "cluster": {"cpus": 1, "memory": "1GiB"},
        "command": ["echo", "hi"],
        **more,
    }
    named = f"{name}-{time.monotonic_ns()}"
    return bench.job(named, json.dumps(spec), account.provider, account.options)


def _job(bench: Bench, provider: str, settings: Mapping[str, Any]) -> str:
    """Give the spec of all figures for *provider*, with what its profile would say."""
    text = (ROOT / "bench" / "job.yaml").read_text()
    text = text.replace("provider: local", f"provider: {provider}")
    return bench.job(f"plan-{provider}-{time.monotonic_ns()}", text, provider, settings)
