"""Makes what an account lacks before its first job, writes the profile that names it, and undoes both."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.accounts import profile_text, setup_engine, setup_record
from runspec_jobs.accounts.setup_engine import NamedProvider
from runspec_jobs.accounts.setup_record import SetupRecord
from runspec_jobs.document import reader
from runspec_jobs.engine import end
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.errors import Conflict, Unavailable, UsageError
from runspec_jobs.load import inputs, registry, trust
from runspec_jobs.load.inputs import ProfileInUse
from runspec_jobs.plan import model
from runspec_jobs.provider import (
    Options,
    SetupClient,
    SupportsProfileTemplate,
    SupportsSetup,
    paths,
)
from runspec_jobs.spec import validate
from runspec_jobs.state import atomic_io, run_record

PLACE = ("region", "location")  # where a setup is; without these, its repetition could be elsewhere


class SetupStep(NamedTuple):
    """One thing that a setup makes, and whether it is there already."""

    title: str
    exists: bool


class Preview(NamedTuple):
    """What a setup would make at *place*, what that costs, and what else to know of the account."""

    provider: str
    place: str
    steps: Sequence[SetupStep]
    costs: Sequence[str]
    notes: Sequence[str]

    @property
    def missing(self) -> int:
        """The number of steps whose resources do not exist yet."""
        return sum(not step.exists for step in self.steps)


class Made(NamedTuple):
    """The *settings* of a setup, and the profile with them; *text* is what could not be written into it.

    *notes* are those on the account that were not in the preview.
    """

    preview: Preview
    settings: Mapping[str, Any]
    profile: Path
    trusted: bool
    text: str = ""
    notes: Sequence[str] = ()


class Undone(NamedTuple):
    """What was deleted, by the titles of steps, and the profile if it was deleted, too."""

    deleted: Sequence[str]
    profile: Path | None


def set_up(
    name: str,
    settings: Sequence[str],
    confirm: Callable[[Preview], None],
    reporter: Reporter,
) -> Made:
    """Make what the account of the provider *name* lacks, write its profile, and trust that.

    *settings* are `NAME=VALUE`; those of the profile in this folder come after them. *confirm* is called before
    anything is made, and may raise an error. Calling it again continues, or makes what was deleted since.
    """
    provider = load_provider(name)
    in_use = _read_profile(provider)
    options = read_options(provider, in_use, settings)
    survey = provider.survey_account(options)
    with setup_record.lock(reporter.wait):
        planned = setup_engine.prepare(provider, options, survey, run_record.make_token())
        rows = [
            SetupStep(step.title, exists)
            for step, exists in zip(planned.plan.steps, planned.exists, strict=True)
        ]
        setup = planned.setup
        preview = Preview(name, setup.place, rows, setup.costs, setup.notes)
        confirm(preview)
        record, answers = setup_engine.make(planned, reporter)
        filled = setup_record.fill_settings(record.about["settings"], answers)
        # It may have been edited meanwhile: the question waits for a person, and services take minutes.
        fresh = _read_profile(provider)
        made = _write_profile(
            record, preview, fresh, filled, seen=_read_data(fresh) == _read_data(in_use)
        )
    if preview.missing:  # what was made may have quotas of its own
        after = provider.plan_setup(options, provider.survey_account(options), record.name)
        return made._replace(notes=tuple(n for n in after.notes if n not in preview.notes))
    return made


def _read_profile(provider: NamedProvider) -> ProfileInUse:
    """Return the profile in use; one that is still as `runspec init` wrote it counts as empty, and is replaced."""
    in_use = inputs.read_profile_in_use(Path.cwd())
    if in_use.text is None or not isinstance(provider, SupportsProfileTemplate):
        return in_use
    is_first = in_use.text.data == provider.first_profile().encode()
    return ProfileInUse(place=in_use.place) if is_first else in_use


def _read_data(in_use: ProfileInUse) -> bytes | None:
    return None if in_use.text is None else in_use.text.data


def make_policy(name: str, settings: Sequence[str]) -> Mapping[str, Any]:
    """Return the least permissions of whoever sets up an account of the provider *name*, and undoes that."""
    provider = load_provider(name)
    in_use = inputs.read_profile_in_use(Path.cwd())
    return provider.setup_policy(read_options(provider, in_use, settings))


def export(name: str, settings: Sequence[str], path: Path) -> Sequence[str]:
    """Write what a setup would make to *path*, as a file of the service's own tool, and return how to use it.

    The account is only read. Raises Conflict if the file exists.
    """
    provider = load_provider(name)
    options = read_options(provider, inputs.read_profile_in_use(Path.cwd()), settings)
    setup = setup_engine.make_plan(
        provider, options, provider.survey_account(options), model.PREVIEW
    )[1]
    exported = provider.export_setup(setup)
    (content,) = exported.files.values()
    with atomic_io.translate_os_errors(path):
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(content)
        except FileExistsError as exc:
            raise Conflict(f"{path} already exists", "name another file") from exc
    return [_fill_note(note, path, settings) for note in exported.notes]


def _fill_note(note: str, path: Path, settings: Sequence[str]) -> str:
    """Return *note* with what was told: a setup with other settings would look for things with other names."""
    words = (f" --set {shlex.quote(setting)}" for setting in settings)
    told = "".join(word for word in words if f"{word} " not in note)
    return note.replace("FILE", shlex.quote(str(path))).replace(" SETTINGS", told)


def load_provider(name: str) -> NamedProvider:
    """Return the provider *name*. Raises Unavailable if it has nothing to set up."""
    provider = registry.load(name)
    if not isinstance(provider, SupportsSetup):
        able = [one for one in registry.list_installed() if is_able(one)]
        raise Unavailable(
            f"'{name}' has nothing to set up", f"providers that have: {', '.join(able)}"
        )
    return cast(NamedProvider, provider)


def is_able(name: str) -> bool:
    """Return whether the provider *name* is installed and can set up an account."""
    try:
        return isinstance(registry.load(name), SupportsSetup)
    except Unavailable:
        return False


def read_options(provider: NamedProvider, in_use: ProfileInUse, settings: Sequence[str]) -> Options:
    """Return the options of a setup. Raises UsageError with every problem, and UntrustedProfile."""
    of_runs = registry.load(provider.name)
    if examples := inputs.find_examples(in_use, of_runs):
        names = ", ".join(str(problem.path[-1]) for problem in examples)
        message = f"{in_use.path} still has the examples of runspec init: {names}"
        raise UsageError(message, f"delete the block '{provider.name}': setup writes it")
    inputs.demand_trust(in_use, of_runs)
    told = dict(_read_setting(setting) for setting in settings)
    values = {**_read_own_settings(provider.name, in_use.get_settings(provider.name)), **told}
    options, problems = validate.parse_model(provider.setup_model, values)
    if options is None:
        texts = [f"{'.'.join(map(str, p.path))}: {p.what}" for p in problems]
        hints = dict.fromkeys(p.hint for p in problems if p.hint)
        raise UsageError("; ".join(texts), "; ".join(hints) or None)
    return options


def _read_own_settings(name: str, of_profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the profile without those that a setup wrote, and what that setup was told instead.

    Otherwise a setup that is repeated would take what it has made for resources of the user.
    """
    for record in reversed(setup_record.list_kept(name)):
        answers = record.read_memory().answers
        if any(step.id not in answers for step in record.plan.steps):
            continue
        about = record.about
        made = setup_record.fill_settings(about["settings"], answers)
        if all(of_profile.get(key) == value for key, value in made.items()):
            others = {key: value for key, value in of_profile.items() if key not in made}
            return {
                **others,
                **{key: made[key] for key in PLACE if key in made},
                **about["options"],
            }
    return dict(of_profile)


