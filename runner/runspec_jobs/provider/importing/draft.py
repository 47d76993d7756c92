"""The specs and the profile that an import builds, and how they are written: no value of a secret is in them."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from runspec_jobs.diagnostics.secret_values import (
    is_named_secret as is_named_secret,
    redact as redact,
)
from runspec_jobs.document import reader
from runspec_jobs.provider.commands import literal
from runspec_jobs.provider.importing.mapping import Notes
from runspec_jobs.provider.types import Imported
from runspec_jobs.provider.yaml_writer import write_comments, write_yaml
from runspec_jobs.regex import regex
from runspec_jobs.spec import validate

ORDER = (
    "apiVersion name provider needs params cluster container mounts outputs env env_file secrets launch "
    "processes_per_node setup command run sweep max_parallel max_failed retry timeout signal ttl ports ulimits "
    "providers"
).split()
MACHINE = "nodes capacity cpus memory gpus gpu_type gpu_memory disk placement".split()
VARIABLE = regex(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
CALLER = {"from": "caller"}  # the value in the shell that applies the spec
ROUNDS = 3  # what one value hides, the next round finds
UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
# A line of a shell that sets a variable to a plain word.
ASSIGNED = regex(
    r"(?m)^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)=(?P<value>\"[^\"$`\n]*\"|'[^'\n]*'|[^\s\"'$`;]+)[ \t]*$"
)
PASSED = regex(
    r"(?i)(--?[\w-]*(?:password|passwd|secret|token|api[_-]?key)(?:=|[ ,]+\"?))([^\s\"'$<{,\]]{6,})"
)


class Draft:
    """One job so far: its *spec* with *cluster* and *container*, and the *settings* and *profile* of its provider."""

    reserved: tuple[str, ...] = ("RUNSPEC_",)  # how variables begin that a job may not set

    def __init__(self, name: str, provider: str, notes: Notes) -> None:
        self.notes, self.provider = notes, provider
        self.spec: dict[str, Any] = {"name": make_name(name)}
        self.cluster: dict[str, Any] = {}
        self.container: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.profile: dict[str, Any] = {}

    def add_env(
        self, variable: str, value: str, at: object = None, written: str | None = None
    ) -> None:
        """Add a variable, as a secret without its value if it looks like one; *written* is the value in a spec."""
        if not VARIABLE.fullmatch(variable) or variable.startswith(self.reserved):
            self.notes.lose(f"variable {redact(variable)!r}", "a job cannot set this name", at)
        elif is_named_secret(variable, value):
            self.add_secret(variable)
            self.notes.add(
                f"the value of {variable} looks like a secret in plain text, and is left out: export {variable} "
                "before you apply, and consider the secret compromised",
                at,
            )
        else:
            self.spec.setdefault("env", {})[variable] = (
                literal(value) if written is None else written
            )

    def add_secret(self, variable: str, source: str | None = None, at: object = None) -> None:
        """Add a secret variable, whose value is at *source*; without one it is in the caller's own variable."""
        if not VARIABLE.fullmatch(variable):
            self.notes.lose(f"secret {redact(variable)!r}", "a job cannot set this name", at)
            return
        secrets = self.spec.setdefault("secrets", {})
        if source is None:
            secrets[variable] = dict(CALLER)
            return
        secrets[variable] = make_key(variable, ())
        self.profile.setdefault("secrets", {})[secrets[variable]] = source

    def add_mount(self, name: str, source: str, target: str, mode: str | None = None) -> str:
        """Add a mount, and return its name."""
        mounts = self.spec.setdefault("mounts", [])
        key = make_key(name, {mount["name"] for mount in mounts})
        mounts.append(
            {"name": key, "source": source, "target": target, **({"mode": mode} if mode else {})}
        )
        return key

    def take_script(self, text: str, at: object = None) -> str:
        """Return a script without the lines that set a variable to a secret, which become `secrets`."""
        found = [
            m
            for m in ASSIGNED.finditer(text)
            if is_named_secret(m["name"], m["value"].strip("\"'"))
        ]
        for match in reversed(found):
            text = text[: match.start()] + text[match.end() + 1 :]
            self.add_env(match["name"], match["value"].strip("\"'"), at)
        return literal(text)

    def compose(self) -> dict[str, Any]:
        """Return the spec with its keys in their order."""
        whole = {
            "apiVersion": "runspec/v1",
            "provider": self.provider,
            "cluster": dict(sorted(self.cluster.items(), key=lambda item: MACHINE.index(item[0]))),
            "container": {key: value for key, value in self.container.items() if value},
            "providers": {self.provider: self.settings} if self.settings else {},
            **self.spec,
        }
        kept = {key: value for key, value in whole.items() if value not in (None, {}, [], "")}
        return {key: kept[key] for key in sorted(kept, key=ORDER.index)}


