"""Reads requirements files, and refuses everything in them that is not a requirement.

Options, files and folders would make a plan depend on things that it does not contain, and variables
and passwords would put secrets into it; each of them is an error with a hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from runspec_jobs.document import reader
from runspec_jobs.document.reader import YamlError
from runspec_jobs.errors import UsageError
from runspec_jobs.regex import regex

HASH = regex(r"\s+--hash[= ](?:sha256|sha384|sha512):[0-9a-f]+")
URL = regex(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
PASSWORD = regex(r"[a-z+]+://(?!git@)[^/@\s]+@", re.IGNORECASE)
# https://docs.anaconda.com/anaconda.org/user-guide/work-with-packages/#private-packages
TOKEN = regex(r"[a-z]+://[^/\s]+(?:/[^/\s]+)*/t/[^/\s]+", re.IGNORECASE)
LEADS = regex(r"(-r|-e|-c|--[a-z-]+|file:|\.{0,2}/)")  # away from the file
TARGET = regex(r"(?:[\w.\[\],-]+\s*@\s*)?(?P<target>[^\s;]*)")
LOCAL = regex(r"file:|[.~/]|[A-Za-z]:[\\/]|.*/|.*\.(?:whl|zip|tar\.gz|txt)$", re.IGNORECASE)
COMMENT = regex(r"(?:^|\s+)#.*$")

INDEX = "set UV_DEFAULT_INDEX or UV_INDEX in the environment of runspec instead"
OPTIONS = {
    "-r": "write the lines of that file here",
    "--requirement": "write the lines of that file here",
    "-c": "write the versions here, as requirements",
    "--constraint": "write the versions here, as requirements",
    "-e": "put the package into a folder that is mounted, or onto an index",
    "--editable": "put the package into a folder that is mounted, or onto an index",
    "-i": INDEX,
    "--index-url": INDEX,
    "--extra-index-url": INDEX,
    "-f": "set UV_FIND_LINKS in the environment of runspec instead",
    "--find-links": "set UV_FIND_LINKS in the environment of runspec instead",
    "--no-index": "set UV_NO_INDEX in the environment of runspec instead",
}


class RequirementsError(UsageError):
    """Some lines cannot be used; *problems* has the number, the message and the hint of each."""

    def __init__(self, problems: Sequence[tuple[int, str, str | None]]) -> None:
        line, message, hint = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"line {line}: {message}{more}", hint)
        self.problems = tuple(problems)


def list_requirements(text: str) -> tuple[str, ...]:
    """Return the requirements of a requirements file, each on one line, in order.

    Raises RequirementsError with every line that is something else. The format:
    https://pip.pypa.io/en/stable/reference/requirements-file-format/

    >>> list_requirements("numpy==1.26.4  # the last 1.x\\n\\nsix")
    ('numpy==1.26.4', 'six')
    """
    kept, problems = [], []
    for number, line in _join_lines(text):
        problem = _find_problem(line)
        if problem:
            problems.append((number, *problem))
        kept.append(line)
    if problems:
        raise RequirementsError(problems)
    return tuple(kept)


def list_conda_lines(text: str) -> tuple[str, ...]:
    """Return the lines of an environment.yml of conda. Raises RequirementsError if it cannot be used.

    The format: https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html

    >>> list_conda_lines("dependencies: [python=3.11, numpy]")
    ('dependencies: [python=3.11, numpy]',)
    """
    lines = tuple(text.splitlines())
    problems: list[tuple[int, str, str | None]] = []
    try:
        value = reader.read(text).value
    except YamlError as exc:
        raise RequirementsError([(f.mark.line, f.what, f.hint) for f in exc.flaws]) from exc
    if not isinstance(value, dict) or not isinstance(value.get("dependencies"), list):
        problems.append((1, "it has no list of dependencies", "write dependencies: [python=3.12]"))
    for number, line in enumerate(lines, 1):
        # The lines become part of the plan and of the record, and a secret in them would be readable in the
        # store.
        for secret, pattern in (("password", PASSWORD), ("token", TOKEN)):
            if pattern.search(line):
                message = f"the URL contains a {secret}"
                problems.append((number, message, "use micromamba auth login"))
    for item in _list_conda_items(value):
        if match := LEADS.match(item):
            at = next((n for n, line in enumerate(lines, 1) if item in line), 1)
            message = f"'{match[1]}' leads to a file of this machine, or is an option"
            problems.append((at, message, OPTIONS.get(match[1])))
    if problems:
        raise RequirementsError(problems)
    return lines


def _list_conda_items(value: object) -> Iterator[str]:
    """Yield the channels and packages of an environment.yml, and those of pip in it."""
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, list):
        for item in value:
            yield from _list_conda_items(item)
    elif isinstance(value, dict):
        for key in ("channels", "dependencies", "pip"):
            yield from _list_conda_items(value.get(key))


def _join_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, without comments and with continued lines joined, as pip does."""
    parts: list[str] = []
    first = 1
    lines = text.removeprefix("\ufeff").splitlines()
    for number, line in enumerate(lines, 1):
        first = first if parts else number
        continued = line.endswith("\\") and not COMMENT.fullmatch(line)
        parts.append(line.removesuffix("\\") if continued else line)
        if continued and number < len(lines):
            continue
        whole = " ".join(COMMENT.sub("", _join_parts(parts)).split())
        parts = []
        if whole:
            yield first, whole


def _join_parts(parts: Sequence[str]) -> str:
    """Join the parts of a continued line, so that a comment in the last part stays a comment."""
    *before, last = parts
    return "".join(before) + (f" {last}" if COMMENT.match(last) else last)


def _find_problem(line: str) -> tuple[str, str | None] | None:
    """Return a message and a hint if *line* is not a usable requirement, or None if it is."""
    if line.startswith("-"):
        option = re.split(r"[\s=]", line, maxsplit=1)[0]
        return f"'{option}' is an option, not a requirement", OPTIONS.get(option)
    bare = HASH.sub("", line)
    # pip takes options of a single requirement on its line.
    if options := re.search(r"\s(--?[a-z][a-z-]*)", bare):
        return f"'{options[1]}' is an option; only --hash may follow a requirement", None
    if "${" in line:
        return "variables are not expanded", "write the value, unless it is a secret"
    if PASSWORD.search(line):
        return "the URL contains a password", "set UV_INDEX or use a netrc file"
    match = TARGET.match(bare)
    target = match["target"] if match else bare
    if bool(LOCAL.match(target)) and (not URL.match(target) or target.startswith("file:")):
        return f"'{bare}' is a file or folder of this machine", OPTIONS["-e"]
    return None if URL.match(bare) else _explain_unnamed(bare)


def _explain_unnamed(bare: str) -> tuple[str, str | None] | None:
    from packaging.requirements import (
        InvalidRequirement,
        Requirement,
    )  # imported when needed, because it takes time

    try:
        Requirement(bare)
    except InvalidRequirement as exc:
        # `numpy=1.26` is how conda writes it.
        single = re.fullmatch(r"([\w.\[\]-]+)\s*=\s*([\w.*]+)", bare)
        hint = (
            f"write {single[1]}=={single[2]}"
            if single
            else "write it in a form such as numpy==1.26.4"
        )
        why = str(exc).partition("\n")[0]
        return f"'{bare}' is not a requirement: {why[:1].lower()}{why[1:]}", hint
    return None
