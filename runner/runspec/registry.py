"""The providers that are installed: entry points of the group `runspec.providers`."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from functools import cache

from runspec.errors import Conflict, Unavailable
from runspec.problems import did_you_mean
from runspec.provider import Provider

GROUP = "runspec.providers"
# Providers that runspec knows of and that come with later versions.
EXPECTED: tuple[str, ...] = ()

EntryPoint = importlib.metadata.EntryPoint


def entry_points() -> tuple[EntryPoint, ...]:
    return tuple(importlib.metadata.entry_points(group=GROUP))


@cache
def installed() -> Mapping[str, EntryPoint]:
    """Give the entry point of every provider by name.

    Raises Conflict when two packages bring the same name; both are named.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points():
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise Conflict(
                f"two packages bring a provider '{point.name}': {package(other)} and {package(point)}",
                "uninstall one of them",
            )
    return dict(sorted(found.items()))


def package(point: EntryPoint) -> str:
    """Give the name of the package that brings *point*, as pip knows it."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def load(name: str) -> Provider:
    """Give the provider called *name*.

    Raises Unavailable, saying what there is, when it is not installed or does not import.
    """
    point = installed().get(name)
    if point is None:
        raise Unavailable(*missing(name))
    try:
        provider: Provider = point.load()
    except Exception as exc:  # whatever a stranger's package raises when it is loaded
        what = f"the provider '{name}' of {package(point)} does not load: {exc}"
        raise Unavailable(what, "reinstall that package") from exc
    if provider.name != name:
        what = f"{package(point)} registers '{provider.name}' as '{name}'"
        raise Unavailable(what, "mend the entry point of that package")
    return provider


def misspelt(name: str) -> str | None:
    """Give the hint where *name* is all but a name that is known; a package may bring one that is like one in part.

    >>> misspelt("locl"), misspelt("gcp-batch")
    ("did you mean 'local'?", None)
    """
    known = [*installed(), *EXPECTED]
    return None if name in known else did_you_mean(name, known, alike=0.85)


def missing(name: str) -> tuple[str, str]:
    """Give what to say, and what to do, when the provider *name* is not installed."""
    here = ", ".join(installed())
    if name in EXPECTED:
        return f"the provider '{name}' is not there yet", f"there are: {here}"
    near = did_you_mean(name, [*installed(), *EXPECTED])
    return (
        f"the provider '{name}' is not installed",
        near or f"install the package that brings it; there are: {here}",
    )
