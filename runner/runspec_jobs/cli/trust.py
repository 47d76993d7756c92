"""`runspec trust`: adds profiles in checkouts to the trusted ones, removes and lists them."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import plain
from runspec_jobs.errors import OK, RunspecError, UsageError
from runspec_jobs.load import inputs, profile, registry, source, trust
from runspec_jobs.provider import paths


def trust_(args: Namespace) -> int:
    if args.list:
        return _list(args)
    path = _meant(args)
    if args.remove:
        if not trust.remove(path):
            raise UsageError(f"{path} was not trusted", "see runspec trust --list")
        return _print_result(args, path, f"{path} is no longer trusted")
    text = source.read_file(path)
    found = inputs.profile_in(text)
    trust.add(path, text.data)
    lets = "; ".join(f"{name}: {', '.join(names)}" for name, names in _sets(found).items())
    effect = f"it may set {lets}" if lets else "it has no settings that require trust"
    return _print_result(args, path, f"{trust.place(path)} is trusted until it changes; {effect}")


def _meant(args: Namespace) -> Path:
    """Return the file on the command line, or the profile that applies in this folder."""
    if args.file is not None:
        return Path(args.file)
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


def _list(args: Namespace) -> int:
    rows = [{"file": name, "trusted": _same(name)} for name in sorted(trust.trusted())]
    if args.json:
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


def _print_result(args: Namespace, path: Path, text: str) -> int:
    if args.json:
        output.out_json({"file": trust.place(path), "trusted": not args.remove})
    else:
        output.tell(text)
    return OK
