"""Several job specs in one file, or in one folder, are a chain; problems keep their lines and columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_jobs.api.specs import check_file
from runspec_jobs.errors import UsageError
from runspec_jobs.load.chain_file import chain_name, documents, is_chain, read_chain

HEAD = "apiVersion: runspec/v1\nprovider: local\ncommand: [echo]\n"
FIRST = f"{HEAD}name: first\noutputs: [{{name: data, path: /job/data}}]\n"


def test_documents_of_comments_alone_do_not_count() -> None:
    assert len(documents(b"# a\n---\na: 1\n---\n# b\n...\n")) == 1
    assert len(documents(b"---\na: 1\n---\nb: 2\n")) == 2
    assert len(documents(b"run: |\n  a\n  ---\n  b\n")) == 1


def test_a_file_with_one_document_or_none_is_no_chain(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"---\n{FIRST}")

    assert not is_chain(path)
    assert not is_chain(tmp_path / "missing.yaml")


def test_a_problem_in_a_later_document_has_its_line_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(f"{FIRST}---\n{HEAD}name: second\nneeds: [frist]\n")

    (problem,) = [one for text in check_file(path) for one in text.diagnostics]

    assert (problem.line, problem.column, problem.path) == (11, 9, "needs[0]")
    assert problem.what == "there is no job 'frist' in this chain"
    assert problem.hint == "did you mean 'first'?"


def test_a_syntax_error_in_a_later_document_has_its_line_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(f"{FIRST}---\nname: [\n")

    (problem,) = [one for text in check_file(path) for one in text.diagnostics]

    assert problem.line >= 7


def test_a_document_is_recorded_without_the_others(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    second = f"{HEAD}name: second\n"
    path.write_text(f"{FIRST}---\n{second}")

    assert [text.applied.decode() for text in read_chain(path).texts] == [FIRST, second]


def test_a_folder_is_a_chain_of_its_job_files(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(f"{HEAD}name: second\nneeds: [first]\n")
    (tmp_path / "a.yml").write_text(FIRST)
    (tmp_path / "runspec-profile.yaml").write_text("providers: {local: {}}\n")
    (tmp_path / "notes.txt").write_text("x")

    chain = read_chain(tmp_path)

    assert [Path(text.name).name for text in chain.texts] == ["a.yml", "b.yaml"]
    assert [one for text in check_file(tmp_path) for one in text.diagnostics] == []


@pytest.mark.parametrize("indent", [None, 2])
def test_a_folder_of_json_texts_is_a_chain(tmp_path: Path, indent: int | None) -> None:
    """YAML contains JSON: https://yaml.org/spec/1.2.2/#12-yaml-history."""
    first = {"name": "first", "apiVersion": "runspec/v1", "provider": "local", "command": ["echo"]}
    second = {**first, "name": "second", "needs": ["first"]}
    for number, spec in enumerate((first, second)):
        (tmp_path / f"{number}.yaml").write_text(json.dumps(spec, indent=indent))
    (tmp_path / "data.yaml").write_text(json.dumps({"of": {"apiVersion": "v1"}}, indent=indent))

    chain = read_chain(tmp_path)

    assert [Path(text.name).name for text in chain.texts] == ["0.yaml", "1.yaml"]
    assert [one for text in check_file(tmp_path) for one in text.diagnostics] == []


def test_a_folder_without_jobs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no job specs"):
        read_chain(tmp_path)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("jobs/Train_All.v2.yaml", "train-all-v2"),
        ("7.yaml", "chain-7"),
        ("é.yaml", "chain"),
        (f"{'x' * 80}.yaml", "x" * 40),
    ],
)
def test_a_chain_is_called_as_its_file(path: str, name: str) -> None:
    assert chain_name(Path(path)) == name
