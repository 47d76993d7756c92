"""A specifier of Python versions means what it means to packages, wherever it is read."""

from __future__ import annotations

import subprocess
import sys

import pytest

from runspec_jobs.errors import UsageError
from runspec_jobs.provider.commands import python_fits, python_version
from tests.support.spec_examples import SHORT
from tests.unit.runspec_jobs.spec.test_model import problems

THERE = "2.7 3.8.1 3.9.0 3.9.18 3.11.7 3.12.0rc1 3.12.0 3.13.1".split()


@pytest.mark.parametrize(
    "specifier, fitting",
    [
        (">=3.9,<3.12", "3.9.0 3.9.18 3.11.7"),
        ("<3.12,>=3", "3.8.1 3.9.0 3.9.18 3.11.7"),
        (">3.11", "3.11.7 3.12.0rc1 3.12.0 3.13.1"),
        (">3.9", "3.9.18 3.11.7 3.12.0rc1 3.12.0 3.13.1"),
        ("3.11", "3.11.7"),
        (" 3.11 ", "3.11.7"),
        ("3", "3.8.1 3.9.0 3.9.18 3.11.7 3.12.0rc1 3.12.0 3.13.1"),
        ("==3.11.*", "3.11.7"),
        ("==3.11.7", "3.11.7"),
        ("==3.11.5", ""),
        ("==3.12", "3.12.0"),
        (">=3.12", "3.12.0 3.13.1"),
        (">=3.12.0rc1", "3.12.0rc1 3.12.0 3.13.1"),
        ("!=3.11.*,>=3.9.1", "3.9.18 3.12.0rc1 3.12.0 3.13.1"),
        ("!=3.11.7,>=3.11", "3.12.0rc1 3.12.0 3.13.1"),
        ("~=3.9.1", "3.9.18"),
        ("~=3.9", "3.9.0 3.9.18 3.11.7 3.12.0rc1 3.12.0 3.13.1"),
        (" >= 3.13 , <= 3.13.1 ", "3.13.1"),
        ("<3.6", "2.7"),
        (">=3.14", ""),
        ("===3.9.18", "3.9.18"),
    ],
)
def test_a_specifier_means_what_it_means_to_packages(specifier: str, fitting: str) -> None:
    assert [version for version in THERE if python_fits(version, specifier)] == fitting.split()


def test_a_version_of_two_numbers_is_the_first_of_its_series() -> None:
    """Clusters whose survey is older have said no more."""
    asked = [">=3.11", "<3.11", ">=3.8,<3.12", "3.11", "!=3.11.4"]

    assert [s for s in asked if python_fits("3.11", s)] == [
        ">=3.11",
        ">=3.8,<3.12",
        "3.11",
        "!=3.11.4",
    ]


@pytest.mark.parametrize("version", ["3.14.0a7+", "3.14.0a7"])
def test_a_python_built_from_a_checkout_has_a_version(version: str) -> None:
    assert python_fits(version, ">=3.13") and not python_fits(version, ">=3.14")


def test_a_version_that_cannot_be_read_is_the_oldest() -> None:
    assert sorted(["3.10.1", "3.9.18", "weird"], key=python_version) == [
        "weird",
        "3.9.18",
        "3.10.1",
    ]
    assert not python_fits("weird", ">=3")


NO_SPECIFIERS = ["banana", "3.x", ">=3.9 <3.12", "<3.12,", "/bin/sh", "=3", "~=3", "3.8 or so"]


@pytest.mark.parametrize("specifier", ["", *NO_SPECIFIERS])
def test_a_wrong_version_specifier_is_refused(specifier: str) -> None:
    with pytest.raises(UsageError, match="is not a version specifier") as told:
        python_fits("3.11.7", specifier)

    assert told.value.hint == "write it as '>=3.9,<3.12' or '3.11'"


@pytest.mark.parametrize("specifier", NO_SPECIFIERS)
def test_a_spec_with_no_specifier_is_refused_for_every_provider(specifier: str) -> None:
    (told,) = problems(SHORT + f"container: {{python: '{specifier}'}}\n")

    assert told.path == ("container", "python")
    assert told.what == f"'{specifier}' is not a version specifier"


@pytest.mark.process
@pytest.mark.parametrize("python, loaded", [("", "False"), ("container: {python: '3.11'}", "True")])
def test_the_library_is_loaded_where_a_specifier_is_read_and_not_before(
    python: str, loaded: str
) -> None:
    """Loading it takes 9 ms of processor time, which most commands do not need."""
    program = (
        "import sys; from runspec_jobs.document import reader; from runspec_jobs.spec import validate;"
        "assert validate.parse_spec(reader.read(sys.argv[1]))[0]; print('packaging.version' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, SHORT + python], capture_output=True, text=True
    )

    assert (done.stdout.strip(), done.returncode) == (loaded, 0), done.stderr
