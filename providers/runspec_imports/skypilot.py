"""Convert tasks of SkyPilot to specs.

https://docs.skypilot.co/en/latest/reference/yaml-spec.html
"""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath

from runspec_imports.sky_resources import find_provider, take_resources
from runspec_imports.sky_scripts import COPY, FOLDER, write_script
from runspec_jobs.provider import OtherFormat
from runspec_jobs.provider.importing.documents import Map, Text, read_documents
from runspec_jobs.provider.importing.draft import (
    CALLER,
    Draft,
    is_named_secret,
    make_key,
    write_imported,
)
from runspec_jobs.provider.importing.mapping import ForeignMap, Notes
from runspec_jobs.provider.types import ForeignFile, Imported

KEYS = frozenset(
    "name workdir num_nodes resources file_mounts setup run envs secrets service pool volumes config inputs outputs "
    "event_callback experimental execution".split()
)
# Keys that only a task of SkyPilot has: a file with another key has another format.
TELLING = frozenset("workdir num_nodes resources file_mounts setup run envs service".split())
OTHERS = frozenset(
    "apiVersion kind type jobs steps commands version services provider command $schema".split()
)
TARGET = re.compile(r"/([A-Za-z0-9_.-]+/?)+")
SYNC = "1m"
ANY = "any-value"  # of a variable that may be a secret by its name
BLOB = re.compile(r"https://([a-z0-9]+)\.blob\.core\.windows\.net/(.+)")
PLACE = re.compile(r"(?:s3|az)://[a-z0-9][a-z0-9.-]+(?:/(?!\.{1,2}(?:/|$))[^/\s?#$]+)*/?")


def convert(file: ForeignFile, provider: str | None) -> Imported:
    """Return the tasks in *file* as specs, a chain if it is a pipeline. Raise OtherFormat for another format."""
    if file.text.lstrip("\ufeff \t\r\n")[:2] == "#!":
        raise OtherFormat(f"{file.name} is a script")
    documents = read_documents(file)
    notes = Notes(file.name)
    header = documents.pop(0) if len(documents) > 1 and not documents[0].keys() & TELLING else Map()
    if not documents or not all(_is_task(document) for document in documents):
        raise OtherFormat(f"{file.name} is no task of SkyPilot")
    head = ForeignMap(header, "", notes)
    title = head.text("name") or PurePath(file.name).name.split(".")[0]
    is_parallel = head.text("execution", "serial") != "serial"
    drafts: list[Draft] = []
    for number, document in enumerate(documents, start=1):
        suffix = f"-{number}" if len(documents) > 1 else ""
        draft = _take(ForeignMap(document, "", notes), provider, title + suffix)
        if drafts and not is_parallel:
            draft.spec["needs"] = [drafts[-1].spec["name"]]
        drafts.append(draft)
    return write_imported(drafts, notes)


def _is_task(document: Map) -> bool:
    known = document.keys() & KEYS
    return (
        bool(document.keys() & TELLING)
        and not document.keys() & OTHERS
        and len(known) * 2 > len(document)
    )


def _take(source: ForeignMap, provider: str | None, title: str) -> Draft:
    resources = source.map("resources")
    named = find_provider(resources)
    draft = Draft(source.text("name") or title, provider or named or "local", source.notes)
    if provider is None and named is None:
        source.notes.add(
            "the file names no service of runspec: the spec is for local; change its field provider"
        )
    if (nodes := source.number("num_nodes")) and nodes > 1:
        draft.cluster["nodes"] = nodes
    take_resources(resources, draft)
    env = _take_env(source, draft)
    copy = _take_workdir(source, draft)
    renamed = _take_mounts(source, draft, env)
    _take_volumes(source, draft)
    for key in ("service", "pool"):
        if key in source:
            source.lose(key, "runspec runs jobs that end; its programs run once")
    _take_scripts(source, draft, copy, renamed)
    return draft


def _take_env(source: ForeignMap, draft: Draft) -> dict[str, str]:
    """Add variables; those without a value are the caller's. Return the plain ones."""
    env, secrets = source.map("envs"), source.map("secrets")
    plain: dict[str, str] = {}
    for name in env.list_keys():
        at = env.find_key(name)
        value = env.text(name)
        if value:
            draft.add_env(name, value, at)
            plain[name] = value
        elif is_named_secret(name, ANY):
            draft.add_secret(name, at=at)
        else:
            draft.spec.setdefault("env", {})[name] = dict(CALLER)
    for name in secrets.list_keys():
        at = secrets.find_key(name)
        if secrets.text(name):
            source.notes.add(f"the value of {name} is left out: export {name} before you apply", at)
        draft.add_secret(name, at=at)
    return plain


def _take_workdir(source: ForeignMap, draft: Draft) -> str:
    """Return the lines that fill the folder of the scripts."""
    value = source.pop("workdir" if "workdir" in source else "working_dir")
    if isinstance(value, Text) and value:
        draft.add_mount("workdir", _find_source(value), "/job/workdir")
        return FOLDER + COPY
    if isinstance(value, Map):
        repository = ForeignMap(value, "workdir", source.notes)
        url, ref = repository.text("url"), repository.text("ref")
        checkout = f" && git checkout {shlex.quote(ref)}" if ref else ""
        return f"{FOLDER}[ -d .git ] || {{ git clone {shlex.quote(url)} .{checkout}; }} || exit 1\n"
    return FOLDER


