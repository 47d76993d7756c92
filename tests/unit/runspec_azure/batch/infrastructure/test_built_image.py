"""The image that a spec has built, in the plan of a job on Azure Batch, and the login for its push."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runspec_azure.batch import PROVIDER, client as client_of_azure
from runspec_azure.batch.client import AzureClient
from runspec_azure.batch.infrastructure import built_image
from runspec_azure.session import container_registry
from runspec_azure.session.clients import Session
from runspec_images.image_plan import REHEARSED
from runspec_images.image_registry import ImageConfig
from runspec_images.registry_logins import Login
from runspec_jobs.provider import (
    CredentialsError,
    Facts,
    Problem,
    RemoteError,
    Request,
    Source,
    Spec,
    Step,
)
from runspec_jobs.provider.job_manifest import CONTEXT
from tests.support.azure.resource_manager import Login as Credential
from tests.support.azure.specs import IDENTITY, options, spec

ACR = "mine.azurecr.io"
IMAGES = {"images": f"{ACR}/team/jobs"}
BUILD = {"build": {"context": "./image"}}
MANAGED = {"identity": IDENTITY, "subscription": "s", "resource_group": "g"}


def facts(digest: str = "1", **profile: Any) -> Facts:
    source = Source(f"sha256:{digest * 64}", 2, 30)
    return Facts(options(**{**IMAGES, **profile}), {CONTEXT: source})


def steps(given: Facts, **fields: Any) -> dict[str, Step]:
    wanted = spec(**{"container": BUILD, **fields})
    return {step.id: step for step in PROVIDER.plan(wanted, "n-abc123", given)}


def problems(wanted: Spec, given: Facts, severity: str = "error") -> list[Problem]:
    return [one for one in PROVIDER.check(wanted, given) if one.severity == severity]


def registries(found: dict[str, Step]) -> Any:
    body = found["pool"].do.params["body"]
    machines = body.get("properties", {}).get("deploymentConfiguration") or body
    return machines["virtualMachineConfiguration"]["containerConfiguration"].get(
        "containerRegistries"
    )


def test_tasks_name_the_image_by_the_digest_of_the_push() -> None:
    found = steps(facts())

    do = found["image"].do
    assert do.params["image"].startswith(f"{ACR}/team/jobs:runspec-")
    assert (do.params["platform"], found["image"].undo) == ("linux/amd64", None)
    (task,) = found["tasks-0"].do.params["body"]["value"]
    assert task["containerSettings"]["imageName"] == {"$ref": "image.image"}
    assert [*found].index("image") < [*found].index("pool") < [*found].index("tasks-0")


def test_the_tag_is_of_the_content_and_the_pool_is_not() -> None:
    one, same, changed = (steps(facts(digest)) for digest in "112")

    assert one["image"].do.params == same["image"].do.params
    assert one["image"].do.params["image"] != changed["image"].do.params["image"]
    assert one["pool"].do.params["body"]["id"] == changed["pool"].do.params["body"]["id"]


def test_a_spec_that_builds_an_image_is_right() -> None:
    assert problems(spec(container=BUILD), facts(**MANAGED)) == []
    assert problems(spec(container=BUILD), facts()._replace(complete=False)) == []
    notes = [one.what for one in problems(spec(container=BUILD), facts(), "note")]
    assert any(f"{ACR} refuses anonymous pulls" in what for what in notes)
    notes = [one.what for one in problems(spec(container=BUILD), facts(**MANAGED), "note")]
    assert not any("anonymous" in what for what in notes)


@pytest.mark.parametrize(
    ("repository", "words"),
    [
        (None, "the profile has no `images`, the repository to which images of container.build"),
        (REHEARSED, "a rehearsal builds and pushes no image"),
    ],
)
def test_without_a_repository_nothing_is_built(repository: str | None, words: str) -> None:
    (found,) = problems(spec(container=BUILD), facts(images=repository))

    assert found.what.startswith(words)


def test_machines_pull_by_the_identity_of_the_pool() -> None:
    by_identity = {"registryServer": ACR, "identityReference": {"resourceId": IDENTITY}}
    login = {"registry": "r.example", "registry_user": "me", "registry_password": "env:PW"}
    password = {"$secret": "env:PW"}
    by_login = {"registryServer": "r.example", "username": "me", "password": password}

    assert registries(steps(facts(**MANAGED))) == [by_identity]
    assert registries(steps(facts(**MANAGED, registry=ACR))) == [by_identity]
    assert registries(steps(facts(**MANAGED, **login))) == [by_login, by_identity]
    assert registries(steps(facts(**MANAGED, images="r.example/a"))) is None
    assert registries(steps(facts(**login, images="r.example/a"))) == [by_login]
    (task,) = steps(facts(**MANAGED, pool="mine"))["tasks-0"].do.params["body"]["value"]
    assert task["containerSettings"]["registry"] == by_identity


@pytest.mark.parametrize(
    ("profile", "of_login", "of_job"),
    [
        (MANAGED, f"registry {ACR}", f"registry {ACR}"),
        ({"registry": ACR, "registry_user": "me", "registry_password": "env:PW"}, None, None),
        ({"images": "r.example/a"}, None, None),
    ],
)
def test_roles_are_those_of_who_pushes_and_who_pulls(
    profile: dict[str, Any], of_login: str | None, of_job: str | None
) -> None:
    given = facts(**profile)
    listed = steps(given).values()

    def on(role: str, *, of_job: bool) -> str | None:
        found = PROVIDER.policy(listed, given.options, of_job=of_job)["roles"]
        return next((right["on"] for right in found if right["role"] == role), None)

    assert (on("AcrPush", of_job=False), on("AcrPull", of_job=True)) == (of_login, of_job)


# The login


def test_the_login_of_the_profile_is_taken_before_that_of_azure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PW", "hush\n")
    login = {"registry": ACR, "registry_user": "me", "registry_password": "env:PW"}

    found = built_image.login(Session(options(**login)), f"{ACR}/a:1")

    assert found == Login("me", "hush")


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Session:
    """An account whose login the registry refuses, on a machine without logins of podman."""

    def refuse(*_: object) -> Login:
        raise CredentialsError("refused", "a hint")

    monkeypatch.setattr(container_registry, "log_in", refuse)
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "login.json"))
    for name in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    found = Session(options())
    found.__dict__["login"] = Credential()
    return found


def test_a_login_of_podman_stands_in_for_one_of_azure(session: Session, tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="refused"):
        built_image.login(session, f"{ACR}/a:1")

    (tmp_path / "login.json").write_text(json.dumps({"auths": {ACR: {"auth": "bWU6cHc="}}}))

    assert built_image.login(session, f"{ACR}/a:1") is None


def test_no_other_registry_gets_a_token_of_azure(session: Session) -> None:
    for host in ("r.example", "mine.azurecr.io.example", "127.0.0.1:5000"):
        assert built_image.login(session, f"{host}/a:1") is None


# The client


READ_ENTRYPOINT = Request("registry", "read_entrypoint", {"image": f"{ACR}/a:1"})


@pytest.mark.parametrize("is_public", [True, False])
def test_the_entrypoint_of_a_registry_that_refuses_the_login_is_read_without_one(
    session: Session, is_public: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_image: str, _architecture: str, login: Login | None = None) -> ImageConfig:
        assert login is None
        if not is_public:
            raise CredentialsError("wants a login", "podman login")
        return ImageConfig("pinned", {"Entrypoint": ["/serve"]})

    monkeypatch.setattr(client_of_azure, "read_config", read)
    client = AzureClient(session.options)
    client.__dict__["session"] = session

    if is_public:
        assert client.call(READ_ENTRYPOINT) == {"image": "pinned", "code": 'set -- /serve "$@"'}
        return
    with pytest.raises(CredentialsError, match="refused"):
        client.call(READ_ENTRYPOINT)


def test_an_entrypoint_that_no_variable_holds_is_refused(
    client: AzureClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ImageConfig("pinned", {"Entrypoint": ["a" * 200_000]})
    monkeypatch.setattr(client_of_azure, "read_config", lambda *_: found)

    with pytest.raises(RemoteError, match="too long for a variable"):
        client.call(READ_ENTRYPOINT)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> AzureClient:
    """A client of an account, for a registry that has no login of its own."""
    monkeypatch.setattr(built_image, "login", lambda *_: None)
    return AzureClient(options())


def test_what_a_build_prints_is_told(client: AzureClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(_: object, params: Any, _login: object, tell: Any, _progress: object) -> Any:
        tell("STEP 1")
        return {"image": params["image"]}

    told: list[str] = []
    monkeypatch.setattr(client_of_azure, "build_and_push", build)
    client.listen(told.append)
    step = steps(facts())["image"]

    found = client.stage(step.do, None, lambda *_: None)  # type: ignore[arg-type] # it is not read

    assert (found, told) == ({"image": step.do.params["image"]}, ["STEP 1"])


def test_an_image_that_the_registry_has_is_not_built(
    client: AzureClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_of_azure, "find_built", lambda image, _: {"image": f"{image}@1"})
    step = steps(facts())["image"]

    assert client.find(step) == {"image": f"{step.do.params['image']}@1"}
