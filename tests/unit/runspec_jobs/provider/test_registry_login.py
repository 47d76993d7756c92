"""A login at a private registry is used for images of that registry alone, and names its password."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_jobs.provider.registry_login import RegistryOptions

PASSWORD = {"registry_password": "env:PASSWORD"}


@pytest.mark.parametrize(
    ("registry", "image", "used"),
    [
        ("registry.example.org", "registry.example.org/team/train:1", True),
        ("registry.example.org", "registry.example.org:5000/train:1", False),
        ("registry.example.org", "python:3.11", False),
        (None, "me/private", True),
        (None, "docker.io/me/private", True),
        ("docker.io", "me/private:2", True),
        (None, "ghcr.io/me/private", False),
        (None, None, False),
    ],
)
def test_the_login_is_used_for_images_of_its_registry_alone(
    registry: str | None, image: str | None, used: bool
) -> None:
    options = RegistryOptions.model_validate(
        {"registry": registry, "registry_user": "me", **PASSWORD}
    )

    found = options.login(image)

    password = {"$secret": "env:PASSWORD"}
    login = {"registry": registry or "docker.io", "user": "me", "password": password}
    assert found == (login if used else None)


@pytest.mark.parametrize(
    ("given", "lacks"),
    [
        ({"registry_user": "me"}, ["registry_password"]),
        (PASSWORD, ["registry_user"]),
        ({"registry_user": "me", **PASSWORD}, []),
        ({"registry": "registry.example.org"}, []),
    ],
)
def test_half_a_login_is_an_error(given: dict[str, Any], lacks: list[str]) -> None:
    found = list(RegistryOptions.model_validate(given).login_problems())

    assert [p.what for p in found] == [
        f"the profile has no `{key}`, which the login at the registry needs" for key in lacks
    ]
    assert [p.hint for p in found] == [f"add {key}, or remove {next(iter(given))}" for key in lacks]
