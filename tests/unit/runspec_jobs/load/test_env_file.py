"""The variables of `env_file` count as those of `env`, and what is wrong in the file is said with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_jobs.api import jobs
from runspec_jobs.load.overrides import parse_env_file
from runspec_jobs.load.source import InvalidSpec

HEAD = """\
apiVersion: runspec/v1
name: a
provider: local
command: [env]
smoke: [env]
providers: {local: {engine: process}}
"""
FILE = """\
# a comment
export A=from file   # with a comment
B="x\\ty \\"z\\" \\$HOME" # c
C='$HOME #'

D=
E=a#b
F=3.10
A=again
"""
VALUES = {"A": "again", "B": 'x\ty "z" $HOME', "C": "$HOME #", "D": "", "E": "a#b", "F": "3.10"}


def load(folder: Path, content: str, spec: str = "env_file: prod.env\n") -> jobs.Job:
    (folder / "prod.env").write_text(content)
    (folder / "job.yaml").write_text(HEAD + spec)
    return jobs.load(folder / "job.yaml")


def test_lines_are_read_as_other_tools_write_them() -> None:
    found = list(parse_env_file("\ufeff" + FILE))

    assert {line.name: line.value for line in found} == VALUES
    assert not [line for line in found if line.what]


def test_a_plan_with_a_file_is_that_with_the_variables_in_env(tmp_path: Path) -> None:
    """Values in env come before those of the file, and a smoke test has all of them."""
    one = load(tmp_path, FILE, "env_file: prod.env\nenv: {F: own, G: 1}\n")
    values = {**VALUES, "F": "own", "G": "1"}
    other = load(tmp_path, "", f"env: {values}\n".replace("'x\\ty", "'x\\ty"))

    assert one.spec.env == values
    assert one.spec.model_dump(exclude={"env"}) == other.spec.model_dump(exclude={"env"})
    assert jobs.plan(one).steps[-1].do.params["env"] == {"PYTHONUNBUFFERED": "1", **values}
    assert jobs.make_smoke_test(one).spec.env == {**values, "RUNSPEC_SMOKE": "1"}
    assert b"env_file" not in one.text.applied


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("just text", "prod.env:2: this is not NAME=VALUE", "NAME=VALUE"),
        ("1A=x", "prod.env:2: this is not NAME=VALUE", "NAME=VALUE"),
        ("A=${B}", "prod.env:2: ${...} in A is not replaced", "single quotes"),
        ('A="$B"', "prod.env:2: ${...} in A is not replaced", "single quotes"),
        ('A="b', "prod.env:2: the quotes of A are not closed", "same line"),
    ],
)
def test_a_line_that_is_wrong_is_named(line: str, said: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec) as caught:
        load(tmp_path, f"\n{line}\n")

    (found,) = caught.value.texts[0].diagnostics
    assert (found.line, found.path, found.what) == (7, "env_file", said)
    assert hint in (found.hint or "")


def test_a_rule_that_a_variable_breaks_is_said_at_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec) as caught:
        load(tmp_path, "A=1\nRUNSPEC_A=1\n")

    (found,) = caught.value.texts[0].diagnostics
    assert (found.file, found.path) == ("prod.env:2", "env.RUNSPEC_A")


def test_a_value_that_looks_like_a_secret_is_noted_without_it(tmp_path: Path) -> None:
    made = load(tmp_path, "API_TOKEN=sk-abcdefghijklmnop1234567890\n")

    (note,) = made.notes
    assert (note.file, note.path) == ("prod.env:1", "env.API_TOKEN")
    assert "sk-" not in str(note)


@pytest.mark.parametrize(
    ("name", "said"), [("none.env", "no such file"), ("../out.env", "a file outside of")]
)
def test_a_file_that_cannot_be_read_is_an_error(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "out.env").write_text("A=1\n")
    folder = tmp_path / "in"
    folder.mkdir()
    with pytest.raises(InvalidSpec) as caught:
        load(folder, "", f"env_file: {name}\n")

    assert said in caught.value.texts[0].diagnostics[0].what


def test_a_file_that_a_mount_has_too_is_not_uploaded(tmp_path: Path) -> None:
    mount = "mounts: [{name: code, source: ., target: /job/code}]\n"
    job = load(tmp_path, "A=1\n", f"env_file: prod.env\n{mount}")

    left_out = [file.path for file in job.inputs.bundles["code"].left_out]
    assert (job.spec.env, left_out) == ({"A": "1"}, ["prod.env"])
