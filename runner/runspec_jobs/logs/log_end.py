"""Reads the last lines of the node that made a run fail: a first job often ends with the reason in its first lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.diagnostics.terminal_text import strip_sequences
from runspec_jobs.logs.follow import choose_streams, get_log_client, show_line
from runspec_jobs.provider import Client, NodeStatus, State, Status
from runspec_jobs.provider.streams.log_streams import Stream
from runspec_jobs.provider.types import blamed

LINES = 5
MOST_BYTES = (
    1 << 20
)  # of a log that is read: a service gives the end of a long one only after all before it


class LogEnd(NamedTuple):
    """The last lines of one node's log that are not blank; None if they were not read, for example of a long log."""

    task: int
    rank: int
    lines: Sequence[str] | None


def read_failed_ends(client: Client, run: str, status: Status, most: int) -> list[LogEnd]:
    """Return the last lines of each failed task of *run*, of the node that is to blame; of the first *most* tasks."""
    by_task: dict[int, list[NodeStatus]] = {}
    for node in status.nodes:
        if node.state is State.FAILED:
            by_task.setdefault(node.task, []).append(node)
    wanted = [blamed(nodes) for _, nodes in sorted(by_task.items())[:most]]
    streams = {(s.task, s.rank): s for s in get_log_client(client).streams(run)} if wanted else {}
    return [
        LogEnd(node.task, node.rank, _read_last(streams[node.task, node.rank]))
        for node in wanted
        if node is not None and (node.task, node.rank) in streams
    ]


def log_end(connect: Callable[[], Client] | None, run: str, status: Status) -> LogEnd | None:
    """Return the last lines of the node that made *run* fail; None if *status* names none, or it has no log yet.

    Without *connect*, no line is read.
    """
    node = _find_failed(status)
    if node is None:
        return None
    if connect is None:
        return LogEnd(node.task, node.rank, None)
    wanted = choose_streams(node.rank, node.task)
    stream = next(filter(wanted, get_log_client(connect()).streams(run)), None)
    return None if stream is None else LogEnd(node.task, node.rank, _read_last(stream))


def _find_failed(status: Status) -> NodeStatus | None:
    """Return the first node whose exit code is that of the run, or else the first that has failed."""
    if status.state is not State.FAILED:
        return None
    failed = [node for node in status.nodes if node.state is State.FAILED]
    # The others may have failed because of it.
    same = [node for node in failed if node.exit_code == status.exit_code]
    return next(iter(same or failed), None)


def _read_last(stream: Stream) -> list[str] | None:
    data, position = bytearray(), None
    while (chunk := stream.read(position)).data:
        data += chunk.data
        position = chunk.position
        # Streams are read from the beginning only, so the end of a huge log takes too long.
        if len(data) > MOST_BYTES:
            return None
    texts = (show_line(line, strip_sequences).rstrip() for line in bytes(data).split(b"\n"))
    return [text for text in texts if text][-LINES:]
