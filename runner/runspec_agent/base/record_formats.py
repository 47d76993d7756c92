"""The formats of the records in a run's store, and the error for a record that a newer version wrote.

A record without a format has the first one, so records of versions that wrote none can be read: docs/upgrades.md.
"""

from typing import Any, Dict

from runspec_agent.base.failure import USAGE, Failure

RUN = "runspec.run/v1"
PARTED_RUN = "runspec.run/v2"  # the same, of a sweep in several jobs
ELASTIC = "runspec.elastic/v1"
# A line of a container's output that is not part of the log: how many bytes of the log precede it. See `job.log_copy`.
LOG_MARK = "runspec: the log continues at byte {}\n"
CLAIM = "runspec.claim/"  # a claim of this version is one word: the id of a job, or `cancelled`


def check(record: Dict[str, Any], known: str, what: str) -> Dict[str, Any]:
    """Return *record* without its format field.

    Raise Failure if the format is not *known*, so the job cannot continue.
    """
    its = record.pop("format", known)
    if its != known:
        raise Failure(newer(what, its, known), USAGE)
    return record


def holder(claim: bytes, what: str) -> str:
    """Return the id of the job that claimed a run.

    Raise Failure if a newer version wrote the claim in another format.
    """
    text = claim.decode("utf-8", "replace")
    if text.startswith(CLAIM):
        raise Failure(newer(what, text.split("\n", 1)[0], "a plain word"), USAGE)
    return text


def newer(what: str, its: str, known: str) -> str:
    return (
        "{}: a newer version of runspec wrote it, in the format '{}'; this agent reads {}".format(
            what, its, known
        )
    )
