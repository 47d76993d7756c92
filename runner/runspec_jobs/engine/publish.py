"""Giving saved files their plain names, where the last agent of a run did not come to it."""

from __future__ import annotations

from collections.abc import Callable

from runspec_jobs.errors import RunspecError
from runspec_jobs.provider import Client, State, Status, SupportsPublishing
from runspec_jobs.state.journal import Journal
from runspec_jobs.state.run_record import Record

Tell = Callable[[str], None]  # takes a line about progress, for a person


def finish(of: Record, client: Client, tell: Tell) -> None:
    """Publish the outputs of a run that has ended by the service's own word, asked once unless it is on record.

    A run that goes on is left alone: another attempt may come.
    """
    if not isinstance(client, SupportsPublishing):
        return
    try:
        if _is_over(of.memory().status or client.state(of.run)):
            with of.opened(tell) as journal:
                publish(journal, of.run, client, tell)
    except RunspecError as exc:
        tell(_unpublished(of.run, exc.message))


def publish_ended(journal: Journal, run: str, client: Client, status: Status, tell: Tell) -> None:
    """Publish the outputs of *run*, which was followed until *status*. Hold its journal."""
    if _is_over(status):
        publish(journal, run, client, tell)


def publish(journal: Journal, run: str, client: Client, tell: Tell) -> None:
    """Publish, and say what has no plain name yet; nothing fails by that.

    The journal is held meanwhile, so that nobody takes the run away and finds a copy there afterwards.
    """
    if not isinstance(client, SupportsPublishing) or journal.memory.want == "destroy":
        return
    try:
        left = client.publish(run)
    except RunspecError as exc:
        left = [exc.message]
    except KeyboardInterrupt:  # how the job ended is told all the same
        left = ["interrupted; runspec fetch does the rest"]
    for line in left:
        tell(_unpublished(run, line))


def _is_over(status: Status) -> bool:
    return status.state.terminal and status.state is not State.GONE


def _unpublished(run: str, why: str) -> str:
    return f"{run}: saved, but not under plain names yet: {why}"
