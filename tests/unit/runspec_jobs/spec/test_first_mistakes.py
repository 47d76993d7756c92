"""What a person writes in a first spec is answered with the very text to write."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.document import reader
from runspec_jobs.spec import rules, validate

HEAD = "apiVersion: runspec/v1\nname: a\nprovider: local\n"


def problems(text: str) -> list[Problem]:
    return validate.parse_spec(reader.read((HEAD + text).encode()))[1]


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("python x.py", "write [python, x.py]"),
        ("""python -c "print(1)" -- 3 no""", "write [python, -c, 'print(1)', --, '3', 'no']"),
        ("python ${mounts.code}/x.py", "write [python, '${mounts.code}/x.py']"),
        ("echo it''s \"a, b\"", "write [echo, its, 'a, b']"),
        ("python x.py > log", "write run: python x.py > log"),
        ('echo "$HOME"', 'write run: echo "$HOME"'),
        ("a 'b", "write [one, two]"),
    ],
)
def test_a_command_on_one_line_is_answered_with_the_list_to_write(written: str, hint: str) -> None:
    (found,) = problems(f"command: {written}\n")

    assert (found.what, found.hint) == ("a list is expected here", hint)


@pytest.mark.parametrize("written", ["python x.py -n '3' --say 'it''s' no", "sh -c 'a; b' '' -"])
def test_the_list_to_write_is_read_back_as_the_words_of_a_shell(written: str) -> None:
    (found,) = problems(f"command: {written}\n")
    assert found.hint is not None and found.hint.startswith("write [")

    again, wrong = validate.parse_spec(reader.read(f"{HEAD}command: {found.hint[6:]}\n".encode()))

    assert wrong == [] and again is not None
    assert list(again.command or ()) == shlex.split(written)


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("cluster: {spot: true}", "write capacity: spot"),
        ("spot: true", "write cluster: {capacity: spot}"),
        ("nodes: 3", "did you mean 'cluster.nodes'?"),
        ("cluster: {image: python}", "did you mean 'container.image'?"),
        ("attempts: 3", "did you mean 'retry.attempts'?"),
        ("cluster: {node: 3}", "did you mean 'nodes'?"),
        ("source: ./code", None),
    ],
)
def test_a_field_in_the_wrong_place_is_answered_with_the_right_one(
    written: str, hint: str | None
) -> None:
    (found,) = problems(f"{written}\nrun: a\n")

    assert found.hint == hint


LONG = rules.ARGUMENT_BYTES


@pytest.mark.parametrize(
    ("field", "most"),
    [
        ("run: '{}'", LONG - 1),
        ("command: [echo, '{}']", LONG - 1),
        ("run: 'true'\nenv: {{A: '{}'}}", LONG - 1 - len("A=")),
        ("run: 'true'\nsmoke: '{}'", LONG - 1),
    ],
)
def test_a_text_that_linux_passes_to_no_program_is_refused(field: str, most: int) -> None:
    assert problems(field.format("x" * most)) == []
    (wrong,) = problems(field.format("x" * (most + 1)))
    assert f"{LONG:,} bytes" in wrong.what and "a file of a mounted folder" in str(wrong.hint)
    (wrong,) = problems(field.format("ä" * (most // 2 + 1)))
    assert "bytes" in wrong.what


@pytest.mark.process
def test_the_longest_text_is_that_of_the_kernel() -> None:
    assert subprocess.run(["true", "x" * (LONG - 1)], check=False).returncode == 0
    with pytest.raises(OSError, match="too long"):
        subprocess.run(["true", "x" * LONG], check=False)
