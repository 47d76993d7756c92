"""The formats of what lies in the store of a run, and what is said of one that a newer version has written.

What names no format has the first one, so records of versions that named none are understood: docs/upgrades.md.
"""

from typing import Any, Dict

from runspec_agent.base.failure import USAGE, Failure

RUN = "runspec.run/v1"
ELASTIC = "runspec.elastic/v1"
CLAIM = "runspec.claim/"  # a claim of this version is a plain word: the id of a job, or `cancelled`


def check(found: Dict[str, Any], known: str, what: str) -> Dict[str, Any]:
    """Return *found* without its format. Raise Failure where that is not *known*: the job cannot go on with it."""
    its = found.pop("format", known)
    if its != known:
        raise Failure(newer(what, its, known), USAGE)
    return found


def holder(claim: bytes, what: str) -> str:
    """Return who has claimed a run. Raise Failure where a newer version has done it, in a form of its own."""
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