def _read_setting(setting: str) -> tuple[str, Any]:
    name, equals, value = setting.partition("=")
    if not equals or not name:
        raise UsageError(
            f"--set {setting}: this is not NAME=VALUE", "such as --set region=eu-west-1"
        )
    try:
        return name, reader.read(value.encode()).value
    except reader.YamlError as exc:
        raise UsageError(f"--set {setting}: the value cannot be read") from exc


def _write_profile(
    record: SetupRecord,
    preview: Preview,
    in_use: ProfileInUse,
    settings: Mapping[str, Any],
    *,
    seen: bool,
) -> Made:
    """Write what the profile lacks of *settings*; a profile that somebody else wrote gets no trust by that.

    *seen* says that its trust was checked as it is.
    """
    path = in_use.path or Path(paths.PROFILE)
    known = in_use.get_settings(preview.provider)
    missing = {name: value for name, value in settings.items() if name not in known}
    old = "" if in_use.text is None else in_use.text.data.decode()
    own = in_use.place is not None and in_use.place.own
    if not missing:
        return Made(preview, settings, path, _is_trusted(path, old, own=own))
    text = profile_text.add_settings(old, preview.provider, missing)
    if text is None:
        lines = profile_text.add_settings("", preview.provider, missing) or ""
        return Made(preview, settings, path, _is_trusted(path, old, own=own), lines)
    alone = seen and _has_no_other(in_use, preview)
    trusted = own or not old or _is_trusted(path, old, own=own) or alone
    data = (HEADER + text if not old else text).encode()
    if trusted and not own:  # before it is written: a process that is killed here is repeated
        trust.add(path, data)
    if not old:
        record.note_profile(path.absolute(), trust.digest(data))
    with atomic_io.translate_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_io.replace_atomically(path) as written:
            written.write(data)
    return Made(preview, settings, path, trusted)


