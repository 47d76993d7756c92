"""Answers of the emulator, checked against the models of the SDKs before they are sent, as requests are.

An unknown member, a value of another type, a missing required member or an unknown word of an enumeration is a mistake
of the emulator: a client that learned it here would be wrong about the service.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from azure.mgmt.batch.models import BatchAccount, Pool
from azure.mgmt.resource.resources.models import GenericResourceExpanded

from runspec_emulators.azure_batch.api.requests import Request
from runspec_emulators.azure_batch.resource import Response
from runspec_emulators.azure_services.sdk_models import Problem, problems
from runspec_emulators.frame.errors import raise_problems, sample

MANAGED: Mapping[str, tuple[Any, bool]] = {
    "BatchAccount_Get": (BatchAccount, False),
    "Pool_Create": (Pool, False),
    "Resources_List": (GenericResourceExpanded, True),
}
# What OData adds to an answer: https://docs.oasis-open.org/odata/odata-json-format/v4.0/odata-json-format-v4.0.html
ADDED = {"odata.metadata"}


def check(request: Request, answer: Response) -> None:
    """Raise InvalidResponse unless the models of azure-batch allow what an operation of Batch answers."""
    operation = request.operation
    names = request.query.get("$select", "")
    chosen = {name.strip().partition("/")[0] for name in names.split(",")} if names else None
    _check(operation.name, operation.answer, operation.listed, answer, "odata.nextLink", chosen)


def check_managed(name: str, answer: Response) -> None:
    """Raise InvalidResponse unless the models allow what an operation of the Resource Manager answers."""
    model, listed = MANAGED[name]
    _check(name, model, listed, answer, "nextLink", None)


def _check(
    name: str, model: Any, listed: bool, answer: Response, link: str, chosen: Collection[str] | None
) -> None:
    value = answer.value
    if isinstance(value, bytes):
        return
    if model is None or value is None:
        # An answer of 202 says that the rest comes later, and a HEAD has no body.
        wrong = value is not None or (model is not None and answer.status == 200)
        problems = [Problem("", "", value, "there is no such body")] if wrong else []
        _raise(name, iter(problems))
    elif listed:
        _raise(name, _of_page(value, model, link, chosen))
    else:
        _raise(name, _of_object(value, model, chosen))


def _raise(name: str, problems: Iterator[Problem]) -> None:
    wrong = (
        f"{problem.path or 'the body'}: {problem.reason}, and is {problem.value!r}"
        for problem in problems
    )
    raise_problems(name, wrong)


def _of_page(
    value: Any, model: Any, link: str, chosen: Collection[str] | None
) -> Iterator[Problem]:
    if not isinstance(value, dict) or not isinstance(value.get("value"), list):
        yield Problem("", "value", value, "not a list")
        return
    for name, member in value.items():
        if name == link and not isinstance(member, str):
            yield Problem("", name, member, "not a string")
        elif name not in {"value", link, *ADDED}:
            yield Problem("", name, member, "there is no such property")
    for number, member in enumerate(sample(value["value"])):
        for problem in _of_object(member, model, chosen):
            yield problem._replace(path=f"value[{number}].{problem.path}")


def _of_object(value: Any, model: Any, chosen: Collection[str] | None) -> Iterator[Problem]:
    shown = value
    if isinstance(value, dict):
        shown = {name: member for name, member in value.items() if name not in ADDED}
    for problem in problems(shown, model, answered=True):
        missing = problem.code == "MissingRequiredProperty" and "." not in problem.path
        if not (missing and chosen is not None and problem.path not in chosen):
            yield problem
