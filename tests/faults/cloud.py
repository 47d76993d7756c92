"""A world of its own for each case on a cloud that is rehearsed, the cells of its matrix, and what must hold."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tests.faults.shapes import SINGLE, Shape
from tests.faults.world import (
    KILLED,
    LONG,
    MEMORY,
    QUICK,
    UNKNOWN,
    Driver,
    Ended,
    World,
)
from tests.support.profiles import own_profile

AT_ONCE = 4  # worlds that wait for the service half of the time; other tests run meanwhile


@dataclass
class Cloud(World):
    """A world whose job runs at a rehearsed service; its lists lag by *lag_s*."""

    lag_s: float = 0.0
    shape: Shape = SINGLE
    wire: dict[str, Any] = field(default_factory=lambda: {"at": None, "fault": None})

    provider: ClassVar[str]
    sdk: ClassVar[str]
    """Whose wire it is: see `drive.wired`."""
    text: ClassVar[str]
    """The spec."""
    sent_once: ClassVar[Mapping[str, Sequence[str]]]
    """Requests that make or change something, and the calls of the client that each belongs to."""

    def __post_init__(self) -> None:
        self.open()
        super().__post_init__()
        found = {**self.settings(), **self.shape.settings}
        settings = {name: value for name, value in found.items() if value is not None}
        text = json.dumps({"providers": {self.provider: settings}})
        own_profile(self.folder / ".config").write_text(text)

    def open(self) -> None:
        """Start the service."""
        raise NotImplementedError

    def settings(self) -> Mapping[str, Any]:
        """Give the profile's settings for the provider."""
        raise NotImplementedError

    def submitted(self) -> Sequence[str]:
        """Give the ids of the jobs there are, but for parts of others."""
        raise NotImplementedError

    def submits(self) -> int:
        """Give how many requests to submit a job the service has got."""
        raise NotImplementedError

    def begun(self) -> set[str]:
        """Give the jobs of which something was started."""
        raise NotImplementedError

    def alive(self) -> Sequence[Any]:
        """Give the jobs that have not ended."""
        raise NotImplementedError

    def left(self) -> Iterator[str]:
        """Give all that is at the service for this world, but for jobs that have ended."""
        raise NotImplementedError

    def spec(self, name: str = "faults", last: str | None = None) -> str:
        path = self.folder / f"{name}.yaml"
        last = last or self.last
        last = self.shape.quick if last == QUICK else last
        found = {"name": name, "truth": self.folder / "truth", "last": last}
        path.write_text(self.text.format(**found, more=self.shape.spec))
        return path.name

    def start(self, *words: str, **how: Any) -> tuple[int, int]:
        how.setdefault("wire", self.wire)
        return super().start(*words, sdk=self.sdk, **how)

    def times(self, request: str) -> int:
        """Give how many things one call of the client sends *request* for."""
        return 1

    def hidden(self) -> Iterator[tuple[str, bytes]]:
        """Give what nobody may find in a file, by its name."""
        yield "the secret", self.canary.encode()


New = Callable[[Driver, str, float, Shape], AbstractContextManager[Cloud]]


@contextmanager
def new_cloud(kind: type[Cloud], *given: Any, **how: Any) -> Iterator[Cloud]:
    folder = Path(tempfile.mkdtemp(prefix="runspec-faults-", dir=MEMORY))
    driver, last, lag_s, shape = given
    cloud = kind(driver, folder, last, lag_s=lag_s, shape=shape, **how)
    try:
        yield cloud
    finally:
        cloud.close()


def started(cloud: Cloud) -> str:
    """Start a job that goes on until it is ended, and give its run."""
    done = cloud.run("apply", "faults.yaml", "--detach")
    assert done.code == 0, done.err
    cloud.await_truth(cloud.shape.containers)
    return done.out.strip()


# What must hold


def always(cloud: Cloud, codes: Sequence[int] = (0, KILLED, UNKNOWN)) -> Iterator[str]:
    """Give what is wrong in *cloud* that must hold after every verb."""
    for ended in cloud.log:
        if ended.code not in codes:
            yield f"exit code {ended.code}: {ended.err.strip()[-300:]}"
    for report in (cloud.folder / "home.tmp").iterdir():
        yield f"{report.name}: {' / '.join(report.read_text().splitlines()[-4:])}"
    for key, count in Counter(tuple(line[:3]) for line in cloud.truth()).items():
        if count > 1:
            yield f"ran twice: {key}"
    runs = {line[0] for line in cloud.truth()}
    if len(runs) > 1:
        yield f"{len(runs)} jobs have run"
    if len(cloud.submitted()) > cloud.submits():
        yield "more jobs than requests to submit one"
    for ended in cloud.log:
        steps = Counter(step["label"] for step in ended.steps)
        for request, asked in cloud.sent_once.items():
            calls = sum(steps[f"call {call}"] for call in asked)
            if steps[f"send {request}"] > calls * cloud.times(request):
                yield f"{request} was sent again by the SDK"
    yield from shown(cloud)


