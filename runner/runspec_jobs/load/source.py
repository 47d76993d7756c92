"""Reads files and checks them as specs, and collects every problem for the user."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runspec_jobs.diagnostics import peer_words
from runspec_jobs.diagnostics.problem import Path as Path_, Problem
from runspec_jobs.diagnostics.render import (
    Diagnostic,
    Format,
    locate_flaws,
    locate_in_option,
    locate_problems,
    render,
)
from runspec_jobs.document import reader
from runspec_jobs.document.nodes import NOWHERE, Document, Map, Value
from runspec_jobs.errors import RunspecError, Unavailable, Untrusted, UsageError
from runspec_jobs.load import env_secrets, profile, registry
from runspec_jobs.load.notes import command, foreign_settings, unmounted
from runspec_jobs.provider import (
    Facts,
    Provider,
    Spec,
    SupportsAccessHints,
    SupportsConda,
    SupportsServiceRanks,
)
from runspec_jobs.spec import validate
from runspec_jobs.spec.chain_rules import with_copies
from runspec_jobs.spec.scaling import list_sizes


@dataclass
class SourceFile:
    """The content of a file, and the problems found in it so far.

    *changed* is the content after overrides, if there were any, and *origins* has the option that set each path.
    """

    name: str
    data: bytes
    document: Document | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    changed: bytes | None = None
    origins: Mapping[Path_, str] = field(default_factory=dict)

    @property
    def lines(self) -> str:
        return self.data.decode("utf-8", "replace")

    @property
    def applied(self) -> bytes:
        """The content as a run keeps it: after overrides."""
        return self.data if self.changed is None else self.changed

    @property
    def failed(self) -> bool:
        return any(c.severity == "error" for c in self.diagnostics)

    @property
    def lacks_provider(self) -> bool:
        """Whether the only error is that the provider is not installed."""
        wrong = [c for c in self.diagnostics if c.severity == "error"]
        return all(c.path == "provider" and c.what.endswith("is not installed") for c in wrong)

    def add_problems(self, problems: Iterable[Problem]) -> None:
        assert self.document is not None, "BUG: a text that could not be parsed was checked"
        all_problems = list(problems)
        of_options = [
            (problem, option) for problem in all_problems if (option := self._find_option(problem))
        ]
        self.diagnostics += [locate_in_option(option, problem) for problem, option in of_options]
        others = [problem for problem in all_problems if not self._find_option(problem)]
        self.diagnostics += locate_problems(self.name, self.document, others)

    def _find_option(self, problem: Problem) -> str | None:
        """Return the option that set what *problem* is about, or made the mapping that contains it, if one did."""
        paths = [problem.path[:length] for length in range(len(problem.path), 0, -1)]
        if option := next((self.origins[path] for path in paths if path in self.origins), None):
            return option
        for made in (path for path in paths if self._is_made(path)):
            within = (text for path, text in self.origins.items() if path[: len(made)] == made)
            if option := next(within, None):
                return option
        return None

    def _is_made(self, path: Path_) -> bool:
        """Return whether *path* is a mapping that an option made: it has no place in the file."""
        here: Value | None = self.document.value if self.document else None
        for part in path:
            here = here.get(str(part)) if isinstance(here, dict) else None
        return isinstance(here, Map) and here.span == NOWHERE


class InvalidSpec(UsageError):
    """Some files have errors, in the `diagnostics` of each of *texts*; its *exit_code* is that of UsageError."""

    def __init__(self, *texts: SourceFile) -> None:
        count = sum(len(text.diagnostics) for text in texts)
        super().__init__(f"{count} problem{'s' if count != 1 else ''}")
        self.texts = texts

    def __str__(self) -> str:
        """Return the problems with their places, as the command line shows them."""
        shown = (render(t.diagnostics, Format.TEXT, t.lines) for t in self.texts if t.diagnostics)
        return "\n".join([self.message, *shown])

    def __reduce__(self) -> tuple[type[InvalidSpec], tuple[SourceFile, ...]]:
        return type(self), tuple(self.texts)


class WrongProvider(InvalidSpec):
    """A file names a provider that is not installed."""

    exit_code = Unavailable.exit_code


class UntrustedProfile(InvalidSpec):
    """A profile in a checkout has settings that only the user may set, and the user has not trusted it."""

    exit_code = Untrusted.exit_code


def read(name: str, data: bytes) -> SourceFile:
    """Parse *data*, the content of the file *name*; the result has a document, or the syntax errors."""
    text = SourceFile(name, data)
    try:
        text.document = reader.read(data)
    except reader.YamlError as exc:
        text.diagnostics = locate_flaws(name, exc.flaws)
    if data.startswith(b"#!") and (
        text.document is None or not isinstance(text.document.value, dict)
    ):
        what = "this is a script, and a spec is a YAML file"
        hint = f"runspec import {shlex.quote(name)} --to . reads batch scripts; runspec init writes a first spec"
        text.document, text.diagnostics = None, [locate_in_option(name, Problem((), what, hint))]
    return text


def read_file(path: Path, name: str | None = None) -> SourceFile:
    """Read and parse the file at *path*. Raises UsageError if it cannot be read."""
    try:
        data = read_head(path, reader.TEXT_BYTES + 1)
    except (OSError, ValueError) as exc:  # ValueError is for a path with NUL
        reason = getattr(exc, "strerror", None) or str(exc)
        hint = "runspec init writes a first spec" if isinstance(exc, FileNotFoundError) else None
        raise UsageError(f"cannot read {path}: {reason.lower()}", hint) from exc
    return read(name or str(path), data)


def read_head(path: Path, limit: int) -> bytes:
    """Return the first *limit* bytes of a file, which may be endless, such as /dev/zero.

    It reads in small parts, because each read allocates as many bytes as it asks for.
    """
    with open(path, "rb", buffering=0) as file:
        data = bytearray()
        while part := file.read(min(limit - len(data), 1 << 14)):
            data += part
        return bytes(data)


def validate_text(text: SourceFile) -> tuple[Spec | None, list[Problem]]:
    """Check *text* as a spec without anything else: no profile is read and no service is asked."""
    if text.document is None:
        return None, []
    spec, problems = validate.parse_spec(text.document)
    if spec is None:
        return None, complete(text, problems)
    is_installed = spec.provider in registry.list_installed()
    provider = registry.load(spec.provider) if is_installed else None
    notes = [
        *env_secrets.find_notes(spec),
        *find_written_notes(spec, Path(text.name).parent, provider),
    ]
    if provider is None:
        message, hint = registry.explain_missing(spec.provider)
        # A name that is almost right is a mistake; another one may be a provider of a package that is not
        # installed here.
        if registry.suggest_name(spec.provider):
            return spec, [*notes, Problem(("provider",), message, hint)]
        return spec, [*notes, Problem(("provider",), message, hint, severity="note")]
    options, in_spec, _ = profile.merge_options(
        provider.options_model, spec.provider, spec, profile.EMPTY, complete=False
    )
    if options is None:
        return spec, [*notes, *in_spec]
    facts = Facts(options, complete=False)
    spec, in_choice = choose_gpu_type(provider, spec, facts)
    return spec, [*notes, *in_choice, *check_sizes(provider, spec, facts)]


def complete(text: SourceFile, problems: Sequence[Problem]) -> list[Problem]:
    """Return *problems* of an invalid spec, with those that its provider has with the valid rest of it.

    What is no spec but another tool's file gets a problem before all others, which says what is imported.
    """
    assert text.document is not None, (
        "BUG: a text that could not be parsed has no problems of a spec"
    )
    found = _suggest_provider(text.document, problems)
    rest = validate.find_rest(text.document, problems)
    if rest and (provider := _load_installed(rest.provider)):
        found = [*_suggest_places(provider, problems), *_check_rest(rest, provider, problems)]
    return [*_suggest_import(text), *found]


def _load_installed(name: str) -> Provider | None:
    if name not in registry.list_installed():
        return None
    try:
        return registry.load(name)
    except Unavailable:
        return None


def _suggest_places(provider: Provider, problems: Sequence[Problem]) -> Iterator[Problem]:
    """Yield *problems* with the hint of *provider* for those that say where machines are."""
    places = provider.options_model.places
    for problem in problems:
        key = str(problem.path[-1]) if problem.path else ""
        is_unknown = problem.what.startswith(validate.UNKNOWN) and problem.path[:1] != (
            "providers",
        )
        hint = places if is_unknown and peer_words.is_place(key) else None
        yield problem._replace(hint=hint) if hint else problem


def _check_rest(rest: Spec, provider: Provider, problems: Sequence[Problem]) -> list[Problem]:
    options, in_spec, _ = profile.merge_options(
        provider.options_model, rest.provider, rest, profile.EMPTY, complete=False
    )
    more = in_spec
    if options is not None:
        facts = Facts(options, complete=False)
        more = check_sizes(provider, choose_gpu_type(provider, rest, facts)[0], facts)
    wrong = {problem.path[:1] for problem in problems}
    return [p for p in more if p.severity == "error" and p.path[:1] not in wrong]


def _suggest_import(text: SourceFile) -> Iterator[Problem]:
    value = text.document.value if text.document else None
    if not isinstance(value, dict) or "provider" in value:
        return
    version = value.get("apiVersion")
    if (version or len(value) > 1) and not str(version).startswith("runspec/"):
        what = "this is no spec, which begins with apiVersion: runspec/v1"
        hint = f"runspec import {shlex.quote(text.name)} --to . reads {registry.describe_imports()}"
        yield Problem((), what, hint)


def find_written_notes(spec: Spec, base: Path, provider: Provider | None) -> Iterator[Problem]:
    """Yield notes about the command or script of a spec that lies in the folder *base*."""
    yield from command.find_notes(spec, torch=not isinstance(provider, SupportsServiceRanks))
    yield from unmounted.find_notes(spec, base)


def _suggest_provider(document: Document, problems: Sequence[Problem]) -> list[Problem]:
    """Return *problems* of a spec with the provider that is probably meant, as by `AWS`, `aws_batch` and `locl`."""
    typed = document.value.get("provider") if isinstance(document.value, dict) else None
    if not isinstance(typed, str) or typed in registry.list_installed():
        return list(problems)
    named = typed.lower().replace("_", "-")
    meant = (
        f"did you mean '{named}'?"
        if named in registry.list_installed()
        else registry.suggest_name(named)
    )
    if meant is None:
        return list(problems)
    if all(problem.path != ("provider",) for problem in problems):
        return [*problems, Problem(("provider",), registry.explain_missing(typed)[0], meant)]
    return [
        problem._replace(hint=meant) if problem.path == ("provider",) else problem
        for problem in problems
    ]


def choose_gpu_type(provider: Provider, spec: Spec, facts: Facts) -> tuple[Spec, Sequence[Problem]]:
    """Return *spec* with the first of its types of GPUs that *provider* can give it, and a note if others come first.

    If it can give none, the first type stays, so that the user reads what is wrong with that one.
    """
    kinds = spec.cluster.gpu_types
    if len(kinds) < 2:
        return spec, ()
    refused: list[str] = []
    for kind in kinds:
        chosen = _with_gpu_type(spec, kind)
        errors = [p for p in provider.check(chosen, facts) if p.severity == "error"]
        why = next((p.what for p in errors if p.path[:1] == ("cluster",)), None)
        if why is None:
            what = f"'{kind}' is used: {'; '.join(refused)}"
            note = Problem(("cluster", "gpu_type"), what, severity="note")
            return chosen, [note] if refused else []
        refused.append(why if kind in why else f"{kind}: {why}")
    return _with_gpu_type(spec, kinds[0]), ()


def _with_gpu_type(spec: Spec, kind: str) -> Spec:
    cluster = spec.cluster.model_copy(update={"gpu_types": (kind,)})
    return spec.model_copy(update={"cluster": cluster})


def check_sizes(provider: Provider, spec: Spec, facts: Facts) -> list[Problem]:
    """Return the problems of *spec* on *provider* for all sizes in `scaling`, each problem once."""
    planned = with_copies(spec, facts.sources.keys() - facts.outputs.keys())
    problems = (p for sized in list_sizes(planned) for p in provider.check(sized, facts))
    lost = [
        *foreign_settings.find_lost(spec),
        *_check_conda(provider, spec),
        *_check_ports(provider, spec),
    ]
    return list(dict.fromkeys([*lost, *problems]))


def _check_ports(provider: Provider, spec: Spec) -> Iterator[Problem]:
    if spec.ports and "tunnel" not in list_entries(provider):
        able = [name for name in registry.list_installed() if "tunnel" in list_entries_of(name)]
        message = f"'{provider.name}' has no way to a port of a node"
        yield Problem(("ports",), message, f"remove ports, or use {', '.join(able)}", at="key")


def list_entries(provider: object) -> tuple[str, ...]:
    """Return which of `shell` and `tunnel` a provider supports."""
    return tuple(provider.enters) if isinstance(provider, SupportsAccessHints) else ()


def list_entries_of(name: str) -> tuple[str, ...]:
    """Return which of `shell` and `tunnel` the provider of that name supports; none if it cannot be loaded."""
    try:
        return list_entries(registry.load(name))
    except RunspecError:
        return ()


def _check_conda(provider: Provider, spec: Spec) -> Iterator[Problem]:
    if spec.container.conda and not isinstance(provider, SupportsConda):
        message = f"'{provider.name}' builds no conda environment"
        hint = "use container.requirements, or an image that has the packages"
        yield Problem(("container", "conda"), message, hint, at="key")
