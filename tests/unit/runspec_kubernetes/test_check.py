"""What Kubernetes cannot run, with the way out."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_jobs.provider import Spec
from tests.unit.runspec_kubernetes.plans import (
    CODE,
    STORE,
    WORDS,
    errors,
    list_problems,
    make_spec,
)

KEYS = {"AWS_ACCESS_KEY_ID": "env:ID", "AWS_SECRET_ACCESS_KEY": "env:KEY"}
LARGE = {"sweep": {"n": [f"{'x' * 1000}{n}" for n in range(1100)]}}


@pytest.mark.parametrize(
    "target",
    ["/runspec", "/runspec/in", "/runspec-store/x", "/runspec-shared/a", "/dev/x", "/proc"],
)
def test_folders_of_runspec_and_of_the_kernel_are_no_targets(target: str) -> None:
    (what,) = errors(make_spec(mounts=[{**CODE, "target": target}]))

    assert "is a folder of runspec or of the kernel" in what


@pytest.mark.parametrize("target", ["/etc/words.txt", "/words.txt", "/root/words.txt"])
def test_a_file_cannot_take_the_place_of_a_folder_of_the_image(target: str) -> None:
    spec = make_spec(mounts=[{**WORDS, "target": target}])

    assert "would hide what the image has there" in errors(spec)[0]
    assert errors(spec, {**STORE, "security": "none"}) == []


def test_a_folder_of_every_image_is_no_output() -> None:
    assert errors(make_spec(outputs=[{"name": "home", "path": "/home"}]))
    assert not errors(make_spec(outputs=[{"name": "temp", "path": "/tmp"}]))


def test_a_note_says_what_the_volume_of_a_file_hides() -> None:
    (note,) = list_problems(make_spec(mounts=[{**WORDS, "target": "/app/words.txt"}]))

    assert (note.severity, note.what) == (
        "note",
        "the job sees nothing of what the image has in /app: a volume takes its place",
    )


@pytest.mark.parametrize("field", ["env", "secrets"])
def test_a_spec_cannot_take_the_variables_of_the_store(field: str) -> None:
    """But it may have keys of its own, since those of the store have other names."""
    profile = {**STORE, "store_keys": KEYS, "store_url": "https://s3.example.org"}
    mine = {"AWS_ENDPOINT_URL_S3": "mine", "AWS_ACCESS_KEY_ID": "mine"}

    found = errors(make_spec(**{field: mine}), profile)

    assert found == ["runspec reaches the store of the profile by AWS_ENDPOINT_URL_S3"]


@pytest.mark.parametrize(
    "profile,said",
    [
        ({"store": "s3://jobs/p"}, "the profile has no `region`, which a bucket of AWS needs"),
        (
            {**STORE, "store_keys": {"AWS_ACCESS_KEY_ID": "env:ID"}},
            "store_keys has no AWS_SECRET_ACCESS_KEY",
        ),
        (
            {"store": "az://jobstore/jobs/runspec", "store_keys": KEYS},
            "store_keys has AWS_ACCESS_KEY_ID, which is no key for az://jobstore/jobs/runspec",
        ),
        (
            {"store_keys": KEYS},
            "store_keys has AWS_ACCESS_KEY_ID, which is no key for a job without a store",
        ),
        (
            {"host_network": True},
            "pods on the network of their node do not fulfil the standard `restricted`",
        ),
        ({"labels": {"job-name": "x"}}, "labels: the label 'job-name' is that of a controller"),
    ],
)
def test_settings_that_do_not_go_together_are_errors(profile: dict[str, Any], said: str) -> None:
    assert errors(make_spec(), profile) == [said]


def test_a_record_that_no_config_map_holds_needs_a_store() -> None:
    spec = make_spec(command=["echo", "${sweep.n}"], **LARGE)

    assert errors(spec, {}) == [
        "the profile has no `store`, because the job is too large for a ConfigMap"
    ]
    assert errors(spec) == []


def test_variables_that_no_job_holds_are_refused() -> None:
    spec = make_spec(env={f"V{n}": "x" * 100_000 for n in range(11)})

    assert "a Job of Kubernetes takes about a mebibyte" in errors(spec)[0]


def test_a_hundred_thousand_tasks_may_run_at_once() -> None:
    assert errors(make_spec(command=["${sweep.n}"], sweep={"n": "1..20000"})) == []


def test_more_indexes_than_a_job_may_have_are_refused() -> None:
    spec = make_spec(command=["${sweep.n}"], sweep={"n": "1..20000"}, cluster={"nodes": 6})

    assert errors(spec) == [
        "the job needs 120,000 indexes; a Job of Kubernetes has at most 100,000"
    ]


@pytest.mark.parametrize(
    "cluster,types,expected",
    [
        ({"gpu_type": "A100"}, {}, ["the profile has no label for GPUs of the type 'A100'"]),
        ({"gpu_type": "A100-80GB"}, {"A100-80GB": {"gpu": "a"}}, []),
        (
            {"gpu_type": "A100-80GB"},
            {"A100": {"gpu": "a"}},
            ["the labels of 'A100' in the profile do not say how much memory it has"],
        ),
        (
            {"gpu_memory": "40GiB"},
            {},
            ["kubernetes does not know how much memory the GPUs of its nodes have"],
        ),
    ],
)
def test_gpus_are_chosen_by_the_labels_of_the_profile(
    cluster: dict[str, Any], types: dict[str, Any], expected: list[str]
) -> None:
    spec = make_spec(cluster={"gpus": 1, **cluster})

    found = list_problems(spec, {**STORE, "gpu_types": types})

    assert [problem.what for problem in found] == expected


@pytest.mark.parametrize(
    "fields,needing",
    [
        ({"mounts": [CODE]}, "inputs"),
        ({"outputs": [{"name": "model", "path": "/job/model"}]}, "outputs"),
        ({"cluster": {"nodes": 2}}, "nodes that meet"),
        (
            {
                "sweep": {"n": "1..3"},
                "metric": {"name": "m", "goal": "min", "pattern": "m=(.*)", "stop": {"below": 1}},
            },
            "tasks that end early",
        ),
    ],
)
def test_jobs_that_need_a_store_say_so(fields: dict[str, Any], needing: str) -> None:
    why = f"which {needing} need: a bucket or, with pvc:CLAIM, a volume claim"
    assert errors(make_spec(**fields), {}) == [f"the profile has no `store`, {why}"]


def notes(spec: Spec, profile: dict[str, Any] = STORE) -> list[str]:
    return [p.what for p in list_problems(spec, profile) if p.severity == "note"]


def test_a_file_where_specs_have_theirs_hides_nothing() -> None:
    assert notes(make_spec(mounts=[{**WORDS, "target": "/job/words.txt"}])) == []


def test_versions_of_python_are_those_of_the_image() -> None:
    (note,) = notes(make_spec(container={"python": ">=3.11", "image": "python:3.11"}))

    assert note == "the image has its own Python: make sure that it is one of these versions"


def test_a_queue_counts_what_a_job_asks_for() -> None:
    queue = {**STORE, "queue": "team-a"}

    assert len(notes(make_spec(cluster={"cpus": 1}), queue)) == 1
    assert notes(make_spec(cluster={"cpus": 1, "memory": "1GiB"}), queue) == []
