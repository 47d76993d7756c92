"""Convert files of `az batchai` to a spec and settings for a profile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from runspec_batchai.importing import cluster_file, job_file
from runspec_batchai.importing.draft import ACCOUNT_GAP, GAP, Draft
from runspec_batchai.importing.foreign_file import ForeignObject, loaded
from runspec_jobs.provider import UsageError
from runspec_jobs.provider.types import ForeignFile, Imported
from runspec_jobs.provider.yaml_writer import write_comments, write_yaml

NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
KNOWN = ("$schema",)
# What stands for a setting that has to be filled in.
EXAMPLES = {
    "subscription": "00000000-0000-0000-0000-000000000000",
    "location": "eastus",
    "storage_account": "mystorage",
    "ssh_public_key": '"ssh-ed25519 AAAA..."',
    "file_share": "logs",
    "resource_group": "mygroup",
    "workspace": "myworkspace",
    "cluster": "mycluster",
    "vm_size": "STANDARD_NC6",
    "subnet": '"/subscriptions/..."',
}


def imported(job: ForeignFile, cluster: ForeignFile | None) -> Imported:
    """Return *job*, with the machines of *cluster*, as a spec. Raise UsageError if a file is not valid."""
    draft = Draft(has_gaps=any(file and ACCOUNT_GAP in file.text for file in (job, cluster)))
    machines = _properties(cluster, draft.notes) if cluster else None
    program = _properties(job, draft.notes)
    _in_place(job, program, cluster, machines)
    if machines is not None:
        cluster_file.take(machines, draft)
    job_file.take(program, draft, own_cluster=machines is None)
    return _written(draft, [file.name for file in (job, cluster) if file])


def _in_place(
    job: ForeignFile,
    program: ForeignObject,
    cluster: ForeignFile | None,
    machines: ForeignObject | None,
) -> None:
    """Raise UsageError if the files are swapped, by a key that only one kind has, and always.

    https://github.com/Azure/azure-rest-api-specs/tree/main/specification/batchai, the required keys.
    """
    if "vmSize" in program.value:
        hint = (
            "swap the two files"
            if cluster
            else "pass it with --cluster, and the file of a job before it"
        )
        raise UsageError(f"{job.name} is the file of a cluster: it has 'vmSize'", hint)
    if cluster and machines and "stdOutErrPathPrefix" in machines.value:
        what = f"{cluster.name} is the file of a job: it has 'stdOutErrPathPrefix'"
        raise UsageError(what, "pass the file of a cluster with --cluster, or omit --cluster")


def _properties(file: ForeignFile, notes: list[str]) -> ForeignObject:
    whole = dict(loaded(file, notes))
    properties, name = whole.pop("properties"), PurePath(file.name).name
    for key in (key for key in whole if key not in KNOWN):
        notes.append(f"not imported: {name}: {key}: az batchai does not send this key")
    return ForeignObject(properties, f"{name}: properties", notes)


def _written(draft: Draft, names: list[str]) -> Imported:
    stem = PurePath(names[0]).name.split(".")[0].lower().replace("_", "-")
    head: dict[str, Any] = {
        "apiVersion": "runspec/v1",
        "name": stem if NAME.fullmatch(stem) else "job",
        "provider": "azure-batch-ai",
    }
    settings = {"azure-batch-ai": draft.settings} if draft.settings else {}
    spec = {**head, **draft.spec, **({"providers": settings} if settings else {})}
    spec = draft.hidden.scrubbed(spec, "", draft.notes)
    gaps = [
        key for key, value in draft.profile.items() if isinstance(value, str) and GAP.search(value)
    ]
    for key in gaps:
        del draft.profile[key]
    draft.notes += _placeholders(draft.shared, "profile.shared")
    account = draft.hidden.scrubbed(draft.profile, "profile", draft.notes)
    missing = list(dict.fromkeys([*_missing(draft), *gaps]))
    if missing:
        draft.notes.append(f"add to the profile before you apply: {', '.join(missing)}")
    notes = tuple(dict.fromkeys(draft.hidden.scrubbed(draft.notes, "", [])))
    shown = " and ".join(PurePath(name).name for name in names)
    return Imported(
        write_comments((f"Imported from {shown}.", *notes)) + write_yaml(_filled(spec)),
        write_yaml({"providers": {"azure-batch-ai": _filled(account)}})
        + ("    # Add before you apply:\n" if missing else "")
        + "".join(f"    # {name}: {EXAMPLES.get(name, '...')}\n" for name in missing),
        notes,
    )


def _placeholders(value: Any, path: str) -> Iterator[str]:
    """Yield a note for each placeholder in *value* that somebody has to replace."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _placeholders(item, f"{path}.{key}")
    elif isinstance(value, str) and GAP.search(value):
        yield f"{path} is a placeholder: replace it before you apply"


def _missing(draft: Draft) -> list[str]:
    """Return the settings that a plan needs and the files do not contain."""
    wanted = ["subscription", "location"]
    volumes = draft.shared.values()
    if any("account" not in v and ("share" in v or "container" in v) for v in volumes):
        wanted.append("storage_account")
    if not any(draft.profile.get(k) for k in ("cluster", "admin_password")):
        wanted.append("ssh_public_key")
    wanted += [] if draft.settings.get("logs") else ["file_share"]
    return [name for name in wanted if not draft.profile.get(name)]


def _filled(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if item not in (None, {}, [])}
