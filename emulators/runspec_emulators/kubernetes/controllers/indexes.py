"""Indexes of jobs: the text form of sets of them, and which index a pod has.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobStatus
"""

from __future__ import annotations

from collections.abc import Iterable

from runspec_emulators.kubernetes.api.defaults import PREFIX
from runspec_emulators.kubernetes.world import Object

INDEX = f"{PREFIX}job-completion-index"


def write(indexes: Iterable[int]) -> str:
    """Return a set of indexes as text: "Three or more consecutive numbers are compressed".

    >>> write([1, 3, 4, 5, 7]), write([1, 2])
    ('1,3-5,7', '1,2')
    """
    parts: list[str] = []
    for first, last in _runs(sorted(indexes)):
        # Two numbers are not compressed: a dash would save nothing.
        if last - first >= 2:
            parts.append(f"{first}-{last}")
        else:
            parts += [str(n) for n in range(first, last + 1)]
    return ",".join(parts)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def read(text: str) -> set[int]:
    """Return the set that a text is of.

    >>> sorted(read("1,3-5,7"))
    [1, 3, 4, 5, 7]
    """
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes |= set(range(int(first), int(last or first) + 1))
    return indexes


def of_pod(pod: Object) -> int | None:
    """Return the index of a pod; None if it has none."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else None
