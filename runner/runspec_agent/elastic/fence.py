"""The fencing token of an elastic job: which generation may write, and which save is the last valid one.

A check before a write would not be enough, since a new generation may begin between the two. So a save becomes valid
by a conditional write of this one record, and raising the token for a new generation is another conditional write.
"""

import json
from typing import Any, Generator, NamedTuple, Optional

from runspec_agent.base import record_formats
from runspec_agent.base.job_env import LOST, Failure

FENCE = "fence"
TRIES = 8  # while other nodes write at the same moment


class Ask(NamedTuple):
    """A request below the prefix of a job: `put`, `fetch`, `swap` or `list`. The reply is the store's answer."""

    verb: str
    key: str
    content: bytes = b""
    etag: Optional[str] = None


Work = Generator[Ask, Any, Any]


class FencingToken(NamedTuple):
    generation: int = 0
    number: int = 0  # counts the writes, so no two tokens are equal
    note: str = ""  # the name of the last valid save

    def to_bytes(self) -> bytes:
        return json.dumps(self._asdict(), sort_keys=True).encode("ascii")

    @classmethod
    def of(cls, content: bytes) -> "FencingToken":
        """Return the token in *content*. Raise Failure if it is not a valid token."""
        try:
            read = json.loads(content.decode("ascii"))
            return cls(
                **record_formats.check(read, record_formats.ELASTIC, "the job's fencing token")
            )
        except (ValueError, TypeError) as error:
            raise Failure("the job's fencing token cannot be read: {}".format(error)) from error


def looked() -> Work:
    """Return the fencing token and its ETag."""
    found = yield Ask("fetch", FENCE)
    if found is None:
        return FencingToken(), None
    return FencingToken.of(found[0]), found[1]


def raised(generation: int) -> Work:
    """Let *generation* be the one that may write; return False if a later one already is."""
    for _ in range(TRIES):
        mark, etag = yield from looked()
        if mark.generation >= generation:
            return bool(mark.generation == generation)
        new = FencingToken(generation, mark.number + 1, mark.note)
        if (yield Ask("swap", FENCE, new.to_bytes(), etag)) is not None:
            return True
    raise Failure("cannot write the fencing token: other nodes kept changing it", LOST)


def committed(generation: int, note: str) -> Work:
    """Make the save *note* the valid one; return False if *generation* may not write any more.

    Each *note* is used once. A caller that got no answer calls it again.
    """
    for _ in range(TRIES):
        mark, etag = yield from looked()
        if mark.generation != generation:
            return False
        if mark.note == note:
            return True
        new = FencingToken(generation, mark.number + 1, note)
        if (yield Ask("swap", FENCE, new.to_bytes(), etag)) is not None:
            return True
    raise Failure("cannot write the fencing token: other nodes kept changing it", LOST)
