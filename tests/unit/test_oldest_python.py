"""Nothing of ours asks for more than the oldest Python that we say it runs on.

mypy finds what is new in Python 3.12. It cannot find what a later release of 3.11 added, such as the filters of tarfile
in 3.11.4, because typeshed describes the newest 3.11; Debian 12 has 3.11.2. The tests here look for those by name.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.root import ROOT

FOLDERS = ("runner", "providers", "emulators", "tests", "bench", "specs")

# What releases after 3.11.0 brought, by the "Changed in version 3.11.N" of https://docs.python.org/3.11/ and by
# comparing the modules of 3.11.2 with those of 3.11.7. A function and its parameter:
PARAMETERS = {
    ("extractall", "filter"): "3.11.4",
    ("extract", "filter"): "3.11.4",
    ("unpack_archive", "filter"): "3.11.4",
    ("lseek", "whence"): "3.11.4",
    ("getaddresses", "strict"): "3.11.10",
    ("parseaddr", "strict"): "3.11.10",
}
# Names that nothing else has:
NAMES = {
    "ENOTCAPABLE": "3.11.1",
    "data_filter": "3.11.4",
    "tar_filter": "3.11.4",
    "fully_trusted_filter": "3.11.4",
    "extraction_filter": "3.11.4",
    "FilterError": "3.11.4",
    "AbsolutePathError": "3.11.4",
    "AbsoluteLinkError": "3.11.4",
    "OutsideDestinationError": "3.11.4",
    "LinkOutsideDestinationError": "3.11.4",
    "SpecialFileError": "3.11.4",
    "SetReparseDeferralEnabled": "3.11.9",
    "GetReparseDeferralEnabled": "3.11.9",
    "verify_generated_headers": "3.11.10",
    "ALLOW_MISSING": "3.11.13",
    "LinkFallbackError": "3.11.13",
}
WORDS = re.compile("|".join({*NAMES, *(function for function, _ in PARAMETERS)}))


def newer(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, what it uses, and since which release of 3.11 there is such a thing."""
    if not WORDS.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                for word in (keyword.arg for keyword in node.keywords):
                    if (since := PARAMETERS.get((name, word or ""))) is not None:
                        yield node.lineno, f"{name}({word}=)", since
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name):
                if name in NAMES:
                    yield node.lineno, name, NAMES[name]
            case _:
                pass


@pytest.mark.parametrize(
    "source,found",
    [
        ("archive.extractall(at, wanted, filter='data')", [(1, "extractall(filter=)", "3.11.4")]),
        ("\nfrom tarfile import data_filter", [(2, "data_filter", "3.11.4")]),
        ("os.path.realpath(at, strict=os.path.ALLOW_MISSING)", [(1, "ALLOW_MISSING", "3.11.13")]),
        ("archive.extractall(at, wanted)", []),
        ("archive.add(at, filter=regular)", []),  # of Python 3.2
    ],
)
def test_code_for_newer_pythons_than_3_11_0_is_found(
    source: str, found: list[tuple[int, str, str]]
) -> None:
    assert list(newer(source)) == found


def test_nothing_asks_for_more_than_python_3_11_0() -> None:
    files = [file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]

    found = [
        f"{file.relative_to(ROOT)}:{line}: {what} is of Python {since}"
        for file in [*files, ROOT / "tools" / "pin"]
        for line, what, since in newer(file.read_text("utf-8"))
        if file != Path(__file__)
    ]

    assert found == []


@pytest.mark.process
def test_the_agent_needs_no_newer_python_than_3_6() -> None:
    """Vermin says so."""
    vermin = Path(sys.executable).with_name("vermin")
    package = ROOT / "runner" / "runspec_agent"

    done = subprocess.run(
        [vermin, "--violations", "--no-tips", "-t=3.6-", package], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout
