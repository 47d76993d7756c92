"""The hint for a short form of another tool is a value that is valid as it stands."""

from __future__ import annotations

import pytest

from runspec_jobs.document import reader
from runspec_jobs.spec.validate import parse_spec

HEAD = "apiVersion: runspec/v1\nname: n\nprovider: local\n"


def explain(text: str) -> list[tuple[str, str | None]]:
    _, problems = parse_spec(reader.read((HEAD + text).encode()))
    return [(problem.what, problem.hint) for problem in problems]


@pytest.mark.parametrize(
    ("field", "given", "hint"),
    [
        ("outputs", "./results", "[{name: results, path: /job/results}]"),
        ("outputs", "/job/model", "[{name: model, path: /job/model}]"),
        ("outputs", "", "[{name: results, path: /job/results}]"),
        ("mounts", ".", "[{name: code, source: ., target: /job/code}]"),
        ("mounts", "{/job/data: ./data}", "[{name: data, source: ./data, target: /job/data}]"),
        ("mounts", "{data: ./sets}", "[{name: data, source: ./sets, target: /job/data}]"),
        ("mounts", "{./sets: /job/a}", "[{name: a, source: ./sets, target: /job/a}]"),
        ("mounts", "{data: /sets}", "[{name: data, source: /sets, target: /job/data}]"),
        ("mounts", "store://sets/a", "[{name: a, source: store://sets/a, target: /job/a}]"),
        ("mounts", "sets/2024", "[{name: code, source: ./sets/2024, target: /job/code}]"),
        ("metric", "loss", "{name: loss, goal: min, pattern: 'loss[=: ]+([-+.0-9eE]+)'}"),
        ("metric", "val_acc", "{name: val_acc, goal: max, pattern: 'val_acc[=: ]+([-+.0-9eE]+)'}"),
        ("container", "python:3.11", "{image: python:3.11}"),
    ],
)
def test_the_hint_for_a_short_form_is_valid(field: str, given: str, hint: str) -> None:
    command = "command: ['true']\n"

    ((_, said),) = explain(f"{command}{field}: {given}\n")

    assert said == f"write {hint}"
    assert explain(f"{command}{field}: {hint}\n") == []


@pytest.mark.parametrize(
    ("field", "given", "hint"),
    [
        ("outputs", "./results", "{name: results, path: /job/results}"),
        ("mounts", '".:/job/code"', "{name: code, source: ., target: /job/code}"),
        ("mounts", "s3://bucket/data", "{name: data, source: s3://bucket/data, target: /job/data}"),
        ("mounts", "s3://own/a:/job/b", "{name: b, source: s3://own/a, target: /job/b}"),
        ("mounts", '"./data:/data:ro"', "{name: data, source: ./data, target: /data}"),
    ],
)
def test_the_hint_for_an_item_of_a_short_form_is_valid(field: str, given: str, hint: str) -> None:
    ((_, said),) = explain(f"command: ['true']\n{field}: [{given}]\n")

    assert said == f"write {hint}"
    assert explain(f"command: ['true']\n{field}: [{hint}]\n") == []


def test_patterns_of_files_of_an_output_are_told_their_field() -> None:
    text = "command: ['true']\noutputs: [{name: o, path: /job/o, %s}]\n"

    ((_, hint),) = explain(text % "files: ['*.pt']")

    assert hint == "write include: ['*.pt']"
    assert explain(text % "include: ['*.pt']") == []


def test_a_field_whose_lines_are_not_indented_is_told_to_indent_them() -> None:
    said = explain("command: ['true']\ncluster:\nnodes: 2\n")

    assert (
        "a mapping is expected here",
        "indent the lines that belong to it by two spaces",
    ) in said


def test_typographic_quotes_are_an_error_and_not_a_part_of_the_program() -> None:
    said = explain("command: [“python”, train.py]\n")

    assert said == [("typographic quotes are part of the word", 'write "python"')]
    ((_, hint),) = explain("command: “python train.py”\n")
    assert hint == "write [python, train.py]"


def test_typographic_quotes_within_others_are_meant() -> None:
    assert explain("command: [echo, '„Hallo“', \"‘a’\"]\n") == []


def test_the_name_of_a_gpu_in_place_of_a_number_is_told_where_to_write_it() -> None:
    ((_, hint),) = explain("command: ['true']\ncluster: {gpus: A-100}\n")

    assert hint == "write gpus: 1 and gpu_type: A100"
    for written, name in (("A100:8", "A100"), ("A100-80GB:8", "A100-80GB")):
        ((_, hint),) = explain(f"command: ['true']\ncluster: {{gpus: '{written}'}}\n")
        assert hint == f"write gpus: 8 and gpu_type: {name}"
    assert explain("command: ['true']\ncluster: {cpus: C5}\n") == [
        ("'C5' is not a whole number", None)
    ]
