"""Names, labels and annotations: what they may be, and how the server says that they are not.

https://kubernetes.io/docs/concepts/overview/working-with-objects/names/,
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.errors import Cause

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_OLD = "[a-z]([-a-z0-9]*[a-z0-9])?"
_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY = "[-._a-zA-Z0-9]+"
ENDS = "must start and end with an alphanumeric character"
SUBDOMAIN_WRONG = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    f"{ENDS} (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
LABEL_WRONG = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and {ENDS} "
    f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
OLD_WRONG = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    f"validation is '{_OLD}')"
)
VALUE_WRONG = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and "
    f"{ENDS} (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
NAME_WRONG = (
    f"name part must consist of alphanumeric characters, '-', '_' or '.', and {ENDS} "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
KEY_WRONG = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    f"'KEY_NAME',  or 'key-name', regex used for validation is '{_KEY}')"
)
FINALIZERS = ("foregroundDeletion", "kubernetes", "orphan")
FINALIZER_WRONG = "name is neither a standard finalizer name nor is it fully qualified"
# Without vowels, so that no name is a rude word by chance: pkg/util/rand of k8s.io/apimachinery
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
# TotalAnnotationSizeLimitB in pkg/api/validation/objectmeta.go of k8s.io/apimachinery
ANNOTATIONS = 256 * 1024  # bytes of all annotations of an object
# Both are parts of DNS names:
# https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
OF_KIND = {"Service": "old", "Namespace": "label"}


def too_long(most: int) -> str:
    return f"must be no more than {most} bytes"


def generate(prefix: str) -> str:
    """Return a name that begins with *prefix*, which is cut to 58 characters, and has five more."""
    # 63 in all, the most of a DNS label: pkg/storage/names/generate.go of k8s.io/apiserver.
    return prefix[:58] + "".join(secrets.choice(ALPHABET) for _ in range(5))


def label_problems(text: str) -> Iterator[str]:
    """Yield what keeps a text from being a DNS label."""
    if len(text) > 63:
        yield too_long(63)
    if not re.fullmatch(_LABEL, text):
        yield LABEL_WRONG


def name_problems(kind: str, text: str) -> Iterator[str]:
    """Yield what keeps a text from being the name of an object of *kind*."""
    form = OF_KIND.get(kind, "subdomain")
    if form == "label":
        yield from label_problems(text)
        return
    most = 63 if form == "old" else 253
    if len(text) > most:
        yield too_long(most)
    if not re.fullmatch(_OLD if form == "old" else _SUBDOMAIN, text):
        yield OLD_WRONG if form == "old" else SUBDOMAIN_WRONG


def key_problems(key: str) -> Iterator[str]:
    """Yield what is wrong with the key of a label or an annotation: "a qualified name"."""
    prefix, slash, name = key.rpartition("/")
    if slash and not re.fullmatch(_SUBDOMAIN, prefix):
        yield f"prefix part {SUBDOMAIN_WRONG}"
    if not name:
        yield "name part must be non-empty"
    if len(name) > 63:
        yield f"name part {too_long(63)}"
    if not re.fullmatch(_NAME, name):
        yield NAME_WRONG


def value_problems(value: str) -> Iterator[str]:
    """Yield what keeps a text from being the value of a label."""
    if len(value) > 63:
        yield too_long(63)
    if not re.fullmatch(_VALUE, value):
        yield VALUE_WRONG


def check_labels(labels: Mapping[str, str], field: str) -> Iterator[Cause]:
    for key, value in labels.items():
        for problem in key_problems(key):
            yield errors.wrong(field, key, problem)
        for problem in value_problems(value):
            yield errors.wrong(field, value, problem)


def check_metadata(kind: str, meta: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield what is wrong with the metadata of an object of *kind*."""
    name = meta.get("name", "")
    if not name:
        yield errors.required("metadata.name", "name or generateName is required")
    else:
        for problem in name_problems(kind, name):
            yield errors.wrong("metadata.name", name, problem)
    for number, finalizer in enumerate(meta.get("finalizers") or ()):
        if finalizer not in FINALIZERS and "/" not in finalizer:
            yield errors.wrong(f"metadata.finalizers[{number}]", finalizer, FINALIZER_WRONG)
    yield from check_labels(meta.get("labels") or {}, "metadata.labels")
    yield from check_annotations(meta.get("annotations") or {}, "metadata.annotations")


def check_annotations(annotations: Mapping[str, str], field: str) -> Iterator[Cause]:
    for key in annotations:
        # Keys of annotations may have capitals in their prefix: ValidateAnnotations lowers them
        # first.
        for problem in key_problems(key.lower()):
            yield errors.wrong(field, key, problem)
    if sum(len(k) + len(v.encode()) for k, v in annotations.items()) > ANNOTATIONS:
        yield Cause(
            "FieldValueTooLong", field, f"Too long: may not be more than {ANNOTATIONS} bytes"
        )


def check_keys(data: Mapping[str, Any], field: str) -> Iterator[Cause]:
    """Yield what is wrong with the keys of a ConfigMap or a Secret."""
    for key in data:
        if len(key) > 253:
            yield errors.wrong(f"{field}[{key}]", key, too_long(253))
        if not re.fullmatch(_KEY, key):
            yield errors.wrong(f"{field}[{key}]", key, KEY_WRONG)