def write_imported(
    drafts: Sequence[Draft], notes: Notes, files: Mapping[str, str] | None = None
) -> Imported:
    """Return *drafts* as one file, a chain if there are several, with *notes* and the *files* that the jobs mount."""
    profile: dict[str, dict[str, Any]] = {}
    names: set[str] = {"job"} if len(drafts) > 1 else set()  # the chain has the name of its file
    for draft in drafts:
        draft.spec["name"] = make_key(draft.spec["name"], names)
        names.add(draft.spec["name"])
        own = profile.setdefault(draft.provider, {})
        for key, value in draft.profile.items():
            own[key] = {**own.get(key, {}), **value} if isinstance(value, dict) else value
    specs = [_drop_invalid(_redact_all(draft.compose(), notes), notes) for draft in drafts]
    shown = _redact_all(profile, notes)
    listed = notes.finish()
    text = write_comments((f"Imported from {notes.name}.", *listed))
    text += "---\n".join(write_yaml(spec) for spec in specs)
    return Imported(text, write_yaml({"providers": shown}), listed, files or {})


def _drop_invalid(spec: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """Return *spec* without what is not valid in it, each part of which is listed as lost."""
    for _ in range(ROUNDS):
        _, problems = validate.parse_spec(reader.read(write_yaml(spec)))
        if not problems:
            break
        for problem in sorted(problems, key=lambda problem: str(problem.path), reverse=True):
            path = list(problem.path)
            index = next((n for n, part in enumerate(path) if isinstance(part, int)), len(path))
            if _drop(spec, path[: index + 1]):
                why = "the value is not valid" if problem.private else problem.what
                notes.lose(".".join(map(str, path)), f"{why} in a spec")
        if not ("command" in spec or "run" in spec or "entrypoint" in spec.get("container", {})):
            spec["command"] = ["true"]
    return spec


def _drop(value: Any, path: Sequence[str | int]) -> bool:
    """Remove what is at *path* in *value*; return whether something was there."""
    for part in path[:-1]:
        is_there = part in value if isinstance(value, dict) else isinstance(part, int)
        value = value[part] if is_there else None
    last = path[-1] if path else None
    if isinstance(value, list) and isinstance(last, int) and last < len(value):
        del value[last]
        return True
    return isinstance(value, dict) and value.pop(last, None) is not None


def _redact_all(value: Any, notes: Notes) -> Any:
    if isinstance(value, Mapping):
        return {key: _redact_all(item, notes) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_all(item, notes) for item in value]
    if not isinstance(value, str):
        return value
    hidden = PASSED.sub(r"\1REMOVED", redact(value))
    if hidden != value:
        notes.add("REMOVED stands for a secret in plain text: pass it by `secrets`, and replace it")
    return hidden


def make_name(text: str) -> str:
    """Return *text* as the name of a job.

    >>> make_name("My_Train.1"), make_name("8b"), make_name("")
    ('my-train-1', 'job-8b', 'job')
    """
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    name = name if name[:1].isalpha() else f"job-{name}"
    return name[:40].strip("-")


def make_key(text: str, used: Container[str]) -> str:
    """Return *text* as the name of a mount or a secret that is not in *used*.

    >>> make_key("HF_TOKEN", ()), make_key("a", ("a", "a-2")), make_key("/data/x", ())
    ('hf-token', 'a-3', 'data-x')
    """
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    name = (name if name[:1].isalpha() else f"x-{name}".rstrip("-"))[:36].rstrip("-")
    found, number = name, 1
    while found in used:
        number += 1
        found = f"{name}-{number}"
    return found


def list_codes(codes: Iterable[int]) -> list[int | str]:
    """Return exit codes as a spec lists them.

    >>> list_codes([1, 40, 41, 42, 9])
    [1, 9, '40..42']
    """
    found: list[list[int]] = []
    for code in sorted(set(codes)):
        if found and found[-1][-1] == code - 1:
            found[-1].append(code)
        else:
            found.append([code])
    return [one[0] if len(one) == 1 else f"{one[0]}..{one[-1]}" for one in found]


def write_duration(seconds: int) -> str:
    """Return *seconds* as a spec has them.

    >>> write_duration(5400), write_duration(60)
    ('1h30m', '1m')
    """
    text = ""
    for size, unit in UNITS:
        count, seconds = divmod(seconds, size)
        text += f"{count}{unit}" if count else ""
    return text
