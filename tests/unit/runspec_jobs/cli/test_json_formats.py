"""What `--json` prints is a promise: each document has a format, each format a schema, and no field goes away."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.cli.commands.verbs import VERBS, options_of
from runspec_jobs.cli.json_formats import base, schemas
from runspec_jobs.plan import model
from runspec_jobs.provider import State
from tests.support import json_documents
from tests.support.json_documents import SCHEMAS, check, documents
from tests.support.root import ROOT

Capture = pytest.CaptureFixture[str]
HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\nproviders: {local: {engine: process}}\n"
PROMISED = Path(__file__).with_name("json_fields.txt")
FORMAT = re.compile(r"runspec\.[a-z-]+/v[0-9]+")
TRUST = {"format": "runspec.trust/v1", "file": "p", "trusted": True}


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(HEAD + "command: [echo, hi]\n")
    return path


def printed(capsys: Capture, *words: str, code: int = 0) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run([*words, "--json"]) == code, capsys.readouterr().err
    return documents(capsys.readouterr().out)


# The promise


def fields(schema: Mapping[str, Any], root: Mapping[str, Any], path: str) -> Iterator[str]:
    """Give a line for each type, each word of an enumeration, and each field that a schema describes."""
    if ref := schema.get("$ref"):
        schema = root["$defs"][ref.rpartition("/")[2]]
    for one in schema.get("anyOf", ()):
        yield from fields(one, root, path)
    kind = schema.get("type")
    if path and kind:
        yield f"{path} {kind}"
    yield from (f"{path} = {word}" for word in schema.get("enum", ()))
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield f"{here} {'always' if name in schema['required'] else 'sometimes'}"
        yield from fields(field, root, here)
    inner = (schema.get("items"), *schema.get("prefixItems", ()))
    for item in inner:
        if item:
            yield from fields(item, root, f"{path}[]")


def test_no_field_was_renamed_or_taken_away() -> None:
    """Lines of `json_fields.txt` are added when a field is, and never changed: programs of users rely on each."""
    promised = set(PROMISED.read_text().splitlines())
    found = {
        f"{form} {line}"
        for form, schema in schemas.schemas().items()
        for line in fields(schema, schema, "")
    }

    assert promised - found == set(), "these are promised; undo the change, or make a new version"
    assert found - promised == set(), f"these are new: add them to {PROMISED}"


def test_the_schemas_are_those_of_the_models() -> None:
    expected = {
        schemas.file_name(form): f"{schemas.text(schema)}\n"
        for form, schema in schemas.schemas().items()
    }

    found = {path.name: path.read_text() for path in SCHEMAS.glob("*.v*.schema.json")}

    assert found == expected


def test_a_published_schema_lets_fields_be_added() -> None:
    schema = schemas.schemas()["runspec.trust/v1"]

    jsonschema.validate({**TRUST, "since": 1}, schema)


def test_every_format_that_is_printed_has_a_schema_and_every_schema_is_of_one() -> None:
    core = ROOT / "runner" / "runspec_jobs"
    others = (core / "diagnostics" / "render.py", core / "api" / "reports.py")
    files = [
        *core.glob("cli/*.py"),
        *core.glob("cli/live/*.py"),
        *core.glob("cli/views/*.py"),
        *others,
    ]

    found = {form for file in files for form in FORMAT.findall(file.read_text())}

    assert {*found, model.FORMAT} == set(schemas.schemas())


def test_the_page_has_every_format_and_every_verb_with_json() -> None:
    page = (ROOT / "docs" / "json.md").read_text()

    rows = [
        line.split("|")[1:3]
        for line in page.splitlines()
        if line.startswith("| ") and "`runspec." in line
    ]
    formats = {form for row in rows for form in FORMAT.findall(row[1])}
    verbs = {verb for row in rows for verb in re.findall(r"`([a-z]+)[^`]*`", row[0])}
    of_json = {name for name in VERBS if takes_json(name)} - {"policy"}

    assert formats == set(schemas.schemas())
    assert of_json - verbs == set()


def takes_json(name: str) -> bool:
    return "as_json" in options_of(name).declared


def test_the_states_are_those_of_jobs_and_three_of_records() -> None:
    assert set(get_args(base.RunState)) - {str(state) for state in State} == {
        "destroyed",
        "not-started",
        "unreadable",
    }
    assert {str(state) for state in State} <= set(get_args(base.RunState))


def test_a_state_is_one_word() -> None:
    promised = PROMISED.read_text().splitlines()
    words = [line.partition(" = ")[2] for line in promised if " = " in line]

    assert words and all(re.fullmatch(r"[a-z][a-z-]*", word) for word in words)


# The check of all tests


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({**TRUST, "format": "runspec.nothing/v1"}, "has no schema"),
        ({"file": "p", "trusted": True}, "without a format"),
        ([TRUST], "without a format"),
        ({"format": "runspec.trust/v1", "path": "p", "trusted": True}, "'file' is a required"),
        ({**TRUST, "since": 1}, "Additional properties"),
        ({**TRUST, "trusted": "yes"}, "is not of type 'boolean'"),
    ],
)
def test_json_that_no_schema_describes_fails_a_test(document: Any, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check(["trust", "--json"], json.dumps(document))


def test_several_documents_are_all_checked() -> None:
    with pytest.raises(AssertionError, match="without a format"):
        check(["trust", "--json"], f"{json.dumps(TRUST)}\n{json.dumps(TRUST, indent=2)}\n{{}}\n")


def test_a_number_that_json_lacks_fails_a_test() -> None:
    with pytest.raises(ValueError, match="JSON has no NaN"):
        check(["simulate", "--json"], '{"format": NaN}')


def test_json_printed_in_this_process_is_checked(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runspec_jobs.cli import output

    def old(form: str, found: Mapping[str, Any]) -> None:
        output.out(json.dumps(found))

    monkeypatch.setattr(output, "out_json", old)

    with pytest.raises(AssertionError, match="without a format"):
        run(["list", "--json"])


@pytest.mark.process
def test_json_printed_by_another_process_is_checked() -> None:
    code = "print('{}')  # runspec_jobs"

    with pytest.raises(AssertionError, match="without a format"):
        subprocess.run([sys.executable, "-c", code, "list", "--json"], capture_output=True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ([sys.executable, "-m", "runspec_jobs", "list"], ["list"]),
        (["unshare", "sh", sys.executable, "-m", "runspec_jobs", "list"], ["list"]),
        ([f"{Path(sys.executable).parent}/runspec", "list"], ["list"]),
        ([sys.executable, "-m", "runspec", "list"], []),  # an older version
        (["squeue", "--json"], []),
        ("runspec list --json", []),
    ],
)
def test_command_lines_of_runspec_are_recognized(line: Any, words: list[str]) -> None:
    assert json_documents.command_line(line) == words


# Documents


@pytest.mark.process
def test_every_verb_of_a_run_prints_documents(spec: Path, capsys: Capture, tmp_path: Path) -> None:
    outputs = "outputs: [{name: made, path: /job/made}]\n"
    spec.write_text(HEAD + outputs + 'run: |\n  echo hi\n  echo 1 > "${outputs.made}/a"\n')

    found = [
        *printed(capsys, "plan", "--diff", "job.yaml"),
        *printed(capsys, "apply", "job.yaml"),
        *printed(capsys, "list"),
        *printed(capsys, "status", "job"),
        *printed(capsys, "logs", "job"),
        *printed(capsys, "logs", "--follow", "job"),
        *printed(capsys, "logs", "job", "--save", "log"),
        *printed(capsys, "outputs", "job"),
        *printed(capsys, "fetch", "job", "got"),
        *printed(capsys, "cancel", "job"),
        *printed(capsys, "destroy", "job"),
        *printed(capsys, "destroy", "--site"),
        *printed(capsys, "status", "nothing", code=2),
    ]

    assert [one["format"].removeprefix("runspec.").removesuffix("/v1") for one in found] == [
        *("plan-diff", "result", "list", "status", "log", "log", "result", "saved-logs"),
        *("outputs", "fetch", "cancel", "destroy", "destroy-site", "error"),
    ]


def test_every_verb_of_a_machine_prints_documents(spec: Path, capsys: Capture) -> None:
    found = [
        *printed(capsys, "init", "--provider", "slurm", "new/job.yaml"),
        *printed(capsys, "trust", "new/runspec-profile.yaml"),
        *printed(capsys, "trust", "--list"),
        *printed(capsys, "trust", "--remove", "new/runspec-profile.yaml"),
        *printed(capsys, "providers"),
        *printed(capsys, "doctor", "nothing", code=69),
    ]

    assert [one["format"].removeprefix("runspec.").removesuffix("/v1") for one in found] == [
        *("init", "trust", "trusted", "trust", "providers", "error")
    ]


@pytest.mark.process
def test_a_run_that_is_left_to_itself_waits_as_far_as_is_known(spec: Path, capsys: Capture) -> None:
    (found,) = printed(capsys, "apply", "--detach", "job.yaml")

    assert (found["format"], found["state"]) == ("runspec.result/v1", "waiting")
    assert run(["logs", "--follow", "job"]) == 0


def test_problems_of_a_spec_are_a_document_each(spec: Path, capsys: Capture) -> None:
    spec.write_text(HEAD + "commands: [true]\nclutser: {}\n")

    expected = printed(capsys, "plan", "job.yaml", code=2)

    assert len(expected) > 1
    assert {one["format"] for one in expected} == {"runspec.diagnostic/v1"}
    assert printed(capsys, "validate", "job.yaml", code=2) == expected


def test_a_bug_is_an_error_too(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(options: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("runspec_jobs.cli.lookup.providers", fail)

    (found,) = printed(capsys, "providers", code=70)

    report = Path(found["error"].rpartition(" ")[2])
    assert found["exit_code"] == 70
    assert "ZeroDivisionError" in found["error"]
    report.unlink()


def test_a_plan_of_several_sizes_is_one_document(spec: Path, capsys: Capture) -> None:
    (alone,) = printed(capsys, "plan", "job.yaml")
    spec.write_text(f"{spec.read_text()}scaling: [1]\n")
    (of_one,) = printed(capsys, "plan", "job.yaml")
    spec.write_text(spec.read_text().replace("[1]", "[1, 2]"))

    (found,) = printed(capsys, "plan", "job.yaml")

    assert found["format"] == "runspec.plans/v1"
    assert found["plans"][0] == of_one
    assert [plan["run"] for plan in found["plans"]] == ["job-n1-000000", "job-n2-000000"]
    stored = {"format", "provider", "run", "digest", "steps"}
    assert alone.keys() == of_one.keys() == stored | {"cost"}


def test_changes_of_several_sizes_are_one_document(spec: Path, capsys: Capture) -> None:
    spec.write_text(f"{spec.read_text()}scaling: [1, 2]\n")

    (found,) = printed(capsys, "plan", "--diff", "--detailed-exitcode", "job.yaml", code=3)

    assert found["format"] == "runspec.plan-diffs/v1"
    assert [(one["name"], one["run"], one["changes"]) for one in found["diffs"]] == [
        ("job-n1", None, None),
        ("job-n2", None, None),
    ]


@pytest.mark.process
def test_unknown_fields_of_a_damaged_record_are_null(spec: Path, capsys: Capture) -> None:
    assert run(["apply", "job.yaml"]) == 0
    (row,) = printed(capsys, "list")[0]["runs"]
    (journal,) = Path.home().glob("runspec/runs/*/journal.jsonl")
    journal.write_bytes(b"{")

    (found,) = printed(capsys, "list")[0]["runs"]

    assert (found["state"], found["provider"], found["began"]) == ("unreadable", None, None)
    assert found["reason"] and found["run"] == row["run"]
    assert run(["list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[1:4] == ["-", "unreadable", "-"]


def test_the_schema_of_a_format_is_printed(capsys: Capture) -> None:
    assert run(["schema", "runspec.trust/v1"]) == 0

    assert json.loads(capsys.readouterr().out)["title"] == "runspec.trust/v1"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["runspec.trus/v1"], "did you mean 'runspec.trust/v1'?"),
        (["x"], "runspec docs json lists the formats"),
        (["runspec.trust/v1", "--reference"], "--reference cannot be used with runspec.trust/v1"),
    ],
)
def test_a_format_that_does_not_exist_is_an_error(
    words: list[str], why: str, capsys: Capture
) -> None:
    assert run(["schema", *words]) == 2

    assert why in capsys.readouterr().err
