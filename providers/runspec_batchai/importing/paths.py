"""Convert paths in Batch AI's files to mounts and outputs of a spec."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from runspec_batchai.importing.draft import Draft, key
from runspec_batchai.importing.foreign_file import ForeignObject
from runspec_batchai.naming import made_up_place
from runspec_jobs.provider.commands import literal

MENTION = re.compile(
    r"\$\{?(AZ_BATCHAI_(?:INPUT|OUTPUT)_\w+|AZ_BATCHAI_JOB_MOUNT_ROOT|AZ_BATCHAI_MOUNT_ROOT)\}?"
)


class Places:
    """The paths that a command may contain; a volume becomes a mount if its path is used."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.mounts: dict[str, dict[str, Any]] = {}
        self.variables: dict[str, str] = {}  # placeholders by Batch AI's variable
        self.paths: dict[str, str] = {}  # placeholders by path
        self.used: set[str] = set()  # volumes whose path is used

    def mount(self, name: str, source: str) -> None:
        self.mounts[name] = {
            "name": name,
            "source": source,
            "target": made_up_place("mounts", name),
        }
        self.draft.spec["mounts"] = list(self.mounts.values())

    def volume(self, path: str) -> str | None:
        """Return the name of the volume that *path* is on; None if it is on none in the files."""
        roots = self.draft.roots
        on = [n for n, root in roots.items() if path == root or path.startswith(f"{root}/")]
        volume = max(on, key=lambda n: len(roots[n]), default=None)
        if volume is not None:
            self.used.add(volume)
        return volume

    def portable(self, text: str) -> str:
        """Return *text* with runspec's placeholder for every path that it contains."""
        text = literal(MENTION.sub(lambda match: f"${match[1]}", text))
        for variable, folder in sorted(self.variables.items(), key=lambda item: -len(item[0])):
            text = re.sub(rf"\${variable}(?!\w)", lambda _, p=folder: p, text)  # type: ignore[misc]
        for path, folder in sorted(self.paths.items(), key=lambda item: -len(item[0])):
            text = re.sub(rf"{re.escape(path)}(?![\w.-])", lambda _, p=folder: p, text)  # type: ignore[misc]
        for name, root in sorted(self.draft.roots.items(), key=lambda item: -len(item[1])):
            if re.search(rf"{re.escape(root)}(?![\w.-])", text):
                folder = self._root(name)
                text = re.sub(rf"{re.escape(root)}(?![\w.-])", lambda _, p=folder: p, text)  # type: ignore[misc]
        return text

    def _root(self, name: str) -> str:
        """Make a mount of a whole volume, and return its placeholder."""
        self.used.add(name)
        mount = key(name, self.mounts)
        self.mount(mount, f"shared://{name}")
        return f"${{mounts.{mount}}}"

    def rest(self, texts: Iterable[str]) -> None:
        """Make a mount of every volume of the job that neither *texts* nor anything else uses."""
        for text in texts:
            for match in re.finditer(r"\$AZ_BATCHAI_\w+(/[^\s\"';]*)?", text):
                self.volume(match[0])
        levels = self.draft.shared
        for name in self.draft.roots:
            if name not in self.used and levels[name].get("level") != "cluster":
                self._root(name)


def take_inputs(source: ForeignObject, draft: Draft, places: Places) -> None:
    for directory in source.each("inputDirectories"):
        word, path = directory.text("id") or "", (directory.text("path") or "").rstrip("/")
        directory.end()
        name = key(word, places.mounts)
        inputs: dict[str, Any] = {} if _capitals(name) == word else {"id": word}
        volume = places.volume(path)
        if volume is None:
            inputs["path"] = path
            places.mount(name, f"shared://{name}")
            draft.notes.append(f"no file has the volume of {path}: {name} keeps this path")
        else:
            below = path.removeprefix(draft.roots[volume])
            places.mount(name, f"shared://{volume}{below}")
        if inputs:
            draft.settings.setdefault("inputs", {})[name] = inputs
        places.variables[f"AZ_BATCHAI_INPUT_{word}"] = f"${{mounts.{name}}}"
        places.paths.setdefault(path, f"${{mounts.{name}}}")


def take_outputs(source: ForeignObject, draft: Draft, places: Places) -> None:
    outputs: list[dict[str, str]] = []
    for directory in source.each("outputDirectories"):
        word = directory.text("id") or ""
        name = key(word, {output["name"]: 1 for output in outputs})
        prefix, suffix = directory.text("pathPrefix") or "", directory.text("pathSuffix")
        directory.end()
        result = {"id": None if _capitals(name) == word else word, "path": prefix, "suffix": suffix}
        results = draft.settings.setdefault("results", {})
        results[name] = {k: v for k, v in result.items() if v is not None}
        outputs.append({"name": name, "path": made_up_place("outputs", name)})
        places.variables[f"AZ_BATCHAI_OUTPUT_{word}"] = f"${{outputs.{name}}}"
        places.volume(prefix)
    draft.spec |= {"outputs": outputs} if outputs else {}


def _capitals(name: str) -> str:
    return name.upper().replace("-", "_")
