"""A chain of four jobs for each world: what it is, how it is killed and repeated, and what must hold of it.

`a` saves two files; `b` and `c` read them, and `d` reads what both of these have saved. Each job writes its run and all
that it has read to the world's file `truth`.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.faults import cloud
from tests.faults.aws import AwsCloud
from tests.faults.azure import AzureCloud
from tests.faults.cloud import Cloud, New
from tests.faults.shapes import SINGLE
from tests.faults.slurm import SlurmCloud
from tests.faults.struck import Traced, excused, located
from tests.faults.world import KILLED, QUICK, UNKNOWN, Driver, World, await_that, content

JOBS = ("a", "b", "c", "d")
READS = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
WORDS = {"a": [], "b": ["a1", "a2"], "c": ["a1", "a2"], "d": ["b1", "b2", "c1", "c2"]}
JOB = """\
apiVersion: runspec/v1
name: {name}
provider: {provider}
mounts: [{mounts}]
outputs: [{{name: data, path: /job/data}}]
env: {{TRUTH: {truth}}}
{more}
run: |
  words=$(cat {files})
  echo "$RUNSPEC_RUN $RUNSPEC_TASK.$RUNSPEC_RANK $RUNSPEC_ATTEMPT" $words $RUNSPEC_JOB >> "$TRUTH"
  {last}
  echo {name}1 > "${{outputs.data}}/one"
  echo {name}2 > "${{outputs.data}}/two"