HEADER = "# Settings of your account for each provider, which runspec setup wrote. Job files do not contain them.\n"


def _is_trusted(path: Path, text: str, *, own: bool) -> bool:
    return own or trust.is_trusted(path, text.encode())


def _has_no_other(in_use: ProfileInUse, preview: Preview) -> bool:
    """Return whether nothing in the profile needs trust but the settings of the provider that were set up now."""
    return not (in_use.profile.providers.keys() - {preview.provider})


def undo(
    name: str,
    settings: Sequence[str],
    confirm: Callable[[Sequence[str]], None],
    reporter: Reporter,
    *,
    with_data: bool = False,
) -> Undone:
    """Delete what setups of the provider *name* have made, and the profile unless it has changed since.

    *settings* with which a setup was made choose it, if there are several. Raises Conflict, before anything is deleted,
    if runs of this machine or of another one need it, and for what holds the data of users, unless *with_data* says to
    delete that as well. What was there before a setup stays.
    """
    provider = load_provider(name)
    with setup_record.lock(reporter.wait):
        records = _choose(name, [_read_setting(setting) for setting in settings])
        _refuse_needed(name)
        titles = [
            title
            for record in reversed(records)
            for title in reversed(setup_engine.list_made(record))
        ]
        clients = [_connect(provider, record) for record in records]
        together = [record.name for record in records]
        conflicts = [
            conflict
            for record, client in zip(records, clients, strict=True)
            for conflict in setup_engine.check_undo(record, client, together, with_data=with_data)
        ]
        setup_engine.refuse(conflicts)
        confirm(titles)
        kept: list[Conflict] = []
        for record, client in reversed([*zip(records, clients, strict=True)]):
            kept += setup_engine.undo(record, client, reporter, with_data=with_data)
        setup_engine.refuse(kept)
        # Before it is noted that they are deleted: after that, nobody would look for the profile again.
        removed = [path for record in records if (path := _remove_profile(record))]
        for record in records:
            setup_engine.note_deleted(record)
    return Undone(titles, removed[0] if removed else None)


def _connect(provider: NamedProvider, record: SetupRecord) -> SetupClient:
    about = record.about
    options = provider.setup_model.model_validate(about["options"])
    return provider.connect_setup(options, about["survey"], record.name)


def _choose(name: str, told: Sequence[tuple[str, Any]]) -> list[SetupRecord]:
    """Return the records of one place. Raises UsageError if there is none, or more than one."""
    records = setup_record.list_kept(name)
    for key, value in told:
        records = [
            record
            for record in records
            if value in (record.about["options"].get(key), record.about["survey"].get(key))
        ]
    if not records:
        hint = f"runspec setup {name} shows what the account has; --undo needs the machine that made it"
        raise UsageError(f"no setup of {name} is on record on this machine", hint)
    places = {record.about["place"] for record in records}
    if len(places) > 1:
        raise UsageError(
            f"there are setups in several places: {'; '.join(sorted(places))}",
            "choose one by a setting, such as --set region=eu-west-1",
        )
    return records


def _refuse_needed(name: str) -> None:
    """Raise Conflict if runs, or what they share, need what a setup has made."""
    alive = [
        record
        for record in run_record.list_all()
        if not run_record.find_damage(record)
        and record.plan.provider == name
        and not record.read_memory().deleted
    ]
    if alive:
        hint = "destroy them, and what they share: " + "; ".join(
            [*(f"runspec destroy {record.run}" for record in alive[:3]), "runspec destroy --shared"]
        )
        runs = "1 run needs" if len(alive) == 1 else f"{len(alive)} runs need"
        raise Conflict(f"{runs} what setup made", hint)
    shared = [
        step
        for record, steps in end.list_shared_steps()
        for step in steps
        if record.plan.provider == name
    ]
    if shared:
        left = "a shared resource that needs" if len(shared) == 1 else "shared resources that need"
        message = f"runs have left {left} what setup made"
        raise Conflict(message, "delete these first: runspec destroy --shared")


def _remove_profile(record: SetupRecord) -> Path | None:
    """Delete the profile that a setup wrote, if nobody has changed it, and return its path."""
    written = record.read_profile()
    if written is None:
        return None
    path, digest = written
    try:
        if trust.digest(path.read_bytes()) != digest:
            return None
        trust.remove(path)
        path.unlink()
    except OSError:  # the user has deleted the profile
        return None
    return path