def shown(cloud: Cloud) -> Iterator[str]:
    """Give the files of ours that hold what is hidden."""
    for part in ("home", "home.tmp", "traces"):
        for path in (cloud.folder / part).rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            for name, value in cloud.hidden():
                if value in content:
                    yield f"{name} is in {path.relative_to(cloud.folder)}"


def applied(cloud: Cloud) -> Iterator[str]:
    """Give what is wrong after an apply that was repeated until it exited with 0."""
    yield from always(cloud)
    if cloud.log[-1].code != 0:
        yield f"apply ends with {cloud.log[-1].code}"
        return
    ran = [line[1] for line in cloud.truth()]
    if len(set(ran) if cloud.shape.elastic else ran) != cloud.shape.containers:
        yield f"{len(ran)} containers ran, not {cloud.shape.containers}: {ran}"
    if len(cloud.begun()) != cloud.shape.jobs:
        yield f"{len(cloud.begun())} jobs were started by the service"
    yield from listed(cloud, "succeeded")


def listed(cloud: Cloud, state: str) -> Iterator[str]:
    rows = cloud.runs()
    if [row["state"] for row in rows] != [state]:
        yield f"list says {[row['state'] for row in rows]}, not {state}"


def ended(cloud: Cloud, state: str) -> Iterator[str]:
    """Give what is wrong after the run was to end as *state*."""
    yield from always(cloud)
    if cloud.log[-1].code != 0:
        yield f"it ends with {cloud.log[-1].code}: {cloud.log[-1].err.strip()[-200:]}"
    if alive := cloud.alive():
        yield f"jobs are alive: {alive}"
    yield from listed(cloud, state)


def bare(cloud: Cloud) -> Iterator[str]:
    """Give what is left after the run and all that runs share was taken away."""
    done = cloud.again("destroy", "--site")
    if done.code:
        yield f"destroy --site ends with {done.code}: {done.err.strip()[-300:]}"
    yield from (f"left: {what}" for what in cloud.left())


# The cells: a verb that is killed, or whose wire breaks, and is repeated


def apply(cloud: Cloud, **how: Any) -> list[str]:
    cloud.run("apply", "faults.yaml", **how)
    cloud.again("apply", "faults.yaml")
    return list(applied(cloud))


def cancel(cloud: Cloud, **how: Any) -> list[str]:
    run = started(cloud)
    cloud.run("cancel", run, **how)
    cloud.again("cancel", run)
    return list(ended(cloud, "cancelled"))


def destroy(cloud: Cloud, **how: Any) -> list[str]:
    run = started(cloud)
    cloud.run("destroy", run, **how)
    cloud.again("destroy", run)
    return [*ended(cloud, "destroyed"), *bare(cloud)]


def given_up(cloud: Cloud, **how: Any) -> list[str]:
    """An apply is killed, and its user takes all of it away."""
    cloud.run("apply", "faults.yaml", "--detach", **how)
    if not cloud.runs():
        return list(always(cloud))
    cloud.again("destroy", "faults")
    before = len(cloud.truth())
    found = [*ended(cloud, "destroyed"), *bare(cloud)]
    if len(cloud.truth()) > before:
        found.append("a job began after destroy had exited with 0")
    return found


def swept(cloud: Cloud, **how: Any) -> list[str]:
    """What runs share is taken away after the last of them."""
    run = started(cloud)
    cloud.again("destroy", run)
    cloud.run("destroy", "--site", **how)
    cloud.again("destroy", "--site")
    return [*ended(cloud, "destroyed"), *bare(cloud)]


LAST = {"apply": QUICK, "cancel": LONG, "destroy": LONG, "given up": LONG, "destroy --site": LONG}
CELLS = {"apply": apply, "cancel": cancel, "destroy": destroy, "given up": given_up}
MORE = {**CELLS, "destroy --site": swept}


def trace(cloud: Cloud, verb: str) -> Ended:
    """Run *verb* once with nothing in its way; give its steps."""
    if verb in ("apply", "given up"):
        words: tuple[str, ...] = (
            "apply",
            "faults.yaml",
            *(("--detach",) if verb == "given up" else ()),
        )
    elif verb == "destroy --site":
        cloud.again("destroy", started(cloud))
        words = ("destroy", "--site")
    else:
        words = (verb, started(cloud))
    done = cloud.run(*words)
    assert done.code == 0, done.err
    if verb == "given up":
        cloud.await_truth(cloud.shape.containers)
    return done
