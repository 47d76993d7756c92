"""Locks that the kernel releases when their holder ends: flock(2), or fcntl(2) where a file system has no flock.

It is `runspec_agent.base.file_lock`, which a provider does not import; a test compares them. Standard library only.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

OFD_SETLK, OFD_SETLKW = 37, 38  # Linux 3.15; Python has these names since 3.9
LACKS_FLOCK = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
NO_LOCKS = (
    errno.ENOLCK,
    *LACKS_FLOCK,
)  # errors of `take` that say that the file system has no locks
HELD = (errno.EAGAIN, errno.EACCES)


def take(handle: int, shared: bool = False, wait: bool = True) -> bool:
    """Lock the open file *handle*; return False if another process holds the lock and *wait* is false.

    Raise OSError with one of NO_LOCKS if the file system has no locks. A lock of fcntl(2) needs a file that is open
    for writing, or with *shared* for reading.
    """
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(handle, how if wait else how | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in HELD:
            return False
        if error.errno not in LACKS_FLOCK:
            raise
        return _take_record_lock(handle, shared, wait)
    return True


def free(handle: int) -> None:
    """Release the lock, also for the processes that inherited it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_UN)
    except OSError as error:
        if error.errno not in LACKS_FLOCK:
            raise
        fcntl.fcntl(handle, OFD_SETLK, _whole_file(fcntl.F_UNLCK))


def _take_record_lock(handle: int, shared: bool, wait: bool) -> bool:
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    try:
        fcntl.fcntl(handle, OFD_SETLKW if wait else OFD_SETLK, _whole_file(kind))
    except OSError as error:
        if error.errno in HELD and not wait:
            return False
        if error.errno in (errno.EBADF, errno.EINVAL):  # a folder, or an older kernel
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from error
        raise
    return True


def _whole_file(kind: int) -> bytes:
    """Return the `struct flock` of a lock on a whole file: l_type, l_whence, l_start, l_len and l_pid, which is 0."""
    return struct.pack("hhlli0l", kind, os.SEEK_SET, 0, 0, 0)
