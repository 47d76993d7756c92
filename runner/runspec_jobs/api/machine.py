"""What is installed on this machine, whether it works, the first files of a project, and errors of any file."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs import manual
from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.diagnostics.render import locate_problems
from runspec_jobs.errors import Conflict, FileFailed, Lacking, RunspecError, Unavailable, UsageError
from runspec_jobs.first import dependencies, text
from runspec_jobs.first.program import (
    Program as Program,
    get_top_folder as get_top_folder,
    is_program as is_program,
    read_program as read_program,
)
from runspec_jobs.load import inputs, registry, source, trust
from runspec_jobs.load.registry import translate_import_errors as translate_import_errors
from runspec_jobs.load.source import InvalidSpec, SourceFile
from runspec_jobs.manual import TEXTS as TEXTS, Entry as Entry, Page as Page
from runspec_jobs.provider import (
    Finding as Finding,
    Options,
    SupportsDoctor,
    SupportsNodeDoctor,
    SupportsProfileTemplate,
    paths,
)
from runspec_jobs.spec import validate
from runspec_jobs.spec.types import NAME
from runspec_jobs.state import atomic_io

HERE = "local"  # the provider that needs no account
USUAL = ("job", "runspec")  # names of files that say nothing about a job
LONGEST_NAME = 40


class FirstFiles(NamedTuple):
    """The files that `write_first` wrote. *profile* is None if the provider needs none, or if one is there.

    *kept* says that the spec was there before, so that only the profile was written. *missing* is the text of settings
    that the profile at *existing*, which was there, should have.
    """

    spec: Path
    schema: Path
    profile: Path | None
    existing: Path | None
    missing: str | None
    needs_profile: bool
    kept: bool = False


class Installed(NamedTuple):
    """A provider, the package that it comes from, and the reason if it does not work."""

    name: str
    package: str
    works: bool
    why: str


class About(NamedTuple):
    """A finding about the profile or a provider; *invalid* are the files with the problems that it mentions.

    One that is not *checked* only says that the provider is not in use.
    """

    about: str
    finding: Finding
    invalid: Sequence[SourceFile] = ()
    checked: bool = True


def write_first(path: Path, provider: str, program: Program | None = None) -> FirstFiles:
    """Write a first spec, its JSON Schema beside it and, if the provider needs one, a profile, which is trusted.

    The spec runs *program*, or greets if there is none.

    A spec that exists is kept if the profile has no settings of the provider; otherwise, Conflict is raised. Raises
    Unavailable if there is no such provider, and UsageError if a file cannot be written.
    """
    if provider not in [*registry.list_installed(), *registry.EXPECTED]:
        raise Unavailable(*registry.explain_missing(provider))
    schema = path.parent / ".runspec" / "job.schema.json"
    first = _get_profile_template(provider)
    there = paths.find_profile(path.parent)
    kept = (
        path.exists() and first is not None and not (there and _has_settings(there.path, provider))
    )
    if not kept:
        _write_spec(path, _make_text(path, provider, f".runspec/{schema.name}", program), program)
    # Always anew: an upgrade brings new fields, and an editor should know them.
    _write_schema(schema)
    made, missing, existing = None, None, None
    if first is not None and there is None:
        made = _write_profile(path.parent / paths.PROFILE, first)
    elif first is not None and there is not None and not _has_settings(there.path, provider):
        missing, existing = first.rstrip("\n"), there.path
    return FirstFiles(path, schema, made, existing, missing, first is not None, kept)


def _make_text(path: Path, provider: str, schema: str, program: Program | None) -> str:
    name = propose_name(path)
    if program is None:
        return text.write_text(name, provider, schema)
    beside = (program.folder / program.path).parent
    folder = beside if (beside / dependencies.REQUIREMENTS).is_file() else program.folder
    needed = dependencies.find_requirements(folder, program.imports)
    if needed.source == dependencies.REQUIREMENTS:
        needed = needed._replace(words=_point_at(folder / dependencies.REQUIREMENTS, path.parent))
    has_gpu = provider != HERE or shutil.which("nvidia-smi") is not None
    source = _point_at(program.folder, path.parent)
    source = source if source.startswith(".") else f"./{source}"
    return text.write_program_text(name, provider, schema, program, needed, source, has_gpu=has_gpu)


def _point_at(target: Path, start: Path) -> str:
    """Return how a spec in the folder *start* names *target*."""
    return Path(os.path.relpath(target, start)).as_posix()


def _write_spec(path: Path, content: str, program: Program | None) -> None:
    """Write a first spec. Raises Conflict if it exists."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError as exc:
        of_program = f"{shlex.quote(program.path)} --to " if program else ""
        again = f"name another file: runspec init {of_program}FILE"
        raise Conflict(f"{path} already exists", again) from exc
    except OSError as exc:
        raise UsageError(f"cannot write {path}: {(exc.strerror or str(exc)).lower()}") from exc


