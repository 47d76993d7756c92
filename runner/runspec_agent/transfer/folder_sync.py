"""Save an output of a local job into a folder, in the same way as into a store: see `output_saver`."""

import json
import os
import signal
import sys
from typing import List, NamedTuple, Optional, Tuple

from runspec_agent.base.failure import DISK_FULL, Failure, is_no_space
from runspec_agent.base.process import Signals
from runspec_agent.store.folder import FolderBucket
from runspec_agent.transfer.folder_walk import LINKED, Wanted
from runspec_agent.transfer.output_saver import Saver

KNOWN_AS = "RUNSPEC_KNOWN_AS"  # the path of SOURCE as the job's programs know it
ALSO_TO = "RUNSPEC_ALSO_TO"  # the store of another owner to which the files are written as well
FILES = "RUNSPEC_SAVED_FILES"  # JSON with the patterns `include` and `exclude` of the files that are saved
USAGE_LINE = "usage: sync --every SECONDS|--once [--keep SAVES] SOURCE TARGET"


class Asked(NamedTuple):
    every_s: Optional[float]  # None: once
    keep: int
    source: str
    target: str


def main(argv: List[str]) -> int:
    """Save once (`--once`), or until SIGTERM and then once more (`--every`).

    Return 1 if something is not saved, or 74 if that is because the disk of the target is full. At the end,
    the files are published in the target under their own paths.
    """
    asked = _parse(argv)
    _apart(asked.source, asked.target)
    try:
        left, full = _save(asked)
    except (Failure, OSError) as error:
        left, full = [str(error)], is_no_space(error)
    for line in left:
        _tell(line)
    return (DISK_FULL if full else 1) if left else 0


def _save(asked: Asked) -> Tuple[List[str], bool]:
    """Save and publish; return a line for each thing that is not saved, and whether the disk is full."""
    saver = Saver(FolderBucket({"RUNSPEC_STORE": "file://" + os.path.abspath(asked.target)}))
    with Signals() as signals:
        names = [os.environ[KNOWN_AS]] if os.environ.get(KNOWN_AS) else []
        saver.add(
            asked.target, asked.source, "", asked.every_s, asked.keep, restoring=False, names=names
        )
        saver.outputs[-1].snapshot.wanted = Wanted.of(json.loads(os.environ.get(FILES, "{}")))
        refused = _add_target(saver)
        saver.start()
        while asked.every_s is not None:
            if any(number in (signal.SIGTERM, signal.SIGINT) for number in signals.wait(60)):
                break
        left = [*saver.finish(), *refused]
        for line in saver.publish():
            _tell(line)
    return left, saver.full


def _add_target(saver: Saver) -> List[str]:
    """Let *saver* write to the store of another owner, too; return why it cannot, which must not hinder the save."""
    if not os.environ.get(ALSO_TO):
        return []
    from runspec_agent.transfer.output_target import Target  # few jobs have one

    try:
        saver.outputs[-1].target = Target(os.environ[ALSO_TO], os.environ)
    except Failure as error:
        return [str(error)]
    return []


def _tell(line: str) -> None:
    try:
        print("runspec: sync: {}".format(line), file=sys.stderr)
    except OSError:
        pass  # the log may be on the full disk: the exit code says it


def _apart(source: str, target: str) -> None:
    if os.path.islink(source.rstrip("/")):  # the program has put it there in place of the output
        raise Failure("{}: {}".format(source, LINKED))
    for inner, outer in ((target, source), (source, target)):
        at, of = os.path.realpath(inner), os.path.realpath(outer)
        if at == of or at.startswith(os.path.join(of, "")):
            raise Failure(
                "sync: one of the folders '{}' and '{}' is inside the other".format(source, target)
            )


def _parse(argv: List[str]) -> Asked:
    rest, every_s, keep = list(argv), None, 1
    try:
        how = rest.pop(0)
        if how == "--every":
            every_s = max(0.1, float(rest.pop(0)))
        elif how != "--once":
            raise ValueError
        if rest[0] == "--keep":
            keep = int(rest[1])
            del rest[:2]
        source, target = rest
    except (IndexError, ValueError):
        raise Failure(USAGE_LINE) from None
    return Asked(every_s, keep, source, target)
