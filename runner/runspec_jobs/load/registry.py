"""The providers that are installed: entry points of the group `runspec.providers`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from runspec_jobs import entry_points as installed_points
from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.errors import Conflict, Lacking, Unavailable
from runspec_jobs.provider import Provider
from runspec_jobs.provider.importing.protocols import FormatImporter

if TYPE_CHECKING:
    from importlib import metadata

    EntryPoint = installed_points.EntryPoint | metadata.EntryPoint

GROUP = "runspec.providers"
IMPORTERS = "runspec.importers"
# Providers that later versions of runspec will contain.
EXPECTED: tuple[str, ...] = ()
# Another package may have a provider with a name that differs by more letters.
MOST_EDITS = 2


def list_entry_points() -> tuple[EntryPoint, ...]:
    return tuple(installed_points.read(GROUP))


@cache
def list_installed() -> Mapping[str, EntryPoint]:
    """Return the entry points of all installed providers by name.

    Raises Conflict if two packages have a provider of the same name.
    """
    points: dict[str, EntryPoint] = {}
    for point in list_entry_points():
        other = points.setdefault(point.name, point)
        if other.value != point.value:
            raise Conflict(
                f"two packages have a provider '{point.name}': {describe_package(other)} and {describe_package(point)}",
                "uninstall one of them",
            )
    return dict(sorted(points.items()))


@cache
def load_importers() -> Mapping[str, FormatImporter]:
    """Return the installed importers of formats that belong to no provider, by name."""
    loaded = {point.name: point.load() for point in installed_points.read(IMPORTERS)}
    return dict(sorted(loaded.items()))


def describe_imports() -> str:
    """Return what the installed importers read, for users."""
    loaded: list[object] = [*load_importers().values()]
    for name in list_installed():
        with contextlib.suppress(Unavailable):
            loaded.append(load(name))
    return "; ".join(str(one.reads) for one in loaded if hasattr(one, "reads"))


def describe_package(point: EntryPoint) -> str:
    """Return the name and version of the package that contains *point*, as pip shows them."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def load(name: str) -> Provider:
    """Return the provider called *name*.

    Raises Unavailable if it is not installed, with the names of those that are, or if it cannot be imported.
    """
    point = list_installed().get(name)
    if point is None:
        raise Unavailable(*explain_missing(name))
    try:
        with translate_import_errors():
            provider: Provider = point.load()
    except Lacking:
        raise
    except Exception as exc:  # a third-party package may raise anything when it is loaded
        message = f"the provider '{name}' of {describe_package(point)} cannot be loaded: {exc}"
        raise Unavailable(message, "reinstall that package") from exc
    if provider.name != name:
        message = f"{describe_package(point)} registers '{provider.name}' as '{name}'"
        raise Unavailable(message, "correct the entry point of that package")
    return provider


def suggest_name(name: str) -> str | None:
    """Return a hint if *name* is almost the name of a known provider, or begins it; None otherwise.

    >>> suggest_name("locl"), suggest_name("aws"), suggest_name("gcp-batch")
    ("did you mean 'local'?", "did you mean 'aws-batch'?", None)
    """
    known = [*list_installed(), *EXPECTED]
    if name in known:
        return None
    near = [
        candidate
        for candidate in known
        if candidate.startswith(f"{name}-") or _count_edits(name, candidate) <= MOST_EDITS
    ]
    if not near:
        return None
    best = min(
        near,
        key=lambda candidate: (not candidate.startswith(f"{name}-"), _count_edits(name, candidate)),
    )
    return f"did you mean '{best}'?"


def _count_edits(first: str, other: str) -> int:
    """Return how many letters must be inserted, removed or replaced to turn *first* into *other* (Levenshtein).

    >>> _count_edits("slrm", "slurm"), _count_edits("aws-bacth", "aws-batch")
    (1, 2)
    """
    row = list(range(len(other) + 1))
    for i, a in enumerate(first, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def explain_missing(name: str) -> tuple[str, str]:
    """Return the message and the hint for a provider *name* that is not installed."""
    here = ", ".join(list_installed())
    if name in EXPECTED:
        return f"the provider '{name}' does not exist yet", f"installed providers: {here}"
    near = suggest_name(name) or did_you_mean(name, [*list_installed(), *EXPECTED])
    return (
        f"the provider '{name}' is not installed",
        near or f"install the package that contains it; installed providers: {here}",
    )


@contextlib.contextmanager
def translate_import_errors() -> Iterator[None]:
    """Raise Lacking, with the extra to install, if a provider cannot import a library.

    Providers import the libraries of their service when they connect, so a missing extra is noticed late, and in any
    command. A failed import outside of providers, or of a provider's own module, is a bug, and its error is kept.
    """
    try:
        yield
    except ImportError as exc:
        lacking = _make_lacking(exc)
        if lacking is None:
            raise
        raise lacking from exc


def _make_lacking(exc: ImportError) -> Lacking | None:
    """Return the error that replaces *exc*, or None if the missing module belongs to runspec or to a provider."""
    import traceback  # slow to import, and only here

    frames = traceback.walk_tb(exc.__traceback__)
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in frames]
    # The longest module first: a provider may live in a package below that of another one.
    for point in sorted(list_installed().values(), key=lambda point: -len(point.module)):
        package = point.module.partition(".")[0]
        within = any(f"{name}.".startswith(f"{point.module}.") for name in modules)
        if within and point.dist and (exc.name or "").partition(".")[0] not in (package, "runspec"):
            message = f"the provider '{point.name}' cannot import a library: {exc}"
            return Lacking(
                message, f"pip install {_find_requirement(point.dist, exc.name or '', point.name)}"
            )
    return None


def _find_requirement(dist: metadata.Distribution, module: str, provider: str) -> str:
    """Return the requirement for pip that installs *dist* with the extra that contains *module*.

    If several extras contain it, an extra that the name of *provider* contains is preferred, then the smallest.
    """
    extras = _list_extras(dist)
    # Names of modules and of packages differ, as `azure.batch` and `azure-batch` do, but mostly by punctuation.
    like = re.sub(r"[._]", "-", module.lower()) + "-"
    fitting = [
        extra
        for extra, packages in extras.items()
        if any(f"{name}-".startswith(like) or like.startswith(f"{name}-") for name in packages)
    ]
    alike = [extra for extra in extras if extra in provider.split("-")]
    fitting.sort(key=lambda extra: (extra not in alike, len(extras[extra])))
    chosen = [*fitting, *alike][:1]
    return f"'{dist.name}[{chosen[0]}]'" if chosen else f"'{dist.name}'"


def _list_extras(dist: metadata.Distribution) -> dict[str, list[str]]:
    """Return the packages that each extra of *dist* requires."""
    extras: dict[str, list[str]] = {}
    for text in dist.requires or ():
        named = re.match(r"[\w.-]+", text)
        extra = re.search(r"extra *== *['\"]([^'\"]+)", text)
        if named and extra:
            extras.setdefault(extra[1], []).append(re.sub(r"[._]", "-", named[0]).lower())
    return extras
