"""The profile that applies, the profiles in checkouts that the user trusts, prices, and what accounts lack."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.accounts import lifecycle as setups
from runspec_jobs.accounts.lifecycle import Made as Made, Preview as Preview, Undone as Undone
from runspec_jobs.api.events import Events, OnEvent
from runspec_jobs.errors import RunspecError, UsageError
from runspec_jobs.load import inputs, profile, registry, source, trust
from runspec_jobs.load.source import InvalidSpec
from runspec_jobs.machines.price_list import ListedPrices as ListedPrices, PriceList
from runspec_jobs.provider import Options, Provider, SupportsPrices, paths
from runspec_jobs.spec import validate
from runspec_jobs.state import price_cache


class Trusted(NamedTuple):
    """A profile, whether it is trusted, and what it may therefore set: settings by provider."""

    file: str
    trusted: bool
    sets: Mapping[str, Sequence[str]] = {}


def load_configured(name: str, *, examples: bool = False) -> tuple[Provider, Options]:
    """Return the provider of that name, and its options from the profile. Raises UsageError if these are wrong.

    Raises InvalidSpec if values of them are those that `runspec init` wrote as examples, unless *examples* are allowed.
    """
    provider = registry.load(name)
    in_use = inputs.read_profile_in_use(Path.cwd())
    options, problems = validate.parse_model(provider.options_model, in_use.get_settings(name))
    if options is None:
        raise UsageError(f"the profile: {problems[0].what}", problems[0].hint)
    found = [] if examples else inputs.find_examples(in_use, provider)
    if found and in_use.text is not None:
        in_use.text.add_problems(found)
        raise InvalidSpec(in_use.text)
    # Before the caller connects: an untrusted profile may name a host of somebody else.
    inputs.demand_trust(in_use, provider)
    return provider, options


def read_known_prices() -> Mapping[str, ListedPrices]:
    """Return the prices on this machine, by service and region, such as `ec2/eu-west-1`. Sends no request."""
    return dict(sorted(price_cache.read().items()))


def update_prices(on_event: OnEvent | None = None) -> Mapping[str, ListedPrices]:
    """Read the prices of the regions that the profile in this folder names, and return all that are then known.

    A list that cannot be read is told, and the others are kept. Raises UsageError if the profile names no region, and
    the error of the last list if none could be read.
    """
    tell = Events(on_event).wait
    prices: dict[PriceList, ListedPrices] = {}
    failed: dict[PriceList, RunspecError] = {}
    names = [
        n
        for n in inputs.read_profile_in_use(Path.cwd()).profile.providers
        if n in registry.list_installed()
    ]
    for name in names:
        provider, options = load_configured(name, examples=True)  # a price list needs the region
        if not isinstance(provider, SupportsPrices):
            continue
        which = provider.price_list(options)
        if which is None or which in prices:
            continue
        try:
            today = datetime.datetime.now(datetime.UTC).date().isoformat()
            prices[which] = provider.read_prices(options)._replace(date=today)
        except RunspecError as exc:
            failed.setdefault(which, exc)
    # Two providers may use one list, and one of them may have read it.
    failed = {which: why for which, why in failed.items() if which not in prices}
    if not prices and not failed:
        hint = "name one: providers: {aws-batch: {region: eu-west-1}}"
        raise UsageError("the profile names no region whose prices could be read", hint)
    if not prices:
        raise next(iter(failed.values()))
    for which, why in failed.items():
        tell(f"the prices of {which.key} cannot be read: {why.message}")
    price_cache.add(prices)
    return read_known_prices()


def trust_profile(file: Path | None = None) -> Trusted:
    """Trust *file*, or the profile that applies in this folder, until it changes."""
    path = _find_profile(file)
    text = source.read_file(path)
    profile = inputs.parse_profile(text)
    trust.add(path, text.data)
    return Trusted(trust.resolve_path(path), True, _list_trusted_settings(profile))


def distrust_profile(file: Path | None = None) -> Trusted:
    """Stop trusting *file*, or the profile that applies in this folder. Raises UsageError if it was not trusted."""
    path = _find_profile(file)
    if not trust.remove(path):
        raise UsageError(f"{path} was not trusted", "see runspec trust --list")
    return Trusted(trust.resolve_path(path), False)


def list_trusted_profiles() -> list[Trusted]:
    """Return the profiles that were trusted; those that have changed since are no longer."""
    return [Trusted(name, _is_unchanged(name)) for name in sorted(trust.read_trusted())]


def _find_profile(file: Path | None) -> Path:
    """Return *file*, or without one the profile that applies in this folder."""
    if file is not None:
        return file
    location = paths.find_profile(Path.cwd())
    if location is None:
        raise UsageError("there is no profile in this folder", "name one: runspec trust FILE")
    if location.own:
        raise UsageError(f"{location.path} is your own profile, which is always trusted")
    return location.path


def _list_trusted_settings(parsed: profile.Profile) -> dict[str, list[str]]:
    """Return the settings that require trust, by provider; settings of missing providers are left out."""
    sets = {}
    for name, settings in parsed.providers.items():
        try:
            kind = registry.load(name).options_model
        except RunspecError:
            continue
        if marked := profile.list_user_settings(kind, settings, ()):
            sets[name] = [".".join(map(str, path)) for path in marked]
    return sets


def _is_unchanged(name: str) -> bool:
    """Return whether the file *name* has the content that was trusted."""
    try:
        return trust.is_trusted(Path(name), source.read_file(Path(name)).data)
    except UsageError:  # the file was deleted, or is not text
        return False


def supports_setup(provider: str) -> bool:
    """Return whether `set_up` can be used for a provider."""
    return setups.is_able(provider)


def set_up(
    provider: str,
    settings: Sequence[str] = (),
    *,
    confirm: Callable[[Preview], None] = lambda preview: None,
    on_event: OnEvent | None = None,
) -> Made:
    """Make what the account of a provider lacks, as `accounts.lifecycle.set_up` describes."""
    return setups.set_up(provider, settings, confirm, Events(on_event))


def undo_setup(
    provider: str,
    settings: Sequence[str] = (),
    *,
    with_data: bool = False,
    confirm: Callable[[Sequence[str]], None] = lambda titles: None,
    on_event: OnEvent | None = None,
) -> Undone:
    """Delete what setups have made, as `accounts.lifecycle.undo` describes."""
    return setups.undo(provider, settings, confirm, Events(on_event), with_data=with_data)


def make_setup_policy(provider: str, settings: Sequence[str] = ()) -> Mapping[str, Any]:
    """Return the least permissions for `set_up` and `undo_setup`."""
    return setups.make_policy(provider, settings)


def export_setup(provider: str, path: Path, settings: Sequence[str] = ()) -> Sequence[str]:
    """Write what `set_up` would make to *path* for the service's own tool, and return how to use it."""
    return setups.export(provider, settings, path)
