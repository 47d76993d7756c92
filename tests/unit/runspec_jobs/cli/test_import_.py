"""`runspec import` and `plan --export` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.errors import OtherFormat
from runspec_jobs.load import registry
from runspec_jobs.provider.types import ForeignFile, Imported
from tests.support.azure.batch_ai_recipes import CLUSTERS, HANDS_ON, KEY, RECIPES
from tests.support.profiles import own_profile

Capture = pytest.CaptureFixture[str]
PROFILE = """\
providers:
  azure-batch-ai:
    subscription: 00000000-0000-0000-0000-000000000000
    location: eastus
    storage_account: acct
    file_share: logs
    ssh_public_key: "ssh-ed25519 AAAA"
    secrets: {storage-key: "env:STORAGE_KEY"}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.json").write_text(json.dumps(HANDS_ON))
    cluster = next(iter(CLUSTERS.values()))
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    return tmp_path


def test_an_imported_spec_is_written_and_valid(files: Path, capsys: Capture) -> None:
    code = run(["import", "job.json", "--cluster", "cluster.json", "--to", "there"])

    told = capsys.readouterr()
    assert (code, told.out) == (0, "")
    assert "accountKey contains a secret in plain text" in told.err and KEY not in told.err
    assert run(["validate", "there/job.yaml"]) == 0
    assert "acct" in (files / "there/runspec-profile.yaml").read_text()


def test_import_names_settings_that_a_plan_still_needs(files: Path, capsys: Capture) -> None:
    (files / "job.json").write_text(json.dumps(RECIPES["horovod"]))
    assert run(["import", "job.json", "--to", "there"]) == 0
    told = capsys.readouterr().err
    profile = files / "there/runspec-profile.yaml"
    known = {
        "subscription": "00000000-0000-0000-0000-000000000000",
        "location": "eastus",
        "storage_account": "acct",
        "ssh_public_key": '"ssh-ed25519 AAAA"',
    }

    assert f"add to the profile before you apply: {', '.join(known)}" in told
    head, rest = "providers:\n  azure-batch-ai:\n", profile.read_text()
    lines = "".join(f"    {name}: {value}\n" for name, value in known.items())
    assert all(f"    # {name}: " in rest for name in known)
    profile.write_text(rest.replace(head, head + lines))
    assert run(["trust", "there/runspec-profile.yaml"]) == 0
    assert run(["plan", "there/job.yaml"]) == 0, capsys.readouterr().err


def test_without_a_folder_the_spec_is_printed_and_the_profile_as_a_comment(
    files: Path, capsys: Capture
) -> None:
    assert run(["import", "job.json"]) == 0

    told = capsys.readouterr()
    printed = told.out
    assert "no files were written; --to FOLDER" in told.err
    (files / "job.yaml").write_text(printed)
    assert "# runspec-profile.yaml:\n# providers:\n" in printed
    assert run(["validate", "job.yaml"]) == 0


def test_import_replaces_no_file(files: Path, capsys: Capture) -> None:
    (files / "job.yaml").write_text("mine")

    assert run(["import", "job.json", "--to", "."]) == 4

    assert (files / "job.yaml").read_text() == "mine"
    assert not (files / "runspec-profile.yaml").exists()


def test_programs_get_all_of_it_as_json(files: Path, capsys: Capture) -> None:
    assert run(["import", "job.json", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"format", "spec", "profile", "notes", "files"} and found["notes"]


@pytest.mark.parametrize(
    "words,code", [(["nowhere.json"], 2), (["job.json", "--provider", "local"], 69)]
)
def test_each_failed_import_has_its_exit_code(files: Path, words: list[str], code: int) -> None:
    assert run(["import", *words]) == code


class Importer:
    """A provider that reads one kind of files."""

    def __init__(self, name: str, begins: str) -> None:
        self.name, self.begins, self.reads = name, begins, f"files of {name}"

    def imports(self, job: ForeignFile, cluster: ForeignFile | None) -> Imported:
        if not job.text.startswith(self.begins):
            raise OtherFormat(f"{job.name}:1:1: this is no file of {self.name}")
        return Imported(f"# by {self.name}\n", "", ())


@pytest.mark.parametrize(
    ("importers", "code", "printed"),
    [
        ({}, 69, "no installed provider can import files"),
        ({"a": "{"}, 0, "# by a"),
        ({"a": "<"}, 2, "runspec import reads files of a"),
        ({"a": "<", "b": "{"}, 0, "# by b"),
        ({"a": "{", "b": "{"}, 2, "several importers can read job.json"),
        ({"a": "<", "b": "<"}, 2, "reads files of a; files of b"),
    ],
)
def test_import_takes_the_only_provider_that_can_read_the_file(
    files: Path,
    importers: dict[str, str],
    code: int,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    providers = {name: Importer(name, begins) for name, begins in importers.items()}
    monkeypatch.setattr(registry, "list_installed", lambda: {"other": None, **providers})
    monkeypatch.setattr(registry, "load", providers.get)
    monkeypatch.setattr(registry, "load_importers", dict)

    assert run(["import", "job.json"]) == code

    assert printed in "".join(capsys.readouterr())


def test_a_plan_is_written_as_files_of_the_services_own_tool(files: Path, capsys: Capture) -> None:
    own_profile().write_text(PROFILE)
    spec = "apiVersion: runspec/v1\nname: job\nprovider: azure-batch-ai\ncommand: [echo, hi]\n"
    (files / "job.yaml").write_text(spec)

    assert run(["plan", "job.yaml", "--export", "out"]) == 0

    printed = capsys.readouterr().out
    assert printed.split() == ["out/cluster.json", "out/job.json"]
    job = json.loads((files / "out/job.json").read_text())
    line = job["properties"]["customToolkitSettings"]["commandLine"]
    assert line.startswith("export RUNSPEC_RANK=0 ") and line.endswith("; echo hi")


def test_programs_get_the_names_of_the_files_as_json(files: Path, capsys: Capture) -> None:
    own_profile().write_text(PROFILE)
    spec = "apiVersion: runspec/v1\nname: job\nprovider: azure-batch-ai\ncommand: [echo, hi]\n"
    (files / "job.yaml").write_text(spec)

    assert run(["plan", "job.yaml", "--export", "out", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["files"] == ["out/cluster.json", "out/job.json"]


def test_a_provider_without_another_tool_says_so(files: Path, capsys: Capture) -> None:
    (files / "job.yaml").write_text(
        "apiVersion: runspec/v1\nname: job\nprovider: local\ncommand: [echo, hi]\n"
    )

    assert run(["plan", "job.yaml", "--export", "out"]) == 69
    assert "local" in capsys.readouterr().err
