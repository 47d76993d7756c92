"""What this machine cannot do is told before anything is made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runspec_jobs.provider import Facts, Spec, UsageError
from runspec_local import check
from runspec_local.discover import examine, survey
from runspec_local.options import LocalOptions
from runspec_local.session import container_engine
from tests.support.agent.shells import program

BASE = {"apiVersion": "runspec/v1", "name": "n", "provider": "local", "command": ["echo"]}


def told(more: Mapping[str, Any], **found: Any) -> list[tuple[str, str]]:
    return told_of(LocalOptions(), more, **found)


def told_of(options: LocalOptions, more: Mapping[str, Any], **found: Any) -> list[tuple[str, str]]:
    facts = Facts(options, survey={"root": "/r", "engine": "process", **found})
    spec = Spec.model_validate({**BASE, **more})
    return [(p.severity, p.what) for p in check.problems(spec, facts)]


def mounts(source: str) -> dict[str, Any]:
    return {"mounts": [{"name": "m", "source": source, "target": "/m", "mode": "ro"}]}


@pytest.mark.parametrize("scheme", ["store", "shared"])
def test_a_store_path_outside_its_root_is_refused(scheme: str) -> None:
    assert told(mounts(f"{scheme}:///etc")) == [
        ("error", f"'{scheme}:///etc' leads out of its root folder")
    ]


@pytest.mark.parametrize(("reason", "count"), [("oom", 1), ("image", 1), ("timeout", 0)])
def test_a_retry_rule_for_a_reason_that_local_lacks_is_refused(reason: str, count: int) -> None:
    rules = [{"reason": reason, "action": "retry"}]

    assert len(told({"retry": {"attempts": 2, "on": rules}})) == count


@pytest.mark.parametrize(
    ("disk", "words"),
    [
        ("1GiB", "nodes share this machine's disk"),
        ({"tier": "high"}, "nodes share this machine's disk, whatever its kind"),
        ("3GiB", "3.0 GiB, but /runs has 2.0 GiB free"),
    ],
)
def test_the_disk_of_this_machine_is_told_with_its_free_space(disk: Any, words: str) -> None:
    ((severity, what),) = told({"cluster": {"disk": disk}}, root="/runs", free_bytes=2 << 30)

    assert (severity, what[: len(words)]) == ("note", words)


GROWS = [{"exit_codes": [9], "action": "retry", "memory": {"grow": 2, "most": "64GiB"}}]


def test_memory_that_grows_is_refused() -> None:
    """On this machine it would have no effect."""
    found = told({"retry": {"attempts": 2, "on": GROWS}, "cluster": {"memory": "1GiB"}})

    assert ("error", "the jobs on this machine share its memory") in found


@pytest.mark.parametrize("scheme", ["store", "shared"])
def test_a_missing_store_path_is_refused(scheme: str) -> None:
    source = f"{scheme}://data"

    assert told(mounts(source), **{scheme: {"data": True}}) == []
    expected = [("error", f"there is no file or folder at '{source}'")]
    assert told(mounts(source), **{scheme: {"data": False}}) == expected


def test_a_survey_looks_where_the_plan_mounts(tmp_path: Path) -> None:
    (tmp_path / "shared/data").mkdir(parents=True)
    spec = Spec.model_validate({**BASE, **mounts("shared://data")})

    assert survey(spec, LocalOptions(root=str(tmp_path)))["shared"] == {"data": True}


@pytest.mark.parametrize("image", ["-v", "a b", "a\nRUN x"])
def test_an_image_that_would_be_read_as_something_else_is_refused(image: str) -> None:
    """The local provider counts on the core for it: the name is a word of a command line."""
    with pytest.raises(ValidationError, match="is not an image"):
        told({"container": {"image": image}}, engine="podman")


@pytest.mark.parametrize(
    ("engine", "image", "what"),
    [
        ("podman", "/images/a.sif", "is a file, and podman runs images of registries"),
        ("podman", "library://a/b:1", "is written for another container engine than podman"),
        ("docker", "docker://a:1", "is written for another container engine than docker"),
        ("docker", "nvcr.io#nvidia/a:1", "is written for another container engine than docker"),
    ],
)
def test_a_name_that_the_engine_cannot_pull_is_an_error(engine: str, image: str, what: str) -> None:
    assert told({"container": {"image": image}}, engine=engine) == [("error", f"'{image}' {what}")]


def test_a_name_that_podman_takes_is_none() -> None:
    assert told({"container": {"image": "docker://a:1"}}, engine="podman") == []


@pytest.mark.parametrize(
    ("search", "aliases", "image", "is_noted"),
    [
        ([], "", "me/app:1", True),
        (["docker.io"], "", "me/app:1", False),
        ([], "[aliases]\n'me/app' = 'quay.io/me/app'\n", "me/app:1", False),
        ([], "", "quay.io/me/app:1", False),
        ([], "", "docker.io/me/app:1", False),
    ],
)
@pytest.mark.process
def test_a_name_for_which_podman_has_no_registry_is_noted(
    search: list[str],
    aliases: str,
    image: str,
    is_noted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = json.dumps({"search": search} if search else {})
    podman = f"case $1 in version) echo \"{{}}\" ;; info) echo '{shown}' ;; *) exit 1 ;; esac"
    program(tmp_path / "bin", "podman", podman)
    (tmp_path / "aliases.conf").write_text(aliases)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(container_engine, "ALIASES", (f"{tmp_path}/*.conf",))
    spec = Spec.model_validate({**BASE, "container": {"image": image}})

    found = survey(spec, LocalOptions.model_validate({"engine": "podman"}))

    facts = Facts(LocalOptions(), survey=found)
    notes = [p.hint for p in check.problems(spec, facts) if p.path == ("container", "image")]
    assert notes == ([f"write image: docker.io/{image}"] if is_noted else [])


def test_half_a_login_to_a_registry_is_refused() -> None:
    assert told_of(LocalOptions(registry_user="me"), {}) == [
        ("error", "the profile has no `registry_password`, which the login at the registry needs")
    ]


def test_a_path_that_no_engine_takes_is_refused() -> None:
    more = {"container": {"image": "i:1"}, **mounts("store://a,b")}

    assert [severity for severity, _ in told(more, engine="podman", root="/r,")] == ["error"] * 2


def test_ignored_fields_get_a_note() -> None:
    more = {"container": {"shm": "1GiB"}, "cluster": {"placement": "close"}}

    assert told(more) == [
        ("note", "processes share this machine's /dev/shm, whose size runspec does not change"),
        ("note", "`local` ignores placement: all nodes are on this machine"),
    ]


def test_a_root_does_not_depend_on_where_runspec_is_called() -> None:
    with pytest.raises(ValidationError, match="'here' is not an absolute path"):
        LocalOptions(root="here")
    assert LocalOptions(root="~").root == "~"


def test_a_home_that_nobody_has_is_a_mistake_with_a_way_out() -> None:
    options = LocalOptions(root="~no-such-user/x")

    with pytest.raises(UsageError, match="no such user: cannot expand '~no-such-user/x'"):
        survey(Spec.model_validate(BASE), options)
    assert not next(iter(examine(options))).ok


@pytest.mark.process
@pytest.mark.parametrize(
    ("engine", "works", "found"),
    [
        ("auto", {"podman": None, "docker": "no docker"}, [("podman works", True)]),
        ("docker", {"podman": None, "docker": "no docker"}, [("podman works", True), ("no docker", False)]),
        ("auto", {"podman": "no podman", "docker": "no docker"},
         [("images run as processes, without a container: no podman; no docker", True)]),
    ],
)  # fmt: skip
def test_an_engine_that_nobody_needs_is_not_mentioned(
    engine: str,
    works: dict[str, str | None],
    found: list[tuple[str, bool]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(container_engine, "works", works.get)

    told = [(one.what, one.ok) for one in examine(LocalOptions.model_validate({"engine": engine}))]

    about = [one for one in told if any(word in one[0] for word in ("podman", "docker"))]
    assert about == found


ELASTIC = {"cluster": {"nodes": {"min": 1, "max": 3}}}


def test_nodes_come_and_go_as_processes_alone() -> None:
    """Until containers do, a spec that would run in them is told the way out."""
    contained = {**ELASTIC, "container": {"image": "i:1"}}

    assert told(ELASTIC) == []
    refused = ("error", "elastic jobs do not run in containers on this machine")
    assert refused in told(contained, engine="podman")


def test_gpus_are_refused_where_nodes_would_have_to_share_them() -> None:
    how = "according to nvidia-smi"
    nodes = {"cluster": {"nodes": 4, "gpus": 2}}

    assert told(nodes, gpus=2, gpus_how=how) == [
        (
            "error",
            "the spec asks for 4 x 2 GPUs, which nodes do not share, and this machine has 2 (according to nvidia-smi)",
        )
    ]
    assert told(nodes, gpus=8, gpus_how=how) == []
    assert told({"cluster": {"gpus": 1}}, gpus=0) == [
        ("error", "the spec asks for 1 GPUs, and this machine has 0")
    ]
    assert told({"cluster": {"gpus": 1}}) == []  # nobody has looked


def test_podman_needs_names_for_gpus() -> None:
    more = {"cluster": {"gpus": 1}, "container": {"image": "i:1"}}

    assert told(more, engine="podman", gpus=1, cdi=True) == []
    ((severity, what),) = told(more, engine="podman", gpus=1, cdi=False)
    assert (severity, what.partition(":")[0]) == (
        "error",
        "podman cannot give GPUs to containers",
    )


def test_a_program_that_names_its_own_gpus_is_noted() -> None:
    more = {"cluster": {"gpus": 1}, "env": {"CUDA_VISIBLE_DEVICES": "3"}}

    assert [severity for severity, _ in told(more, gpus=1)] == ["note"]


def test_gpus_that_a_job_does_not_see_are_noted() -> None:
    note = (
        "note",
        "this machine has GPUs, which are hidden from the job: cluster: {gpus: 1} gives each node one",
    )

    assert told({}, hidden_gpus=2) == [note]
    assert told({}, hidden_gpus=0) == []
    assert told({"cluster": {"gpus": 1}}, gpus=2) == []
    assert told({"env": {"CUDA_VISIBLE_DEVICES": "0"}}, hidden_gpus=2) == []


PATHS = {
    "mounts": [{"name": "m", "source": "store://m", "target": "/job/m", "mode": "rw"}],
    "outputs": [{"name": "o", "path": "/data/o"}],
}


def test_each_reason_for_a_missing_path_is_told_once() -> None:
    assert told(PATHS, unseen={}) == []
    assert told(PATHS, unseen={"/data": "this machine has /data itself"}) == [
        ("note", "processes do not find /data/o here, because this machine has /data itself")
    ]
    assert told(PATHS, unseen={"/job": "why", "/data": "why"}) == [
        ("note", "processes do not find /job/m, /data/o here, because why")
    ]


def test_a_container_has_every_path() -> None:
    assert (
        told({**PATHS, "container": {"image": "i:1"}}, engine="podman", unseen={"/job": "x"}) == []
    )


def test_a_machine_runs_so_many_nodes_and_no_more() -> None:
    found = told({"cluster": {"nodes": 100_000}})

    assert found == [("error", "100,000 nodes, and this machine runs at most 1,000")]
    assert told({"cluster": {"nodes": 1000}}) == []


def test_free_space_is_measured_where_a_spec_asks_for_a_disk(tmp_path: Path) -> None:
    """The folder of the runs need not exist yet."""

    def measure(cluster: dict[str, Any]) -> Any:
        options = LocalOptions(root=str(tmp_path / "later" / "runs"), engine="process")
        return survey(Spec.model_validate({**BASE, "cluster": cluster}), options).get("free_bytes")

    assert measure({}) is None
    assert measure({"disk": "1GiB"}) > 0
