"""A requirements file is read as pip reads it, and holds requirements only."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from runspec_jobs.errors import UsageError
from runspec_jobs.spec.requirements import RequirementsError, list_conda_lines, list_requirements


def diagnostic(text: str) -> str:
    with pytest.raises(UsageError) as told:
        list_requirements(text)
    return told.value.message


@pytest.mark.parametrize(
    "text, lines",
    [
        ("", ()),
        ("\n  \n# all\n   # indented\n", ()),
        ("numpy==1.26.4\nsix", ("numpy==1.26.4", "six")),
        ("\ufeffnumpy\r\nsix\r\n", ("numpy", "six")),
        ("  numpy  >= 1.9 ,<2   # why", ("numpy >= 1.9 ,<2",)),
        ("numpy>=1.9,\\\n  <2\nsix", ("numpy>=1.9, <2", "six")),
        ("numpy \\\n# not part of it\nsix", ("numpy", "six")),
        ("# a comment \\\nsix", ("six",)),
        ("six \\", ("six",)),
        (
            f"six==1.17.0 \\\n    --hash=sha256:{'a' * 64} \\\n    --hash=sha256:{'b' * 64}",
            (f"six==1.17.0 --hash=sha256:{'a' * 64} --hash=sha256:{'b' * 64}",),
        ),
    ],
)
def test_comments_and_line_ends_mean_what_they_mean_to_pip(
    text: str, lines: tuple[str, ...]
) -> None:
    assert list_requirements(text) == lines


@pytest.mark.parametrize(
    "line",
    [
        "Chainer",
        "zope.interface",
        "ruamel_yaml~=0.18",
        "numpy (>=1.9)",
        "torch==2.4.*",
        "torch==2.4.0+cpu",
        "x===weird-1",
        "pkg[a, b-c]>=1,!=1.5",
        'tomli; python_version < "3.11"',
        'tomli>=2 ; python_version < "3.11" and extra == "a/b"',
        "pip @ https://example.org/pip-1.zip",
        "pip@https://example.org/pip-1.zip ; os_name == 'posix'",
        "pip @ git+https://example.org/pip.git@main#egg=pip",
        "pip @ git+ssh://git@example.org/pip.git",
        "https://example.org/pip-1-py3-none-any.whl",
    ],
)
def test_every_kind_of_requirement_is_taken(line: str) -> None:
    assert list_requirements(line) == (line,)


@pytest.mark.parametrize(
    "line, what",
    [
        ("-r more.txt", "'-r' is an option, not a requirement"),
        ("--requirement=more.txt", "'--requirement' is an option, not a requirement"),
        ("-c versions.txt", "'-c' is an option, not a requirement"),
        ("-e .", "'-e' is an option, not a requirement"),
        ("--index-url https://example.org", "'--index-url' is an option, not a requirement"),
        ("--pre", "'--pre' is an option, not a requirement"),
        ("six --global-option=x", "'--global-option' is an option; only --hash may follow"),
        ("six -e .", "'-e' is an option; only --hash may follow"),
        ("./lib", "'./lib' is a file or folder of this machine"),
        ("../lib", "'../lib' is a file or folder"),
        (".", "'.' is a file or folder"),
        ("/opt/x", "'/opt/x' is a file or folder"),
        ("~/x", "'~/x' is a file or folder"),
        ("lib/x", "'lib/x' is a file or folder"),
        ("x-1-py3-none-any.whl", "'x-1-py3-none-any.whl' is a file or folder"),
        ("C:\\x", "'C:\\x' is a file or folder"),
        ("file:///opt/x", "'file:///opt/x' is a file or folder"),
        ("x @ file:///opt/x", "'x @ file:///opt/x' is a file or folder"),
        ("x @ ./lib", "'x @ ./lib' is a file or folder"),
        ("x @ https://me:${TOKEN}@example.org/x.whl", "variables are not expanded"),
        ("x @ https://me:pass@example.org/x.whl", "the URL contains a password"),
        ("x @ git+https://token@example.org/x", "the URL contains a password"),
        ("numpy=1.26", "'numpy=1.26' is not a requirement"),
        ("numpy 1.26", "'numpy 1.26' is not a requirement"),
        ("<html>", "'<html>' is not a requirement"),
        ("numpy==1.*.2", "'numpy==1.*.2' is not a requirement: "),
        ("numpy>=1.*", "'numpy>=1.*' is not a requirement: .* suffix can only be used with"),
        ("numpy~=1", "'numpy~=1' is not a requirement: "),
        ("six; system == 'x'", "'six; system == 'x'' is not a requirement: expected a marker"),
        ("six[a b]", "'six[a b]' is not a requirement: "),
    ],
)
def test_a_wrong_requirement_is_reported_with_its_line(line: str, what: str) -> None:
    assert diagnostic(f"six\n{line}\n").startswith(f"line 2: {what}")


def test_a_single_equals_sign_gets_a_hint() -> None:
    with pytest.raises(UsageError) as told:
        list_requirements("numpy=1.26")

    assert told.value.hint == "write numpy==1.26"


def test_all_wrong_requirements_are_reported_at_once() -> None:
    """A line that is continued is told where it begins."""
    with pytest.raises(RequirementsError) as told:
        list_requirements("six\n-r a\n\n./b \\\n  \\\n\n-e c\n")

    assert told.value.message.endswith("(and 2 more)")
    assert [line for line, _, _ in told.value.problems] == [2, 4, 7]


def test_a_password_is_not_repeated() -> None:
    assert "hunter2" not in diagnostic("x @ https://me:hunter2@example.org/x.whl")


@given(st.text(alphabet="ab1=<>~!.,;@[]()-#\\ \n\r\t/:'\"$", max_size=40))
def test_reading_again_changes_nothing(text: str) -> None:
    """What was read is read as itself, so a plan's lines can be checked once more."""
    try:
        lines = list_requirements(text)
    except UsageError:
        return

    assert list_requirements("\n".join(lines)) == lines


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("name: x", 1, "it has no list of dependencies"),
        ("- numpy", 1, "it has no list of dependencies"),
        ("dependencies: [", 1, ""),
        ("channels: [https://me:secret@host/c]\ndependencies: [x]", 1, "contains a password"),
        ("dependencies:\n- pip:\n  - -r more.txt", 3, "'-r' leads to a file"),
        ("dependencies:\n- pip:\n  - ./package", 3, "'./' leads to a file"),
        ("dependencies:\n- x\n- pip: [six, -r more.txt]", 3, "'-r' leads to a file"),
        ("channels: [/home/me/channel]\ndependencies: [x]", 1, "'/' leads to a file"),
        ("channels:\n- https://conda.anaconda.org/t/my-token/me\ndependencies: [x]", 2, "a token"),
    ],
)
def test_an_environment_of_conda_is_in_its_file_alone(text: str, line: int, what: str) -> None:
    with pytest.raises(RequirementsError) as error:
        list_conda_lines(text)

    (number, said, _), *_ = error.value.problems
    assert number == line
    assert what in said
