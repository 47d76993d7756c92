"""Whether a policy allows what was asked: as much of IAM as our policies use, and no judgement of the rest.

moto's own evaluation leaves resources and conditions out (moto.iam.access_control says so).
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

ELEMENTS = {"Sid", "Effect", "Action", "Resource", "Condition"}
SEGMENTS = 5  # of an ARN, before its resource: a wildcard does not reach over them


class Asked(NamedTuple):
    """One thing that somebody wants to do."""

    action: str
    resource: str = "*"
    context: Mapping[str, str] = {}


def allows(policy: Mapping[str, Any], asked: Asked) -> bool:
    return any(_allows(statement, asked) for statement in policy["Statement"])


def _allows(statement: Mapping[str, Any], asked: Asked) -> bool:
    assert statement.keys() <= ELEMENTS, statement
    assert statement["Effect"] == "Allow", statement
    tests = [
        (operator, key, value)
        for operator, keys in statement.get("Condition", {}).items()
        for key, value in keys.items()
    ]
    return (
        any(like(wanted.lower(), asked.action.lower()) for wanted in statement["Action"])
        and any(covers(wanted, asked.resource) for wanted in statement["Resource"])
        and all(_holds(*test, asked.context) for test in tests)
    )


def _holds(operator: str, key: str, value: str, context: Mapping[str, str]) -> bool:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html"""
    compare = {"StringEquals": str.__eq__, "StringLike": like}[operator]
    return key in context and compare(value, context[key])


def covers(wanted: str, arn: str) -> bool:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html"""
    if wanted == "*":
        return True
    ours, theirs = wanted.split(":", SEGMENTS), arn.split(":", SEGMENTS)
    return len(ours) == len(theirs) and all(map(like, ours, theirs))


def like(wanted: str, text: str) -> bool:
    """`*` is any text, `?` any character."""
    pattern = re.escape(wanted).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(pattern, text, re.DOTALL) is not None
