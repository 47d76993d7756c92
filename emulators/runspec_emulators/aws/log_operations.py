"""The operations of the logs service, as its model's documentation tells them."""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runspec_emulators.aws.errors import ServiceError
from runspec_emulators.aws.log_store import (
    HEAD,
    TAIL,
    Event,
    Group,
    Logs,
    Position,
    Stream,
    now_ms,
)

MOST_EVENTS = 10_000
MOST_BYTES = 1_048_576
MOST_DESCRIBED = 50  # DescribeLogStreams and DescribeLogGroups, limit
HOUR_MS = 3_600_000
TOKEN = re.compile(r"([fb])/(-?\d+)-(\d+)-(\d+)")


def bad(message: str) -> ServiceError:
    return ServiceError("InvalidParameterException", message)


def group_name(params: Mapping[str, Any]) -> str:
    """ "You must include one of these two parameters, but you can't include both." """
    given = [params[k] for k in ("logGroupName", "logGroupIdentifier") if k in params]
    if len(given) != 1:
        raise bad("exactly one of logGroupName and logGroupIdentifier is needed")
    name = str(given[0])
    return name.rpartition(":log-group:")[2].removesuffix(":*")


# GetLogEvents


def get_events(logs: Logs, params: dict[str, Any]) -> dict[str, Any]:
    """Return one page, in the worst case that the service allows: a position is a time, not an arrival.

    So an event that comes late, with a time before a reader's token, is not seen by going
    forward, only by reading again from the head. Nothing documented forbids it.
    """
    with logs.lock:
        stream = logs.stream(group_name(params), params["logStreamName"])
        first = stream.after(Position(params.get("startTime", -1) - 1, 2**62))
        last = stream.after(Position(params["endTime"] - 1, 2**62)) if "endTime" in params else None
        bounds = range(first, len(stream) if last is None else max(first, last))
        given = params.get("nextToken")
        token = TOKEN.fullmatch(given) if given else None
        if given and token is None:
            raise bad("The specified nextToken is invalid.")
        if token and token[1] == "f" and not params.get("startFromHead"):
            raise bad("startFromHead must be true with a nextForwardToken")
        forward = token[1] == "f" if token else bool(params.get("startFromHead"))
        bounds = narrowed(stream, bounds, token)
        thrown = logs.thrown() / (logs.settings().partial_pages or 1e-9)
        chosen = cut(stream, bounds, forward, params.get("limit", MOST_EVENTS), thrown)
        return {
            "events": [shown(stream.event(i)) for i in chosen],
            **tokens(stream, bounds, chosen, token),
        }


def narrowed(stream: Stream, bounds: range, token: re.Match[str] | None) -> range:
    """Return the part of *bounds* after a forward token, or before a backward one."""
    if token is None:
        return bounds
    at = stream.after(Position(int(token[2]), int(token[3])))
    if token[1] == "f":
        return range(max(bounds.start, at), max(bounds.stop, at))
    return range(min(bounds.start, at), min(bounds.stop, at))


def cut(stream: Stream, bounds: range, forward: bool, limit: int, thrown: float) -> range:
    """Return the events of one page: up to *limit* and 1 MB, from the one end or the other.

    "Partially full or empty pages don't necessarily mean that pagination is finished."
    """
    if thrown < 1:
        limit = int(limit * thrown * 2) if thrown < 0.5 and len(bounds) > 1 else 0
    size, count = 0, 0
    for index in itertools.islice(bounds if forward else reversed(bounds), limit):
        size += stream.event(index).bytes()
        if size > MOST_BYTES and count:
            break
        count += 1
    return bounds[:count] if forward else bounds[len(bounds) - count :]


def tokens(
    stream: Stream, bounds: range, chosen: range, token: re.Match[str] | None
) -> dict[str, str]:
    """Return both tokens.

    "If you have reached the end of the stream, it returns the same token you passed in": that end
    is told apart from an empty page by what is left beyond it.
    """
    ends = {"f": bounds.stop > chosen.stop, "b": bounds.start < chosen.start}
    tokens = {}
    for way, index in (("f", chosen.stop), ("b", chosen.start)):
        more = ends[way] or len(chosen)
        if token and token[1] == way and not more:
            tokens[way] = token[0]
            continue
        turn = int(token[4]) + 1 if token and not len(chosen) else 0
        where = place(stream, index, token)
        tokens[way] = f"{way}/{where.timestamp}-{where.number}-{turn}"
    return {"nextForwardToken": tokens["f"], "nextBackwardToken": tokens["b"]}


