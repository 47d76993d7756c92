"""Import a job.json of `az batchai`."""

from __future__ import annotations

import re
import shlex
from typing import Any

from runspec_batchai.importing.draft import Draft, key
from runspec_batchai.importing.foreign_file import ForeignObject, is_secret
from runspec_batchai.importing.paths import Places, take_inputs, take_outputs
from runspec_batchai.job.toolkits import KINDS, NUMBERS, Kind, fields
from runspec_batchai.store_volumes import ROOTS
from runspec_jobs.provider.commands import literal

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
CLUSTER = re.compile(
    r"/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/Microsoft\.BatchAI"
    r"/workspaces?/([^/]+)/clusters/([^/]+)",
    re.IGNORECASE,
)
SHM = re.compile(r"(\d+)([bkmg]?)b?", re.IGNORECASE)
ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.0+)?S)?)?")
CLOCK = re.compile(r"(?:(\d+)\.)?(\d+):(\d+):(\d+)")  # .NET's: 7.00:00:00
LAUNCHES = {
    "chainer": "mpi",
    "horovod": "mpi",
    "cntk": "mpi",
    "custom-mpi": "mpi",
    "pytorch": "torchrun",
}
SHELL = re.compile(r"[$`|&;<>()*?\[\]#~!{}\n]")


def take(source: ForeignObject, draft: Draft, *, own_cluster: bool) -> None:
    """Add everything in *source* to *draft*; *own_cluster* says that no cluster file was given."""
    spec = draft.spec
    nodes = source.number("nodeCount")
    spec["cluster"] = {**spec.get("cluster", {}), "nodes": nodes or 1}
    if nodes is None:
        source.left("nodeCount", "the key is missing; 1 is used")
    _cluster(source.inner("cluster"), draft, own_cluster=own_cluster)
    _container(source.inner("containerSettings"), draft)
    draft.volumes(source.inner("mountVolumes"), "job", ROOTS["job"])
    outer = [source.text("stdOutErrPathPrefix"), _preparation(source.inner("jobPreparation"))]
    draft.settings |= {k: v for k, v in zip(("logs", "preparation"), outer, strict=True) if v}
    places = Places(draft)
    take_inputs(source, draft, places)
    take_outputs(source, draft, places)
    _toolkit(source, draft, places, nodes or 1)
    places.rest([text for text in outer if text])
    _environment(source, draft)
    _limits(source, draft)
    draft.settings["contract"] = False
    source.end()


def _cluster(source: ForeignObject, draft: Draft, *, own_cluster: bool) -> None:
    where = source.text("id")
    match = CLUSTER.fullmatch(where or "")
    if match:
        names = ("subscription", "resource_group", "workspace", "cluster")
        ids = dict(zip(names, match.groups(), strict=True))
        if not own_cluster:
            draft.notes.append(
                "runspec makes a new cluster from the cluster file, and does not use the one that the job names"
            )
            del ids["cluster"]
        draft.profile.update(ids)
    elif where:
        source.left("id", "the value is not the id of a cluster")
    source.end()


def _container(registry_source: ForeignObject, draft: Draft) -> None:
    source = registry_source.inner("imageSourceRegistry")
    container: dict[str, Any] = {"image": source.text("image")} if source else {}
    registry: dict[str, Any] = {"server": source.text("serverUrl")}
    credentials = source.inner("credentials")
    if credentials:
        registry["username"] = credentials.text("username")
        value, vault = credentials.text("password"), credentials.inner("passwordSecretReference")
        where = f"{credentials.path}.password"
        registry["password"] = draft.secret(
            "registry-password", "REGISTRY_PASSWORD", value, vault, where
        )
    registry = {k: v for k, v in registry.items() if v is not None}
    if registry:
        draft.profile["registry"] = registry
    shm = registry_source.text("shmSize")
    if shm:
        size = SHM.fullmatch(shm)
        count = int(size[1]) << {"k": 10, "m": 20, "g": 30}.get(size[2].lower(), 0) if size else 0
        if count and count % 1024 == 0:
            container["shm"] = _size(count)
        else:
            registry_source.left("shmSize", "the value is not a whole number of KiB")
    for part in (credentials, source, registry_source):
        part.end()
    draft.spec["container"] = container


def _size(count: int) -> str:
    for unit, shift in (("GiB", 30), ("MiB", 20)):
        if count % (1 << shift) == 0:
            return f"{count >> shift}{unit}"
    return f"{count >> 10}KiB"


def _preparation(source: ForeignObject) -> str | None:
    line = source.text("commandLine")
    source.end()
    return line


