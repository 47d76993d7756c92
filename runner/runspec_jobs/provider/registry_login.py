"""The login at a private registry of images: its settings in a profile, and the file by which engines read it."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.provider.types import LocalSecret, Options
from runspec_jobs.spec.field_marks import User
from runspec_jobs.spec.types import Word

HUB = "docker.io"
# The key of Docker Hub in files of docker, which podman and Apptainer read too.
# https://github.com/containers/image/blob/main/docs/containers-auth.json.5.md
HUB_KEY = "https://index.docker.io/v1/"


class RegistryOptions(Options):
    """The settings of a provider whose engines log in to a registry with a user name and a password."""

    registry: User[Word | None] = Field(
        default=None,
        description="Registry of images that needs a login, such as `mine.azurecr.io`. Without this field it is Docker "
        "Hub.",
    )
    registry_user: User[Word | None] = Field(default=None, description="User name at the registry.")
    registry_password: User[LocalSecret | None] = Field(
        default=None,
        description="Where the password for the registry is stored, as `env:NAME` or `file:/path`.",
    )

    def login_problems(self) -> Iterator[Problem]:
        """Yield the problem that one of the user name and the password is missing."""
        if bool(self.registry_user) != bool(self.registry_password):
            key, other = "registry_password", "registry_user"
            key, other = (key, other) if self.registry_user else (other, key)
            message = f"the profile has no `{key}`, which the login at the registry needs"
            yield Problem(("provider",), message, f"add {key}, or remove {other}")

    def login(self, image: str | None) -> dict[str, Any] | None:
        """Return the login for *image* as part of a request, or None if its registry needs none."""
        server = self.registry or HUB
        if image is None or self.registry_user is None or registry_of(image) != server:
            return None
        password = {"$secret": self.registry_password}
        return {"registry": server, "user": self.registry_user, "password": password}


def registry_of(image: str) -> str:
    """Return the host of the registry that *image* is in: the first part of its name, if that is a host.

    https://pkg.go.dev/github.com/distribution/reference

    >>> registry_of("registry.example.org:5000/team/a:1"), registry_of("python:3.11"), registry_of("me/private")
    ('registry.example.org:5000', 'docker.io', 'docker.io')
    """
    host, slash, _ = image.partition("/")
    # The rule of Docker: `team/image` is a repository of Docker Hub, `team.io/image` is not.
    is_host = bool(slash) and ("." in host or ":" in host or host == "localhost")
    return host if is_host else HUB


def docker_auth(login: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of a file of docker with *login*, which has its password; podman and Apptainer read it too.

    >>> docker_auth({"registry": "docker.io", "user": "me", "password": "hush"})
    {'auths': {'https://index.docker.io/v1/': {'auth': 'bWU6aHVzaA=='}}}
    """
    key = HUB_KEY if login["registry"] == HUB else login["registry"]
    credentials = f"{login['user']}:{login['password']}".encode()
    return {"auths": {key: {"auth": base64.b64encode(credentials).decode("ascii")}}}