def place(stream: Stream, index: int, token: re.Match[str] | None) -> Position:
    """Return the position before the event at *index*."""
    if index:
        return Position(*stream.event(index - 1)[:2])
    return Position(int(token[2]), int(token[3])) if token and not len(stream) else HEAD


def shown(event: Event) -> dict[str, Any]:
    return {
        "timestamp": event.timestamp,
        "message": event.message,
        "ingestionTime": event.ingested,
    }


# FilterLogEvents


def filter_events(logs: Logs, params: dict[str, Any]) -> dict[str, Any]:
    """Return one page over many streams.

    "The returned log events are sorted by event timestamp, the timestamp when the event was
    ingested [...], and the ID of the PutLogEvents request."
    """
    for other in ("filterPattern", "unmask"):
        if params.get(other):
            raise bad(f"this emulator does not support {other}")
    if params.get("startFromHead") is False:
        raise bad("this emulator does not support startFromHead: false")
    start, end = span(params)
    limit = params.get("limit", MOST_EVENTS)
    with logs.lock:
        streams = chosen_streams(logs, params)
        page, more = taken(heapq.merge(*(between(s, start, end) for s in streams)), limit)
    answer: dict[str, Any] = {
        "events": [{**shown(e), "logStreamName": name, "eventId": event_id(e)} for e, name in page],
        "searchedLogStreams": [],
    }
    if more:
        answer["nextToken"] = f"{page[-1][0].timestamp}-{page[-1][0].number}"
    return answer


def event_id(event: Event) -> str:
    return f"{event.timestamp:037d}{event.number:019d}"


def span(params: Mapping[str, Any]) -> tuple[Position, Position]:
    """Return where a page may begin and end. endTime is in the range, unlike in GetLogEvents."""
    start = Position(params.get("startTime", 0) - 1, 2**62)
    end = Position(params["endTime"], 2**62) if "endTime" in params else TAIL
    if "nextToken" in params:
        token = re.fullmatch(r"(-?\d+)-(\d+)", params["nextToken"])
        if token is None:
            raise bad("The specified nextToken is invalid.")
        start = max(start, Position(int(token[1]), int(token[2])))
    return start, end


def chosen_streams(logs: Logs, params: Mapping[str, Any]) -> list[Stream]:
    names, prefix = params.get("logStreamNames"), params.get("logStreamNamePrefix")
    if names and prefix:
        raise bad("logStreamNames and logStreamNamePrefix cannot both be given")
    group = group_name(params)
    if names:
        return [logs.stream(group, name) for name in names]
    streams = sorted(logs.group(group).streams)
    return [logs.stream(group, name) for name in streams if name.startswith(prefix or "")]


def between(stream: Stream, start: Position, end: Position) -> Iterator[tuple[Event, str]]:
    for index in range(stream.after(start), stream.after(end)):
        yield stream.event(index), stream.name


def taken(events: Iterator[tuple[Event, str]], limit: int) -> tuple[list[tuple[Event, str]], bool]:
    """Take a page of at most *limit* events and 1 MB, and say whether there are more."""
    page: list[tuple[Event, str]] = []
    size = 0
    for event, name in events:
        size += event.bytes()
        if len(page) == limit or (page and size > MOST_BYTES):
            return page, True
        page.append((event, name))
    return page, False


# PutLogEvents


def put_events(logs: Logs, params: dict[str, Any]) -> dict[str, Any]:
    events = params["logEvents"]
    times = [e["timestamp"] for e in events]
    if times != sorted(times):
        raise bad("Log events in a single PutLogEvents request must be in chronological order.")
    now = now_ms()
    young, old = now + 2 * HOUR_MS, now - 14 * 24 * HOUR_MS
    valid = [(e["timestamp"], e["message"]) for e in events if old <= e["timestamp"] <= young]
    if valid and valid[-1][0] - valid[0][0] > 24 * HOUR_MS:
        raise bad("The batch of log events in a single PutLogEvents request spans over 24 hours.")
    if sum(len(text.encode()) + 26 for _, text in valid) > MOST_BYTES:
        raise bad("Upload too large: more than 1048576 bytes")
    logs.write(group_name(params), params["logStreamName"], valid)
    rejected = {}
    if too_old := sum(t < old for t in times):
        rejected["tooOldLogEventEndIndex"] = too_old
    if any(t > young for t in times):
        rejected["tooNewLogEventStartIndex"] = next(i for i, t in enumerate(times) if t > young)
    return {"rejectedLogEventsInfo": rejected} if rejected else {}


