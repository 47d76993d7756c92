"""What Batch AI cannot do is said before anything is made, each with a way out."""

from __future__ import annotations

from typing import Any

import pytest

from runspec.problems import dotted
from tests.unit.runspec_azure_batchai.jobs import problems, spec

TORCH = {"launch": "torchrun", "command": ["python", "a.py"]}
MOUNT = {"name": "all", "source": "shared://all", "target": "/job/all"}


def one(at: str, severity: str = "error", settings: Any = None, **fields: Any) -> str:
    """Give the words of the only problem there is, which is at *at*."""
    found = problems(spec(**fields), severity, **(settings or {}))
    (mine,) = [p for p in found if dotted(p.path) == at]
    assert severity == "note" or (len(found) == 1 and mine.hint), found
    return f"{mine.what} / {mine.hint}"


@pytest.mark.parametrize(
    "at,fields,words",
    [
        ("cluster.nodes", {"cluster": {"nodes": {"min": 1, "max": 3}}, **TORCH}, "nodes: 3"),
        ("cluster.nodes", {"cluster": {"nodes": 2}}, "launch: mpi"),
        ("cluster.gpu_type", {"cluster": {"gpus": 1, "gpu_type": "Radeon"}}, "K80"),
        ("cluster.gpus", {"cluster": {"gpus": 8}}, "had 4"),
        ("cluster.cpus", {"cluster": {"cpus": 96}}, "had 64"),
        ("cluster.memory", {"cluster": {"memory": "900GiB"}}, "448 GiB"),
        ("container.image", {"container": {"image": "localhost/x:1"}}, "images"),
        ("container.shm", {"container": {"shm": "1GiB"}}, "name an image"),
        ("sweep", {"sweep": {"n": "1..2000"}}, "2,000"),
        ("env.AZ_BATCHAI_X", {"env": {"AZ_BATCHAI_X": "1"}}, "rename"),
        ("secrets.T", {"secrets": {"T": "nobody"}}, "nobody"),
        ("mounts[0].source", {"mounts": [MOUNT]}, "share: NAME"),
        ("command", {"launch": "torchrun", "command": ["train"]}, "custom-mpi"),
        ("run", {"launch": "torchrun", "run": "a\nb\n"}, "several lines"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_an_error_with_a_way_out(
    at: str, fields: dict[str, Any], words: str
) -> None:
    assert words in one(at, **fields)


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
def test_what_the_profile_lacks_is_told(settings: dict[str, Any], words: str) -> None:
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


def test_the_end_of_the_service_is_a_note() -> None:
    assert "31 March 2019" in one("provider", "note")


def test_nothing_is_said_of_the_end_where_something_else_answers() -> None:
    found = problems(spec(), "note", arm_url="http://127.0.0.1:1")

    assert [p for p in found if p.path == ("provider",)] == []


def test_tries_that_nobody_makes_are_told() -> None:
    fields: dict[str, Any] = {"launch": "mpi", "retry": {"attempts": 2}}

    assert "not tried again" in one("retry.attempts", "note", **fields)


def test_a_job_that_our_shell_tries_again_needs_no_word() -> None:
    found = problems(spec(retry={"attempts": 2}), "note")

    assert [p for p in found if p.path == ("retry", "attempts")] == []


def test_a_cluster_of_two_kinds_is_said_to_be_one_of_low_priority() -> None:
    cluster = {"capacity": "spot-then-on-demand"}

    assert "low priority is taken" in one("cluster.capacity", "note", cluster=cluster)