def _toolkit(source: ForeignObject, draft: Draft, places: Places, nodes: int) -> None:
    there = [
        (name, kind, source.inner(kind.key))
        for name, kind in KINDS.items()
        if kind.key in source.value
    ]
    if not there:
        source.left(None, "the job has no toolkit settings; the command is set to 'true'")
        draft.spec["command"] = ["true"]
        return
    name, kind, settings = there[0]
    for _, other, _ in there[1:]:
        source.left(other.key, f"a job has only one toolkit, and {kind.key} is used")
    draft.settings["toolkit"] = name
    launch = LAUNCHES.get(name)
    draft.spec |= {"launch": launch} if launch else {}
    more = {
        n: v for n in fields(name) if n != "processCount" and (v := settings.text(n)) is not None
    }
    count = settings.number("processCount") if kind.counted else None
    if launch and count and count % nodes == 0:
        draft.spec |= {"processes_per_node": count // nodes} if count != nodes else {}
    elif count is not None:
        more["processCount"] = str(count)
    for number in (n for n in NUMBERS if n in more and not more[n].isdecimal()):
        settings.left(number, "the value is not a whole number")
        del more[number]
    draft.settings |= {"toolkit_settings": more} if more else {}
    _command(name, kind, settings, draft, places)
    settings.end()


def _command(name: str, kind: Kind, settings: ForeignObject, draft: Draft, places: Places) -> None:
    arguments = settings.text(kind.arguments) or ""
    if not kind.scripted:
        whole = arguments
    else:
        script = settings.text("pythonScriptFilePath")
        interpreter = settings.text("pythonInterpreterPath")
        if "configFilePath" in draft.settings.get("toolkit_settings", {}):
            for key_, value in (
                ("pythonScriptFilePath", script),
                ("pythonInterpreterPath", interpreter),
            ):
                if value is not None:
                    settings.left(key_, "configFilePath replaces the program")
            whole = f"{name} {arguments}".rstrip()
            draft.notes.append(f"{name} starts with configFilePath, which only Batch AI supports")
        elif script is None:
            settings.left(
                "pythonScriptFilePath", "the key is missing; the program is set to 'true'"
            )
            whole = "true"
        else:
            whole = f"{interpreter or 'python'} {script} {arguments}".rstrip()
    whole = places.portable(whole)
    draft.spec |= {"command": words} if (words := simple(whole)) else {"run": whole or "true"}
    known = sorted(set(re.findall(r"\$\{?(AZ_BATCHAI_\w+)", whole)))
    if known:
        draft.notes.append(
            f"the command uses variables that only Batch AI sets: {', '.join(known)}"
        )


def simple(line: str) -> list[str] | None:
    """Return the words of a command line that needs no shell; None if it needs one.

    >>> simple("python ${mounts.code}/x.py -g"), simple("a | b"), simple("a 'b c'")
    (['python', '${mounts.code}/x.py', '-g'], None, ['a', 'b c'])
    """
    if SHELL.search(re.sub(r"\$\{(mounts|outputs)\.[a-z0-9_-]+\}", "", line)):
        return None
    try:
        return shlex.split(line) or None
    except ValueError:  # an open quotation mark: only a shell can say what it means
        return None


def _environment(source: ForeignObject, draft: Draft) -> None:
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for variable in source.each("environmentVariables"):
        name, value = variable.text("name") or "", variable.text("value") or ""
        variable.end()
        if _fits(name, variable, draft) and is_secret(name, value):
            nothing = ForeignObject(None, variable.path, draft.notes)
            secrets[name] = draft.secret(name, name, value, nothing, variable.path)
        elif _fits(name, variable):
            env[name] = literal(value)
            if "$AZ_BATCHAI" in value:
                draft.notes.append(
                    f"the value of {name} contains variables that only Batch AI sets"
                )
    for variable in source.each("secrets"):
        name = variable.text("name") or ""
        hidden, vault = variable.text("value"), variable.inner("valueSecretReference")
        if _fits(name, variable, draft):
            secrets[name] = draft.secret(key(name, {}), name, hidden, vault, variable.path)
            env.pop(name, None)
        else:
            draft.hidden.add(hidden)
        variable.end()
    draft.spec |= {"env": env} if env else {}
    draft.spec |= {"secrets": secrets} if secrets else {}


def _fits(name: str, variable: ForeignObject, draft: Draft | None = None) -> bool:
    good = bool(VARIABLE.fullmatch(name)) and not name.upper().startswith(
        ("RUNSPEC_", "AZ_BATCHAI")
    )
    if not good and draft is not None:
        variable.left(None, "a variable of this name cannot be set")
    return good


def _limits(source: ForeignObject, draft: Draft) -> None:
    draft.settings |= {"priority": p} if (p := source.text("schedulingPriority")) else {}
    constraints = source.inner("constraints")
    limit = constraints.text("maxWallClockTime")
    constraints.end()
    if limit:
        seconds = length(limit)
        if seconds:
            draft.spec["timeout"] = _duration(seconds)
        else:
            constraints.left("maxWallClockTime", "the value is not a duration")


def length(text: str) -> int:
    """Return a duration in the format of ISO 8601 or .NET in seconds; 0 if it is not one.

    >>> length("P1DT2H"), length("7.00:00:00"), length("soon")
    (93600, 604800, 0)
    """
    match = ISO.fullmatch(text) or CLOCK.fullmatch(text)
    days, hours, minutes, seconds = (int(n or 0) for n in match.groups()) if match else (0, 0, 0, 0)
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _duration(seconds: int) -> str:
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    text = ""
    for unit, size in units:
        count, seconds = divmod(seconds, size)
        text += f"{count}{unit}" if count else ""
    return text
