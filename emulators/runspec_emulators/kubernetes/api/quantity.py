"""Quantities of resources: numbers with a suffix.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

PATTERN = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([KMGTPE]i|[numkMGTPE]?)|[eE]([+-]?[0-9]+))"
)
BAD = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SCALES = {
    "": Fraction(1),
    **{s: Fraction(1, 1000**n) for n, s in enumerate("mun", 1)},
    **{s: Fraction(1000**n) for n, s in enumerate("kMGTPE", 1)},
    **{f"{s}i": Fraction(1024**n) for n, s in enumerate("KMGTPE", 1)},
}


def read(value: Any) -> Fraction:
    """Return a quantity as a number; raise ValueError if it is none.

    >>> read("1500m"), read("1Ki"), read("1e3")
    (Fraction(3, 2), Fraction(1024, 1), Fraction(1000, 1))
    """
    match = PATTERN.fullmatch(str(value))
    if match is None:
        raise ValueError(BAD)
    number, suffix, exponent = match.groups()
    scale = Fraction(10) ** int(exponent) if exponent else SCALES[suffix or ""]
    return Fraction(number) * scale


def write(value: Fraction) -> str:
    """Return a number as a quantity, in thousandths if need be, and in the largest unit of which it is a multiple.

    >>> write(Fraction(3, 2)), write(Fraction(2**31)), write(Fraction(0)), write(Fraction(5000))
    ('1500m', '2Gi', '0', '5k')
    """
    # Rounded up: what is requested must not become less.
    if value.denominator != 1:
        return f"{-(-value * 1000 // 1)}m"
    number = value.numerator
    # "No fractional digits will be emitted", and "the exponent (or suffix) is as large as
    # possible".
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        scale = SCALES[suffix].numerator
        if number and number % scale == 0:
            return f"{number // scale}{suffix}"
    for suffix in "EPTGMk":
        scale = SCALES[suffix].numerator
        if number and number % scale == 0:
            return f"{number // scale}{suffix}"
    return str(number)


def total(requests: list[Mapping[str, Any]]) -> dict[str, Fraction]:
    """Return the sums of quantities, by resource."""
    sums: dict[str, Fraction] = {}
    for entry in requests:
        for name, value in entry.items():
            sums[name] = sums.get(name, Fraction(0)) + read(value)
    return sums


def of_pod(spec: Mapping[str, Any], kind: str = "requests") -> dict[str, Fraction]:
    """Return what the containers of a pod request in all.

    Init containers run before the others, so that of these the largest counts.
    """
    sums = total([c.get("resources", {}).get(kind) or {} for c in spec.get("containers", ())])
    for container in spec.get("initContainers") or ():
        for name, value in (container.get("resources", {}).get(kind) or {}).items():
            sums[name] = max(sums.get(name, Fraction(0)), read(value))
    return sums
