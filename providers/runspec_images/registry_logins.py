"""The logins at registries of images that podman and docker have of the user."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.provider.registry_login import HUB, HUB_KEY

ANSWER_S = 60.0  # an answer of a program of docker's
# The name that docker gives to programs of its own with an identity token, such as that of `az acr login`:
# https://github.com/docker/cli/blob/master/cli/config/credentials/native_store.go
TOKEN_USER = "<token>"


class Login(NamedTuple):
    """A user name and a password, or an identity token, for which the registry gives others if *is_token*."""

    user: str
    password: str
    is_token: bool = False

    def __repr__(self) -> str:
        return f"Login({self.user!r})"


def find_login(host: str) -> Login | None:
    """Return the login that podman or docker have for *host*.

    https://github.com/containers/image/blob/main/docs/containers-auth.json.5.md

    https://docs.docker.com/reference/cli/docker/login/#credential-stores
    """
    for file in _files():
        try:
            known = json.loads(file.read_text())
        except (OSError, ValueError):
            # Podman's file and docker's are optional; the next one may have the login.
            continue
        if isinstance(known, dict) and (found := _login_of(known, host)):
            return found
    return None


def _files() -> Iterator[Path]:
    env = os.environ
    if "REGISTRY_AUTH_FILE" in env:
        yield Path(env["REGISTRY_AUTH_FILE"])
    home = Path(os.path.expanduser("~"))
    yield Path(env.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}", "containers/auth.json")
    yield Path(env.get("XDG_CONFIG_HOME") or home / ".config", "containers/auth.json")
    yield Path(env.get("DOCKER_CONFIG") or home / ".docker", "config.json")


def _login_of(known: Mapping[str, Any], host: str) -> Login | None:
    key = HUB_KEY if host == HUB else host
    for name in (host, key):
        helper = (known.get("credHelpers") or {}).get(name)
        if helper:
            return _ask_helper(helper, name)
        entry = (known.get("auths") or {}).get(name) or {}
        if entry.get("identitytoken"):
            return Login(TOKEN_USER, entry["identitytoken"], is_token=True)
        if entry.get("auth"):
            return _read_login(entry["auth"])
    return _ask_helper(known["credsStore"], key) if known.get("credsStore") else None


def _read_login(encoded: str) -> Login | None:
    try:
        user, _, password = base64.b64decode(encoded).decode().partition(":")
    except ValueError:  # damaged, or not in base64: as if there were no login
        return None
    return Login(user, password)


def _ask_helper(name: str, host: str) -> Login | None:
    """Return what a program of docker's keeps: https://github.com/docker/docker-credential-helpers"""
    try:
        done = subprocess.run(
            [f"docker-credential-{name}", "get"],
            input=host,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=True,
        )
        found = json.loads(done.stdout)
        user = found["Username"]
        return Login(user, found["Secret"], is_token=user == TOKEN_USER)
    except (OSError, subprocess.SubprocessError, ValueError, LookupError):
        # The helper is missing or has no login for this host.
        return None
