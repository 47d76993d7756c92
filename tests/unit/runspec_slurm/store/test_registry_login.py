"""The login at a registry is a file of the run in the format of its engine, which only the user can read."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from runspec_jobs.provider import RemoteError, Request
from runspec_slurm.client import SlurmClient
from runspec_slurm.options import SlurmOptions

pytestmark = pytest.mark.process


def put(folder: Path, form: str, registry: str, password: str) -> str:
    client = SlurmClient(SlurmOptions.model_validate({"workspace": str(folder / "workspace")}))
    login = {"registry": registry, "user": "$oauthtoken", "password": password}
    key = "runs/job-abc123/login/file"

    client.call(Request("folder", "put_login", {"key": key, "format": form, "login": login}))

    file = folder / "workspace" / key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return file.read_text()


def test_podman_and_apptainer_get_a_file_of_docker(tmp_path: Path) -> None:
    found = json.loads(put(tmp_path, "docker", "nvcr.io", "hush 'a' \\ #"))

    assert found == {"auths": {"nvcr.io": {"auth": "JG9hdXRodG9rZW46aHVzaCAnYScgXCAj"}}}


@pytest.mark.parametrize(
    ("registry", "host"),
    [
        ("nvcr.io", "nvcr.io"),
        ("docker.io", "registry-1.docker.io"),
        ("registry.example.org:5000", "registry.example.org"),
    ],
)
def test_enroot_gets_a_file_of_netrc_for_the_registry_and_its_issuer_of_tokens(
    registry: str, host: str, tmp_path: Path
) -> None:
    own = "login $oauthtoken password a$b!~\n"

    assert put(tmp_path, "netrc", registry, "a$b!~") == f"machine {host} {own}default {own}"


@pytest.mark.parametrize("password", ["$(id)", "a b", "a'b", 'a"b', "a\\b", "a#b", "a\nb", "", "é"])
def test_a_password_that_enroot_would_read_as_something_else_is_refused(
    password: str, tmp_path: Path
) -> None:
    with pytest.raises(RemoteError, match="enroot cannot read the password"):
        put(tmp_path, "netrc", "nvcr.io", password)

    assert list(tmp_path.rglob("file")) == []
