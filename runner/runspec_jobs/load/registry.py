"""The providers that are installed: entry points of the group `runspec.providers`."""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
import traceback
from collections.abc import Iterator, Mapping
from functools import cache

from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.errors import Conflict, Lacking, Unavailable
from runspec_jobs.provider import Provider

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
        with extras():
            provider: Provider = point.load()
    except Lacking:
        raise
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


@contextlib.contextmanager
def extras() -> Iterator[None]:
    """Raise Lacking, with the extra to install, where a provider cannot import what it needs.

    Providers import the libraries of their service when they connect, so an installation without an extra is found
    late, and anywhere. An import that fails elsewhere, or of a provider's own module, is a bug and stays one.
    """
    try:
        yield
    except ImportError as exc:
        found = _lacking(exc)
        if found is None:
            raise
        raise found from exc


def _lacking(exc: ImportError) -> Lacking | None:
    """Return what to say about *exc*; None where no provider, but runspec or a provider's own module is at fault."""
    frames = traceback.walk_tb(exc.__traceback__)
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in frames]
    for point in sorted(installed().values(), key=lambda point: -len(point.module)):
        package = point.module.partition(".")[0]
        within = any(f"{name}.".startswith(f"{point.module}.") for name in modules)
        if within and point.dist and (exc.name or "").partition(".")[0] not in (package, "runspec"):
            what = f"the provider '{point.name}' cannot import what it needs: {exc}"
            return Lacking(
                what, f"pip install {_with_extra(point.dist, exc.name or '', point.name)}"
            )
    return None


def _with_extra(dist: importlib.metadata.Distribution, module: str, provider: str) -> str:
    """Return *dist* in the words of pip, with the extra that brings *module* to *provider*.

    Of several extras the one that the provider is named after is taken, or else the smallest.
    """
    extras = _extras(dist)
    like = re.sub(r"[._]", "-", module.lower()) + "-"
    fitting = [
        extra
        for extra, packages in extras.items()
        if any(f"{name}-".startswith(like) or like.startswith(f"{name}-") for name in packages)
    ]
    own = [extra for extra in extras if extra in provider.split("-")]
    fitting.sort(key=lambda extra: (extra not in own, len(extras[extra])))
    chosen = [*fitting, *own][:1]
    return f"'{dist.name}[{chosen[0]}]'" if chosen else f"'{dist.name}'"


def _extras(dist: importlib.metadata.Distribution) -> dict[str, list[str]]:
    """Return the packages that each extra of *dist* asks for."""
    found: dict[str, list[str]] = {}
    for text in dist.requires or ():
        named = re.match(r"[\w.-]+", text)
        of = re.search(r"extra *== *['\"]([^'\"]+)", text)
        if named and of:
            found.setdefault(of[1], []).append(re.sub(r"[._]", "-", named[0]).lower())
    return found
