"""Decides which versions of Python a specifier such as `>=3.9,<3.12` allows, for the core and all providers.

The rules: https://packaging.python.org/en/latest/specifications/version-specifiers/
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runspec_jobs.errors import UsageError

if TYPE_CHECKING:
    from packaging.specifiers import Specifier
    from packaging.version import Version


def python_version(text: str) -> Version:
    """Return the version of an interpreter as an object that can be ordered; an invalid version is the oldest.

    >>> sorted(["3.10.1", "3.9.18", "3.14.0rc1", "3.14.0a7+"], key=python_version)
    ['3.9.18', '3.10.1', '3.14.0a7+', '3.14.0rc1']
    """
    from packaging.version import (
        InvalidVersion,
        Version,
    )  # imported when needed, because it takes milliseconds

    try:
        return Version(text.removesuffix("+"))  # the "+" of a Python that was built from a checkout
    except InvalidVersion:
        return Version("0")


def python_fits(version: str, specifier: str) -> bool:
    """Return whether *specifier* allows a Python of *version*; `3.11` alone allows all of 3.11.

    Pre-releases are treated like other versions. Raises UsageError if *specifier* is not valid.

    >>> python_fits("3.11.7", ">=3.9,<3.12"), python_fits("3.11.7", "3.11"), python_fits("3.11.7", "~=3.12")
    (True, True, False)
    """
    parsed = python_version(version)
    return all(clause.contains(parsed, prereleases=True) for clause in _parse_clauses(specifier))


def _parse_clauses(specifier: str) -> tuple[Specifier, ...]:
    from packaging.specifiers import InvalidSpecifier, Specifier

    bare = specifier.strip()
    wanted = f"=={bare}.*" if bare[:1].isdigit() else specifier
    try:
        return tuple(Specifier(clause) for clause in wanted.split(","))
    except InvalidSpecifier as exc:
        message = f"'{specifier}' is not a version specifier"
        raise UsageError(message, "write it as '>=3.9,<3.12' or '3.11'") from exc