"""
FAILS = "exit 3"
LONG = "trap 'exit 0' TERM; for n in $(seq 3000); do sleep 0.1; done"  # and not `exec`, which would save nothing
ONCE = 'test -e "$TRUTH.b" || { : > "$TRUTH.b"; sleep 300; }'  # which is ended the first time
CHAIN = "faults"  # the name of the file
OK = (0, KILLED, UNKNOWN)
EVERYWHERE: Mapping[str, str] = {}  # all jobs at one provider
TWO_STORES = {"a": "local", "b": "local"}  # what `c` and `d` read is copied to their store


def written(
    truth: object,
    provider: str,
    lasts: Mapping[str, str],
    more: str = "",
    elsewhere: Mapping[str, str] = EVERYWHERE,
) -> str:
    """Return the text of the chain; *lasts* are the commands of jobs before they save, for those that have any.

    *elsewhere* are the providers of jobs that have another one.
    """
    texts = []
    for name in JOBS:
        mounts = [
            f"{{name: {of}, source: 'run://{of}/data', target: /job/{of}}}" for of in READS[name]
        ]
        files = [f"${{mounts.{of}}}/{part}" for of in READS[name] for part in ("one", "two")]
        place = elsewhere.get(name, provider)
        given = {"name": name, "provider": place, "truth": truth, "more": more}
        last = lasts.get(name, ":")
        lists = {"mounts": ", ".join(mounts), "files": " ".join(files) or "/dev/null"}
        texts.append(JOB.format(**given, **lists, last=last))
    return "---\n".join(texts)


@dataclass
class LocalChain(World):
    """A world with a chain on this machine; *last* is what its job `b` does before it saves."""

    def written(self, name: str, last: str) -> str:
        return written(self.folder / "truth", "local", {"b": last})

    def take_machine(self, run: str) -> None:
        """Kill the process that stays with a run, as when the machine goes down."""
        (pid,) = (p for p in self.supervisors() if run in content(f"/proc/{p}/cmdline").decode())
        os.kill(pid, signal.SIGKILL)


@dataclass
class OfClouds(Cloud):
    """Gives a cloud a chain in place of one job, all of whose jobs run at that service but for those *elsewhere*."""

    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def spec(self, name: str = CHAIN, last: str | None = None) -> str:
        path = self.folder / f"{name}.yaml"
        lasts, more = {"b": last or self.last}, self.shape.spec
        path.write_text(written(self.folder / "truth", self.provider, lasts, more, self.elsewhere))
        return path.name


@dataclass
class SlurmChain(OfClouds, SlurmCloud):
    """A world with a chain on a cluster."""

    def take_machine(self, run: str) -> None:
        """Have Slurm begin a job again, as it does when a node is lost."""
        assert self.cluster is not None
        (job,) = (line[-1] for line in self.truth() if line[0] == run)
        self.cluster.run("scontrol", "requeue", job)


@dataclass
class AwsChain(OfClouds, AwsCloud):
    """A world with a chain in a rehearsed region of AWS."""

    def take_machine(self, run: str) -> None:
        (job,) = [one["id"] for one in self.jobs() if one["name"] == run]
        self.region.control("POST", "reclaim", {"jobId": job, "notice_s": 0})


@dataclass
class AzureChain(OfClouds, AzureCloud):
    """A world with a chain in a rehearsed account of Azure Batch."""

    def take_machine(self, run: str) -> None:
        self.account.control("POST", "preempt", {"jobId": run, "taskId": "task-00000"})


def ran(world: World) -> Counter[str]:
    """Return how often each job has begun."""
    return Counter(line[0].rpartition("-")[0] for line in world.truth())


def runs_of(world: World) -> dict[str, list[str]]:
    """Return the states of the runs of each job, destroyed ones too."""
    states: dict[str, list[str]] = {name: [] for name in JOBS}
    for row in world.runs():
        states[row["run"].rpartition("-")[0]].append(row["state"])
    return states


# What must hold


def kept(world: World, codes: Sequence[int] = OK) -> Iterator[str]:
    """Yield what is wrong that must hold after every verb: no job began twice, and none read a part of its inputs."""
    for ended in world.log:
        if ended.code not in codes:
            yield f"exit code {ended.code}: {ended.err.strip()[-300:]}"
    for report in (world.folder / "home.tmp").iterdir():
        lines = report.read_text().splitlines() if report.is_file() else ["a folder is left"]
        yield f"{report.name}: {' / '.join(lines[-4:])}"
    for job, count in ran(world).items():
        if count > 1:
            yield f"{job} ran {count} times"
    for line in world.truth():
        job = line[0].rpartition("-")[0]
        if line[3 : 3 + len(WORDS[job])] != WORDS[job]:
            yield f"{job} has read {line[3:]}"
    yield from cloud.shown(world) if isinstance(world, Cloud) else unended(world)


def unended(world: World) -> Iterator[str]:
    for pid, words in world.await_quiet().items():
        yield f"process {pid} is left: {words[:200]}"


def alive(world: World) -> list[Any]:
    """Return what has not ended at the service."""
    return list(world.alive()) if isinstance(world, Cloud) else []


def succeeded(world: World) -> Iterator[str]:
    """Yield what is wrong after an apply that was repeated until it exited with 0."""
    yield from kept(world)
    if world.log[-1].code != 0:
        yield f"apply ends with {world.log[-1].code}: {world.log[-1].err.strip()[-300:]}"
        return
    if ran(world) != Counter(JOBS):
        yield f"jobs ran: {dict(ran(world))}"
    states = runs_of(world)
    if states != {name: ["succeeded"] for name in JOBS}:
        yield f"list says {states}"
    yield from gone(world)


def gone(world: World) -> Iterator[str]:
    """Yield what is left of the chain after `destroy` of it, and of what runs share."""
    done = world.again("destroy", CHAIN)
    if done.code:
        yield f"destroy ends with {done.code}: {done.err.strip()[-300:]}"
    for job, states in runs_of(world).items():
        if set(states) - {"destroyed"}:
            yield f"after destroy {job} is {states}"
    if jobs := alive(world):
        yield f"jobs are alive: {jobs}"
    if isinstance(world, Cloud):
        yield from cloud.bare(world)
    else:
        world.again("destroy", "--site")
        yield from unended(world)
        root = world.home / "local"
        yield from (f"left: {p.relative_to(root)}" for p in root.rglob("*") if not p.is_dir())


# The cells: a verb that is killed, or whose wire breaks, and is repeated


def first(world: World) -> Sequence[str]:
    """Return the command that is killed: where the service waits, all jobs are submitted at once, in one order."""
    by_service = isinstance(world, SlurmChain | AwsChain) and not world.elsewhere
    return ("apply", "faults.yaml", *["--detach"] * by_service)


def apply(world: World, **how: Any) -> list[str]:
    world.run(*first(world), **how)
    world.again("apply", "faults.yaml")
    return list(succeeded(world))


def given_up(world: World, **how: Any) -> list[str]:
    """An apply is killed, and its user destroys what there is of it."""
    world.run(*first(world), **how)
    return ended_by("destroy", world)


def called_off(world: World, **how: Any) -> list[str]:
    """An apply is killed, and its user cancels the chain."""
    world.run(*first(world), **how)
    return ended_by("cancel", world)


def ended_by(verb: str, world: World) -> list[str]:
    """End the chain; return what is wrong, also if a job begins after that."""
    done = world.again(verb, CHAIN)
    if done.code == 2 and not world.runs():
        return list(kept(world, (*OK, 2)))  # it was killed before the chain was on record
    if done.code:
        return [f"{verb} ends with {done.code}: {done.err.strip()[-300:]}"]
    before = len(world.truth())
    wrong = [f"after {verb} it is alive: {job}" for job in alive(world)]
    wrong += kept(world)
    if verb == "cancel":
        over = {"succeeded", "cancelled"}
        wrong += [f"{n} is {s}" for n, s in runs_of(world).items() if not over.issuperset(s)]
    wrong += gone(world)
    if len(world.truth()) > before:
        wrong.append(f"a job began after {verb} had exited with 0")
    return wrong


def fails(world: World, **how: Any) -> list[str]:
    """Job `b` fails: `d` never begins, wherever the apply is killed and how often it is repeated."""
    world.run(*first(world), **how)
    done = world.again("apply", "faults.yaml")
    wrong = [w for w in kept(world, (*OK, 1)) if not w.startswith("b ran")]
    if done.code != 1:
        wrong.append(f"apply ends with {done.code}")
    if ran(world)["d"]:
        wrong.append("d began although b has failed")
    if ran(world)["c"] != 1:
        wrong.append(f"c ran {ran(world)['c']} times")
    return [*wrong, *(w for w in gone(world) if "exit code 1:" not in w)]


def stopped(verb: str, world: World, **how: Any) -> list[str]:
    """A chain whose job `b` goes on is ended by a verb that is killed."""
    going(world)
    world.run(verb, CHAIN, **how)
    return ended_by(verb, world)


def going(world: World) -> None:
    """Start the chain, and wait until `b` runs."""
    for _ in range(3):  # where this machine starts jobs, those that are ready
        done = world.run("apply", "faults.yaml", "--detach")
        assert done.code == 0, done.err
        if sum(states != [] for states in runs_of(world).values()) > 2:
            break
        await_that(lambda: all_ended(world), "the end of the jobs that run")
    await_that(lambda: ran(world)["b"] and ran(world)["c"], "jobs that run")


def all_ended(world: World) -> bool:
    listed = json.loads(world.run("status", CHAIN, "--json").out)["jobs"]
    return all(one["state"] in ("succeeded", "not-started") for one in listed)


def cancelled(world: World, **how: Any) -> list[str]:
    return stopped("cancel", world, **how)


def destroyed(world: World, **how: Any) -> list[str]:
    return stopped("destroy", world, **how)


Chain = LocalChain | SlurmChain | AwsChain | AzureChain


def loses_machine(world: Chain) -> None:
    world.take_machine(run_of_b(world))


def is_cancelled(world: Chain) -> None:
    world.again("cancel", run_of_b(world))


def is_limited(world: Chain) -> None:
    """Let job `b` reach its `timeout`."""


def run_of_b(world: World) -> str:
    return next(line[0] for line in world.truth() if line[0].startswith("b-"))


def interrupted(world: Chain, end: Callable[[Chain], None], code: int) -> list[str]:
    """End job `b`, which goes on, while an apply waits, which is to exit with *code*; then `apply` is repeated.

    Unless `b` is tried again in the same run, `d` is not to begin before `apply` is repeated, which starts `b` and `d`.
    """
    line = ("apply", "faults.yaml", *["--set", "b:timeout=10s"] * (end is is_limited))
    following = world.start(*line)
    await_that(lambda: ran(world)["b"] and ran(world)["c"], "jobs that run")
    end(world)
    ended = world.wait(following)
    wrong = [f"apply ends with {ended.code}: {ended.err[-300:]}"] if ended.code != code else []
    if code and ran(world)["d"]:
        wrong.append("d began although b has not succeeded")
    world.again(*line)
    began, failed = [one[0].partition("-")[0] for one in world.truth()], int(code != 0)
    if sorted(began) != ["a", "b", "b", "c", "d"] or began[-1] != "d":
        wrong.append(f"they began so: {began}")
    for job, states in runs_of(world).items():
        more = {"b": {failed}, "d": {0, failed}}.get(job, {0})  # a service may wait for `d`, or not
        if states.count("succeeded") != 1 or len(states) - 1 not in more:
            wrong.append(f"{job} is {states}")
    wrong += [w for w in kept(world, (*OK, code)) if not w.startswith("b ran 2")]
    return [*wrong, *gone(world)]


Cell = Callable[..., list[str]]
CELLS: Mapping[str, tuple[Cell, str]] = {
    "apply": (apply, QUICK),
    "apply, then destroy": (given_up, QUICK),
    "apply, then cancel": (called_off, QUICK),
    "apply of one that fails": (fails, FAILS),
    "cancel": (cancelled, LONG),
    "destroy": (destroyed, LONG),
}


def located_in(driver: Driver, new: New, verb: str) -> Traced:
    """Return where a verb with nothing in its way can be killed at a service, and what it sends."""
    with new(driver, CELLS[verb][1], 0.0, SINGLE) as world:
        return located(trace(world, verb))


def with_two_stores(new: Callable[..., AbstractContextManager[Cloud]]) -> New:
    return partial(new, elsewhere=TWO_STORES)


def while_copying(driver: Driver, new: New) -> Mapping[int, str]:
    """Return where an apply can be killed after the last job of the first store has been started."""
    with new(driver, QUICK, 0.0, SINGLE) as world:
        steps = world.run(*first(world)).steps
    labels = [step["label"] for step in steps]
    last = max(at for at, label in enumerate(labels) if label == "call call start")
    return {step["n"]: step["label"] for step in steps[last + 1 :] if step["n"] is not None}


def killed(driver: Driver, new: New, verb: str, at: int) -> list[str]:
    cell, last = CELLS[verb]
    with new(driver, last, 0.0, SINGLE) as world:
        return cell(world, at=at)


def broken(driver: Driver, new: New, verb: str, fault: str, at: int) -> list[str]:
    """Return what is wrong after a request of a verb went wrong, and the verb was repeated."""
    cell, last = CELLS[verb]
    with new(driver, last, 0.0, SINGLE) as world:
        return [w for w in cell(world, wire={"at": at, "fault": fault}) if not excused(w, fault)]


def trace(world: World, verb: str) -> Sequence[Mapping[str, Any]]:
    """Return the steps of a verb with nothing in its way."""
    if verb.startswith("apply"):
        return world.run(*first(world)).steps
    going(world)
    return world.run(verb, CHAIN).steps
