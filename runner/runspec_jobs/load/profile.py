"""The profile: the settings of the user's accounts, by name of the provider."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from runspec_jobs.diagnostics.problem import Path, Problem, did_you_mean
from runspec_jobs.document.nodes import Text, Value
from runspec_jobs.provider import Options
from runspec_jobs.regex import regex
from runspec_jobs.spec.field_marks import find_user_settings
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.types import Model, Name
from runspec_jobs.spec.validate import is_private as is_private, parse_model

CONFIRM_ABOVE_USD = 10.0
Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]
MOVE = "move it to runspec-profile.yaml or ~/.config/runspec/profile.yaml"
# What nobody's account has: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html uses this number.
PLACEHOLDER = regex(
    r"my-bucket|123456789012|//myaccount\.|mystorage|login\.example\.org|my-key-pair|AAAA\.\.\."
    r"|\b(subnet|sg)-0{17}\b"
)


def _replace_null(value: Any) -> Any:
    """Return *value*, or no settings for a key whose lines are all comments: its value is null."""
    return {} if isinstance(value, Text) and value.plain and not value else value


Settings = Annotated[Mapping[str, Any], BeforeValidator(_replace_null)]


class Profile(Model):
    """One file: `providers: {local: {...}, aws-batch: {...}}`."""

    providers: Annotated[Mapping[Name, Settings], BeforeValidator(_replace_null)] = Field(
        default={}, description="The settings of each provider, by name."
    )
    prices: Mapping[str, Usd] = Field(
        default={},
        description="The price in USD of an hour of a node, by the name of a machine or of a provider. It "
        "replaces that of the catalogue in reports of cost, and changes no choice of machines.",
    )
    confirm_above: Usd = Field(
        default=CONFIRM_ABOVE_USD,
        description="`apply` asks at a terminal before it starts a job that may cost more USD.",
    )


EMPTY = Profile.model_construct()  # without validation, for which the model would have to be built


def merge_options(
    kind: type[Options], name: str, spec: Spec, profile: Profile, *, complete: bool = True
) -> tuple[Options | None, list[Problem], list[Problem]]:
    """Return the options for *spec* on the provider *name*, the problems of the spec, and those of the profile.

    Settings of the spec override those of its pool, which override those of the profile. Each problem has its path
    in the spec or in the profile. A pool that the profile lacks is a problem only if the profile is *complete*.
    """
    of_spec, common = spec.providers.get(name, {}), profile.providers.get(name, {})
    at = ("providers", name)
    pools = _get_pools(of_spec if "pools" in of_spec else common)
    drawn = pools.get(spec.cluster.pool or "", {})
    options, problems = parse_model(kind, {**common, **drawn, **of_spec}, at)
    # A setting of the pool is checked below, where its path is known.
    problems = [p for p in problems if len(p.path) < 3 or p.path[2] not in {*drawn} - {*of_spec}]
    not_of_spec = list_user_settings(kind, of_spec, at)
    problems = [p for p in problems if not _is_within(p.path, not_of_spec)]
    problems += [_make_profile_problem(path) for path in not_of_spec]
    for pool, settings in pools.items():
        problems += _check_pool(kind, {**common, **of_spec}, (*at, "pools", pool), settings)
    in_spec = [p for p in problems if len(p.path) > 2 and p.path[2] in of_spec]
    in_profile = [p for p in problems if p not in in_spec]
    if complete and kind.has_pools and (spec.cluster.pool or "") not in {"", *pools}:
        in_spec.append(_make_no_pool_problem(name, spec.cluster.pool or "", pools))
    if options is None or in_spec or in_profile:
        return None, in_spec, in_profile
    # The pool is merged into the options, so a plan does not depend on the other pools of the profile.
    return options.model_copy(update={"pools": {}}), [], []


def list_user_settings(kind: type[Options], settings: Mapping[str, Any], at: Path) -> list[Path]:
    """Return the paths of all values in *settings* of a provider and its pools that only the user may set."""
    restricted = list(find_user_settings(kind, settings, at))
    for name, pool in _get_pools(settings).items():
        restricted += find_user_settings(kind, pool, (*at, "pools", name))
    return restricted


def find_placeholders(settings: Any, template: Any, at: Path) -> Iterator[Problem]:
    """Yield a problem for each value that is still the example of a first profile, whose settings are *template*."""
    if isinstance(settings, Mapping) and isinstance(template, Mapping):
        for key in [key for key in settings if key in template]:
            yield from find_placeholders(settings[key], template[key], (*at, key))
    elif isinstance(settings, list | tuple) and isinstance(template, list | tuple):
        for number, (own, first) in enumerate(zip(settings, template, strict=False)):
            yield from find_placeholders(own, first, (*at, number))
    elif isinstance(settings, str) and settings == template and PLACEHOLDER.search(settings):
        hint = f"write your own {next(part for part in reversed(at) if isinstance(part, str))}"
        yield Problem(at, f"'{settings}' is only an example, which runspec init wrote", hint)


def _is_within(path: Path, others: list[Path]) -> bool:
    return any(path[: len(other)] == other for other in others)


def _make_profile_problem(path: Path) -> Problem:
    name = str(path[-1])
    message = f"'{name}' belongs to a profile, not to a job file"
    return Problem(path, message, MOVE, at="key", private=is_private(name))


def select_pool(settings: Mapping[str, Any], pool: str | None) -> dict[str, Any]:
    """Return *settings* of a provider as they apply to jobs in *pool*, without the key `pools`."""
    merged = {**settings, **_get_pools(settings).get(pool or "", {})}
    merged.pop("pools", None)
    return merged


def _get_pools(settings: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the pools in *settings*; values of a wrong type are skipped, since validation reports them."""
    pools = settings.get("pools", {})
    if not isinstance(pools, Mapping):
        return {}
    return {name: pool for name, pool in pools.items() if isinstance(pool, Mapping)}


def _check_pool(
    kind: type[Options], others: Mapping[str, Any], at: Path, settings: Mapping[str, Any]
) -> list[Problem]:
    """Return the problems of the *settings* of a pool, which override the *others* of its provider."""
    if "pools" in settings:
        return [Problem((*at, "pools"), "a pool cannot contain pools", "remove it", at="key")]
    _, problems = parse_model(kind, {**others, **settings})
    return [p._replace(path=(*at, *p.path)) for p in problems if p.path and p.path[0] in settings]


def _make_no_pool_problem(provider: str, name: str, pools: Mapping[str, Any]) -> Problem:
    hint = did_you_mean(name, pools) or (
        f"add providers: {{{provider}: {{pools: {{{name}: {{...}}}}}}}} to the profile"
    )
    message = f"the profile has no pool '{name}' for {provider}"
    return Problem(("cluster", "capacity"), message, hint)


def read(value: Value) -> tuple[Profile | None, list[Problem]]:
    """Return the profile in *value*, or None, and all problems in it."""
    return parse_model(Profile, value)
