"""What Batch AI cannot do is said before anything is made, each with a way out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from runspec_batchai import PROVIDER, discover, emulator
from runspec_batchai.decision import decide
from runspec_batchai.options import BatchAiOptions
from runspec_jobs.diagnostics.problem import format_path
from runspec_jobs.document import reader
from runspec_jobs.load import profile
from tests.support.azure.batch_ai_specs import facts, problems, spec

TORCH = {"launch": "torchrun", "command": ["python", "a.py"]}
OOM = {"reason": "oom", "action": "retry"}
MOUNT = {"name": "all", "source": "shared://all", "target": "/job/all"}


def one(at: str, severity: str = "error", settings: Any = None, **fields: Any) -> str:
    """Give the words of the only problem there is, which is at *at*."""
    found = problems(spec(**fields), severity, **(settings or {}))
    (mine,) = [p for p in found if format_path(p.path) == at]
    assert severity == "note" or (len(found) == 1 and mine.hint), found
    return f"{mine.what} / {mine.hint}"


@pytest.mark.parametrize(
    "at,fields,words",
    [
        ("cluster.nodes", {"cluster": {"nodes": {"min": 1, "max": 3}}, **TORCH}, "nodes: 3"),
        ("cluster.nodes", {"cluster": {"nodes": 2}}, "launch: mpi"),
        ("retry.on[0].reason", {"retry": {"attempts": 2, "on": [OOM]}}, "exit_codes: [137]"),
        ("max_failed", {"sweep": {"n": "1..3"}, "max_failed": 2}, "azure-batch"),
        ("cluster.gpu_type", {"cluster": {"gpus": 1, "gpu_type": "Radeon"}}, "K80"),
        ("cluster.gpus", {"cluster": {"gpus": 8}}, "8, but the largest machine has 4"),
        ("cluster.cpus", {"cluster": {"cpus": 96}}, "96, but the largest machine has 64"),
        ("cluster.memory", {"cluster": {"memory": "900GiB"}}, "921,600 MiB, but the largest machine has 262,144"),
        ("cluster.disk", {"cluster": {"disk": "2TiB"}}, "2,048 GiB, but the largest machine has 800"),
        ("cluster.disk.tier", {"cluster": {"disk": {"tier": "high"}}}, "a local SSD"),
        ("cluster.gpus", {"cluster": {"gpus": 1, "cpus": 24}}, "STANDARD_NC24, has 4 / set gpus: 2 or more"),
        ("cluster", {"cluster": {"gpus": 1, "disk": "2TiB", "gpu_type": "K80"}}, "all requirements of a node together"),
        ("container.image", {"container": {"image": "localhost/x:1"}}, "images"),
        ("container.image", {"container": {"image": "docker://x:1"}}, "REGISTRY/NAME"),
        ("container.shm", {"container": {"shm": "1GiB"}}, "set an image"),
        ("sweep", {"sweep": {"n": "1..2000"}}, "2,000"),
        ("signal", {"timeout": "1h", "signal": {"name": "USR1", "before": "1m"}}, "own clock"),
        ("setup", {"setup": ["true"]}, "providers: {azure-batch-ai: {preparation: LINE}}"),
        ("env.AZ_BATCHAI_X", {"env": {"AZ_BATCHAI_X": "1"}}, "rename"),
        ("secrets.T", {"secrets": {"T": "nobody"}}, "nobody"),
        ("mounts[0].source", {"mounts": [MOUNT]}, "share: NAME"),
        (
            "mounts[0].source",
            {"mounts": [{**MOUNT, "source": "s3://lab/x", "anonymous": True}]},
            "mount a volume",
        ),
        ("command", {"launch": "torchrun", "command": ["train"]}, "custom-mpi"),
        ("ulimits", {"ulimits": {"memlock": -1}}, "call ulimit in run"),
        ("launch", {"launch": "srun"}, "set launch: mpi"),
        ("run", {"launch": "torchrun", "run": "a\nb\n"}, "shell script"),
    ],
)  # fmt: skip
def test_an_unsupported_spec_is_an_error_with_a_hint(
    at: str, fields: dict[str, Any], words: str
) -> None:
    assert words in one(at, **fields)


def test_a_job_with_an_image_says_what_its_success_rests_on() -> None:
    """Nothing of runspec in the job could prove that the program ran."""
    words = one("container", "note", container={"image": "python:3.12"})

    assert "the job has succeeded when the service says so" in words
    assert not [p for p in problems(spec(), "note") if format_path(p.path) == "container"]


@pytest.mark.parametrize(
    "settings,words",
    [
        ({"subscription": None}, "subscription"),
        ({"location": None}, "location"),
        ({"file_share": None}, "file_share"),
        ({"ssh_public_key": None}, "ssh_public_key"),
        ({"storage_key": "other"}, "'other'"),
        ({"secrets": {"storage-key": "aws-sm:x"}}, "env:NAME"),
        ({"secrets": {"storage-key": "azure-kv:/vault"}}, "#URL"),
    ],
)
def test_a_missing_setting_of_the_profile_is_an_error(settings: dict[str, Any], words: str) -> None:
    assert words in one("provider", settings=settings)


@pytest.mark.parametrize(
    "settings,words",
    [
        ({"toolkit": "custom", "toolkit_settings": {"workerCount": "2"}}, "none"),
        ({"toolkit": "custom-mpi", "toolkit_settings": {"processCount": "two"}}, "whole number"),
    ],
)
def test_a_setting_that_a_toolkit_does_not_have_is_told(
    settings: dict[str, Any], words: str
) -> None:
    assert words in one("providers.azure-batch-ai.toolkit_settings", settings=settings)


@pytest.mark.parametrize(
    ("registry", "lacks"), [({"username": "me"}, "password"), ({"password": "pw"}, "username")]
)
def test_half_a_login_to_a_registry_is_told(registry: dict[str, Any], lacks: str) -> None:
    own = {"registry": registry, "secrets": {"pw": "env:PASSWORD"}}

    assert f"has no `{lacks}`" in one("provider", settings=own, container={"image": "a:1"})


def test_the_end_of_the_service_is_a_note() -> None:
    assert "31 March 2019" in one("provider", "note")


def test_another_endpoint_gets_no_note_about_the_shutdown() -> None:
    found = problems(spec(), "note", arm_url="http://127.0.0.1:1")

    assert [p for p in found if p.path == ("provider",)] == []


def test_that_nothing_of_ours_saves_is_told() -> None:
    """Programs write into mounted storage by themselves."""
    output = {"name": "model", "path": "/job/model"}

    words = one("outputs[0].sync", "note", outputs=[{**output, "sync": "60s"}])
    assert "not as one complete save" in words
    for key in ("include", "exclude"):
        found = one(f"outputs[0].{key}", outputs=[{**output, key: ["*.pt"]}])
        assert "with all their files" in found
    assert "no saves to keep" in one("outputs[0].keep", outputs=[{**output, "keep": "last 2"}])


def test_tries_that_nobody_makes_are_told() -> None:
    fields: dict[str, Any] = {"command": ["python", "a.py"], "retry": {"attempts": 2}}

    for settings, way in (
        ({"toolkit": "chainer"}, "runspec starts mpirun"),
        ({"toolkit": "tensorflow"}, "use provider: azure-batch"),
        ({"contract": False}, "contract: false"),
    ):
        words = one("retry.attempts", "note", settings, **fields)
        assert ("starts the toolkit" in words or "contract" in settings) and way in words


@pytest.mark.parametrize("launch", ["none", "mpi"])
def test_a_job_that_our_shell_tries_again_needs_no_word(launch: str) -> None:
    found = problems(spec(retry={"attempts": 2}, launch=launch), "note")

    assert [p for p in found if p.path == ("retry", "attempts")] == []


def test_a_cluster_of_two_kinds_is_said_to_be_one_of_low_priority() -> None:
    cluster = {"capacity": "spot-then-on-demand"}

    assert "low priority is used" in one("cluster.capacity", "note", cluster=cluster)


@pytest.mark.parametrize("value", ["a$HOME b", "${PATH}:/x", "$AZ_BATCHAI_JOB_TEMP $USER"])
def test_a_value_that_looks_like_a_reference_is_told_of(value: str) -> None:
    """Elsewhere it stays as it is, and what the service made of it is written nowhere."""
    assert "AZ_BATCHAI_*" in one("env.PRICE", "note", env={"PRICE": value})


@pytest.mark.parametrize("value", ["$AZ_BATCHAI_JOB_TEMP/x", "5 $", "$1", "a"])
def test_a_value_that_means_one_thing_needs_no_word(value: str) -> None:
    found = problems(spec(env={"PRICE": value}), "note")

    assert [p for p in found if p.path[0] == "env"] == []


@pytest.mark.parametrize(
    "settings",
    [
        {"storage_key": "env:STORAGE_KEY"},
        {"admin_password": "env:PASSWORD"},
        {"registry": {"password": "env:PASSWORD"}},
        {"insights": {"component": "c", "key": "env:KEY"}},
        {"setup": {"command": "a", "logs": "/l", "secrets": {"A": "env:A"}}},
        {"shared": {"data": {"container": "c", "key": "env:KEY"}}},
    ],
)
def test_where_a_secret_lives_is_said_under_secrets_and_nowhere_else(
    settings: dict[str, Any],
) -> None:
    """azure-batch has `storage_key: env:NAME`; here that is one of several keys, each with a name."""
    with pytest.raises(ValidationError, match="is not a secret's name") as told:
        BatchAiOptions.model_validate(settings)

    assert "under 'secrets'" in told.value.errors()[0]["ctx"]["hint"]


def _placed(path: str, contract: bool, **fields: Any) -> list[str]:
    output = {"name": "model", "path": path}
    found = problems(spec(outputs=[output], **fields), "note", contract=contract)
    return [format_path(p.path) for p in found if p.path[0] == "outputs"]


def test_a_path_that_import_chose_gets_no_note() -> None:
    assert _placed("/job/outputs/model", contract=False) == []


@pytest.mark.parametrize(
    "path,contract,fields",
    [
        ("/job/outputs/model", True, {}),
        ("/job/model", False, {}),
        ("/job/outputs/model", False, {"command": ["a", "/job/outputs/model/x"]}),
        ("/job/outputs/model", False, {"run": "a >/job/outputs/model/x"}),
        ("/job/outputs/model", False, {"env": {"A": "/job/outputs/model"}}),
    ],
)
def test_a_path_that_the_job_may_rely_on_gets_a_note(
    path: str, contract: bool, fields: dict[str, Any]
) -> None:
    assert _placed(path, contract, **fields) == ["outputs[0].path"]


def test_that_no_torchrun_starts_a_program_of_torchrun_is_told() -> None:
    assert "not RANK" in one("launch", "note", **TORCH)
    own = problems(spec(**TORCH), "note", toolkit="custom-mpi")
    assert [p for p in own if "RANK" in p.what] == []


TWO = {"cluster": {"nodes": 2}, "launch": "mpi", "command": ["train"]}


def _kept(**fields: Any) -> list[tuple[str, str]]:
    wanted = spec(outputs=[{"name": "model", "path": "/job/model", **fields.pop("how")}], **fields)
    found = [*problems(wanted), *problems(wanted, "note")]
    return [(format_path(p.path), p.severity) for p in found if "to one folder" in p.what]


def test_an_output_of_all_nodes_gets_a_note_about_its_single_folder() -> None:
    """What is asked to be of the first one alone is refused: nothing keeps the others from writing there."""
    assert _kept(how={"from": "first"}, **TWO) == [("outputs[0].from", "error")]
    assert _kept(how={"from": "all"}, **TWO) == [("outputs[0].from", "note")]
    assert _kept(how={}, **TWO) == [("outputs[0]", "note")]
    assert _kept(how={"from": "first"}) == _kept(how={}) == []


def _rehearsed(there: bool, fields: dict[str, Any], **settings: Any) -> list[str]:
    wanted = spec(**fields)
    known = facts(wanted, **settings)._replace(survey={"mpirun": there})
    return [p.what for p in PROVIDER.check(wanted, known) if "mpirun" in p.what]


BY_MPI = {"launch": "mpi", "command": ["python", "a.py"]}


@pytest.mark.parametrize("fields", [BY_MPI, {**BY_MPI, "retry": {"attempts": 2}}])
@pytest.mark.parametrize("settings", [{}, {"toolkit": "chainer"}])
def test_a_rehearsal_without_mpirun_says_so_before_it_begins(
    fields: dict[str, Any], settings: dict[str, Any]
) -> None:
    (words,) = _rehearsed(False, fields, **settings)

    assert "127" in words and "provider: local" in words
    assert _rehearsed(True, fields, **settings) == []


def test_a_rehearsal_looks_for_mpirun_where_its_jobs_will(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(discover, "quotas_of", lambda *_: {"quotas": {}})
    monkeypatch.setenv("PATH", str(tmp_path))
    asked = spec(), BatchAiOptions()
    missing = emulator.lacks(None)
    assert emulator.lacks("podman") == {} != missing

    with monkeypatch.context() as during:
        for name, value in missing.items():
            during.setenv(name, value)
        assert discover.survey(*asked) == {"mpirun": False, "quotas": {}}
    assert discover.survey(*asked) == {"quotas": {}}

    (tmp_path / "mpirun").touch(mode=0o755)
    assert emulator.lacks(None) == {}


def test_a_job_without_mpirun_is_rehearsed_without_it() -> None:
    assert _rehearsed(False, {}) == []
    assert _rehearsed(False, BY_MPI, preparation="apt-get install openmpi-bin") == []


def test_an_image_of_one_machine_is_left_out_where_requirements_replace_it() -> None:
    """specs/mnist-chainer.yaml is planned without a profile that maps its image, as on the other services."""
    image = "localhost/x:1"
    wanted = spec(container={"image": image, "requirements": ["six"]})

    own: dict[str, Any] = {"images": {image: "registry/x:1"}}
    here, there = (decide(wanted, facts(wanted, **more).options) for more in ({}, own))

    assert problems(wanted) == problems(wanted, **own) == []
    (note,) = [p for p in problems(wanted, "note") if "on this machine only" in p.what]
    assert note.hint and f"images: {{'{image}': NAME}}" in note.hint
    assert (here.image, here.installs) == (None, True)
    assert (there.image, there.installs) == ("registry/x:1", False)


def test_a_rehearsal_has_no_setting_that_is_refused_as_an_example() -> None:
    blobs = SimpleNamespace(account="rehearsal", url="http://127.0.0.1:1")
    document = reader.read(PROVIDER.first_profile().encode())
    first, _ = profile.read(document.value)
    assert first is not None

    own = emulator.ways("http://127.0.0.1:2", blobs, {})

    template = first.providers["azure-batch-ai"]
    assert list(profile.find_placeholders(own, template, ())) == []
