"""Capabilities for what was written for another tool or provider: reading it, and saying what of it is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.provider.types import ForeignFile, Imported
from runspec_jobs.spec.model import Spec


@runtime_checkable
class SupportsForeignSettings(Protocol):
    """A provider whose jobs have settings or variables that mean nothing on other providers.

    Specs often keep them when only their `provider` is changed. Both methods are pure.
    """

    def lost_settings(self, spec: Spec) -> Iterable[Problem]:
        """Return a problem for everything in *spec*, which is for another provider, that only this one has.

        What is ignored without harm is a note. Called if *spec* has a block for this provider under `providers`, or a
        variable with a part that is in the provider's name, as `TINY_RANK` and `tiny`.
        """

    def lost_profile(self, spec: Spec, profile: Mapping[str, Any]) -> Iterable[Problem]:
        """Return a problem for each setting in *profile* that *spec* relies on, and the spec's provider lacks.

        *profile* has the settings of this provider, as they are written. Called if *spec* has a block for it.
        """


@runtime_checkable
class SupportsImport(Protocol):
    """A provider that can read job files of another tool for the same service."""

    def imports(self, job: ForeignFile, cluster: ForeignFile | None) -> Imported:
        """Return *job* translated to a spec, with the machines from the file *cluster*, if there is one.

        Notes list everything that cannot be translated, and the result contains no value of a secret. Raises
        OtherFormat if *job* or *cluster* is not such a file: `runspec import` asks all providers, and takes the only
        one that knows the file. Raises any other UsageError, with line and column, if the file is one of this
        provider's, and wrong. A text in the attribute `reads` of the provider tells users what it reads.
        """


@runtime_checkable
class FormatImporter(Protocol):
    """Reads job files of a tool that is no provider: an object under the entry point group `runspec.importers`."""

    reads: str  # what it reads, for users: "Kubernetes Jobs"

    def imports(self, job: ForeignFile, provider: str | None) -> Imported:
        """Return *job* translated to a spec for *provider* or, if it is None, for the one that the file means.

        Notes and errors are those of `SupportsImport`.
        """
