"""From a file to all that planning needs: spec, provider, options, facts, and every problem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.diagnostics.render import Complaint, flawed, placed
from runspec_jobs.document import reader
from runspec_jobs.document.nodes import Document
from runspec_jobs.errors import Unavailable, Untrusted, UsageError
from runspec_jobs.load import profile, registry
from runspec_jobs.provider import Facts, Provider, Spec
from runspec_jobs.spec import validate
from runspec_jobs.spec.scaling import sizes


@dataclass
class SourceFile:
    """A file and what is wrong with it so far."""

    name: str
    data: bytes
    document: Document | None = None
    complaints: list[Complaint] = field(default_factory=list)

    @property
    def lines(self) -> str:
        return self.data.decode("utf-8", "replace")

    @property
    def failed(self) -> bool:
        return any(c.severity == "error" for c in self.complaints)

    def complain(self, problems: Iterable[Problem]) -> None:
        assert self.document is not None, "BUG: problems of a text that could not be read"
        self.complaints += placed(self.name, self.document, problems)


class InvalidSpec(UsageError):
    """Files with errors in them; they carry their own complaints."""

    def __init__(self, *texts: SourceFile) -> None:
        count = sum(len(text.complaints) for text in texts)
        super().__init__(f"{count} problem{'s' if count != 1 else ''}")
        self.texts = texts


class WrongProvider(InvalidSpec):
    """A file that names a provider that is not here."""

    exit_code = Unavailable.exit_code


class UntrustedProfile(InvalidSpec):
    """A profile of a checkout that sets what only the user may set, and was not trusted."""

    exit_code = Untrusted.exit_code


def read(name: str, data: bytes) -> SourceFile:
    """Give *data* as a text with its document, or with what makes it unreadable."""
    text = SourceFile(name, data)
    try:
        text.document = reader.read(data)
    except reader.YamlError as exc:
        text.complaints = flawed(name, exc.flaws)
    return text


def read_file(path: Path, name: str | None = None) -> SourceFile:
    """Give the file at *path*. Raises UsageError when there is none."""
    try:
        data = _head(path, reader.TEXT_BYTES + 1)
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {(exc.strerror or str(exc)).lower()}") from exc
    return read(name or str(path), data)


def _head(path: Path, limit: int) -> bytes:
    """Give the first *limit* bytes of a file, which may be endless: /dev/zero.

    A read sets aside all that it was asked for, so most files are asked for little.
    """
    with open(path, "rb", buffering=0) as file:
        data = bytearray()
        while part := file.read(min(limit - len(data), 1 << 14)):
            data += part
        return bytes(data)


def validated(text: SourceFile) -> tuple[Spec | None, list[Problem]]:
    """Check *text* as a spec by itself: no profile, no survey, nothing but what it says."""
    if text.document is None:
        return None, []
    spec, problems = validate.spec(text.document)
    if spec is None:
        return None, problems
    if spec.provider not in registry.installed():
        what, hint = registry.missing(spec.provider)
        if registry.misspelt(spec.provider):
            return spec, [Problem(("provider",), what, hint)]
        return spec, [Problem(("provider",), what, hint, severity="note")]
    provider = registry.load(spec.provider)
    options, in_spec, _ = profile.options(
        provider.options_model, spec.provider, spec, profile.Profile(), complete=False
    )
    if options is None:
        return spec, in_spec
    return spec, checked(provider, spec, Facts(options, complete=False))


def checked(provider: Provider, spec: Spec, facts: Facts) -> list[Problem]:
    """Give what *provider* cannot do of *spec* at any of its sizes, each problem once."""
    found = (p for one in sizes(spec) for p in provider.check(one, facts))
    return list(dict.fromkeys(found))