def _find_source(path: str) -> str:
    """Return a path beside the file as the source of a mount.

    >>> _find_source("."), _find_source("code/"), _find_source("~/data")
    ('.', './code/', '~/data')
    """
    return path if re.match(r"\.{1,2}(/|$)|/|~/", path) else f"./{path}"


def _add_output(draft: Draft, bucket: str, path: str, target: str | None) -> str:
    """Add the output for a *bucket* that the task writes at *path*; return its name."""
    outputs = draft.spec.setdefault("outputs", [])
    name: str = make_key(bucket, {output["name"] for output in outputs})
    outputs.append(
        {"name": name, "path": path, "sync": SYNC} | ({"target": target} if target else {})
    )
    return name


def _take_mounts(source: ForeignMap, draft: Draft, env: dict[str, str]) -> dict[str, str]:
    """Add file mounts; return the paths in scripts that are elsewhere in a job of runspec."""
    renamed: dict[str, str] = {}
    mounts = source.map("file_mounts")
    for target in mounts.list_keys():
        value = mounts.pop(target)
        at = mounts.find_key(target)
        place = (
            target
            if TARGET.fullmatch(target) and "/../" not in target
            else f"/job/{make_key(target, ())}"
        )
        storage = ForeignMap(
            value if isinstance(value, Map) else Map(), f"file_mounts.{target}", source.notes
        )
        origin = _fill(value if isinstance(value, Text) else storage.text("source"), env)
        mode = storage.text("mode", "MOUNT")
        name = _fill(storage.text("name"), env)
        store = storage.text("store", "s3").lower()
        storage.skip("persistent")
        if not origin and name and mode != "COPY":
            bucket = _find_place(f"s3://{name}", draft) if store == "s3" else None
            found = f"${{outputs.{_add_output(draft, name, place, bucket)}}}"
            if bucket:
                source.notes.add(f"{target} is an output, whose saves are in {bucket}, too", at)
            else:
                source.notes.lose(
                    f"bucket {name}", "the output is saved to the store of the profile", at
                )
        elif "://" in origin:
            if (place_in_store := _find_place(origin, draft)) is None:
                why = "it is in another store: copy it to the profile's, and mount store://PLACE"
                source.notes.lose(f"file_mounts.{target}", why, at)
                continue
            key = draft.add_mount(PurePath(target).name, place_in_store, place)
            found = f"${{mounts.{key}}}"
            if isinstance(value, Map) and mode != "COPY":
                source.notes.lose(
                    f"writing to {target}", "the mount is read-only: name an output", at
                )
        elif origin:
            key = draft.add_mount(PurePath(target).name, _find_source(origin), place)
            found = f"${{mounts.{key}}}"
        else:
            source.notes.lose(f"file_mounts.{target}", "it has no source", at)
            continue
        if place != target:
            renamed[target] = found
            source.notes.add(f"{target} is {place} in the job, and in the scripts of the spec", at)
    return renamed


def _find_place(url: str, draft: Draft) -> str | None:
    """Return the source of a mount for the address of a bucket or container, or None if jobs cannot read it there."""
    blob = BLOB.fullmatch(url)
    if blob and draft.provider == "azure-batch":
        url = f"az://{blob[1]}/{blob[2]}"
    elif not url.startswith("s3://") or draft.provider.startswith("azure"):
        return None
    return url.rstrip("/") if PLACE.fullmatch(url) else None


def _fill(text: str, env: dict[str, str]) -> str:
    """Return *text* with the variables of the task, which SkyPilot inserts in file_mounts."""
    return re.sub(r"\$\{?(\w+)\}?", lambda match: env.get(match[1], match[0]), text)


def _take_volumes(source: ForeignMap, draft: Draft) -> None:
    volumes = source.map("volumes")
    for target in volumes.list_keys():
        at = volumes.find_key(target)
        name = volumes.text(target)
        if name and TARGET.fullmatch(target):
            key = make_key(name, ())
            draft.add_mount(name, f"shared://{key}", target)
            source.notes.add(
                f"volume {name}: say in the profile where it is: shared: {{{key}: ...}}", at
            )
        elif name:
            volumes.lose(target, "its path is not absolute")


def _take_scripts(source: ForeignMap, draft: Draft, copy: str, renamed: dict[str, str]) -> None:
    for key in ("setup", "run"):
        at = source.find_key(key)
        text = source.text(key)
        for theirs, ours in renamed.items():
            # The dollar sign of a placeholder comes last, because `write_script` doubles those of the script.
            text = re.sub(rf"{re.escape(theirs)}(?![\w.-])", "\0" + ours[1:], text)
        if text or key == "run":
            written = write_script(text or "true", draft, copy, at)
            draft.spec[key] = written.replace("\0", "$")
