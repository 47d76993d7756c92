"""The files for GitHub and for editors are of the published schemas, and name one repository and one version."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import release_notes
import yaml

from tests.support.root import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = PROJECT["urls"]["Repository"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))
CHANGES = "## [Unreleased]\n\n## [0.3.0] - 2026-11-27\n\nText.\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", WORKFLOWS),
        ("github-issue-forms", FORMS),
        ("github-issue-config", [ROOT / ".github/ISSUE_TEMPLATE/config.yml"]),
        ("github-actions", [ROOT / "action.yml"]),
    ],
)
def test_a_file_for_github_is_of_its_published_schema(schema: str, files: list[Path]) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]

    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert files


@pytest.mark.parametrize("file", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda file: file.name)
def test_no_expression_stands_in_a_script_of_a_workflow(file: Path) -> None:
    """A title of a pull request in `run` would be a script; variables of `env` are not."""
    document = yaml.safe_load(file.read_text())
    jobs = document["jobs"].values() if "jobs" in document else [document["runs"]]

    scripts = [step.get("run", "") for job in jobs for step in job["steps"]]

    assert [script for script in scripts if "${{" in script] == []


def test_the_report_of_the_action_is_in_the_summary_also_without_a_comment() -> None:
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]

    writers = [step for step in steps if "GITHUB_STEP_SUMMARY" in step["run"]]

    assert [step["if"] for step in writers] == ["always() && steps.report.outputs.report != ''"]


def test_the_tests_run_on_each_python_that_is_promised() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    tested = workflow["jobs"]["quick"]["strategy"]["matrix"]["python"]
    promised = re.findall(r"Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)

    assert tested == promised == ["3.11", "3.12", "3.13", "3.14"]


def test_a_release_stores_no_token() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())

    assert workflow["jobs"]["publish"]["permissions"]["id-token"] == "write"
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text()


def test_all_addresses_are_of_the_one_repository() -> None:
    """pyproject.toml has the address; other files repeat it, and change with it."""
    owner, name = REPOSITORY.removeprefix("https://github.com/").split("/")
    raw = f"https://raw.githubusercontent.com/{owner}/{name}/main/"
    entry = json.loads((ROOT / "schemas/schemastore.json").read_text())

    assert entry["url"] == f"{raw}schemas/job.schema.json"
    assert all(url.startswith(REPOSITORY) for url in PROJECT["urls"].values())
    files = ["README.md", "SECURITY.md", "Containerfile", *map(str, WORKFLOWS), *map(str, FORMS)]
    named = {
        m for f in files for m in re.findall(r"github\.com/OWNER/[\w-]+", (ROOT / f).read_text())
    }
    assert named <= {REPOSITORY.removeprefix("https://")}


def test_an_editor_finds_the_schema_for_files_that_no_other_tool_uses() -> None:
    entry = json.loads((ROOT / "schemas/schemastore.json").read_text())

    assert entry.keys() == {"name", "description", "fileMatch", "url"}
    assert all("runspec" in pattern or ".job." in pattern for pattern in entry["fileMatch"])


def test_the_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    assert release_notes.find_notes("v0.3.0", "0.3.0", CHANGES) == "Text.\n"


@pytest.mark.parametrize(
    ("tag", "version", "changelog", "said"),
    [
        ("v0.3.1", "0.3.0", CHANGES, "the tag is v0.3.1"),
        ("0.3.0", "0.3.0", CHANGES, "the tag is 0.3.0"),
        ("v0.4.0", "0.4.0", CHANGES, "no section"),
        ("v0.3.0", "0.3.0", CHANGES.replace("Text.\n", ""), "is empty"),
        ("v0.3.0", "0.3.0", CHANGES.replace(" - 2026-11-27", ""), "no section"),
    ],
)
def test_a_release_whose_parts_disagree_is_refused(
    tag: str, version: str, changelog: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        release_notes.find_notes(tag, version, changelog)
