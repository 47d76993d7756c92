"""Read job definitions in templates of CloudFormation, whose references are resolved as far as the file says them.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference.html
"""

from __future__ import annotations

import re
from typing import NamedTuple

from runspec_jobs.provider.importing.documents import Map, Seq, Text, Value
from runspec_jobs.provider.importing.mapping import Notes

TYPE = "AWS::Batch::JobDefinition"
FUNCTIONS = (
    "And Base64 Cidr Equals FindInMap GetAtt GetAZs If ImportValue Join Not Or Select Split Sub Transform "
    "ForEach Length ToJsonString"
).split()
LONG = {"!Ref": "Ref", "!Condition": "Condition", **{f"!{f}": f"Fn::{f}" for f in FUNCTIONS}}
VARIABLE = re.compile(r"\$\{(!?)([^${}]+)\}")
NOTHING = "AWS::NoValue"
# Mappings whose keys are words of the user.
OWN_KEYS = frozenset({"Parameters", "Tags", "Options", "Labels", "Limits", "Requests"})


class Resolved(NamedTuple):
    """A text, and the references in it that only CloudFormation knows, with words in their places."""

    text: str
    unknown: tuple[str, ...] = ()


class Template:
    """A template: its parameters, and its job definitions in the words of the API."""

    def __init__(self, document: Map, notes: Notes) -> None:
        self.notes = notes
        resources = document.get("Resources")
        self.resources = resources if isinstance(resources, Map) else Map()
        parameters = document.get("Parameters")
        self.parameters = parameters if isinstance(parameters, Map) else Map()

    def list_definitions(self) -> list[tuple[str, Map]]:
        """Return the job definitions by their logical names, and list what else the template makes."""
        found, others = [], []
        for name, resource in self.resources.items():
            if not isinstance(resource, Map) or resource.get("Type") != TYPE:
                others.append(name)
                continue
            if "Condition" in resource:
                self.notes.lose(f"{name}.Condition", "the job is imported in any case", name)
            properties = self._resolve(resource.get("Properties") or Map(), name)
            found.append((str(name), properties if isinstance(properties, Map) else Map()))
        if others:
            self.notes.lose(", ".join(others), "only job definitions are imported", others[0])
        return found

    def _resolve(self, value: Value, path: str) -> Value | None:
        """Return *value* without references and in the words of the API; None if it cannot be known."""
        if (
            isinstance(value, Map)
            and len(value) == 1
            and (key := next(iter(value))) in LONG.values()
        ):
            return self._fill(key, value, path)
        if isinstance(value, Map):
            own = path.rpartition(".")[2] in OWN_KEYS
            node = Map()
            node.span = value.span
            for key, item in value.items():
                inner = self._resolve(item, f"{path}.{key}")
                if inner is not None:
                    word = key if own else key[:1].lower() + key[1:]
                    node[Text(word, span=key.span) if isinstance(key, Text) else word] = inner
            return node
        if isinstance(value, Seq):
            items = [self._resolve(item, f"{path}[{n}]") for n, item in enumerate(value)]
            seq = Seq(item for item in items if item is not None)
            seq.span = value.span
            return seq
        return value

    def _fill(self, key: str, value: Map, path: str) -> Text | None:
        if value[key] == NOTHING:
            return None
        resolved = self._read(value)
        name = path.rpartition(".")[2]
        if resolved.unknown and name == "Image":
            words = " and ".join(resolved.unknown)
            self.notes.lose(
                path, f"it refers to {words}, which only CloudFormation knows: replace it", value
            )
            return Text(resolved.text, span=value.span)
        if resolved.unknown:
            words = " and ".join(dict.fromkeys(resolved.unknown))
            self.notes.lose(path, f"it refers to {words}, which only CloudFormation knows", value)
            return None
        return Text(resolved.text, span=value.span)

    def _read(self, value: Value) -> Resolved:
        """Return the text of *value*, a text or a function."""
        if isinstance(value, Text):
            return Resolved(str(value))
        if not isinstance(value, Map) or len(value) != 1:
            return _unknown("a function")
        key = next(iter(value))
        inner = value[key]
        if key == "Ref" and isinstance(inner, Text):
            return self._look_up(inner)
        if key == "Fn::Sub":
            return self._substitute(inner)
        if (
            key == "Fn::Join"
            and isinstance(inner, Seq)
            and len(inner) == 2
            and isinstance(inner[1], Seq)
        ):
            parts = [self._read(part) for part in inner[1]]
            separator = inner[0] if isinstance(inner[0], Text) else ""
            text = separator.join(part.text for part in parts)
            return Resolved(text, tuple(name for part in parts for name in part.unknown))
        if key == "Fn::GetAtt":
            return _unknown(".".join(map(str, inner)) if isinstance(inner, Seq) else str(inner))
        return _unknown(key)

    def _look_up(self, name: str) -> Resolved:
        parameter = self.parameters.get(name)
        default = parameter.get("Default") if isinstance(parameter, Map) else None
        return Resolved(str(default)) if isinstance(default, Text) else _unknown(name)

    def _substitute(self, value: Value) -> Resolved:
        own: dict[str, Value] = {}
        if isinstance(value, Seq) and len(value) == 2 and isinstance(value[1], Map):
            own = value[1]
            value = value[0]
        if not isinstance(value, Text):
            return _unknown("Fn::Sub")
        unknown: list[str] = []

        def fill(match: re.Match[str]) -> str:
            if match[1]:
                return f"${{{match[2]}}}"
            found = self._read(own[match[2]]) if match[2] in own else self._look_up(match[2])
            unknown.extend(found.unknown)
            return found.text

        return Resolved(VARIABLE.sub(fill, value), tuple(unknown))


def _unknown(name: str) -> Resolved:
    word = re.sub(r"[^a-z0-9]+", "", name.lower())[:40]
    return Resolved(f"replace-{word}", (name,))
