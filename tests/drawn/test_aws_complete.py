"""Every operation that our code calls at AWS is one whose answers are drawn."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from botocore import xform_name

import runspec_aws
from runspec_emulators.aws import models
from tests.drawn.aws_cases import CASES
from tests.drawn.aws_truths import TRUTHS
from tests.drawn.aws_uploads import UPLOADS

SERVICES = (
    "batch",
    "logs",
    "s3",
    "ec2",
    "iam",
    "sts",
    "ecr",
    "service-quotas",
    "fsx",
    "secretsmanager",
)
DRAWN = {case.operation for case in (CASES | UPLOADS).values()}
# A probe of `doctor --probe`: what it asks is told to a person as it is, and nothing follows from it.


def test_every_operation_that_the_code_names_is_drawn() -> None:
    named = {operations()[word] for word in words() if word in operations()}

    assert named - DRAWN == set()
    assert DRAWN - named == set()
    assert set(TRUTHS) - DRAWN == set()


@cache
def operations() -> dict[str, str]:
    """Return the operations of the services, by the names that botocore's methods have."""
    return {
        xform_name(name): name for one in SERVICES for name in models.service(one).operation_names
    }


def words() -> set[str]:
    """Return all names and texts in the code, and what its texts with one gap become by every other text."""
    found = texts_of_code()
    gaps: set[tuple[str, str]] = set()
    for node in nodes():
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif (
            isinstance(node, ast.JoinedStr)
            and sum(isinstance(v, ast.FormattedValue) for v in node.values) == 1
        ):
            texts = [v.value if isinstance(v, ast.Constant) else "\0" for v in node.values]
            begin, _, end = "".join(str(text) for text in texts).partition("\0")
            gaps.add((begin, end))
    nouns = {word for word in texts_of_code() if "_" in word} - {"log_group"}  # an option
    return found | {f"{begin}{noun}{end}" for begin, end in gaps for noun in nouns}


def texts_of_code() -> set[str]:
    found = (node.value for node in nodes() if isinstance(node, ast.Constant))
    return {text for text in found if isinstance(text, str)}


def nodes() -> Iterator[ast.AST]:
    for path in Path(runspec_aws.__file__).parent.rglob("*.py"):
        # A rehearsal fills its own store.
        # What `prices --update` reads is in no plan; test_price_list.py compares it with the model of the SDK.
        # A setup is no part of a job: test_aws_setup.py draws what answers it.
        if path.parent.name not in ("probes", "setup") and path.name not in (
            "price_list.py",
            "emulator.py",
        ):
            yield from ast.walk(ast.parse(path.read_text()))
