"""From a job file to all that planning needs: spec, provider, options and facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from runspec import check, home, job, profile, registry
from runspec.bundle import FolderBundle, bundle
from runspec.errors import Unavailable
from runspec.job import Text, Wrong, WrongProvider, read_file
from runspec.problems import Problem
from runspec.provider import Bundle, Facts, Options, Progress, Provider, Spec, Survey
from runspec.requirements import RequirementsError, requirement_lines
from runspec.sized import of_size, text_of_size
from runspec.walk import BundleError

Watch = Callable[[str], Progress]  # who is told of bytes being read, by title


@dataclass(frozen=True)
class Job:
    """A spec with all that it takes to plan it; *bundles* give the content of its folders."""

    text: Text
    base: Path
    spec: Spec
    provider: Provider
    facts: Facts
    bundles: Mapping[str, Callable[[], Bundle]]


def gather(text: Text, base: Path, watch: Watch, provider_name: str | None = None) -> Job:
    """Give the job in *text*, whose relative paths start from *base*, with all its facts.

    Raises Wrong with every problem found, Unavailable when the provider is not installed.
    """
    spec = spec_in(text)
    if provider_name:
        spec = spec.model_copy(update={"provider": provider_name})
    provider = _provider(text, spec, provider_name)
    options, wrong_options = settings(text, base, spec, provider)
    lines, problems = _requirements(spec, base)
    bundles, wrong = _bundles(spec, base, watch)
    if options is None:
        text.complain([*problems, *wrong])
        raise Wrong(*wrong_options)
    facts = Facts(
        options,
        {name: bundle.source for name, bundle in bundles.items()},
        lines,
        provider.survey(spec, options) if isinstance(provider, Survey) else {},
    )
    text.complain([*problems, *wrong, *job.checked(provider, spec, facts)])
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


def at_size(found: Job, size: int) -> Job:
    """Give *found* for *size* nodes, with the text that a run of it keeps."""
    assert found.text.document is not None, "BUG: a job without a document"
    spec = of_size(found.spec, size)
    data = text_of_size(found.text.document.value, size)
    facts = found.facts
    if isinstance(found.provider, Survey):
        facts = facts._replace(survey=found.provider.survey(spec, facts.options))
    text = Text(found.text.name, data, found.text.document)
    return replace(found, text=text, spec=spec, facts=facts)


def _given(bundle: FolderBundle) -> Bundle:
    return bundle


def spec_in(text: Text) -> Spec:
    """Give the spec that *text* holds. Raises Wrong with all that is wrong with it."""
    if text.document is not None:
        spec, problems = check.spec(text.document)
        text.complain(problems)
        if spec is not None:
            return spec
    raise Wrong(text)


def _provider(text: Text, spec: Spec, named: str | None) -> Provider:
    try:
        return registry.load(spec.provider)
    except Unavailable as exc:
        if named:
            raise
        text.complain([Problem(("provider",), exc.message, exc.hint)])
        raise WrongProvider(text) from exc


def settings(
    text: Text, base: Path, spec: Spec, provider: Provider
) -> tuple[Options | None, list[Text]]:
    """Give the options, and the texts that hold what is wrong with them."""
    path = home.profile_path(base)
    found = profile.Profile()
    own = None
    if path is not None:
        own = read_file(path)
        found = profile_in(own)
    options, in_spec, in_profile = profile.options(
        provider.options_model, spec.provider, spec, found
    )
    text.complain(in_spec)
    if own is not None:
        own.complain(in_profile)
    elif in_profile:
        text.complain(in_profile)
    return options, [text, *([own] if own else [])]


def read_profile(path: Path) -> profile.Profile:
    """Give the profile at *path*. Raises Wrong with all that is wrong with it."""
    return profile_in(read_file(path))


def profile_in(settings: Text) -> profile.Profile:
    """Give the profile that *settings* hold. Raises Wrong with all that is wrong with it."""
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
    except RequirementsError as exc:
        place = f"{named}:" if isinstance(named, str) else "line "
        return (), [Problem(where, f"{place}{n}: {what}", hint) for n, what, hint in exc.problems]


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
