"""Patches of objects: merge patch, JSON patch and strategic merge patch.

https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/,
https://www.rfc-editor.org/rfc/rfc7396, https://www.rfc-editor.org/rfc/rfc6902
"""

from __future__ import annotations

import copy
from typing import Any

from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api import schema

KINDS = {
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
}


def apply(kind: str, content_type: str, value: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return an object with a patch applied; raise ServiceError if the patch cannot be."""
    content_type = content_type.partition(";")[0].strip()
    if content_type not in KINDS:
        said = "the body of the request was in an unknown format - accepted media types include: "
        raise errors.refuse(415, "UnsupportedMediaType", said + ", ".join(sorted(KINDS)))
    if content_type == "application/json-patch+json":
        return _json_patch(value, patch)
    if not isinstance(patch, dict):
        raise errors.bad_request("json: cannot unmarshal array into Go value of type map")
    if content_type == "application/merge-patch+json":
        return _twice(patch, dict(_merge(value, patch)))
    return _twice(patch, _strategic(kind, (), value, patch))


def _twice(patch: dict[str, Any], merged: dict[str, Any]) -> dict[str, Any]:
    """Keep which fields came twice in a patch, as the strict decoder has to say it."""
    kept = schema.Pairs(merged)
    kept.twice = getattr(patch, "twice", ())
    return kept


def _merge(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, inner in patch.items():
        if inner is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), inner)
    return merged


def _strategic(kind: str, path: tuple[str, ...], value: Any, patch: Any) -> dict[str, Any]:
    mode = patch.get("$patch")
    merged = {} if mode == "replace" or not isinstance(value, dict) else dict(value)
    for name, inner in patch.items():
        # $setElementOrder changes only the order of a list, which the emulator leaves as it is.
        if name == "$patch" or name.startswith("$setElementOrder/"):
            continue
        if name == "$retainKeys":
            merged = {k: v for k, v in merged.items() if k in inner}
        elif inner is None:
            merged.pop(name, None)
        elif isinstance(inner, dict):
            if inner.get("$patch") == "delete":
                merged.pop(name, None)
            else:
                merged[name] = _strategic(kind, (*path, name), merged.get(name), inner)
        elif isinstance(inner, list) and (key := schema.merge_key(kind, (*path, name))):
            merged[name] = _merge_list(kind, (*path, name), key, merged.get(name) or [], inner)
        else:
            merged[name] = inner
    return merged


def _merge_list(
    kind: str, path: tuple[str, ...], key: str, value: list[Any], patch: list[Any]
) -> list[Any]:
    # The entry is a directive, and no item of the list.
    if any(isinstance(p, dict) and p.get("$patch") == "replace" for p in patch):
        return [p for p in patch if p.get("$patch") != "replace"]
    merged = list(value)
    for entry in patch:
        if not isinstance(entry, dict) or key not in entry:
            raise errors.bad_request(f"map: does not contain declared merge key: {key}")
        place = next((n for n, old in enumerate(merged) if old.get(key) == entry[key]), None)
        if entry.get("$patch") == "delete":
            merged = [old for old in merged if old.get(key) != entry[key]]
        elif place is None:
            merged.append(entry)
        else:
            merged[place] = _strategic(kind, path, merged[place], entry)
    return merged


def _json_patch(value: dict[str, Any], patch: Any) -> dict[str, Any]:
    patched = copy.deepcopy(value)
    if not isinstance(patch, list):
        raise errors.bad_request(
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        )
    for step in patch:
        try:
            _step(patched, step)
        except (KeyError, IndexError, ValueError, TypeError) as exc:
            said = f"the server rejected our request due to an error in our request: {step}"
            raise errors.refuse(422, "Invalid", said) from exc
    return patched


def _step(document: dict[str, Any], step: dict[str, Any]) -> None:
    verb, (parent, last) = step["op"], _parent(document, step["path"])
    if verb == "test":
        if _get(parent, last) != step["value"]:
            raise ValueError(last)
    elif verb == "add":
        _add(parent, last, step["value"])
    elif verb == "replace":
        _get(parent, last)
        parent[_index(parent, last)] = step["value"]
    elif verb == "remove":
        _get(parent, last)
        del parent[_index(parent, last)]
    elif verb in ("copy", "move"):
        source, name = _parent(document, step["from"])
        moved = copy.deepcopy(_get(source, name))
        if verb == "move":
            del source[_index(source, name)]
        _add(*_parent(document, step["path"]), moved)
    else:
        raise ValueError(verb)


def _parent(document: Any, path: str) -> tuple[Any, str]:
    names = [p.replace("~1", "/").replace("~0", "~") for p in path.split("/")[1:]]
    for name in names[:-1]:
        document = _get(document, name)
    return document, names[-1]


def _index(parent: Any, name: str) -> Any:
    return int(name) if isinstance(parent, list) else name


def _get(parent: Any, name: str) -> Any:
    return parent[_index(parent, name)]


def _add(parent: Any, name: str, value: Any) -> None:
    if isinstance(parent, list):
        parent.insert(len(parent) if name == "-" else int(name), value)
    else:
        parent[name] = value
