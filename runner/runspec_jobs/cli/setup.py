"""`runspec setup`, which makes what an account lacks and writes the profile, and `trust` of profiles in checkouts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from runspec_jobs.api import profiles
from runspec_jobs.api.profiles import Made, Preview, Trusted
from runspec_jobs.cli import output
from runspec_jobs.cli.live.progress import ProgressPrinter
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.errors import OK, UsageError
from runspec_jobs.options.setup_verbs import SetupOptions, TrustOptions


def setup(options: SetupOptions) -> int:
    if options.undo:
        return _undo(options)
    if options.export is not None:
        notes = profiles.export_setup(options.provider, options.export, options.settings)
        output.tell(f"wrote {options.export}")
        for note in notes:
            output.tell(note)
        return OK
    made = profiles.set_up(
        options.provider,
        options.settings,
        confirm=lambda preview: _confirm(preview, options),
        on_event=ProgressPrinter(quiet=options.as_json),
    )
    if options.as_json:
        _print_json(made)
        return OK
    for note in made.notes:
        output.tell(f"note: {note}")
    if made.text:
        output.tell(f"{made.profile} has no place for these settings; add them:")
        output.out(made.text.rstrip("\n"))
    elif made.trusted:
        output.tell(f"{made.profile} has the settings of {options.provider}, and is trusted")
    if not made.trusted:
        output.tell(
            f"read {made.profile}, then run: runspec trust {shlex.quote(str(made.profile))}"
        )
    verb = "apply" if Path("job.yaml").exists() else f"init --provider {options.provider}"
    output.tell(f"next: runspec {verb} job.yaml")
    return OK


def _confirm(preview: Preview, options: SetupOptions) -> None:
    """Show what is made, unless as JSON, and ask if anything is missing."""
    if not options.as_json:
        for line in _describe(preview):
            output.out(escape_control(line))
    if not preview.missing or options.yes:
        return
    if not output.at_terminal():
        raise UsageError("not confirmed: nothing was made", "--yes confirms it")
    if not output.agreed(f"make {preview.missing} of these?"):
        raise UsageError("not confirmed: nothing was made")


def _describe(preview: Preview) -> Sequence[str]:
    head = f"{preview.provider}: {preview.place}"
    steps = [f"  {'exists' if step.exists else 'make  '} {step.title}" for step in preview.steps]
    costs = [f"cost: {line}" for line in preview.costs]
    notes = [f"note: {line}" for line in preview.notes]
    return [head, *steps, *costs, *notes]


def _print_json(made: Made) -> None:
    preview = made.preview
    steps = [{"title": step.title, "existed": step.exists} for step in preview.steps]
    fields = {
        "provider": preview.provider,
        "place": preview.place,
        "steps": steps,
        "settings": made.settings,
        "profile": str(made.profile),
        "trusted": made.trusted,
        "costs": list(preview.costs),
        "notes": [*preview.notes, *made.notes],
    }
    output.out_json("runspec.setup/v1", fields)


def _undo(options: SetupOptions) -> int:
    undone = profiles.undo_setup(
        options.provider,
        options.settings,
        with_data=options.with_data,
        confirm=lambda titles: _confirm_undo(titles, options),
        on_event=ProgressPrinter(quiet=options.as_json),
    )
    profile = undone.profile and str(undone.profile)
    if options.as_json:
        fields = {
            "provider": options.provider,
            "deleted": list(undone.deleted),
            "profile": profile,
        }
        output.out_json("runspec.setup-undone/v1", fields)
        return OK
    also = "" if profile is None else f", and {profile}"
    output.tell(f"deleted what setup had made{also}")
    return OK


def _confirm_undo(titles: Sequence[str], options: SetupOptions) -> None:
    if not options.as_json:
        for title in titles:
            output.out(escape_control(f"  delete {title}"))
    if options.yes:
        return
    if not output.at_terminal():
        raise UsageError("not confirmed: nothing was deleted", "--yes confirms it")
    data = ", with what jobs have stored" if options.with_data else ""
    if not output.agreed(f"delete these{data}?"):
        raise UsageError("not confirmed: nothing was deleted")


def trust(options: TrustOptions) -> int:
    """Trust a file, or the profile of this folder, until it changes; or end that trust, or list what is trusted."""
    as_json = options.as_json
    if options.listed:
        return _list_trusted(as_json=as_json)
    if options.remove:
        trusted = profiles.distrust_profile(options.file)
        return _print_trusted(trusted, f"{trusted.file} is no longer trusted", as_json=as_json)
    trusted = profiles.trust_profile(options.file)
    lets = "; ".join(f"{name}: {', '.join(names)}" for name, names in trusted.sets.items())
    effect = f"it may set {lets}" if lets else "it has no settings that require trust"
    return _print_trusted(
        trusted, f"{trusted.file} is trusted until it changes; {effect}", as_json=as_json
    )


def _list_trusted(*, as_json: bool) -> int:
    rows = profiles.list_trusted_profiles()
    if as_json:
        files = [{"file": row.file, "trusted": row.trusted} for row in rows]
        output.out_json("runspec.trusted/v1", {"files": files})
        return OK
    for row in rows:
        output.out(f"{escape_control(row.file)}{'' if row.trusted else '  (changed: not trusted)'}")
    return OK


def _print_trusted(trusted: Trusted, text: str, *, as_json: bool) -> int:
    if as_json:
        output.out_json("runspec.trust/v1", {"file": trusted.file, "trusted": trusted.trusted})
    else:
        output.tell(text)
    return OK
