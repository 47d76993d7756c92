"""Whether a version of Python is one that a spec asks for."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

CLAUSE = re.compile(r"(>=|<=|==|!=|>|<|~=)\s*(\d+)\.(\d+)(?:\.\*)?")
HOLDS: dict[str, Callable[[tuple[int, int], tuple[int, int]], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.ge,  # 3.9 may be 3.9.5
    "<": operator.lt,
}
OLDEST = (3, 6)  # of what runspec runs in the job


def release(version: str) -> tuple[int, int]:
    """Give a version as numbers.

    >>> release("3.11.7")
    (3, 11)
    """
    major, minor = [*version.split("."), "0"][:2]
    return int(major), int(minor)


def misfits(version: str, wanted: str) -> bool:
    """Say whether *version*, such as "3.13", is surely none that *wanted* allows; what is not understood allows it.

    >>> misfits("3.13", ">=3.8,<3.12"), misfits("3.11", ">=3.8,<3.12"), misfits("3.9", "3.8 or so")
    (True, False, False)
    >>> misfits("3.11", ">=3.11"), misfits("3.11", "<3.11")
    (False, True)
    """
    for clause in wanted.split(","):
        match = CLAUSE.fullmatch(clause.strip())
        if match is None or match[1] not in HOLDS:
            continue
        if not HOLDS[match[1]](release(version), (int(match[2]), int(match[3]))):
            return True
    return False
