"""Arrays whose children take several calls, followed from look to look; and the changes of elastic jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from hypothesis import strategies as st

from runspec_aws.status.nodes import STATES
from runspec_jobs.provider import MembershipChange, RunspecError, State, Status
from runspec_jobs.provider.streams.log_streams import Stream
from tests.drawn.aws_account import JOB, PREFIX, RUN, Account, World
from tests.drawn.aws_cases import Case, Place, pages, worlds
from tests.drawn.aws_errors import refusals
from tests.drawn.aws_truths import CHILDREN, FAILED_WITH

COURSE = ("RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")
CODES = {State.SUCCEEDED: 0, State.FAILED: FAILED_WITH}


class Followed(NamedTuple):
    """What the last look gave, the states of those before, and what each child has printed."""

    last: Status
    before: list[State]
    logs: dict[int, bytes]


def followed(place: Place) -> Followed:
    """Look at an array as its children go on; a look that fails is one that is made again."""
    account, client = place.account, place.client
    client.remember(RUN, {"job": {"jobId": JOB}})
    found: list[Status] = []
    streams: Sequence[Stream] = ()
    last = len(account.world.phases) - 1
    for phase in (*range(last + 1), last, last):
        account.world = replace(account.world, phase=phase)
        client.clock.sleep(2.0)  # which passes at once
        try:
            streams = client.streams(RUN)
            found.append(client.state(RUN))
        except RunspecError:
            continue
    logs = {stream.task: stream.read(None).data for stream in streams}
    return Followed(found[-1], [one.state for one in found], logs)


def right(account: Account, found: Followed) -> bool:
    """Say whether the last look saw how all children stand, and no look an end that was none."""
    world = account.world
    children = [STATES[status] for status in world.phases[-1]]
    over = all(state.terminal for state in children)
    if not over:
        running = found.last.state is State.RUNNING or State.RUNNING not in children
        return running and not any(state.terminal for state in found.before)
    wanted = max(children, key=lambda state: state is State.FAILED)
    lacks = account.drawn.kind == "lacking"
    nodes = {node.task: node for node in found.last.nodes}
    ends = [nodes[task].state for task in sorted(nodes)] == children
    codes = all(node.exit_code == CODES[node.state] for node in nodes.values())
    logs = dict.fromkeys(range(CHILDREN), b"a\nb\n")
    printed = found.logs == logs or (lacks and found.logs.items() <= logs.items())
    return found.last.state is wanted and ends and (codes or lacks) and printed


def grown(children: list[tuple[int, int]]) -> World:
    ways = [sorted(child) for child in children]
    # What has succeeded does not fail later.
    ways = [[min(n, 3) if way[-1] == 3 or 3 in way else n for n in way] for way in ways]
    phases = zip(*ways, strict=True)
    return World(shape="large", phases=tuple(tuple(COURSE[n] for n in phase) for phase in phases))


PLACES = st.tuples(st.integers(0, 4), st.integers(0, 4) | st.integers(3, 4))
LARGE = st.lists(PLACES, min_size=CHILDREN, max_size=CHILDREN).map(grown) | st.lists(
    st.tuples(st.integers(0, 4), st.integers(3, 4)), min_size=CHILDREN, max_size=CHILDREN
).map(grown)


# The changes of an elastic job, an object each

CHANGED = tuple(f"{n:07}" for n in (1, 2, 3))
FOLDER = f"{PREFIX}/runs/{RUN}/elastic/0/changes/"
FILES = {
    f"{FOLDER}{name}": json.dumps(
        MembershipChange(0, int(name), 1.0, 1, 2, "grown", 1.0, 0)._asdict()
    ).encode()
    for name in CHANGED
}
ELASTIC = worlds(shape=st.just("elastic"), files=st.just(FILES), pages=pages(*CHANGED))


def changes(place: Place) -> list[int]:
    return [one.generation for one in place.client.changes(RUN)]


def right_changes(account: Account, found: list[int]) -> bool:
    return found == [1, 2, 3]


def fewer(account: Account, found: list[int]) -> bool:
    """Say whether one object alone is left out, or all are: those of a run that is gone."""
    return found == [] if account.drawn.at == 0 else found == [2, 3]


def cases() -> Iterator[Case]:
    for operation in ("DescribeJobs", "ListJobs"):
        again = frozenset({"", *(one.code for one in refusals("batch", operation))})
        yield Case(operation, "large array", followed, right, LARGE, around=again)

    yield Case("ListObjectsV2", "changes", changes, right_changes, ELASTIC)
    absent = frozenset({"NoSuchKey"})
    yield Case("GetObject", "changes", changes, right_changes, ELASTIC, absent, fewer)


ARRAYS = {case.name: case for case in cases()}