def propose_name(path: Path) -> str:
    """Return the name of the job in a first spec: that of the file, or of its folder if the file has a usual name.

    Names are shared by all folders of a machine, so the usual names of files are no names of jobs.

    >>> propose_name(Path("/home/me/My Model v2/job.yaml")), propose_name(Path("/home/me/lenet.job.yaml"))
    ('my-model-v2', 'lenet')
    """
    stem = path.name.split(".")[0]
    folder = Path(os.path.abspath(path)).parent.name
    return ("" if stem in USUAL else _make_legal_name(stem)) or _make_legal_name(folder) or "job"


def _make_legal_name(text: str) -> str:
    """Return *text* as the name of a spec; nothing if nothing of it can be in a name.

    >>> _make_legal_name("Übung_3"), _make_legal_name("3D U-Net"), _make_legal_name("_")
    ('ubung-3', 'job-3d-u-net', '')
    """
    # NFKD separates accents from letters, and what is not ASCII is then dropped.
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    name = (f"job-{name}" if name[:1].isdigit() else name)[:LONGEST_NAME].rstrip("-")
    return name if re.fullmatch(NAME, name) else ""


def _write_schema(path: Path) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        with atomic_io.replace_atomically(path) as written:
            written.write(make_job_schema().encode())
    except OSError as exc:
        raise UsageError(f"cannot write {path}: {(exc.strerror or str(exc)).lower()}") from exc


def _write_profile(path: Path, text: str) -> Path:
    """Write a first profile, mark it as trusted, and return its path."""
    data = text.encode()
    try:
        with path.open("xb") as new:
            new.write(data)
    except OSError as exc:
        raise UsageError(f"cannot write {path}: {(exc.strerror or str(exc)).lower()}") from exc
    # This process wrote it from the template, so nobody has to read it before it counts.
    trust.add(path, data)
    return path


def _get_profile_template(name: str) -> str | None:
    """Return the profile template of a provider that needs a profile, else None."""
    provider = registry.load(name) if name in registry.list_installed() else None
    return provider.first_profile() if isinstance(provider, SupportsProfileTemplate) else None


def _has_settings(path: Path, name: str) -> bool:
    """Return whether the profile at *path* has settings of *name*, or is invalid, which `plan` reports."""
    try:
        return name in inputs.parse_profile(source.read_file(path)).providers
    except (RunspecError, InvalidSpec):
        return True


def _load_options_models() -> dict[str, type[Options]]:
    """Return the options models of the providers that are part of runspec itself."""
    distributions = {"runspec-jobs"}
    points = registry.list_installed().items()
    return {
        name: registry.load(name).options_model
        for name, point in points
        if point.dist is not None and point.dist.name in distributions
    }


def make_job_schema() -> str:
    """Return the JSON Schema of specs, as text."""
    from runspec_jobs.plan import schema

    return json.dumps(schema.make_job_schema(_load_options_models()), indent=2) + "\n"


def make_reference() -> str:
    """Return the reference of all fields of specs and profiles, as Markdown."""
    from runspec_jobs.plan import schema

    return schema.format_reference(schema.make_full_schema(_load_options_models()))


def list_providers() -> list[Installed]:
    """Return the providers that are installed."""
    return [
        _describe_installed(name, registry.describe_package(point))
        for name, point in registry.list_installed().items()
    ]


def _describe_installed(name: str, package: str) -> Installed:
    try:
        registry.load(name)
    except RunspecError as exc:
        return Installed(name, package, False, exc.message)
    return Installed(name, package, True, "")


def list_absent() -> list[str]:
    """Return the names of providers that runspec expects and that are not installed."""
    return [name for name in registry.EXPECTED if name not in registry.list_installed()]


def explain(asked: str) -> list[Entry]:
    """Return what the pages say about an exit code, a state, a term, a field of a spec, or the words of a message.

    Raises UsageError if they say nothing about it.
    """
    rows = manual.find(asked)
    if not rows:
        takes = "name an exit code, a state, a term, a field of a spec, or words of a message"
        places = ", ".join(f"runspec docs {page}" for page in manual.find_pages(asked)[:3])
        hint = f"pages with these words: {places}" if places else ""
        raise UsageError(
            f"nothing explains '{asked}'",
            hint or did_you_mean(asked, manual.list_known()) or takes,
        )
    return rows


