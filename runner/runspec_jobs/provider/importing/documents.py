"""Reads other tools' YAML and JSON files, whose values know their lines, in a bounded time."""

from __future__ import annotations

from runspec_jobs.document import reader
from runspec_jobs.document.nodes import NOWHERE, Map, Seq, Text, Value
from runspec_jobs.document.reader import Expand
from runspec_jobs.errors import UsageError
from runspec_jobs.provider.types import ForeignFile

__all__ = ["Map", "Seq", "Text", "Value", "find_line", "read_documents"]


def read_documents(file: ForeignFile, expand: Expand = lambda _: None) -> list[Map]:
    """Return the mappings in *file*, one for each document; raise UsageError, with line and column, if it has none.

    A value with a tag that *expand* knows becomes a mapping with the one key that *expand* returns.

    >>> read_documents(ForeignFile("a.yaml", "kind: A\\n---\\nkind: !Ref B\\n"), {"!Ref": "Ref"}.get)
    [{'kind': 'A'}, {'kind': {'Ref': 'B'}}]
    """
    try:
        values = [document.value for document in reader.read_all(file.text, expand)]
    except reader.YamlError as exc:
        flaw = exc.flaws[0]
        where = f"{file.name}:{flaw.mark.line}:{flaw.mark.column}"
        hint = "render the template first" if "{{" in file.text else flaw.hint
        raise UsageError(f"{where}: {flaw.what}", hint) from exc
    for value in values:
        if not isinstance(value, Map):
            raise UsageError(f"{file.name}:{find_line(value)}:1: this is not a mapping")
    return [value for value in values if isinstance(value, Map)]


def find_line(value: object) -> int:
    """Return the number of the line from 1 on which *value* begins; 0 if it stands in no file."""
    span = value.span if isinstance(value, Text | Map | Seq) else NOWHERE
    return 0 if span == NOWHERE else span[0] + 1
