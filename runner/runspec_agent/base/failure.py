"""The error that ends a node, and the exit codes that services and other nodes act on."""

import errno

USAGE = 2  # the arguments or settings are wrong: another attempt does not help
DISK_FULL = 74  # a process that saves files has no space for them: EX_IOERR of sysexits.h
UNSAVED_CODE = 1  # the outputs of a program that succeeded are not saved
LOST = 75  # a node was lost or never joined: another attempt may help
STOPPED = 143  # 128 + SIGTERM, as schedulers expect of a preempted job


class Failure(Exception):
    """The error that ends this node, with one line for stderr and the exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


class NoSpace(Failure):
    """The store is full. It may still take an empty file, so what matters is then written into a name.

    Its exit code is none by which a service starts another attempt, for which there would be no room either.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, UNSAVED_CODE)


def is_no_space(error: Exception) -> bool:
    """Return whether *error* says that a store or a disk is full."""
    full = (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, NoSpace) or (isinstance(error, OSError) and error.errno in full)


class NoName(Failure):
    """The store takes no object of that name, so none exists."""
