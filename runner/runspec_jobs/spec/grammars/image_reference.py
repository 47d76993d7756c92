"""The names of images that registries take: https://github.com/distribution/reference (`regexp.go`, `reference.go`)."""

from __future__ import annotations

import re

PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
HOST = rf"(?:{LABEL}(?:\.{LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
ALGORITHM = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*"
DIGEST = rf"{ALGORITHM}:[0-9a-fA-F]{{32,}}"
LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}
LONGEST = 255  # characters of a name with its registry
LOWER = "write the name of the image in lower case"
SHAPE = "write it as [REGISTRY/]NAME[:TAG], such as python:3.12-slim"


def find_mistake(image: str) -> tuple[str, str] | None:
    """Return what is wrong with the name of an image, and a hint; None if registries take it.

    A file, which begins with `/`, `.` or `~`, is not looked at. A scheme such as `docker://` and enroot's notation
    `[USER@]REGISTRY#NAME` are accepted: providers say whether they know these.

    >>> find_mistake("python:3.12"), find_mistake("docker://nvcr.io#nvidia/pytorch:24.05-py3"), find_mistake("./a.sif")
    (None, None, None)
    >>> find_mistake("Python:3.12")[0]
    'a registry takes no capital letters in a name'
    """
    if image.startswith(("/", ".", "~")):
        return None
    image = re.sub(r"^[a-z][a-z-]*://", "", image)
    if "#" in image:
        image = re.sub(r"^[^@/#]+@", "", image).replace("#", "/", 1)
    name, at, digest = image.partition("@")
    if at and (wrong := _check_digest(digest)):
        return wrong
    first, _, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not re.fullmatch(TAG, tag):
        message = f"'{tag}' is no tag of an image" if tag else "the tag after ':' is missing"
        return (
            message,
            "a tag has at most 128 letters, digits, '_', '.' and '-', and begins with none of the last two",
        )
    return _check_name(f"{first}/{last}" if first else last)


def _check_digest(digest: str) -> tuple[str, str] | None:
    algorithm, _, number = digest.partition(":")
    length = LENGTHS.get(algorithm)
    if re.fullmatch(DIGEST, digest) and length in (None, len(number)):
        return None
    return f"'@{digest}' is no digest of an image", "write @sha256: and 64 hexadecimal digits"


def _check_name(name: str) -> tuple[str, str] | None:
    """Return what is wrong with the name of an image without its tag."""
    if len(name) > LONGEST:
        return f"the name has {len(name)} characters", f"a registry takes at most {LONGEST}"
    host, slash, path = name.partition("/")
    if not (slash and (re.search(r"[.:A-Z\[]", host) or host == "localhost")):
        host, path = "", name
    if host and not re.fullmatch(HOST, host):
        return f"'{host}' is no registry", "write HOST or HOST:PORT before the first slash"
    for part in path.split("/"):
        if not re.fullmatch(PART, part):
            return _explain_part(part)
    if not host and re.fullmatch("[0-9a-f]{64}", path):
        return "this is the id of an image on one machine", SHAPE
    return None


def _explain_part(part: str) -> tuple[str, str]:
    if not part:
        return "a part of the name is empty", SHAPE
    if re.fullmatch(PART, part.lower()):
        return "a registry takes no capital letters in a name", LOWER
    message = f"'{part}' cannot be in the name of an image"
    return message, "a name has lower-case letters, digits, and single '.', '_' or '-' between them"
