"""Collects everything that planning needs for a job file: spec, provider, options and facts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.document import reader
from runspec_jobs.errors import Unavailable, UsageError
from runspec_jobs.load import (
    env_secrets,
    profile,
    registry,
    run_mounts,
    shell_syntax,
    source,
    trust,
)
from runspec_jobs.load.bundle import FolderBundle, bundle, bundle_file
from runspec_jobs.load.folder_scan import MIB, BundleError, Opener
from runspec_jobs.load.ignore import IGNORE
from runspec_jobs.load.missing_settings import join_missing_settings, join_words
from runspec_jobs.load.notes import foreign_settings
from runspec_jobs.load.overrides import ENV_FILE, fill_env
from runspec_jobs.load.profile import CONFIRM_ABOVE_USD
from runspec_jobs.load.run_mounts import FindRun, MountedRun, RunMounts
from runspec_jobs.load.source import (
    InvalidSpec,
    SourceFile,
    UntrustedProfile,
    WrongProvider,
    read_file,
)
from runspec_jobs.provider import (
    Bundle,
    Facts,
    Mount,
    Options,
    Progress,
    Provider,
    Spec,
    SupportsDiscovery,
    SupportsProfileTemplate,
    paths,
)
from runspec_jobs.provider.job_manifest import CONTEXT, RECIPES
from runspec_jobs.provider.types import NOT_YET
from runspec_jobs.spec import validate
from runspec_jobs.spec.models.container import Build
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
    *mounted_runs* are the outputs of runs that are mounted, by mount. *copies* are what other runs have saved and is
    uploaded for this one, by the name of its source.
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
    mounted_runs: Mapping[str, MountedRun] = field(default_factory=dict)
    copies: Mapping[str, Bundle] = field(default_factory=dict)

    @property
    def copied_mounts(self) -> list[str]:
        """The mounts of outputs of runs that save to another store."""
        return [name for name in self.mounted_runs if name in self.facts.sources]


class ProfileInUse(NamedTuple):
    """The profile that applies to a folder; it is empty if *place* is None."""

    profile: profile.Profile = profile.EMPTY
    place: paths.ProfilePlace | None = None
    text: SourceFile | None = None

    @property
    def path(self) -> Path | None:
        return None if self.place is None else self.place.path

    def get_settings(self, name: str) -> Mapping[str, Any]:
        """Return the settings of the provider *name*."""
        return self.profile.providers.get(name, {})


def gather(
    text: SourceFile,
    base: Path,
    watch: Watch,
    provider_name: str | None = None,
    find_run: FindRun = run_mounts.none_known,
) -> PlanInputs:
    """Return the job in *text*, whose relative paths start from *base*, with all its facts.

    *find_run* returns the runs whose outputs the job mounts. Raises InvalidSpec with every problem, and Unavailable
    if the provider is not installed.
    """
    env_file = _find_env_file(text, base)
    text = _fill_env(text, base)
    spec = parse_spec(text)
    provider = _load_provider(text, spec, provider_name)
    in_use = read_profile_in_use(base)
    text.add_problems(find_strangers(base))
    options, wrong_options = read_settings(text, in_use, spec, provider)
    # All problems of the files are collected first, so that the user sees them in one round.
    lines, problems = _read_requirements(spec, base)
    problems += _find_notes(spec, base, provider, in_use)
    bundles, wrong = _open_bundles(spec, base, watch, env_file)
    # The survey logs in at the service, which takes seconds; a mistake in the spec is reported without it.
    early = [] if options is None else _check_early(provider, spec, options, in_use)
    if options is None or early:
        text.add_problems([*problems, *wrong, *early])
        raise InvalidSpec(*wrong_options)
    sources = {name: bundle.source for name, bundle in bundles.items()}
    survey = provider.survey(spec, options) if isinstance(provider, SupportsDiscovery) else {}
    facts = Facts(options, sources, lines, survey)
    spec, in_choice = source.choose_gpu_type(provider, spec, facts)
    problems += in_choice
    mounted = run_mounts.resolve(spec, provider, facts, find_run)
    if mounted.problems:
        text.add_problems([*problems, *wrong, *mounted.problems])
        raise InvalidSpec(text)
    facts = _add_outputs(facts, mounted)
    text.add_problems([*problems, *wrong, *_check(provider, spec, facts, in_use)])
    if text.failed:
        raise InvalidSpec(text)
    path, limit_usd = in_use.path and in_use.path.absolute(), _confirm_above(in_use)
    prices, runs = in_use.profile.prices, mounted.inputs
    return PlanInputs(text, base, spec, provider, facts, bundles, path, prices, limit_usd, runs)


def _find_notes(
    spec: Spec, base: Path, provider: Provider, in_use: ProfileInUse
) -> Iterator[Problem]:
    """Yield what is wrong or doubtful in the commands of *spec*, and which settings of other providers get lost."""
    yield from shell_syntax.find_problems(spec)
    yield from source.find_written_notes(spec, base, provider)
    yield from foreign_settings.find_lost_of_profile(spec, in_use.get_settings)


def _add_outputs(facts: Facts, mounted: RunMounts) -> Facts:
    """Return *facts* with the outputs of runs that are *mounted*; the content of those that are copied comes later."""
    own = {name: source for name, source in facts.sources.items() if name not in mounted.inputs}
    copied = dict.fromkeys(mounted.copied, NOT_YET)
    return facts._replace(sources={**own, **copied}, outputs=mounted.outputs)


def resolve_runs(made: PlanInputs, find_run: FindRun) -> PlanInputs:
    """Return *made* with the runs that its mounts mean now. Raises InvalidSpec with every problem."""
    if all(mount.of_run is None for mount in made.spec.mounts):
        return made
    mounted = run_mounts.resolve(made.spec, made.provider, made.facts, find_run)
    if mounted.problems:
        text = replace(made.text, diagnostics=[])
        text.add_problems(mounted.problems)
        raise InvalidSpec(text)
    return replace(made, facts=_add_outputs(made.facts, mounted), mounted_runs=mounted.inputs)


def _confirm_above(in_use: ProfileInUse) -> float:
    """Return the cost above which `apply` asks; a profile that the user does not trust cannot raise it."""
    wanted = in_use.profile.confirm_above
    if in_use.place is None or in_use.text is None:
        return CONFIRM_ABOVE_USD
    trusted = in_use.place.own or trust.is_trusted(in_use.place.path, in_use.text.data)
    # A profile of a checkout may ask more often, never less often.
    return wanted if trusted else min(CONFIRM_ABOVE_USD, wanted)


def _check_early(
    provider: Provider, spec: Spec, options: Options, in_use: ProfileInUse
) -> list[Problem]:
    """Return the errors that can be found before the provider asks its service."""
    facts = Facts(options, complete=False)
    spec, _ = source.choose_gpu_type(provider, spec, facts)
    problems = _check(provider, spec, facts, in_use)
    return [problem for problem in problems if problem.severity == "error"]


def _check(provider: Provider, spec: Spec, facts: Facts, in_use: ProfileInUse) -> list[Problem]:
    """Return the problems of *spec*; all settings that the profile *in_use* lacks are one of them."""
    problems = source.check_sizes(provider, spec, facts)
    empty = not in_use.get_settings(provider.name) and provider.name not in spec.providers
    return join_missing_settings(problems, provider, in_use.path, empty=empty)


def replace_size(inputs: PlanInputs, size: int) -> PlanInputs:
    """Return *inputs* at *size* of its `scaling`, with the text of the spec for the record of its run."""
    assert inputs.text.document is not None, "BUG: a job without a document"
    spec = select_size(inputs.spec, size)
    data = write_size(inputs.text.document.value, size)
    facts = inputs.facts
    if isinstance(inputs.provider, SupportsDiscovery):
        facts = facts._replace(survey=inputs.provider.survey(spec, facts.options))
    text = SourceFile(inputs.text.name, data, inputs.text.document)
    return replace(inputs, text=text, spec=spec, facts=facts)


def parse_spec(text: SourceFile) -> Spec:
    """Return the spec in *text*. Raises InvalidSpec with all problems in it."""
    if text.document is not None:
        spec, problems = validate.parse_spec(text.document)
        text.add_problems(problems if spec is not None else source.complete(text, problems))
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
    location = paths.find_profile(folder)
    if location is None:
        return ProfileInUse()
    text = read_file(location.path)
    return ProfileInUse(parse_profile(text), location, text)


def find_strangers(folder: Path) -> list[Problem]:
    """Return a note for each profile for *folder* that does not count, because another user put it there."""
    return [
        Problem(
            (),
            f"{stranger.path} is not used, because it belongs to another user (uid {stranger.owner})",
            f"if it is meant, set RUNSPEC_PROFILE={shlex.quote(str(stranger.path))}",
            severity="note",
        )
        for stranger in paths.find_profiles_of_strangers(folder)
    ]


def read_settings(
    text: SourceFile, in_use: ProfileInUse, spec: Spec, provider: Provider
) -> tuple[Options | None, list[SourceFile]]:
    """Return the options, and the files to which their problems were added.

    Raises UntrustedProfile if the profile has settings that need the user's trust.
    """
    options, in_spec, in_profile = profile.merge_options(
        provider.options_model, spec.provider, spec, in_use.profile
    )
    text.add_problems(in_spec)
    if in_use.text is not None:
        in_use.text.add_problems(in_profile)
        if examples := find_examples(in_use, provider):
            in_use.text.add_problems(examples)
            options = None
    elif in_profile:
        text.add_problems(in_profile)
    if options is not None:
        demand_trust(in_use, provider)
    return options, [text, *([in_use.text] if in_use.text else [])]


def find_examples(in_use: ProfileInUse, provider: Provider) -> list[Problem]:
    """Return a problem for each setting that still is what `runspec init` wrote for the user to replace."""
    if not isinstance(provider, SupportsProfileTemplate):
        return []
    if in_use.text is None or not profile.PLACEHOLDER.search(in_use.text.lines):
        return []
    document = reader.read(provider.first_profile().encode())
    first, _ = profile.read(document.value)
    assert first is not None, "BUG: a first profile is wrong"
    at, settings = ("providers", provider.name), in_use.get_settings(provider.name)
    return list(profile.find_placeholders(settings, first.providers[provider.name], at))


def demand_trust(in_use: ProfileInUse, provider: Provider) -> None:
    """Raise UntrustedProfile if *in_use* has settings that only the user may set, and the user has not trusted it."""
    if in_use.place is None or in_use.text is None or in_use.place.own:
        return
    at = ("providers", provider.name)
    restricted = profile.list_user_settings(
        provider.options_model, in_use.get_settings(provider.name), at
    )
    if not restricted or trust.is_trusted(in_use.place.path, in_use.text.data):
        return
    where = trust.resolve_path(in_use.place.path)
    names = list(dict.fromkeys(f"'{path[-1]}'" for path in restricted))
    changed = "; it has changed since you did" if where in trust.read_trusted() else ""
    message = f"{join_words(names)} count{'s' * (len(names) == 1)} only in a profile that you trust{changed}"
    hint = f"read the file; if you trust it, run: runspec trust {shlex.quote(where)}"
    private = any(profile.is_private(str(part)) for part in restricted[0])
    in_use.text.add_problems([Problem(restricted[0], message, hint, at="key", private=private)])
    raise UntrustedProfile(in_use.text)


def parse_profile(settings: SourceFile) -> profile.Profile:
    """Return the profile in *settings*, which may be empty. Raises InvalidSpec with all problems in it."""
    # A profile whose settings were all deleted or commented out counts as one without settings.
    if [problem.what for problem in settings.diagnostics] == [reader.EMPTY]:
        settings.document, settings.diagnostics = reader.read("{}"), []
    if settings.document is not None:
        parsed, problems = profile.read(settings.document.value)
        settings.add_problems(problems)
        if parsed is not None:
            return parsed
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
        position = f"{named}:" if isinstance(named, str) else "line "
        return (), [
            Problem(where, f"{position}{n}: {message}", hint) for n, message, hint in exc.problems
        ]


def _find_env_file(text: SourceFile, base: Path) -> str | None:
    """Return the absolute path of the file of variables that *text* names, if it names one."""
    value = None if text.document is None else text.document.value
    named = value.get(ENV_FILE) if isinstance(value, dict) else None
    return os.path.realpath(base / named) if isinstance(named, str) and named else None


def _fill_env(text: SourceFile, base: Path) -> SourceFile:
    """Return *text* with the variables of its `env_file` and of the shell. Raises InvalidSpec if one is not there."""
    try:
        return fill_env(text, lambda named: _read_beside(base, named), os.environ)
    except NotOfCheckout as exc:
        problem = Problem((ENV_FILE,), exc.message, "copy it beside the job file")
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or "it is not text"
        problem = Problem((ENV_FILE,), f"the file cannot be read: {reason.lower()}")
    text.add_problems([problem])
    raise InvalidSpec(text)


class NotOfCheckout(UsageError):
    """A job file names a file outside of its checkout."""


def _read_beside(base: Path, named: str) -> str:
    """Return the text of the file *named* in the checkout around *base*; raise NotOfCheckout if it is outside of it."""
    top = paths.find_checkout(base)
    real = (base / named).resolve()
    if not real.is_relative_to(top):
        hint = "copy it beside the job file, or write the requirements here"
        raise NotOfCheckout(f"{named} is a file outside of {top}", hint)
    # Opened folder by folder without links: the checkout may change between the check and the opening.
    with Opener(top) as opener, os.fdopen(opener.open(str(real.relative_to(top))), "rb") as file:
        data = file.read(MAX_REQUIREMENTS_BYTES + 1)
    if len(data) > MAX_REQUIREMENTS_BYTES:
        raise NotOfCheckout(f"{named} is larger than {MAX_REQUIREMENTS_BYTES:,} bytes")
    return data.decode()


def _open_bundles(
    spec: Spec, base: Path, watch: Watch, env_file: str | None
) -> tuple[dict[str, FolderBundle], list[Problem]]:
    bundles, problems = {}, []
    for i, mount in enumerate(spec.mounts):
        if mount.scheme != "file":
            continue
        if mount.url is None:
            problems += _note_link(i, mount.source, base)
        try:
            bundles[mount.name] = open_bundle(mount, base, watch, spec.name, env_file)
            problems += _check_file_target(i, mount, bundles[mount.name])
            problems += _note_fetched(i, bundles[mount.name].fetched)
        except BundleError as exc:
            where = ("mounts", i, "source")
            problems += [Problem(where, message, hint) for message, hint in exc.problems]
    if spec.container.build is not None:
        try:
            bundles[CONTEXT] = open_context(spec.container.build, base, watch, env_file)
        except BundleError as exc:
            at = ("container", "build", "context")
            problems += [Problem(at, message, hint) for message, hint in exc.problems]
    return bundles, problems


def open_context(
    build: Build, base: Path, watch: Watch, env_file: str | None = None
) -> FolderBundle:
    """Read and hash the context of *build*, in which *env_file* is no secret that would have to be refused.

    Raises BundleError if it has no Containerfile, or has files that must not be part of an image.
    """
    folder = base / Path(build.context).expanduser()
    names = (build.file,) if build.file else RECIPES
    recipe = next((name for name in names if (folder / name).is_file()), None)
    if recipe is None and folder.is_dir():
        missing = " or ".join(names)
        raise BundleError([(f"{build.context} has no {missing}", "write it, or set file")])
    progress = watch(f"read {build.context}")
    return bundle(folder, progress=progress, recipe=recipe or names[0], env_file=env_file)


def _note_fetched(i: int, files: Sequence[str]) -> list[Problem]:
    """Return a note if files are left out that the user may have fetched for this job."""
    if not files:
        return []
    message = "a file that runspec fetch wrote is left out"
    if len(files) > 1:
        message = f"{len(files):,} files that runspec fetch wrote are left out"
    top = min(files).split("/")[0]
    hint = f"if the job needs them, write !/{top} into {IGNORE}; plan --files lists them"
    return [
        Problem(("mounts", i, "source"), f"{message}, such as {min(files)}", hint, severity="note")
    ]


def _note_link(i: int, source: str, base: Path) -> list[Problem]:
    """Return a note if the source of a mount is a link to a folder outside of the checkout."""
    if source.startswith(("/", "~")):
        return []
    written = os.path.normpath(base.resolve() / source)
    real = os.path.realpath(base / source)
    if real == written or Path(real).is_relative_to(paths.find_checkout(base)):
        return []
    message = f"{source} is a link to {real}, which is uploaded"
    return [Problem(("mounts", i, "source"), message, severity="note")]


def _check_file_target(i: int, mount: Mount, bundle: FolderBundle) -> Iterator[Problem]:
    """Yield problems of the target of a file, which is the path of the file itself."""
    if not bundle.is_file:
        return
    at, name = ("mounts", i, "target"), Path(mount.source).name
    if mount.target.count("/") == 1:
        message = f"{mount.source} is a file, and {mount.target} is not in a folder"
        yield Problem(at, message, f"write target: /job{mount.target}")
    elif "." in name.strip(".") and "." not in mount.target.rpartition("/")[2]:
        message = f"{mount.source} is a file, and {mount.target} will be its path in the job"
        hint = f"if that is to be its folder, write target: {mount.target}/{name}"
        yield Problem(at, message, hint, severity="note")


def open_bundle(
    mount: Mount, base: Path, watch: Watch, spec: str = "", env_file: str | None = None
) -> FolderBundle:
    """Read and hash the folder or file at the source of *mount*, for the spec called *spec* with its *env_file*.

    Raises BundleError if it is neither, or contains files that must not be uploaded.
    """
    if mount.url is not None and mount.sha256 is not None:
        from runspec_jobs.state.downloads import download  # imports ssl, which is slow

        try:
            path = download(mount.url, mount.sha256, watch(f"download {mount.url}"))
        except UsageError as exc:
            raise BundleError([(exc.message, exc.hint)]) from exc
        return bundle_file(path, mount.target.rpartition("/")[2], watch(f"read {mount.url}"))
    path, progress = base / Path(mount.source).expanduser(), watch(f"read {mount.source}")
    if path.is_file():
        return bundle_file(path, mount.target.rpartition("/")[2], progress)
    return bundle(path, spec=spec, progress=progress, env_file=env_file)