def list_pages() -> list[Page]:
    """Return the pages of the documentation, in the order of its index."""
    return manual.list_pages()


def read_page(asked: str) -> str:
    """Return a page, or a section of it: `profile`, `profile#trust`, `docs/profile.md#trust`.

    Raises UsageError if there is no such page or section.
    """
    path, _, anchor = asked.partition("#")
    name = path.removeprefix("docs/").removesuffix(".md")
    known = manual.list_page_names()
    if name not in known:
        raise UsageError(
            f"there is no page '{name}'", did_you_mean(name, known) or "runspec docs --list"
        )
    text = manual.read_page(name)
    if not anchor:
        return text
    section = manual.cut_section(text, anchor)
    if section is None:
        hint = did_you_mean(anchor, manual.list_anchors(text)) or f"runspec docs {name}"
        raise UsageError(f"the page '{name}' has no section '{anchor}'", hint)
    return section


def list_findings(provider: str | None = None, *, node: bool = False) -> Iterator[About]:
    """Check the profile and *provider*, and yield each finding as soon as it is made.

    Without *provider*, `local` is checked, and those of which the profile has settings; the others are only named. With
    *node*, the provider is checked from a node too, if nothing that was found before stops a job.
    """
    yield from _check_profile()
    used = [provider] if provider else _list_in_use()
    for name in used:
        try:
            with registry.translate_import_errors():
                for finding in _examine(name, node=node):
                    # One at a time, because a check of a service takes seconds.
                    yield About(name, finding)
        except Lacking as exc:
            yield About(name, Finding(exc.message, False, exc.hint))
    if provider is None:
        for name in [name for name in registry.list_installed() if name not in used]:
            message = "not checked, because no profile has settings of it"
            yield About(name, Finding(message, True), checked=False)


def _list_in_use() -> list[str]:
    """Return `local` and the providers of the profile; all providers if it cannot be read, which is a finding."""
    known = list(registry.list_installed())
    try:
        named = inputs.read_profile_in_use(Path.cwd()).profile.providers
    except RunspecError:
        return known
    return [name for name in known if name == HERE or name in named]


def _check_profile() -> list[About]:
    location = paths.find_profile(Path.cwd())
    if location is None:
        none = "none found (runspec init --provider NAME writes one)"
        return [About("profile", Finding(none, True))]
    try:
        inputs.read_profile_in_use(Path.cwd())
    except InvalidSpec as exc:
        bad = Finding(f"{location.path} is invalid", False, "see the errors above")
        return [About("profile", bad, exc.texts)]
    except RunspecError as exc:
        return [About("profile", Finding(exc.message, False, exc.hint))]
    return [About("profile", Finding(f"{location.path} can be read", True))]


def _examine(name: str, *, node: bool) -> Iterable[Finding]:
    provider = registry.load(name)
    if not isinstance(provider, SupportsDoctor):
        return [Finding("this provider has no checks", True)]
    in_use = inputs.read_profile_in_use(Path.cwd())
    text, at = in_use.text, ("providers", name)
    options, problems = validate.parse_model(provider.options_model, in_use.get_settings(name), at)
    if examples := inputs.find_examples(in_use, provider):
        options, problems = None, [*problems, *examples]
    if options is not None:
        # Before the first request: an untrusted profile may name a host of somebody else.
        inputs.demand_trust(in_use, provider)
        return _look_at(provider, options, node=node)
    assert text is not None and text.document is not None, (
        "BUG: settings that no file has are wrong"
    )
    diagnostics = locate_problems(text.name, text.document, problems)
    return [
        Finding(f"{c.file}:{c.line}:{c.column}: {c.path}: {c.what}", False, c.hint)
        for c in diagnostics
    ]


def _look_at(provider: SupportsDoctor, options: Options, *, node: bool) -> Iterator[Finding]:
    """Yield the findings of a provider; with *node*, those from a node too, if nothing stops a job before."""
    well = True
    for finding in provider.examine(options):
        well = well and finding.ok
        yield finding
    if not node:
        return
    if not isinstance(provider, SupportsNodeDoctor):
        yield Finding("this provider has no checks from a node", True)
    elif not well:
        yield Finding("the check from a node was skipped: fix the problems above first", False)
    else:
        yield from provider.examine_node(options)


def make_file_error(exc: OSError) -> FileFailed:
    """Return the error of the user for *exc*, which names a file and which no other module has put into words."""
    return atomic_io.make_error(exc, Path(os.fsdecode(exc.filename)), "use")
