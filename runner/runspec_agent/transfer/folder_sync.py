"""Save an output of a local job into a folder, in the same way as into a store: see `output_saver`."""

import os
import signal
import sys
from typing import List, NamedTuple, Optional

from runspec_agent.base.job_env import Failure
from runspec_agent.base.process import Signals
from runspec_agent.store.folder import FolderBucket
from runspec_agent.transfer.output_saver import Saver

USAGE_LINE = "usage: sync --every SECONDS|--once [--keep SAVES] SOURCE TARGET"


class Asked(NamedTuple):
    every_s: Optional[float]  # None: once
    keep: int
    source: str
    target: str


def main(argv: List[str]) -> int:
    """Save once (`--once`), or until SIGTERM and then once more (`--every`); return 1 if something is not saved.

    At the end, the files are published in the target under their own paths.
    """
    asked = _parse(argv)
    _apart(asked.source, asked.target)
    saver = Saver(FolderBucket({"RUNSPEC_STORE": "file://" + os.path.abspath(asked.target)}))
    with Signals() as signals:
        saver.add(asked.target, asked.source, "", asked.every_s, asked.keep, restoring=False)
        saver.start()
        while asked.every_s is not None:
            if any(number in (signal.SIGTERM, signal.SIGINT) for number in signals.wait(60)):
                break
        left = saver.finish()
        plain = saver.publish()
    for line in [*left, *plain]:
        print("runspec: sync: {}".format(line), file=sys.stderr)
    return 1 if left else 0


def _apart(source: str, target: str) -> None:
    for inner, outer in ((target, source), (source, target)):
        at, of = os.path.realpath(inner), os.path.realpath(outer)
        if at == of or at.startswith(os.path.join(of, "")):
            raise Failure(
                "sync: one of the folders '{}' and '{}' is inside the other".format(source, target)
            )


def _parse(argv: List[str]) -> Asked:
    words, every_s, keep = list(argv), None, 1
    try:
        how = words.pop(0)
        if how == "--every":
            every_s = max(0.1, float(words.pop(0)))
        elif how != "--once":
            raise ValueError
        if words[0] == "--keep":
            keep = int(words[1])
            del words[:2]
        source, target = words
    except (IndexError, ValueError):
        raise Failure(USAGE_LINE) from None
    return Asked(every_s, keep, source, target)
