"""Paths of Batch AI's files: which volume, input or output they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from runspec_azure.batchai.importing.draft import Draft, key
from runspec_azure.batchai.importing.foreign_file import Taken
from runspec_azure.batchai.naming import made_up_place
from runspec_jobs.provider import literal

MENTION = re.compile(
    r"\$\{?(AZ_BATCHAI_(?:INPUT|OUTPUT)_\w+|AZ_BATCHAI_JOB_MOUNT_ROOT|AZ_BATCHAI_MOUNT_ROOT)\}?"
)


class Places:
    """The places that a command may speak of; volumes become mounts when one is spoken of."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.mounts: dict[str, dict[str, Any]] = {}
        self.variables: dict[str, str] = {}  # ${mounts.x} and ${outputs.x} by Batch AI's variable
        self.paths: dict[str, str] = {}  # the same by path
        self.used: set[str] = set()  # volumes that something mentions

    def mount(self, name: str, source: str) -> None:
        self.mounts[name] = {
            "name": name,
            "source": source,
            "target": made_up_place("mounts", name),
        }
        self.draft.spec["mounts"] = list(self.mounts.values())

    def volume(self, path: str) -> str | None:
        """Return the name of the volume that *path* is on; None where no file tells of it."""
        roots = self.draft.roots
        on = [n for n, root in roots.items() if path == root or path.startswith(f"{root}/")]
        found = max(on, key=lambda n: len(roots[n]), default=None)
        if found is not None:
            self.used.add(found)
        return found

    def portable(self, text: str) -> str:
        """Return *text* with runspec's own words for every place that it speaks of."""
        text = literal(MENTION.sub(lambda match: f"${match[1]}", text))
        for variable, place in sorted(self.variables.items(), key=lambda item: -len(item[0])):
            text = re.sub(rf"\${variable}(?!\w)", lambda _, p=place: p, text)  # type: ignore[misc]
        for path, place in sorted(self.paths.items(), key=lambda item: -len(item[0])):
            text = re.sub(rf"{re.escape(path)}(?![\w.-])", lambda _, p=place: p, text)  # type: ignore[misc]
        for name, root in sorted(self.draft.roots.items(), key=lambda item: -len(item[1])):
            if re.search(rf"{re.escape(root)}(?![\w.-])", text):
                place = self._root(name)
                text = re.sub(rf"{re.escape(root)}(?![\w.-])", lambda _, p=place: p, text)  # type: ignore[misc]
        return text

    def _root(self, name: str) -> str:
        """Return the mount that a whole volume is; it becomes one now if it was none."""
        self.used.add(name)
        mount = key(name, self.mounts)
        self.mount(mount, f"shared://{name}")
        return f"${{mounts.{mount}}}"

    def rest(self, texts: Iterable[str]) -> None:
        """Have every volume of the job mounted that nothing else mentions."""
        for text in texts:
            for match in re.finditer(r"\$AZ_BATCHAI_\w+(/[^\s\"';]*)?", text):
                self.volume(match[0])
        levels = self.draft.shared
        for name in self.draft.roots:
            if name not in self.used and levels[name].get("level") != "cluster":
                self._root(name)


def take_inputs(found: Taken, draft: Draft, places: Places) -> None:
    for one in found.each("inputDirectories"):
        word, path = one.text("id") or "", (one.text("path") or "").rstrip("/")
        one.end()
        name = key(word, places.mounts)
        inputs: dict[str, Any] = {} if _capitals(name) == word else {"id": word}
        volume = places.volume(path)
        if volume is None:
            inputs["path"] = path
            places.mount(name, f"shared://{name}")
            draft.notes.append(f"no file tells what {path} is: {name} is mounted as it was")
        else:
            below = path.removeprefix(draft.roots[volume])
            places.mount(name, f"shared://{volume}{below}")
        if inputs:
            draft.settings.setdefault("inputs", {})[name] = inputs
        places.variables[f"AZ_BATCHAI_INPUT_{word}"] = f"${{mounts.{name}}}"
        places.paths.setdefault(path, f"${{mounts.{name}}}")


def take_outputs(found: Taken, draft: Draft, places: Places) -> None:
    outputs: list[dict[str, str]] = []
    for one in found.each("outputDirectories"):
        word = one.text("id") or ""
        name = key(word, {output["name"]: 1 for output in outputs})
        prefix, suffix = one.text("pathPrefix") or "", one.text("pathSuffix")
        one.end()
        result = {"id": None if _capitals(name) == word else word, "path": prefix, "suffix": suffix}
        results = draft.settings.setdefault("results", {})
        results[name] = {k: v for k, v in result.items() if v is not None}
        outputs.append({"name": name, "path": made_up_place("outputs", name)})
        places.variables[f"AZ_BATCHAI_OUTPUT_{word}"] = f"${{outputs.{name}}}"
        places.volume(prefix)
    draft.spec |= {"outputs": outputs} if outputs else {}


def _capitals(name: str) -> str:
    return name.upper().replace("-", "_")
