"""From a file to all that planning needs: spec, provider, options, facts, and every problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from runspec import check, home, profile, registry, yamlio
from runspec.bundle import BundleError, FolderBundle, bundle
from runspec.errors import UsageError
from runspec.problems import Problem
from runspec.provider import Bundle, Facts, Options, Progress, Provider, Spec, Survey
from runspec.report import Complaint, flawed, placed
from runspec.requirements import requirement_lines
from runspec.tree import Document

Watch = Callable[[str], Progress]  # who is told of bytes being read, by title


@dataclass
class Text:
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


class Wrong(UsageError):
    """Files with errors in them; they carry their own complaints."""

    def __init__(self, *texts: Text) -> None:
        count = sum(len(text.complaints) for text in texts)
        super().__init__(f"{count} problem{'s' if count != 1 else ''}")
        self.texts = texts


@dataclass(frozen=True)
class Job:
    """A spec with all that it takes to plan it; *bundles* give the content of its folders."""

    text: Text
    base: Path
    spec: Spec
    provider: Provider
    facts: Facts
    bundles: Mapping[str, Callable[[], Bundle]]


def read(name: str, data: bytes) -> Text:
    """Give *data* as a text with its document, or with what makes it unreadable."""
    text = Text(name, data)
    try:
        text.document = yamlio.read(data)
    except yamlio.YamlError as exc:
        text.complaints = flawed(name, exc.flaws)
    return text


def read_file(path: Path, name: str | None = None) -> Text:
    """Give the file at *path*. Raises UsageError when there is none."""
    try:
        if path.stat().st_size > yamlio.TEXT_BYTES:
            data = path.open("rb").read(yamlio.TEXT_BYTES + 1)
        else:
            data = path.read_bytes()
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {(exc.strerror or str(exc)).lower()}") from exc
    return read(name or str(path), data)


def validated(text: Text) -> tuple[Spec | None, list[Problem]]:
    """Check *text* as a spec by itself: no profile, no survey, nothing but what it says."""
    if text.document is None:
        return None, []
    spec, problems = check.spec(text.document)
    if spec is None:
        return None, problems
    if spec.provider not in registry.installed():
        what, hint = registry.missing(spec.provider)
        return spec, [Problem(("provider",), what, hint, severity="note")]
    provider = registry.load(spec.provider)
    options, in_spec, _ = profile.options(
        provider.options_model, spec.provider, spec, profile.Profile()
    )
    if options is None:
        return spec, in_spec
    return spec, list(provider.check(spec, Facts(options, complete=False)))


def gather(text: Text, base: Path, watch: Watch, provider_name: str | None = None) -> Job:
    """Give the job in *text*, whose relative paths start from *base*, with all its facts.

    Raises Wrong with every problem found, Unavailable when the provider is not installed.
    """
    spec = _spec(text)
    if provider_name:
        spec = spec.model_copy(update={"provider": provider_name})
    provider = registry.load(spec.provider)
    options = _options(text, base, spec, provider)
    lines, problems = _requirements(spec, base)
    bundles, wrong = _bundles(spec, base, watch)
    facts = Facts(
        options,
        {name: bundle.source for name, bundle in bundles.items()},
        lines,
        provider.survey(spec, options) if isinstance(provider, Survey) else {},
    )
    text.complain([*problems, *wrong, *provider.check(spec, facts)])
    if text.failed:
        raise Wrong(text)
    return Job(
        text,
        base,
        spec,
        provider,
        facts,
        {name: partial(_given, bundle) for name, bundle in bundles.items()},
    )


def _given(bundle: FolderBundle) -> Bundle:
    return bundle


def _spec(text: Text) -> Spec:
    if text.document is not None:
        spec, problems = check.spec(text.document)
        text.complain(problems)
        if spec is not None:
            return spec
    raise Wrong(text)


def _options(text: Text, base: Path, spec: Spec, provider: Provider) -> Options:
    path = home.profile_path(base)
    found = profile.Profile()
    settings = None
    if path is not None:
        settings = read_file(path)
        found = _profile(settings)
    options, in_spec, in_profile = profile.options(
        provider.options_model, spec.provider, spec, found
    )
    text.complain(in_spec)
    if settings is not None:
        settings.complain(in_profile)
    elif in_profile:
        text.complain(in_profile)
    if options is None:
        raise Wrong(text, *([settings] if settings else []))
    return options


def read_profile(path: Path) -> profile.Profile:
    """Give the profile at *path*. Raises Wrong with all that is wrong with it."""
    return _profile(read_file(path))


def _profile(settings: Text) -> profile.Profile:
    if settings.document is not None:
        found, problems = profile.read(settings.document.value)
        settings.complain(problems)
        if found is not None:
            return found
    raise Wrong(settings)


def _requirements(spec: Spec, base: Path) -> tuple[tuple[str, ...], list[Problem]]:
    """Give the lines of the requirements, from their file when they are in one."""
    named = spec.container.requirements
    where = ("container", "requirements")
    try:
        if isinstance(named, str):
            text = (base / named).read_text(encoding="utf-8")
            return requirement_lines(text), []
        return requirement_lines("\n".join(named or ())), []
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "it is not text"
        return (), [Problem(where, f"cannot read {named}: {reason.lower()}")]
    except UsageError as exc:
        return (), [Problem(where, exc.message, exc.hint)]


def _bundles(spec: Spec, base: Path, watch: Watch) -> tuple[dict[str, FolderBundle], list[Problem]]:
    found, problems = {}, []
    for i, mount in enumerate(spec.mounts):
        if mount.scheme != "file":
            continue
        try:
            found[mount.name] = open_bundle(mount.source, base, watch)
        except BundleError as exc:
            where = ("mounts", i, "source")
            problems += [Problem(where, what, hint) for what, hint in exc.problems]
    return found, problems


def open_bundle(source: str, base: Path, watch: Watch) -> FolderBundle:
    """Read and hash the folder that a mount's *source* names.

    Raises BundleError when it holds what must not be uploaded, or is no folder.
    """
    return bundle(base / Path(source).expanduser(), progress=watch(f"read {source}"))
