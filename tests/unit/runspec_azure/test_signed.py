"""Jobs without Python on Azure Batch: what is planned for them, and what they cannot do."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from runspec_azure.batch import PROVIDER, client, signed
from runspec_jobs.provider import Facts, Source, Spec, Step
from tests.support.azure.specs import IDENTITY, SHARED, STORE, errors, options, spec

FOLDER = {"name": "code", "source": "./code", "target": "/job/code"}
OUTPUT = {"name": "model", "path": "/job/model"}
IMAGE = {"image": "debian:12-slim"}


def steps(wanted: Spec, **profile: Any) -> dict[str, Step]:
    sources = {m.name: Source("sha256:0", 1, 1) for m in wanted.mounts}
    facts = Facts(options(files="signed", **profile), sources)
    return {s.id: s for s in PROVIDER.plan(wanted, "n-abc123", facts)}


def test_a_task_begins_with_a_file_that_holds_each_word_quoted() -> None:
    words = ["printf", "%s", "a'b $(id) \\ \n*"]
    found = steps(spec(container=IMAGE, command=words))

    (task,) = found["tasks-0"].do.params["body"]["value"]
    assert task["commandLine"] == signed.COMMAND
    assert [f["filePath"] for f in task["resourceFiles"]] == ["start.sh"]
    text = found["start"].do.params["body"]
    assert shlex.split(text)[-3:] == words
    notes, _, command = text.partition("\n) >/dev/null 2>&1 &\n")
    assert "stdout.times" in notes
    assert shlex.split(command)[:3] == ["exec", "/bin/sh", "-c"]
    patterns = [file["filePattern"] for file in task["outputFiles"]]
    assert patterns == ["../std*.txt", "stdout.times*"]


def test_the_job_gets_no_signature_of_the_container() -> None:
    found = steps(spec(container=IMAGE))

    settings = found["job"].do.params["body"]["commonEnvironmentSettings"]
    env = {e["name"]: e["value"] for e in settings}
    assert env["RUNSPEC_FILES"] == {"$signed": "r runspec/runs/n-abc123/files"}
    assert not {"RUNSPEC_SAS", "RUNSPEC_STORE"} & env.keys()


def test_each_thing_has_a_url_with_as_few_rights_as_it_needs() -> None:
    wanted = spec(container=IMAGE, mounts=[FOLDER], outputs=[OUTPUT], sweep={"n": ["x\ny"]})

    lines = steps(wanted)["files"].do.params["body"]["lines"]

    at = "runspec/runs/n-abc123"
    urls = {line[0]: line[1]["$signed"] for line in lines if isinstance(line, list)}
    assert urls.pop("get=").startswith("r runspec/blobs/")
    assert urls.pop("put=0 ").startswith(f"cw {at}/outputs/model/0/0/")
    assert urls.pop("again=0 ").startswith(f"r {at}/outputs/model/0/0/")
    assert urls.pop("usage=0 ") == f"cw {at}/usage/0/0/0"
    assert urls.pop("end=0 ") == f"cw {at}/ends/0/signed"
    assert urls == {"claim=": f"cw {at}/claim", "holder=": f"r {at}/claim"}
    assert "header=x-ms-blob-type: BlockBlob" in lines
    assert any(line.startswith("sum=") for line in lines if isinstance(line, str))
    assert "value=x\\ny" in lines


def test_the_list_is_written_with_a_line_for_each() -> None:
    body = client.blob_content({"lines": ["slots=1", ["get=", "https://a/b?c"]]})

    assert body == b"slots=1\nget=https://a/b?c\n"


@pytest.mark.parametrize(
    "fields,place",
    [
        ({"cluster": {"nodes": 2}}, ("cluster", "nodes")),
        ({"launch": "mpi"}, ("launch",)),
        ({"container": {"requirements": ["six"]}}, ("container", "requirements")),
        ({"mounts": [STORE]}, ("mounts", 0, "source")),
        ({"mounts": [SHARED]}, ("mounts", 0, "source")),
        ({"outputs": [{**OUTPUT, "sync": "30s"}]}, ("outputs", 0, "sync")),
        ({"outputs": [OUTPUT], "sweep": {"n": "1..101"}}, ("sweep",)),
    ],
)
def test_files_signed_refuses_unsupported_fields(fields: dict[str, Any], place: Any) -> None:
    profile: dict[str, Any] = {
        "shared": {"work": "nfs:h:/d"},
        "subnet": "/subscriptions/0/subnets/s",
    }

    assert place in errors(spec(**fields), files="signed", **profile)
    assert place not in errors(spec(**fields), **profile)


def test_files_signed_accepts_supported_fields() -> None:
    wanted = spec(container=IMAGE, mounts=[FOLDER], outputs=[OUTPUT], sweep={"n": "1..100"})

    assert errors(wanted, files="signed") == []


def test_an_identity_and_signed_urls_exclude_each_other() -> None:
    found = errors(spec(), files="signed", pool="mine", identity=IDENTITY)

    assert ("provider",) in found
