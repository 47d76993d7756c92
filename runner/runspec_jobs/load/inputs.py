"""Collects everything that planning needs for a job file: spec, provider, options and facts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.document import reader
from runspec_jobs.errors import Unavailable, UsageError
from runspec_jobs.load import env_secrets, profile, registry, shell_syntax, source, trust
from runspec_jobs.load.bundle import FolderBundle, bundle
from runspec_jobs.load.folder_scan import MIB, BundleError, Opener
from runspec_jobs.load.ignore import IGNORE
from runspec_jobs.load.missing_settings import join_missing_settings, join_words
from runspec_jobs.load.notes import foreign_settings
from runspec_jobs.load.profile import CONFIRM_ABOVE_USD
from runspec_jobs.load.source import (
    InvalidSpec,
    SourceFile,
    UntrustedProfile,
    WrongProvider,
    read_file,
)
from runspec_jobs.provider import (
    Facts,
    Options,
    Progress,
    Provider,
    Spec,
    SupportsDiscovery,
    paths,
)
from runspec_jobs.spec import validate
from runspec_jobs.spec.requirements import RequirementsError, list_conda_lines, list_requirements
from runspec_jobs.spec.scaling import select_size, write_size

MAX_REQUIREMENTS_BYTES = MIB

Watch = Callable[
    [str], Progress
]  # returns, for a title, the function that is called with the bytes read


@dataclass(frozen=True)
class PlanInputs:
    """A spec with everything that planning it needs; *bundles* are the contents of its folders.

    *profile* is the path of the profile in use, if there is one. *prices* and *confirm_above_usd* are from it.
    """

    text: SourceFile
    base: Path
    spec: Spec
    provider: Provider
    facts: Facts
    bundles: Mapping[str, FolderBundle]
    profile: Path | None = None
    prices: Mapping[str, float] = field(default_factory=dict)
    confirm_above_usd: float = CONFIRM_ABOVE_USD


@dataclass(frozen=True)
class ProfileInUse:
    """The profile that applies to a folder; it is empty if *place* is None."""

    found: profile.Profile = field(default_factory=profile.Profile)
    place: paths.ProfilePlace | None = None
    text: SourceFile | None = None

    @property
    def path(self) -> Path | None:
        return None if self.place is None else self.place.path

    def get_settings(self, name: str) -> Mapping[str, Any]:
        """Return the settings of the provider *name*."""
        return self.found.providers.get(name, {})


def gather(
    text: SourceFile, base: Path, watch: Watch, provider_name: str | None = None
) -> PlanInputs:
    """Return the job in *text*, whose relative paths start from *base*, with all its facts.

    Raises InvalidSpec with every problem found, and Unavailable if the provider is not installed.
    """
    spec = parse_spec(text)
    provider = _load_provider(text, spec, provider_name)
    own = read_profile_in_use(base)
    text.add_problems(find_strangers(base))
    options, wrong_options = read_settings(text, own, spec, provider)
    lines, problems = _read_requirements(spec, base)
    problems += shell_syntax.find_problems(spec)
    problems += source.find_written_notes(spec, base, provider)
    problems += foreign_settings.find_lost_of_profile(spec, own.get_settings)
    bundles, wrong = _open_bundles(spec, base, watch)
    early = [] if options is None else _check_early(provider, spec, options, own)
    if options is None or early:
        text.add_problems([*problems, *wrong, *early])
        raise InvalidSpec(*wrong_options)
    facts = Facts(
        options,
        {name: bundle.source for name, bundle in bundles.items()},
        lines,
        provider.survey(spec, options) if isinstance(provider, SupportsDiscovery) else {},
    )
    text.add_problems([*problems, *wrong, *_check(provider, spec, facts, own)])
    if text.failed:
        raise InvalidSpec(text)
    return PlanInputs(
        text,
        base,
        spec,
        provider,
        facts,
        bundles,
        own.path and own.path.absolute(),
        own.found.prices,
        _confirm_above(own),
    )


def _confirm_above(own: ProfileInUse) -> float:
    """Return the cost above which `apply` asks; a profile that the user does not trust cannot raise it."""
    wanted = own.found.confirm_above
    if own.place is None or own.text is None:
        return CONFIRM_ABOVE_USD
    trusted = own.place.own or trust.is_trusted(own.place.path, own.text.data)
    return wanted if trusted else min(CONFIRM_ABOVE_USD, wanted)


def _check_early(
    provider: Provider, spec: Spec, options: Options, own: ProfileInUse
) -> list[Problem]:
    """Return the errors that can be found before the provider asks its service."""
    found = _check(provider, spec, Facts(options, complete=False), own)
    return [problem for problem in found if problem.severity == "error"]


def _check(provider: Provider, spec: Spec, facts: Facts, own: ProfileInUse) -> list[Problem]:
    """Return the problems of *spec*; all settings that the profile *own* lacks are one of them."""
    found = source.check_sizes(provider, spec, facts)
    empty = not own.get_settings(provider.name) and provider.name not in spec.providers
    return join_missing_settings(found, provider, own.path, empty=empty)


def replace_size(found: PlanInputs, size: int) -> PlanInputs:
    """Return *found* at *size* of its `scaling`, with the text of the spec for the record of its run."""
    assert found.text.document is not None, "BUG: a job without a document"
    spec = select_size(found.spec, size)
    data = write_size(found.text.document.value, size)
    facts = found.facts
    if isinstance(found.provider, SupportsDiscovery):
        facts = facts._replace(survey=found.provider.survey(spec, facts.options))
    text = SourceFile(found.text.name, data, found.text.document)
    return replace(found, text=text, spec=spec, facts=facts)


def parse_spec(text: SourceFile) -> Spec:
    """Return the spec in *text*. Raises InvalidSpec with all problems in it."""
    if text.document is not None:
        spec, problems = validate.parse_spec(text.document)
        text.add_problems(problems)
        if spec is not None:
            text.add_problems(env_secrets.find_notes(spec))
            return spec
    raise InvalidSpec(text)


def _load_provider(text: SourceFile, spec: Spec, named: str | None) -> Provider:
    try:
        return registry.load(spec.provider)
    except Unavailable as exc:
        if named:
            raise
        text.add_problems([Problem(("provider",), exc.message, exc.hint)])
        raise WrongProvider(text) from exc


def read_profile_in_use(folder: Path) -> ProfileInUse:
    """Read the profile that applies to *folder*. Raises InvalidSpec with all problems in it."""
    place = paths.find_profile(folder)
    if place is None:
        return ProfileInUse()
    text = read_file(place.path)
    return ProfileInUse(parse_profile(text), place, text)


def find_strangers(folder: Path) -> list[Problem]:
    """Return a note for each profile for *folder* that does not count, because another user put it there."""
    return [
        Problem(
            (),
            f"{one.path} is not used, because it belongs to another user (uid {one.owner})",
            f"if it is meant, set RUNSPEC_PROFILE={shlex.quote(str(one.path))}",
            severity="note",
        )
        for one in paths.find_profiles_of_strangers(folder)
    ]


def read_settings(
    text: SourceFile, own: ProfileInUse, spec: Spec, provider: Provider
) -> tuple[Options | None, list[SourceFile]]:
    """Return the options, and the files to which their problems were added.

    Raises UntrustedProfile if the profile has settings that need the user's trust.
    """
    options, in_spec, in_profile = profile.merge_options(
        provider.options_model, spec.provider, spec, own.found
    )
    text.add_problems(in_spec)
    if own.text is not None:
        own.text.add_problems(in_profile)
    elif in_profile:
        text.add_problems(in_profile)
    if options is not None:
        demand_trust(own, provider)
    return options, [text, *([own.text] if own.text else [])]


def demand_trust(own: ProfileInUse, provider: Provider) -> None:
    """Raise UntrustedProfile if *own* has settings that only the user may set, and the user has not trusted it."""
    if own.place is None or own.text is None or own.place.own:
        return
    at = ("providers", provider.name)
    found = profile.list_user_settings(provider.options_model, own.get_settings(provider.name), at)
    if not found or trust.is_trusted(own.place.path, own.text.data):
        return
    where = trust.resolve_path(own.place.path)
    names = list(dict.fromkeys(f"'{path[-1]}'" for path in found))
    changed = "; it has changed since you did" if where in trust.read_trusted() else ""
    what = f"{join_words(names)} count{'s' * (len(names) == 1)} only in a profile that you trust{changed}"
    hint = f"read the file; if you trust it, run: runspec trust {shlex.quote(where)}"
    private = any(profile.is_private(str(part)) for part in found[0])
    own.text.add_problems([Problem(found[0], what, hint, at="key", private=private)])
    raise UntrustedProfile(own.text)


def parse_profile(settings: SourceFile) -> profile.Profile:
    """Return the profile in *settings*, which may be empty. Raises InvalidSpec with all problems in it."""
    if [problem.what for problem in settings.diagnostics] == [reader.EMPTY]:
        settings.document, settings.diagnostics = reader.read("{}"), []
    if settings.document is not None:
        found, problems = profile.read(settings.document.value)
        settings.add_problems(problems)
        if found is not None:
            return found
    raise InvalidSpec(settings)


def _read_requirements(spec: Spec, base: Path) -> tuple[tuple[str, ...], list[Problem]]:
    """Return the requirements, which are in the spec or in a file, and the problems in them."""
    conda = spec.container.conda
    named = conda or spec.container.requirements
    where = ("container", "conda" if conda else "requirements")
    try:
        if conda:
            return list_conda_lines(_read_beside(base, conda)), []
        if isinstance(named, str):
            return list_requirements(_read_beside(base, named)), []
        return list_requirements("\n".join(named or ())), []
    except NotOfCheckout as exc:
        return (), [Problem(where, exc.message, exc.hint)]
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "it is not text"
        return (), [Problem(where, f"cannot read {named}: {reason.lower()}")]
    except RequirementsError as exc:
        place = f"{named}:" if isinstance(named, str) else "line "
        return (), [Problem(where, f"{place}{n}: {what}", hint) for n, what, hint in exc.problems]


class NotOfCheckout(UsageError):
    """A job file names a file outside of its checkout."""


def _read_beside(base: Path, named: str) -> str:
    """Return the text of the file *named* in the checkout around *base*; raise NotOfCheckout if it is outside of it."""
    top = paths.find_checkout(base)
    real = (base / named).resolve()
    if not real.is_relative_to(top):
        hint = "copy it beside the job file, or write the requirements here"
        raise NotOfCheckout(f"{named} is a file outside of {top}", hint)
    with Opener(top) as opener, os.fdopen(opener.open(str(real.relative_to(top))), "rb") as file:
        data = file.read(MAX_REQUIREMENTS_BYTES + 1)
    if len(data) > MAX_REQUIREMENTS_BYTES:
        raise NotOfCheckout(f"{named} is larger than {MAX_REQUIREMENTS_BYTES:,} bytes")
    return data.decode()


def _open_bundles(
    spec: Spec, base: Path, watch: Watch
) -> tuple[dict[str, FolderBundle], list[Problem]]:
    found, problems = {}, []
    for i, mount in enumerate(spec.mounts):
        if mount.scheme != "file":
            continue
        problems += _note_link(i, mount.source, base)
        try:
            found[mount.name] = open_bundle(mount.source, base, watch, spec.name)
            problems += _note_fetched(i, found[mount.name].fetched)
        except BundleError as exc:
            where = ("mounts", i, "source")
            problems += [Problem(where, what, hint) for what, hint in exc.problems]
    return found, problems


def _note_fetched(i: int, files: Sequence[str]) -> list[Problem]:
    """Return a note if files are left out that the user may have fetched for this job."""
    if not files:
        return []
    what = "a file that runspec fetch wrote is left out"
    if len(files) > 1:
        what = f"{len(files):,} files that runspec fetch wrote are left out"
    top = min(files).split("/")[0]
    hint = f"if the job needs them, write !/{top} into {IGNORE}; plan --files lists them"
    return [
        Problem(("mounts", i, "source"), f"{what}, such as {min(files)}", hint, severity="note")
    ]


def _note_link(i: int, source: str, base: Path) -> list[Problem]:
    """Return a note if the source of a mount is a link to a folder outside of the checkout."""
    if source.startswith(("/", "~")):
        return []
    written = os.path.normpath(base.resolve() / source)
    real = os.path.realpath(base / source)
    if real == written or Path(real).is_relative_to(paths.find_checkout(base)):
        return []
    what = f"{source} is a link to {real}, which is uploaded"
    return [Problem(("mounts", i, "source"), what, severity="note")]


def open_bundle(source: str, base: Path, watch: Watch, spec: str = "") -> FolderBundle:
    """Read and hash the folder at a mount's *source*, for the spec called *spec*.

    Raises BundleError if it is not a folder, or contains files that must not be uploaded.
    """
    return bundle(base / Path(source).expanduser(), spec=spec, progress=watch(f"read {source}"))
