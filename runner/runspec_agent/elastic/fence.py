"""The fence of an elastic job: which generation may write, and what was last written for good.

A check before a write would not do: between both, a new generation may begin. So what makes a write count is itself a
conditional write of this one record, and to raise the fence is another.
"""

import json
from typing import Any, Generator, NamedTuple, Optional

from runspec_agent.base import record_formats
from runspec_agent.base.job_env import LOST, Failure

FENCE = "fence"
TRIES = 8  # while others write at the same moment


class Ask(NamedTuple):
    """A request below the prefix of a job: `put`, `fetch`, `swap` or `list`. The reply is what the store answers."""

    verb: str
    key: str
    content: bytes = b""
    etag: Optional[str] = None


Work = Generator[Ask, Any, Any]


class FencingToken(NamedTuple):
    generation: int = 0
    number: int = 0  # of writes: no two marks are equal
    note: str = ""  # names what was written for good

    def to_bytes(self) -> bytes:
        return json.dumps(self._asdict(), sort_keys=True).encode("ascii")

    @classmethod
    def of(cls, content: bytes) -> "FencingToken":
        """Raise Failure for what is none."""
        try:
            read = json.loads(content.decode("ascii"))
            return cls(**record_formats.check(read, record_formats.ELASTIC, "the job's fence"))
        except (ValueError, TypeError) as error:
            raise Failure("the job's fence cannot be read: {}".format(error)) from error


def looked() -> Work:
    """Return the mark and its ETag."""
    found = yield Ask("fetch", FENCE)
    if found is None:
        return FencingToken(), None
    return FencingToken.of(found[0]), found[1]


def raised(generation: int) -> Work:
    """Have *generation* be the one that may write; False: a later one is already."""
    for _ in range(TRIES):
        mark, etag = yield from looked()
        if mark.generation >= generation:
            return bool(mark.generation == generation)
        new = FencingToken(generation, mark.number + 1, mark.note)
        if (yield Ask("swap", FENCE, new.to_bytes(), etag)) is not None:
            return True
    raise Failure("the fence is written to by others all the time", LOST)


def committed(generation: int, note: str) -> Work:
    """Have *note* count, which is used once; False: *generation* may not write any more.

    Who got no answer calls it again.
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
    raise Failure("the fence is written to by others all the time", LOST)
