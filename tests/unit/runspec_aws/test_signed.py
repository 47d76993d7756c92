"""Jobs by signed URLs: what is planned, what is refused, and that no URL is kept."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runspec_aws import job, plan, policy, signed
from runspec_aws.client import AwsClient
from runspec_aws.decision import decide
from runspec_aws.options import AwsOptions
from runspec_jobs.provider import Facts, Problem, Source, Spec, Step
from runspec_jobs.provider.streams import tar_stream
from tests.support.aws.specs import PROFILE, SHARED, STORE, errors, notes, problems, spec

RUN = "n-abc123"
SIGNED: dict[str, Any] = {"files": "signed", "job_role": None}
OUTPUT = {"name": "o", "path": "/job/o"}


def facts(wanted: Spec, **profile: Any) -> Facts:
    options = AwsOptions.model_validate({**PROFILE, **SIGNED, **profile})
    return Facts(options, {m.name: Source("sha256:" + "5" * 64, 1, 1) for m in wanted.mounts})


def steps(wanted: Spec, **profile: Any) -> dict[str, Step]:
    return {step.id: step for step in plan.steps(wanted, RUN, facts(wanted, **profile))}


def listed(wanted: Spec, **profile: Any) -> list[Any]:
    lines: list[Any] = steps(wanted, **profile)["files"].do.params["Body"]["lines"]
    return lines


# What is refused

REFUSED: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "mpi": ({"launch": "mpi"}, ("launch",)),
    "torchrun": ({"launch": "torchrun"}, ("launch",)),
    "a gang": ({"cluster": {"nodes": 2}}, ("cluster", "nodes")),
    "nodes of tasks": ({"cluster": {"nodes": 2}, "sweep": {"a": "1..2"}}, ("cluster", "nodes")),
    "packages": (
        {"container": {"image": "python:3.11", "requirements": ["six"]}},
        ("container", "requirements"),
    ),
    "rules": ({"retry": {"on": [{"exit_codes": [1], "action": "stop"}]}}, ("retry", "on")),
    "tasks that count others": ({"sweep": {"a": "1..3"}, "max_failed": 2}, ("max_failed",)),
    "a store": ({"mounts": [STORE]}, ("mounts", 0, "source")),
    "saving while it runs": ({"outputs": [{**OUTPUT, "sync": "1m"}]}, ("outputs", 0, "sync")),
    "outputs of many tasks": ({"outputs": [OUTPUT], "sweep": {"a": "1..101"}}, ("sweep",)),
    "a job that outlives its URLs": ({"outputs": [OUTPUT], "timeout": "1d"}, ("timeout",)),
}


@pytest.mark.parametrize("fields, path", REFUSED.values(), ids=REFUSED)
def test_files_signed_refuses_unsupported_fields_with_a_hint(
    fields: dict[str, Any], path: tuple[Any, ...]
) -> None:
    found = [p for p in problems(spec(**fields), **SIGNED) if p.severity == "error"]

    assert [p.path for p in found] == [path]
    assert found[0].hint
    assert errors(spec(**fields)) == []


def test_files_signed_accepts_supported_fields() -> None:
    shared = {"shared": {"work": "efs:fs-12345678"}}
    wanted = spec(outputs=[OUTPUT], sweep={"a": "1..100"}, mounts=[SHARED], timeout="1h")

    assert errors(wanted, **SIGNED, **shared) == []
    assert errors(spec(sweep={"a": "1..2000"}), **SIGNED) == []


def test_a_job_without_a_way_to_the_bucket_is_refused() -> None:
    found: list[Problem] = problems(spec(), job_role=None)

    assert [(p.path, p.severity) for p in found] == [(("provider",), "error")]
    assert "job_role" in str(found[0].hint)
    assert "files: signed" in str(found[0].hint)


@pytest.mark.parametrize("key", ["include", "exclude"])
def test_patterns_of_outputs_need_the_agent(key: str) -> None:
    output = {"name": "o", "path": "/job/o", key: ["*.pt"]}

    (found,) = [p for p in problems(spec(outputs=[output]), **SIGNED) if p.severity == "error"]

    assert found.path == ("outputs", 0, key)
    assert (found.hint or "").startswith(f"remove {key}, or set job_role")


def test_how_long_the_urls_are_good_is_told() -> None:
    found = problems(spec(), **SIGNED)

    assert [(p.path, p.severity) for p in found] == [(("provider",), "note")]
    assert "valid for 12 h" in found[0].what
    assert "valid for 90 min" in problems(spec(), **SIGNED, signed_for="90m")[0].what
    assert errors(spec(), **SIGNED, signed_for="8d") == [("provider",)]


def test_attempts_that_aws_batch_counts_get_a_note() -> None:
    assert ("retry", "attempts") in notes(spec(retry={"attempts": 2}), **SIGNED)


# What is planned


def test_the_container_needs_a_shell_and_no_role() -> None:
    found = steps(spec())["definition"].do.params["containerProperties"]

    assert found["command"][:2] == ["/bin/sh", "-c"]
    assert found["command"][4:] == ["echo"]
    assert "jobRoleArn" not in found
    assert [e["name"] for e in found["environment"]] == [
        "PYTHONUNBUFFERED",
        "RUNSPEC_WORDS",
    ]
    assert "inside" not in steps(spec())


def test_the_shell_of_files_signed_leaves_room_for_the_command() -> None:
    made = facts(spec())

    assert job.MAX_BYTES - job.size(spec(), decide(spec(), made.options), made) > 7_500


def test_batch_would_replace_nothing_of_the_shells_text() -> None:
    assert not any("Ref::" in word for word in signed.START)


def test_one_url_goes_into_the_request_and_all_others_into_a_file() -> None:
    wanted = spec(
        mounts=[{"name": "my-code", "source": "./code", "target": "/job/code"}, SHARED],
        outputs=[OUTPUT],
        sweep={"a": ["x\\y", "new\nline"], "b": "1..2"},
        processes_per_node=1,
    )
    found = steps(wanted, shared={"work": "efs:fs-12345678"})

    assert list(found)[-3:] == ["record", "files", "job"]
    own = found["job"].do.params["containerOverrides"]["environment"]
    assert own[1] == {
        "name": "RUNSPEC_FILES",
        "value": {"$signed": f"GET runspec/runs/{RUN}/files"},
    }
    claim, out = f"runspec/runs/{RUN}/claim", f"runspec/runs/{RUN}/outputs/o"
    lines = found["files"].do.params["Body"]["lines"]
    *lines, hidden, end, _, _, _, sample, first, _, _, last = lines
    assert hidden == "hidden=143"  # after which AWS Batch would start the job again
    assert end == ["end=0 ", {"$signed": f"PUT runspec/runs/{RUN}/ends/0/signed"}]
    assert sample.startswith("sample=[ -r ")
    of_tasks = f"runspec/runs/{RUN}/usage"
    assert first == ["usage=0 ", {"$signed": f"PUT {of_tasks}/0/0/0"}]
    assert last == ["usage=3 ", {"$signed": f"PUT {of_tasks}/3/0/0"}]
    assert lines[:-8] == [
        ["claim=", {"$signed": f"CLAIM {claim}"}],
        ["holder=", {"$signed": f"GET {claim}"}],
        "slots=1",
        "mount=RUNSPEC_MOUNT_MY_CODE",
        "at=/job/code",
        f"sum={'5' * 64}",
        ["get=", {"$signed": f"GET runspec/blobs/{'5' * 64}.tar"}],
        "mount=RUNSPEC_MOUNT_W",
        "at=/w",
        "link=/mnt/runspec/work/a",
        "sweep=RUNSPEC_SWEEP_B 2",
        "value=1",
        "value=2",
        "sweep=RUNSPEC_SWEEP_A 2",
        "value=x\\\\y",
        "value=new\\nline",
        "output=RUNSPEC_OUTPUT_O",
        "at=/job/o",
    ]
    assert lines[-2:] == [
        ["put=3 ", {"$signed": f"PUT {out}/3/0/.runspec/output.tar"}],
        ["back=3 ", {"$signed": f"GET {out}/3/0/.runspec/output.tar"}],
    ]


def test_batch_counts_the_tries_that_nobody_else_can() -> None:
    def tries(**retry: int) -> Any:
        return steps(spec(retry=retry))["definition"].do.params["retryStrategy"]

    assert tries(attempts=3) == {
        "attempts": 3,
        "evaluateOnExit": [{"onReason": "*", "action": "RETRY"}],
    }
    once = tries(attempts=1, spot_attempts=4)
    assert once["attempts"] == 4
    assert {"onStatusReason": "Host EC2*", "action": "RETRY"} in once["evaluateOnExit"]
    assert {"onStatusReason": "*", "action": "EXIT"} in once["evaluateOnExit"]
    assert all(rule.get("onExitCode") != "75" for rule in once["evaluateOnExit"])


def test_the_job_itself_needs_no_rights() -> None:
    assert policy.job_policy((), facts(spec()).options)["Statement"] == []


# What is signed


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> AwsClient:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return AwsClient(facts(spec()).options)


def test_urls_are_made_without_a_call_and_name_the_region(client: AwsClient) -> None:
    """A host without the region may answer with a redirect, which no signature survives."""
    params: Mapping[str, Any] = {"Body": {"lines": listed(spec())}, "Key": "k"}

    found = client.files.with_urls(params)

    (claim, put), (holder, got) = found["Body"]["lines"][:2]
    assert (claim, holder, found["Key"]) == ("claim=", "holder=", "k")
    start = f"https://jobs.s3.eu-central-1.amazonaws.com/runspec/runs/{RUN}/claim?X-Amz-"
    assert put.startswith(start)
    assert got.startswith(start)
    assert "X-Amz-SignedHeaders=host%3Bif-none-match&" in put
    assert "X-Amz-SignedHeaders=host&" in got
    assert "X-Amz-Expires=43200&" in put
    assert "X-Amz-Signature" not in json.dumps(params)


# What comes back


def test_a_tar_is_read_without_what_lies_between(tmp_path: Path) -> None:
    """Names byte for byte; a large file is skipped, and a link to a file is also that file."""
    tree = tmp_path / "tree"
    (tree / "d").mkdir(parents=True)
    (tree / "big").write_bytes(b"x" * (9 << 20))
    (tree / "d" / "Łódź").write_bytes(b"here")
    (tree / "d" / "empty").touch()
    (tree / "d" / "last").symlink_to("Łódź")
    (tree / "hard").hardlink_to(tree / "big")
    (tree / "out").symlink_to("/etc/passwd")
    (tree / "ring").symlink_to("ring")
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as archive:
        archive.add(tree, ".")
    content, got = made.getvalue(), []

    def read(start: int, end: int) -> bytes:
        got.append(end - start)
        return content[start:end]

    found = {m.path: m for m in tar_stream.list_members(read, len(content))}

    assert {path: member.kind for path, member in found.items()} == {
        "big": "file",
        "d": "folder",
        "d/Łódź": "file",
        "d/empty": "file",
        "d/last": "file",
        "hard": "file",
        "out": "lost",
        "ring": "link",
    }
    last = found["d/last"]
    assert (last.target, found["ring"].target) == ("Łódź", "ring")
    assert content[last.start : last.start + last.bytes] == b"here"
    assert found["hard"].bytes == 9 << 20
    assert sum(got) < 4 << 20


@pytest.mark.parametrize("name", ["../a", "/a", "d/../../a", ".."])
def test_tar_members_outside_the_folder_are_left_out(name: str) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name))
    content = made.getvalue()

    assert list(tar_stream.list_members(lambda start, end: content[start:end], len(content))) == []


@pytest.mark.parametrize("count,told", [(100, False), (101, True)])
def test_a_sweep_without_exit_records_gets_a_note(count: int, told: bool) -> None:
    wanted = spec(sweep={"a": f"1..{count}"})
    record = json.loads(steps(wanted)["record"].do.params["Body"])

    found = [
        one for one in signed.problems(wanted, facts(wanted).options) if "ENTRYPOINT" in one.what
    ]

    assert [one.severity for one in found] == ["note"] * told
    assert record.get("ends") == (None if told else "signed")
