"""Publishes saved files under their plain names in the store, if the last agent of a run could not."""

from __future__ import annotations

from collections.abc import Callable

from runspec_jobs.errors import RunspecError
from runspec_jobs.provider import Client, State, Status, SupportsPublishing
from runspec_jobs.state.journal import Journal
from runspec_jobs.state.run_record import Record

Tell = Callable[[str], None]  # takes a line about progress, for a person


def finish(record: Record, client: Client, tell: Tell) -> None:
    """Publish the outputs of a run that has ended according to its journal, or else to its service.

    The outputs of a run that is alive are not published, because another attempt may replace them.
    """
    if not isinstance(client, SupportsPublishing):
        return
    try:
        if _is_over(record.read_memory().status or client.state(record.run)):
            with record.open_journal(tell) as journal:
                publish(journal, record.run, client, tell)
    except RunspecError as exc:
        tell(_explain_unpublished(record.run, exc.message))


def publish_ended(journal: Journal, run: str, client: Client, status: Status, tell: Tell) -> None:
    """Publish the outputs of *run* if *status* is its end. The caller holds its journal."""
    if _is_over(status):
        publish(journal, run, client, tell)


def publish(journal: Journal, run: str, client: Client, tell: Tell) -> None:
    """Publish the outputs of *run*, and print a line for each failure; failures raise no error.

    The caller holds the journal, so that no other command destroys the run meanwhile and leaves a copy behind.
    """
    if not isinstance(client, SupportsPublishing) or journal.memory.want == "destroy":
        return
    try:
        left = client.publish(run)
    except RunspecError as exc:
        left = [exc.message]
    except KeyboardInterrupt:  # the state of the job is printed nevertheless
        left = ["interrupted; runspec fetch completes it"]
    for line in left:
        tell(_explain_unpublished(run, line))


def _is_over(status: Status) -> bool:
    return status.state.terminal and status.state is not State.GONE


def _explain_unpublished(run: str, why: str) -> str:
    return f"{run}: outputs are saved, but not under their plain names yet: {why}"
