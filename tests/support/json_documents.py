"""Whatever a command line of a test prints with `--json` is checked against the schemas in `schemas/`.

Both ways to call one are seen: in this process, and as a process whose output a test reads with `communicate`, as
`subprocess.run` does. The schemas let fields be added; here a field that a schema lacks is an error as well.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from jsonschema import Draft202012Validator

from runspec_jobs.cli import app, output
from tests.support.root import ROOT

SCHEMAS = ROOT / "schemas"
COMMANDS = {
    name if folder is None else str(folder / name)
    for name in ("runspec", "runspec-jobs")
    for folder in (None, Path(sys.executable).parent)
}
FOREIGN = {"policy"}  # verbs that print JSON in a format of others


def check(words: Sequence[str], text: str) -> None:
    """Fail if *text*, which the command line *words* printed, is not a series of documents that have schemas."""
    for document in documents(text):
        if not isinstance(document, dict) or "format" not in document:
            assert FOREIGN & set(words), f"{words}: a document without a format: {document}"
            continue
        errors = [
            f"{e.json_path}: {e.message}" for e in closed(document["format"]).iter_errors(document)
        ]
        assert not errors, f"{words}: not as its schema says: {errors}"


def documents(text: str) -> list[Any]:
    """Return the JSON values in *text*, which are apart by white space. Numbers that JSON lacks are refused."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    found, at = [], 0
    while rest := text[at:].lstrip():
        value, end = decoder.raw_decode(rest)
        found.append(value)
        at = len(text) - len(rest) + end
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


@functools.cache
def closed(form: str) -> Draft202012Validator:
    """Return what validates documents of a format, by a schema that lets no field be added."""
    name = form.removeprefix("runspec.").replace("/", ".")
    path = SCHEMAS / f"{name}.schema.json"
    assert path.is_file(), f"'{form}' has no schema: write {path}"
    schema = json.loads(path.read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(_close(schema))


def _close(value: Any) -> Any:
    if isinstance(value, list):
        return [_close(item) for item in value]
    if not isinstance(value, dict):
        return value
    shut = {"additionalProperties": False} if isinstance(value.get("required"), list) else {}
    return {**{k: _close(v) for k, v in value.items()}, **shut}


def of_json(words: Sequence[str]) -> bool:
    """Say whether all that *words* have printed on standard output is JSON."""
    if "--help" in words or "-h" in words:
        return False
    return "--json" in words or (words[:1] == ["validate"] and "json" in words)


def install() -> None:
    """Have everything checked that tests have printed, for as long as this interpreter lives."""
    seen = threading.local()
    write, run, communicate = output.write, app.run, subprocess.Popen.communicate

    def writing(text: str) -> None:
        write(text)
        if (printed := getattr(seen, "printed", None)) is not None:
            printed.append(text)

    def running(words: Sequence[str]) -> int:
        seen.printed = [] if of_json(list(words)) else None
        code = run(words)
        if seen.printed is not None and code != app.CLOSED_PIPE:
            check(words, "".join(seen.printed))
        return code

    def communicating(self: Any, *args: Any, **kwargs: Any) -> Any:
        out, err = communicate(self, *args, **kwargs)
        words = command_line(self.args)
        whole = self.returncode >= 0 and self.returncode != app.CLOSED_PIPE
        if out and whole and of_json(words):
            check(words, out if isinstance(out, str) else out.decode())
        return out, err

    output.write = writing
    app.run = running  # before a test imports it
    subprocess.Popen.communicate = communicating  # type: ignore[method-assign]


def command_line(line: Any) -> list[str]:
    """Return the words of a command line that runs this runspec, or none; an older one has formats of its own."""
    if isinstance(line, str | bytes | os.PathLike):
        return []
    words = [os.fsdecode(word) for word in line]
    for at, word in enumerate(words):
        module = words[at - 1 : at] == ["-m"] and word == "runspec_jobs"
        code = words[at - 1 : at] == ["-c"] and "runspec_jobs" in word
        command = word in COMMANDS and words[at - 1 : at] != ["-m"]  # -m runspec: an older version
        if module or code or command:
            return words[at + 1 :]
    return []
