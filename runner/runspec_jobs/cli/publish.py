"""Giving saved files their plain names, where the last agent of a run did not come to it."""

from __future__ import annotations

from runspec_jobs.cli import output
from runspec_jobs.errors import RunspecError
from runspec_jobs.provider import Client, State, Status, SupportsPublishing
from runspec_jobs.state.journal import Journal
from runspec_jobs.state.run_record import Record


def finish(of: Record, client: Client) -> None:
    """Publish the outputs of a run that has ended by the service's own word, asked once unless it is on record.

    A run that goes on is left alone: another attempt may come.
    """
    if not isinstance(client, SupportsPublishing):
        return
    try:
        if _is_over(of.memory().status or client.state(of.run)):
            with of.opened(output.tell) as journal:
                publish(journal, of.run, client)
    except RunspecError as exc:
        _tell(of.run, exc.message)


def publish_ended(journal: Journal, run: str, client: Client, status: Status) -> None:
    """Publish the outputs of *run*, which was followed until *status*. Hold its journal."""
    if _is_over(status):
        publish(journal, run, client)


def publish(journal: Journal, run: str, client: Client) -> None:
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
        _tell(run, line)


def _is_over(status: Status) -> bool:
    return status.state.terminal and status.state is not State.GONE


def _tell(run: str, why: str) -> None:
    output.tell(f"{run}: saved, but not under plain names yet: {why}")
