"""`runspec trust`: adds profiles in checkouts to the trusted ones, removes and lists them."""

from __future__ import annotations

from pathlib import Path

from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import plain
from runspec_jobs.errors import OK, RunspecError, UsageError
from runspec_jobs.load import inputs, profile, registry, source, trust
from runspec_jobs.provider import paths


def remove(file: Path | None, *, as_json: bool) -> int:
    """Stop trusting *file*, or the profile that applies in this folder."""
    path = _meant(file)
    if not trust.remove(path):
        raise UsageError(f"{path} was not trusted", "see runspec trust --list")
    text = f"{path} is no longer trusted"
    return _print_result(path, text, trusted=False, as_json=as_json)


def add(file: Path | None, *, as_json: bool) -> int:
    """Trust *file*, or the profile that applies in this folder, until it changes."""
    path = _meant(file)
    text = source.read_file(path)
    found = inputs.profile_in(text)
    trust.add(path, text.data)
    lets = "; ".join(f"{name}: {', '.join(names)}" for name, names in _sets(found).items())
    effect = f"it may set {lets}" if lets else "it has no settings that require trust"
    told = f"{trust.place(path)} is trusted until it changes; {effect}"
    return _print_result(path, told, trusted=True, as_json=as_json)


def _meant(file: Path | None) -> Path:
    """Return *file*, or without one the profile that applies in this folder."""
    if file is not None:
        return file
    place = paths.find_profile(Path.cwd())
    if place is None:
        raise UsageError("there is no profile in this folder", "name one: runspec trust FILE")
    if place.own:
        raise UsageError(f"{place.path} is your own profile, which is always trusted")
    return place.path


def _sets(found: profile.Profile) -> dict[str, list[str]]:
    """Return the settings that require trust, by provider; settings of missing providers are left out."""
    sets = {}
    for name, settings in found.providers.items():
        try:
            kind = registry.load(name).options_model
        except RunspecError:
            continue
        if paths := profile.of_user_alone(kind, settings, ()):
            sets[name] = [".".join(map(str, path)) for path in paths]
    return sets


def list_trusted(*, as_json: bool) -> int:
    rows = [{"file": name, "trusted": _same(name)} for name in sorted(trust.trusted())]
    if as_json:
        output.out_json(rows)
        return OK
    for row in rows:
        output.out(
            f"{plain(str(row['file']))}{'' if row['trusted'] else '  (changed: not trusted)'}"
        )
    return OK


def _same(name: str) -> bool:
    """Return whether the file *name* has the content that was trusted."""
    try:
        return trust.is_trusted(Path(name), source.read_file(Path(name)).data)
    except UsageError:
        return False


def _print_result(path: Path, text: str, *, trusted: bool, as_json: bool) -> int:
    if as_json:
        output.out_json({"file": trust.place(path), "trusted": trusted})
    else:
        output.tell(text)
    return OK
