"""What a running elastic job asks of its store, counted in front of it: no more than docs/agent.md says."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from runspec_agent.elastic.change_cost import EVERY_S
from runspec_agent.elastic.member import timing
from runspec_agent.store.base import Bucket
from runspec_agent.usage.background import UPLOAD_S
from runspec_jobs.provider.payload import pack_agent
from tests.support.agent.breakable_stores import OBJECTS, Way
from tests.support.root import ROOT

BEAT_S, SYNC_S, WINDOW_S = 2.0, 3.0, 12.0  # a busy machine is silent for seconds
SOONEST = 0.9  # of a beat, after which the next one may come
RECORD: dict[str, Any] = {
    "run": "r",
    "shape": "array",
    "nodes": 2,
    "slots": 1,
    "launch": "none",
    "attempts": 1,
    "elastic": {"min": 1, "max": 2},
    "sweep": [],
    "mounts": [],
    "outputs": [{"name": "out", "path": "/out", "sync_s": SYNC_S}],
    "requirements": [],
    "build_constraints": [],
}
PROGRAM = """\
i=0
while :; do
    i=$((i+1)); echo $i >> "$RUNSPEC_PROGRESS"
    [ $((i % 8)) -ne 0 ] || echo $i > "$RUNSPEC_OUTPUT_OUT/model"
    sleep 0.3
