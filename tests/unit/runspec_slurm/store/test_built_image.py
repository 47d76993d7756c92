"""An image that a spec has built: where it is pushed, and what the batch script then runs."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_images.image_plan import REHEARSED
from runspec_jobs.provider import Facts, Problem, Request, Source, Spec, Step
from runspec_jobs.provider.job_manifest import CONTEXT
from runspec_slurm.client import SlurmClient
from runspec_slurm.options import SlurmOptions
from runspec_slurm.provider import PROVIDER
from runspec_slurm.store import built_image
from tests.support.slurm.specs import FOUND, RUN, spec

IMAGES = "h.io:5000/team/jobs"
LOGIN = {"registry": "h.io:5000", "registry_user": "me", "registry_password": "env:P"}
DIGEST = f"sha256:{'0a' * 32}"


def made() -> Spec:
    return spec(container={"build": {"context": "./"}})


def facts(found: dict[str, Any] | None = None, **options: Any) -> Facts:
    return Facts(
        SlurmOptions.model_validate({"images": IMAGES, "container": "podman", **options}),
        {CONTEXT: Source("sha256:" + "5" * 64, 3, 4096)},
        (),
        {"slurm": {**FOUND, "containers": ["podman", "apptainer", "pyxis"], **(found or {})}},
    )


def planned(found: dict[str, Any] | None = None, **options: Any) -> dict[str, Step]:
    return {step.id: step for step in PROVIDER.plan(made(), RUN, facts(found, **options))}


def errors(there: Facts) -> list[Problem]:
    return [p for p in PROVIDER.check(made(), there) if p.severity == "error"]


@pytest.mark.parametrize(
    ("machine", "platform"),
    [("x86_64", "linux/amd64"), ("aarch64", "linux/arm64"), (None, "linux/amd64")],
)
def test_the_image_is_built_for_the_machines_of_the_cluster(
    machine: str | None, platform: str
) -> None:
    found = {"machine": machine} if machine else {}

    step = planned(found)["image"]

    assert step.do.params["platform"] == platform


def test_the_image_is_pushed_with_the_login_of_the_profile() -> None:
    params = planned(None, **LOGIN)["image"].do.params

    assert params["image"].startswith(f"{IMAGES}:runspec-")
    assert params["login"] == {
        "registry": "h.io:5000",
        "user": "me",
        "password": {"$secret": "env:P"},
    }
    assert "login" not in planned()["image"].do.params


@pytest.mark.parametrize("engine", ["podman", "apptainer"])
def test_an_engine_gets_the_digest_of_the_image(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan has the tag, which is a hash of what the image is built from."""
    params = planned(container=engine)["job"].do.params
    named = planned()["image"].do.params["image"]
    assert named in params["script"]
    assert params["image"] == {"named": named, "pinned": {"$ref": "image.image"}}
    scripts: list[str] = []
    client = SlurmClient(SlurmOptions())

    def submit(name: str, argv: list[str], script: str) -> dict[str, str]:
        scripts.append(script)
        return {}

    monkeypatch.setattr(client.jobs, "submit", submit)
    pinned = f"{IMAGES}@{DIGEST}"

    client.call(Request("slurm", "sbatch", {**params, "image": {"named": named, "pinned": pinned}}))

    assert pinned in scripts[0] and named not in scripts[0]


def test_enroot_gets_the_tag_which_all_its_versions_read() -> None:
    params = planned(container="pyxis")["job"].do.params

    assert "image" not in params
    assert "h.io:5000#team/jobs:runspec-" in params["script"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"images": None}, "the profile has no `images`"),
        ({"images": REHEARSED}, "a rehearsal builds and pushes no image"),
        ({"container": "none"}, "with which no image is run"),
    ],
)
def test_without_a_repository_the_build_is_refused(options: dict[str, Any], why: str) -> None:
    (found,) = errors(facts(**options))

    assert why in found.what


def test_a_profile_with_a_repository_has_no_problem() -> None:
    assert errors(facts()) == []


def test_a_client_passes_on_what_a_build_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(params: Any, _bundle: object, tell: Any, _progress: object) -> Any:
        tell("STEP 1")
        return {"image": params["image"]}

    said: list[str] = []
    monkeypatch.setattr(built_image, "build", build)
    client = SlurmClient(facts().options)
    client.listen(said.append)
    step = planned()["image"]

    answer = client.stage(step.do, None, lambda *_: None)  # type: ignore[arg-type] # it is not read

    assert (answer, said) == ({"image": step.do.params["image"]}, ["STEP 1"])
