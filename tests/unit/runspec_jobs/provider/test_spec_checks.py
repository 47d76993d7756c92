"""Checks of a spec that several providers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runspec_jobs.provider import Options, Path, Problem, Spec
from runspec_jobs.provider.spec_checks import not_in_profile, secret_problems


def problems(secrets: dict[str, str], known: dict[str, str]) -> list[Problem]:
    def check(at: Path, key: str, source: str) -> Iterator[Problem]:
        yield Problem(at, f"{key} from {source}", severity="note")

    spec = Spec.model_construct(secrets=secrets)
    options = Options.model_construct(secrets=known)
    return list(secret_problems(spec, options, "cloud", "env:{}", check))


@pytest.mark.parametrize(
    ("known", "hint"),
    [
        ({}, "add providers: {cloud: {secrets: {token: env:TOKEN}}} to the profile"),
        ({"tokem": "env:X"}, "did you mean 'tokem'?"),
    ],
)
def test_a_secret_that_the_profile_lacks_is_an_error(known: dict[str, str], hint: str) -> None:
    expected = Problem(("secrets", "TOKEN"), "the profile has no secret 'token'", hint)
    assert problems({"TOKEN": "token"}, known) == [expected]


def test_a_secret_that_the_profile_has_is_checked_by_the_provider() -> None:
    expected = Problem(("secrets", "TOKEN"), "token from file:/t", severity="note")
    assert problems({"TOKEN": "token"}, {"token": "file:/t"}) == [expected]


def test_an_entry_that_is_missing_is_named_with_what_could_be_added() -> None:
    found = not_in_profile("shared folder", ("mounts", 0), "data", (), "x: {shared: {data: /d}}")

    assert found.what == "the profile has no shared folder 'data'"
    assert found.hint == "add providers: {x: {shared: {data: /d}}} to the profile"
