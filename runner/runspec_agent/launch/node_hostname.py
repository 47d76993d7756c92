"""A host name of its own for a node that shares its machine with other nodes of the job.

Open MPI 5.0.11 tells ranks by the host name which ranks are on their node. Where nodes have the same one, all count
the ranks of the last node as their own, which do not count them. So MPI_Comm_split_type gives groups of ranks of one
machine that do not fit together, and Horovod waits for ever.
"""

import os
from typing import Any, Optional

CLONE_NEWUTS, CLONE_NEWUSER = 0x4000000, 0x10000000  # unshare(2), <linux/sched.h>


def take(name: str) -> Optional[str]:
    """Give this process, and those that it starts, the host name *name*; return why it cannot have one, or None.

    A process without the rights of root gets a user namespace as well, which maps the user to the same user. If the
    kernel allows neither, nothing is changed: a child tries it first.
    """
    try:
        import ctypes  # small builds of Python lack ctypes
    except ImportError:
        return "this Python has no ctypes"
    libc = ctypes.CDLL(None, use_errno=True)
    why = None
    for kinds in (CLONE_NEWUTS, CLONE_NEWUTS | CLONE_NEWUSER):
        why = _trial(libc, kinds, name)
        if why is None:
            _take(libc, kinds, name)
            return None
    return why


def _trial(libc: Any, kinds: int, name: str) -> Optional[str]:
    child = os.fork()
    if child == 0:
        number = 1
        try:
            _take(libc, kinds, name)
            number = 0
        except OSError as error:
            number = error.errno or 1
        finally:
            os._exit(number)
    _, status = os.waitpid(child, 0)
    return None if status == 0 else os.strerror(status >> 8).lower()


def _take(libc: Any, kinds: int, name: str) -> None:
    user, group, word = os.geteuid(), os.getegid(), os.fsencode(name)
    if libc.unshare(kinds) != 0:
        raise _error()
    if kinds & CLONE_NEWUSER:
        _write("setgroups", "deny")
        _write("uid_map", "{} {} 1".format(user, user))
        _write("gid_map", "{} {} 1".format(group, group))
    if libc.sethostname(word, len(word)) != 0:
        raise _error()


def _error() -> OSError:
    import ctypes

    return OSError(ctypes.get_errno(), "")


def _write(name: str, text: str) -> None:
    with open("/proc/self/" + name, "w") as stream:
        stream.write(text)
