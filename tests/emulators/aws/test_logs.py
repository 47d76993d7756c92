"""Logs: pages, tokens, what comes late, and a million lines."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from runspec_emulators.aws import signature
from runspec_emulators.aws.region import PAIR
from runspec_emulators.frame.listening import connect
from tests.emulators.aws.stand import Stand

pytestmark = pytest.mark.process

Make = Callable[..., Stand]
HERE = {"logGroupName": "group", "logStreamName": "stream"}


def lines(count: int, each_ms: int = 10) -> list[tuple[int, str]]:
    """Make numbered lines, *each_ms* of them in every millisecond."""
    start = int(time.time() * 1000) - count // each_ms
    return [(start + n // each_ms, f"line {n}") for n in range(count)]


def texts(page: Any) -> list[str]:
    return [event["message"] for event in page["events"]]


def read(stand: Stand, token: str | None = None, **more: Any) -> tuple[list[str], str]:
    """Read forward to where the token stays the same; give what was read, and that token."""
    found: list[str] = []
    for _ in range(2000):
        given: dict[str, str] = {"nextToken": token} if token else {}
        page = stand.logs.get_log_events(**HERE, startFromHead=True, **given, **more)
        found += texts(page)
        if page["nextForwardToken"] == token:
            return found, str(token)
        token = page["nextForwardToken"]
    raise AssertionError("the token never stays the same")


def test_pages_hold_ten_thousand_events_and_end_with_the_same_token(stand: Stand) -> None:
    stand.server.load_lines("group", "stream", lines(25_000))

    first = stand.logs.get_log_events(**HERE, startFromHead=True)
    found, _ = read(stand)

    assert len(first["events"]) == 10_000
    assert found == [f"line {n}" for n in range(25_000)]


def test_pages_hold_a_megabyte(stand: Stand) -> None:
    big = "é" * 50_000
    stand.server.load_lines("group", "stream", [(1, big)] * 25)

    page = stand.logs.get_log_events(**HERE, startFromHead=True)

    assert len(page["events"]) == 10
    assert len(read(stand)[0]) == 25


def test_without_start_from_head_the_latest_come_first(stand: Stand) -> None:
    stand.server.load_lines("group", "stream", lines(25))

    last = stand.logs.get_log_events(**HERE, limit=10)
    before = stand.logs.get_log_events(**HERE, limit=10, nextToken=last["nextBackwardToken"])
    rest = stand.logs.get_log_events(**HERE, limit=10, nextToken=before["nextBackwardToken"])
    none = stand.logs.get_log_events(**HERE, limit=10, nextToken=rest["nextBackwardToken"])

    assert texts(last) == [f"line {n}" for n in range(15, 25)]
    assert texts(before) == [f"line {n}" for n in range(5, 15)]
    assert texts(rest) == [f"line {n}" for n in range(5)]
    assert texts(none) == []
    assert none["nextBackwardToken"] == rest["nextBackwardToken"]


def test_a_forward_token_needs_start_from_head(stand: Stand) -> None:
    stand.server.load_lines("group", "stream", lines(5))
    token = stand.logs.get_log_events(**HERE, startFromHead=True)["nextForwardToken"]

    with pytest.raises(ClientError, match="startFromHead must be true"):
        stand.logs.get_log_events(**HERE, nextToken=token)
    with pytest.raises(ClientError, match="nextToken is invalid"):
        stand.logs.get_log_events(**HERE, nextToken="next")


def test_a_range_of_times_has_its_start_and_not_its_end(stand: Stand) -> None:
    stand.server.load_lines("group", "stream", [(n, str(n)) for n in range(1, 10)])

    page = stand.logs.get_log_events(**HERE, startTime=3, endTime=6, startFromHead=True)

    assert texts(page) == ["3", "4", "5"]


def test_new_lines_come_after_the_token_of_the_end(stand: Stand) -> None:
    stand.server.load_lines("group", "stream", [(1, "a"), (2, "b")])
    _, token = read(stand)

    stand.server.load_lines("group", "stream", [(2, "c"), (3, "d")])

    assert read(stand, token)[0] == ["c", "d"]


def test_pages_may_be_empty_before_the_end(make: Make) -> None:
    stand = make(partial_pages=0.5)
    stand.server.load_lines("group", "stream", lines(1000))

    sizes: list[int] = []
    token = None
    for _ in range(1000):
        given: dict[str, Any] = {"nextToken": token} if token else {}
        page = stand.logs.get_log_events(**HERE, startFromHead=True, limit=50, **given)
        sizes.append(len(page["events"]))
        if page["nextForwardToken"] == token:
            break
        token = page["nextForwardToken"]

    assert sum(sizes) == 1000
    assert 0 in sizes[:-1]
    assert any(0 < size < 50 for size in sizes)


@pytest.mark.parametrize("model", ["serial", "jitter", "late"])
def test_in_every_model_a_second_reading_gives_every_event_once(make: Make, model: str) -> None:
    """Going on from a token misses what comes late; reading again from the head does not."""
    stand = make(log_model=model, late_s=0.4, late_share=0.3, partial_pages=0.2, seed=4)
    stand.logs.create_log_group(logGroupName="group")
    stand.logs.create_log_stream(**HERE)
    wanted = lines(2000)
    followed: list[str] = []
    token = None
    for first in range(0, 2000, 100):
        batch = [{"timestamp": t, "message": m} for t, m in wanted[first : first + 100]]
        stand.logs.put_log_events(**HERE, logEvents=batch)
        more, token = read(stand, token)
        followed += more

    settled = [message for _, message in wanted]
    end = time.monotonic() + 60
    while read(stand)[0] != settled and time.monotonic() < end:
        more, token = read(stand, token)
        followed += more

    assert read(stand)[0] == settled
    followed += read(stand, token)[0]
    assert len(set(followed)) == len(followed)
    assert (followed == settled) == (model == "serial")


def test_filtered_events_are_sorted_over_streams_and_have_ids(stand: Stand) -> None:
    stand.server.load_lines("group", "a", [(1, "a1"), (3, "a3")])
    stand.server.load_lines("group", "b", [(2, "b2"), (3, "b3")])

    paginator = stand.logs.get_paginator("filter_log_events")
    pages = list(paginator.paginate(logGroupName="group", PaginationConfig={"PageSize": 3}))
    events = [event for page in pages for event in page["events"]]

    assert [e["message"] for e in events] == ["a1", "b2", "a3", "b3"]
    assert len({e["eventId"] for e in events}) == 4
    assert events[1]["logStreamName"] == "b"
    one = stand.logs.filter_log_events(
        logGroupName="group", logStreamNames=["b"], startTime=2, endTime=2
    )
    assert [e["message"] for e in one["events"]] == ["b2"]


def test_put_events_are_checked(stand: Stand) -> None:
    stand.logs.create_log_group(logGroupName="group")
    stand.logs.create_log_stream(**HERE)
    now = int(time.time() * 1000)

    def put(*ages_ms: int) -> Any:
        events = [{"timestamp": now - age, "message": "x"} for age in ages_ms]
        return stand.logs.put_log_events(**HERE, logEvents=events)

    hour = 3_600_000
    with pytest.raises(ClientError, match="chronological"):
        put(1, 2)
    with pytest.raises(ClientError, match="24 hours"):
        put(25 * hour, 0)
    assert put(15 * 24 * hour, 0, -3 * hour)["rejectedLogEventsInfo"] == {
        "tooOldLogEventEndIndex": 1,
        "tooNewLogEventStartIndex": 2,
    }
    assert len(read(stand)[0]) == 1


def test_groups_and_streams_are_made_listed_and_deleted(stand: Stand) -> None:
    logs = stand.logs
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        logs.get_log_events(**HERE)
    logs.create_log_group(logGroupName="group")
    with pytest.raises(ClientError, match="ResourceAlreadyExistsException"):
        logs.create_log_group(logGroupName="group")
    logs.create_log_stream(**HERE)
    logs.put_retention_policy(logGroupName="group", retentionInDays=7)

    (group,) = logs.describe_log_groups(logGroupNamePrefix="gr")["logGroups"]
    (stream,) = logs.describe_log_streams(logGroupName="group")["logStreams"]
    by_arn = logs.describe_log_streams(logGroupIdentifier=group["arn"].removesuffix(":*"))

    assert (group["retentionInDays"], stream["logStreamName"]) == (7, "stream")
    assert by_arn["logStreams"] == [stream]
    logs.delete_log_stream(**HERE)
    with pytest.raises(ClientError, match="The specified log stream does not exist"):
        logs.get_log_events(**HERE)
    logs.delete_log_group(logGroupName="group")
    with pytest.raises(ClientError, match="The specified log group does not exist"):
        logs.describe_log_streams(logGroupName="group")


def test_traits_of_the_model_are_kept(stand: Stand) -> None:
    with pytest.raises(ClientError, match="does not match"):
        stand.logs.create_log_group(logGroupName="a b")
    with pytest.raises(ClientError, match="is more than 10000"):
        stand.logs.get_log_events(**HERE, limit=10_001)
    with pytest.raises(ClientError, match="does not support"):
        stand.logs.describe_queries()


def test_a_share_of_the_readings_is_throttled(make: Make) -> None:
    stand = make(throttle_logs=0.5)
    stand.server.load_lines("group", "stream", lines(1))

    def outcome() -> str:
        try:
            stand.logs.get_log_events(**HERE)
        except ClientError as exc:
            return str(exc.response["Error"]["Code"])
        return "ok"

    outcomes = [outcome() for _ in range(40)]

    assert set(outcomes) == {"ok", "ThrottlingException"}


def test_a_million_lines_are_read_quickly(stand: Stand) -> None:
    count = 1_000_000
    stand.server.load_lines("group", "stream", ((n // 100, "x") for n in range(count)))

    began = time.process_time()  # of the stand-in, too: it is a thread
    token = f"f/{count // 200}-{count // 2}-0"
    page = stand.logs.get_log_events(**HERE, startFromHead=True, nextToken=token)
    took_s = time.process_time() - began

    assert len(page["events"]) == 10_000
    assert took_s < 2  # a page costs what it holds, wherever it lies


def test_names_of_headers_have_no_case(stand: Stand) -> None:
    """HTTP does not distinguish `X-Amz-Target` and `x-amz-target`. RFC 9110, 5.1."""
    stand.server.load_lines("group", "stream", lines(3))
    link = connect(stand.server.url.removeprefix("http://"), timeout_s=60)

    with contextlib.closing(link):
        target = {"x-amz-target": "Logs_20140328.GetLogEvents", "content-type": "application/json"}
        body = json.dumps({**HERE, "startFromHead": True})
        headers = {**target, "host": stand.server.url.removeprefix("http://")}
        own = signature.sign("POST", "/", headers, body.encode(), PAIR, "us-east-1", "logs")
        link.request("POST", "/", body, own)
        answer = link.getresponse()
        found = json.load(answer)

    assert (answer.status, texts(found)) == (200, ["line 0", "line 1", "line 2"])