done
"""
AT = "runs/r/elastic/0/"
KINDS = {
    "beat": f"PUT .*/{AT}nodes/",
    "look": f"GET .*/{AT}state$",
    "list of nodes": "LIST nodes",
    "list of words": "LIST said",
    "lead": f"PUT .*/{AT}state$",
    "progress": f"PUT .*/{AT}progress$",
    "may it save": f"GET .*/{AT}fence$",
    "the files": r"PUT .*/outputs/out/0/0/\.runspec/objects/",
    "of no save": r"DELETE .*/outputs/out/0/0/\.runspec/objects/",
    "have all begun": "LIST restored",
    "what counts": f"PUT .*/{AT}kept/",
    "it counts": f"PUT .*/{AT}fence$",
    "is it released": "GET .*/runs/r/released/",
    "meeting": f"GET .*/{AT}nodes/",  # once in a generation, perhaps after its first step
    "the start": f"GET .*/{AT}starts/",  # of a generation, by a node that came to it last
    "manifest": r"PUT .*/outputs/out/0/0/\.runspec/manifest.json$",
    "usage": "PUT .*/runs/r/usage/",
    "whose manifest": r"GET .*/outputs/out/0/0/\.runspec/manifest.json$",
}


def kind_of(text: str) -> str:
    return next((kind for kind, found in KINDS.items() if re.match(found, text)), text)


def asked(way: Way) -> Counter[str]:
    """Give what went through *way*, by kind."""
    found: Counter[str] = Counter()
    for call in list(way.calls):
        path, _, query = unquote(call.path).partition("?")
        listed = re.search(r"prefix=.*?/elastic/0/(\w+)/", query)
        lists = call.lists and listed is not None
        found[kind_of(f"LIST {listed[1]}" if lists and listed else f"{call.method} {path}")] += 1
    return found


@pytest.fixture
def ways(bucket: Bucket, way: Way, tmp_path: Path) -> Iterator[list[Way]]:
    """The ways of two nodes that run a program, one after the other has begun."""
    bucket.put("runs/r/record.json", json.dumps({**RECORD, "argv": ["sh", "-c", PROGRAM]}).encode())
    (tmp_path / "inside.pyz").write_bytes(pack_agent())
    with ExitStack() as stack:
        found = [stack.enter_context(Way(f"http://{way.there}")) for _ in range(2)]
        for seat, own in enumerate(found):
            node = started(tmp_path, seat, way, own)
            stack.callback(node.wait)
            stack.callback(node.kill)
        yield found


def started(folder: Path, seat: int, shared: Way, own: Way) -> subprocess.Popen[bytes]:
    below = folder / f"node-{seat}"
    below.mkdir()
    env = {name: value.replace(shared.url, own.url) for name, value in os.environ.items()}
    env.update(
        {"RUNSPEC_RUN": "r", "RUNSPEC_JOB": "j", "RUNSPEC_INDEX": f"{seat}"},
        RUNSPEC_HOST=f"127.0.0.{seat + 1}",
        RUNSPEC_BELOW=str(below),
        TMPDIR=str(below),
        RUNSPEC_BEAT_S=f"{BEAT_S}",
    )
    with (below / "log").open("wb") as log:
        line = [sys.executable, "-IS", str(folder / "inside.pyz"), "job"]
        return subprocess.Popen(line, env=env, cwd=below, stdout=log, stderr=log)


def both(bucket: Bucket) -> int:
    """Give the generation in which two nodes run, the first of which has taken a step."""
    state = json.loads(bucket.get(AT + "state") or b"{}")
    number = int(state.get("generation", 0))
    change = json.loads(bucket.get(f"{AT}changes/{number:07}") or b"{}")
    runs = state.get("phase") == "running" and len(state["members"]) == 2
    return number if runs and change.get("first_step") else 0


def counted(ways: list[Way], bucket: Bucket) -> tuple[float, list[Counter[str]]]:
    """Give what was asked for in so many seconds, in which one generation ran."""
    while True:
        eventually(lambda: bool(both(bucket)))
        generation, before, began = both(bucket), [asked(way) for way in ways], time.monotonic()
        time.sleep(WINDOW_S)
        found = [asked(way) - old for way, old in zip(ways, before, strict=True)]
        if generation and both(bucket) == generation:
            return time.monotonic() - began, found


def eventually(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 180
    while not is_so():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.2)


def bounds(window_s: float, beat_s: float, sync_s: float) -> Mapping[str, int]:
    """Give how many of each kind a node may ask for, whatever it is; one more, as the window begins anywhere."""
    beats = math.floor(window_s / (SOONEST * beat_s)) + 1
    saves = math.floor(window_s / sync_s) + 1
    each = dict.fromkeys(("beat", "look", "list of nodes", "list of words", "lead"), beats)
    once = ("the files", "of no save", "have all begun", "it counts", "manifest", "whose manifest")
    first = dict.fromkeys(once, saves)
    notes = math.floor(window_s / EVERY_S) + 1
    return {
        **each,
        **first,
        "may it save": 2 * saves,
        "what counts": 2 * saves,
        "progress": notes,
        "is it released": math.floor(window_s / beat_s) + 1,
        "meeting": 1,
        "the start": 1,
        "usage": math.floor(window_s / UPLOAD_S[0]) + 1,
    }


@pytest.mark.slow
@OBJECTS
def test_each_kind_of_request_of_a_node_is_bounded(ways: list[Way], bucket: Bucket) -> None:
    """No request of a kind that is not named here, and none more often."""
    seconds, found = counted(ways, bucket)

    most = bounds(seconds, BEAT_S, SYNC_S)
    too_many = [{k: n for k, n in one.items() if n > most.get(k, 0)} for one in found]
    assert too_many == [{}, {}]
    lead = next(one for one in found if one["lead"])
    other = next(one for one in found if one is not lead)
    assert lead["look"] <= 1
    assert set(other) - {"beat", "look"} <= {*KINDS} - {"lead", "list of nodes", "list of words"}
    assert (
        sum(bool(one["it counts"]) for one in found) == 1
    )  # the first node saves, and nobody else


def test_the_figures_in_the_documentation_are_these() -> None:
    """They are the requests of a node, of the leader, and what the first node adds to these."""
    beat_s = timing({"RUNSPEC_STORE": "s3://b/p"}, grace_s=20.0).beat_s
    beats, releases = 60 / (SOONEST * beat_s), 60 / beat_s
    text = (ROOT / "docs" / "agent.md").read_text()
    found = re.search(
        r"at most (\d+) requests a minute of each node, (\d+) of the one that leads, and (\d+) "
        r"more of the first one",
        " ".join(text.split()),
    )

    assert found is not None
    figures = [int(number) for number in found.groups()]
    own = [math.ceil(count * beats + releases) for count in (2, 4)]
    assert figures == [*own, math.ceil(60 / EVERY_S)]