# Groups and streams


def create_group(logs: Logs, params: dict[str, Any]) -> dict[str, Any]:
    if params["logGroupName"].startswith("aws/"):
        raise bad("Log group names can't start with the string aws/")
    logs.create_group(params["logGroupName"], params.get("tags"))
    return {}


def list_tags(logs: Logs, params: dict[str, Any]) -> dict[str, Any]:
    """ "The ARN [...] of a log group is arn:aws:logs:Region:account-id:log-group:log-group-name" """
    name = params["resourceArn"].partition(":log-group:")[2]
    return {"tags": dict(logs.group(name).tags)}


def delete_group(logs: Logs, params: dict[str, Any]) -> dict[str, Any]:
    logs.delete_group(params["logGroupName"])
    return {}


def create_stream(logs: Logs, params: dict[str, Any]) -> dict[str, Any]:
    logs.create_stream(params["logGroupName"], params["logStreamName"])
    return {}


def delete_stream(logs: Logs, params: dict[str, Any]) -> dict[str, Any]:
    logs.delete_stream(params["logGroupName"], params["logStreamName"])
    return {}


def put_retention(logs: Logs, params: dict[str, Any]) -> dict[str, Any]:
    logs.group(params["logGroupName"]).retention_days = params["retentionInDays"]
    return {}


def describe_groups(logs: Logs, params: dict[str, Any]) -> dict[str, Any]:
    prefix, pattern = params.get("logGroupNamePrefix", ""), params.get("logGroupNamePattern", "")
    if prefix and pattern:
        raise bad("logGroupNamePrefix and logGroupNamePattern cannot both be given")
    groups = [g for g in logs.groups() if g.name.startswith(prefix) and pattern in g.name]
    return described("logGroups", [shown_group(logs, g) for g in groups], params)


def shown_group(logs: Logs, group: Group) -> dict[str, Any]:
    arn = logs.settings().arn(f"log-group:{group.name}:*", "logs")
    detail: dict[str, Any] = {
        "logGroupName": group.name,
        "creationTime": group.created_ms,
        "arn": arn,
    }
    if group.retention_days is not None:
        detail["retentionInDays"] = group.retention_days
    return detail


def describe_streams(logs: Logs, params: dict[str, Any]) -> dict[str, Any]:
    prefix, by_time = params.get("logStreamNamePrefix"), params.get("orderBy") == "LastEventTime"
    if prefix and by_time:
        raise bad("Cannot order by LastEventTime with a logStreamNamePrefix.")
    with logs.lock:
        streams = chosen_streams(logs, params)
        details = [shown_stream(stream) for stream in streams]
    key = "lastEventTimestamp" if by_time else "logStreamName"
    details.sort(key=lambda d: d.get(key, 0), reverse=params.get("descending", False))
    return described("logStreams", details, params)


def shown_stream(stream: Stream) -> dict[str, Any]:
    detail: dict[str, Any] = {"logStreamName": stream.name, "creationTime": stream.created_ms}
    if len(stream):
        detail["firstEventTimestamp"] = stream.timestamps[0]
        detail["lastEventTimestamp"] = stream.timestamps[-1]
        detail["lastIngestionTime"] = max(stream.ingested[-1], stream.ingested[0])
    return detail


def described(member: str, items: Sequence[Any], params: Mapping[str, Any]) -> dict[str, Any]:
    limit = min(params.get("limit", MOST_DESCRIBED), MOST_DESCRIBED)
    token = params.get("nextToken", "0")
    if not token.isdecimal():
        raise bad("The specified nextToken is invalid.")
    first = int(token)
    more = {"nextToken": str(first + limit)} if first + limit < len(items) else {}
    return {member: items[first : first + limit], **more}
