"""Find the job definitions in a file, and the request that submits one of them."""

from __future__ import annotations

from runspec_aws.importing.cloudformation import LONG, TYPE, Template
from runspec_jobs.provider import OtherFormat, UsageError
from runspec_jobs.provider.importing.documents import Map, Seq, Text, Value, read_documents
from runspec_jobs.provider.importing.mapping import Notes
from runspec_jobs.provider.types import ForeignFile

BODIES = ("containerProperties", "nodeProperties", "ecsProperties", "eksProperties")
DESCRIBE = "aws batch describe-job-definitions --job-definition-name NAME --status ACTIVE > definition.json"


def find_definitions(file: ForeignFile, notes: Notes) -> list[Map]:
    """Return the job definitions in *file*. Raise OtherFormat if it has none."""
    document = _read(file)
    if isinstance(document.get("Resources"), Map):
        resources = document["Resources"].values() if isinstance(document["Resources"], Map) else ()
        if not any(isinstance(one, Map) and one.get("Type") == TYPE for one in resources):
            raise OtherFormat(f"{file.name} has no job definition")
        named = Template(document, notes).list_definitions()
        for name, definition in named:
            definition.setdefault(Text("jobDefinitionName"), Text(name))
        return [definition for _, definition in named]
    described = document.get("jobDefinitions")
    if isinstance(described, Seq):
        return _choose([one for one in described if isinstance(one, Map)], file, notes)
    if any(body in document for body in BODIES):
        return [document]
    if is_submission(document):
        what = f"{file.name} submits a job definition, which is in another file"
        raise UsageError(
            what, f"{DESCRIBE}; then: runspec import definition.json --with {file.name}"
        )
    if "jobDefinitionName" in document:
        raise UsageError(f"{file.name}: the job definition has none of {', '.join(BODIES)}")
    raise OtherFormat(f"{file.name} has no job definition")


def _read(file: ForeignFile) -> Map:
    """Return the mapping in *file*. Raise OtherFormat for what can be none, and UsageError for one that is wrong."""
    if file.text.lstrip("\ufeff \t\r\n")[:2] == "#!":
        raise OtherFormat(f"{file.name} is a script")
    documents = read_documents(file, LONG.get)
    if len(documents) != 1:
        raise OtherFormat(f"{file.name} has several documents")
    return documents[0]


def _choose(found: list[Map], file: ForeignFile, notes: Notes) -> list[Map]:
    """Return of each name the newest revision."""
    newest: dict[str, Map] = {}
    for one in found:
        name, revision = _word(one.get("jobDefinitionName")), _word(one.get("revision"))
        old = _word(newest[name].get("revision")) if name in newest else ""
        if name in newest:
            shown = min(int(old or 0), int(revision or 0)) if (old + revision).isdecimal() else old
            notes.lose(f"revision {shown} of {name}", "the newest one is imported", one)
        if name not in newest or ((old + revision).isdecimal() and int(revision) > int(old)):
            newest[name] = one
    if not newest:
        raise UsageError(f"{file.name} describes no job definition")
    return list(newest.values())


def _word(value: Value | None) -> str:
    return str(value) if isinstance(value, Text) else ""


def is_submission(document: Map) -> bool:
    return "jobDefinition" in document and ("jobQueue" in document or "jobName" in document)


def read_submission(file: ForeignFile) -> Map:
    """Return the request in *file* that submits a job. Raise UsageError if it is none."""
    document = _read(file)
    if not is_submission(document):
        what = f"{file.name} is no request that submits a job: it has no jobDefinition and jobQueue"
        raise UsageError(what, "aws batch submit-job --generate-cli-skeleton prints one")
    return document
