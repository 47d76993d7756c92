"""Selectors of labels and fields.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors,
https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from runspec_emulators.kubernetes import errors

Test = Callable[[Mapping[str, Any]], bool]

FIELDS = {
    "pods": (
        "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork status.phase "
        "status.podIP status.nominatedNodeName"
    ).split(),
    "events": (
        "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid "
        "involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason "
        "reportingComponent source type"
    ).split(),
    "jobs": ["status.successful"],
    "nodes": ["spec.unschedulable"],
    "secrets": ["type"],
    "namespaces": ["status.phase"],
    "services": ["spec.clusterIP", "spec.type"],
}
_SET = re.compile(r"\s*(\S+)\s+(in|notin)\s*\(([^)]*)\)\s*")
_EQUAL = re.compile(r"\s*([^=!\s]+)\s*(==|=|!=)\s*([^=!\s]*)\s*")
_HAS = re.compile(r"\s*(!?)\s*([^=!\s(),]+)\s*")


def label_test(text: str) -> Test:
    """Return the test of the labels of an object; raise ServiceError if the selector cannot be read."""
    parts = [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]
    tests = [_label_part(part) for part in parts]
    return lambda value: all(test(value["metadata"].get("labels") or {}) for test in tests)


def _label_part(part: str) -> Test:
    if match := _SET.fullmatch(part):
        key, word, inner = match.groups()
        values = {v.strip() for v in inner.split(",")}
        if word == "in":
            return lambda labels: labels.get(key) in values
        # Objects without the key fit too, as they do !=.
        return lambda labels: key not in labels or labels[key] not in values
    if match := _EQUAL.fullmatch(part):
        key, word, wanted = match.groups()
        if word == "!=":
            return lambda labels: labels.get(key) != wanted
        return lambda labels: labels.get(key) == wanted
    if match := _HAS.fullmatch(part):
        no, key = match.groups()
        return lambda labels: (key in labels) != bool(no)
    raise errors.bad_request(_why_not(part))


def _why_not(part: str) -> str:
    """Return what the parser of selectors says of a part that it cannot read."""
    if match := re.fullmatch(r"\s*\S+\s+(?:in|notin)\s+([^\s(]+).*", part):
        return f"unable to parse requirement: found '{match[1]}' expected: '('"
    if match := re.match(r"\s*[^=!\s]+\s*(?:==|=|!=)\s*[^=!\s]*\s*(==|=|!=|\S+)", part):
        return f"found '{match[1]}', expected: ',' or 'end of string'"
    return f"unable to parse requirement: found '{part.strip()}', expected: in, notin, =, ==, !="


def field_test(plural: str, text: str) -> Test:
    """Return the test of the fields of an object; raise ServiceError for a field that is not supported."""
    known = ["metadata.name", "metadata.namespace", *FIELDS.get(plural, ())]
    tests = []
    for part in filter(str.strip, text.split(",")):
        match = _EQUAL.fullmatch(part)
        if match is None:
            raise errors.bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        name, word, wanted = match.groups()
        if name not in known:
            raise errors.bad_request(
                f"field label not supported: {name}"
                if plural in FIELDS
                else f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            )
        tests.append((name, word, wanted))
    return lambda value: all((field(value, n) == w) == (word != "!=") for n, word, w in tests)


def field(value: Mapping[str, Any], name: str) -> str:
    """Return a field of an object as selectors see it."""
    # Selectors know status.succeeded by this name: pkg/registry/batch/job/strategy.go.
    if name == "status.successful":
        return str(value.get("status", {}).get("succeeded", 0))
    if name == "source":
        return str(value.get("source", {}).get("component", ""))
    inner: Any = value
    for part in name.split("."):
        inner = inner.get(part) if isinstance(inner, Mapping) else None
    if isinstance(inner, bool):
        return str(inner).lower()
    return "" if inner is None else str(inner)
