"""The profile: settings that belong to an account and not to a job, by provider name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from runspec.check import model
from runspec.problems import Problem
from runspec.provider import Options
from runspec.scalars import Name
from runspec.spec import Model, Spec
from runspec.tree import Value


class Profile(Model):
    """One file: `providers: {local: {...}, aws-batch: {...}}`."""

    providers: Mapping[Name, Mapping[str, Any]] = Field(
        default={}, description="The settings of each provider, by name."
    )


def options(
    kind: type[Options], name: str, spec: Spec, profile: Profile
) -> tuple[Options | None, list[Problem], list[Problem]]:
    """Give the options for *spec* on the provider *name*: its own settings over the profile's.

    Also gives the problems of the spec and those of the profile, each with its path there.
    """
    own = spec.providers.get(name, {})
    found, problems = model(kind, {**profile.providers.get(name, {}), **own}, ("providers", name))
    in_spec = [p for p in problems if len(p.path) > 2 and p.path[2] in own]
    return found, in_spec, [p for p in problems if p not in in_spec]


def read(value: Value) -> tuple[Profile | None, list[Problem]]:
    """Give the profile in *value*, or None, and what is wrong with it."""
    return model(Profile, value)
