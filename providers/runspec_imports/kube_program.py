"""The program of a Job of Kubernetes: its words, its variables, and where they are known."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runspec_jobs.provider.commands import literal
from runspec_jobs.provider.importing.documents import Map, Text
from runspec_jobs.provider.importing.draft import Draft, is_named_secret, make_key, redact
from runspec_jobs.provider.importing.mapping import ForeignMap, Notes

# https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
REFERENCE = re.compile(r"\$(\$?)\(([A-Za-z_][\w.-]*)\)")
INDEX = "JOB_COMPLETION_INDEX"
SHELL = re.compile(r"(?:/bin/|/usr/bin/)?(?:sh|bash|dash|ash|zsh)")
FLAGS = re.compile(r"-([eux]*)c([eux]*)")
DATA_KEYS = ("data", "stringData", "binaryData")


class Beside:
    """The ConfigMaps and Secrets in the same file, by name; *files* are what jobs mount of them."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.maps: dict[str, dict[str, Text]] = {}
        self.secrets: dict[str, list[str]] = {}
        self.files: dict[str, str] = {}

    def add(self, kind: str, value: Map) -> None:
        source = ForeignMap(value, kind, self.notes)
        name = source.map("metadata").text("name")
        if kind == "ConfigMap":
            self.maps[name] = source.pairs("data")
            source.skip("apiVersion", "kind", "immutable", "metadata")
            return
        parts = [source.map(part) for part in DATA_KEYS]
        self.secrets[name] = [key for part in parts for key in part.list_keys()]
        for part in (source, *parts):
            part.clear()
        self.notes.add(f"Secret {name}: its values are left out", value)

    def add_files(self, name: str, chosen: Mapping[str, str]) -> str:
        """Keep keys of a ConfigMap as files with the paths *chosen*; return their folder, beside the spec."""
        folder = make_key(name, ())
        for key, path in chosen.items():
            value = str(self.maps[name][key])
            if is_named_secret(key, value):
                self.notes.lose(
                    f"{key} of ConfigMap {name}", "it looks like a secret", self.maps[name][key]
                )
            else:
                self.files[f"{folder}/{path}"] = redact(value)
        return f"./{folder}"


@dataclass
class Program:
    """What one container runs. *is_gang* is whether the pods of an indexed Job are the nodes of one task."""

    draft: Draft
    job: str
    subdomain: str
    indexed: bool
    is_gang: bool
    before: list[str] = field(default_factory=list)  # lines of a shell
    env: dict[str, str] = field(default_factory=dict)  # as a spec has the values
    made: set[str] = field(default_factory=set)  # variables that a line of a shell sets

    def __post_init__(self) -> None:
        if self.indexed:
            self.add_index(INDEX)

    def add_env(self, name: str, value: str, at: object) -> None:
        """Add a variable with a value that may refer to variables before it, or to the first pod."""
        if self.needs_shell(value):
            self.before.append(f"export {name}={self._quote(value)}")
            self.made.add(name)
            return
        self.draft.add_env(name, value, at, written=self.fill(value))
        written = self.draft.spec.get("env", {}).get(name)
        if written is not None:  # and no secret
            self.env[name] = written

    def add_index(self, name: str) -> None:
        """Add a variable with the index of the pod, which is that of the task, or of the node."""
        if self.is_gang or "sweep" in self.draft.spec:
            value = "$RUNSPEC_RANK" if self.is_gang else "${sweep.index}"
            self.before.append(f'export {name}="{value}"')
            self.made.add(name)
        else:
            self.add_env(name, "0", None)

    def _leader(self) -> re.Pattern[str]:
        """Match the address of the first pod of an indexed Job."""
        return re.compile(
            rf"{re.escape(self.job)}-0(?:\.{re.escape(self.subdomain)}[\w.-]*)?"
            if self.subdomain
            else r"(?!)"
        )

    def write(self, words: Sequence[Text]) -> None:
        """Write *words* as `command`, or as a script if they need a shell."""
        script = _read_script(words)
        if script is not None and ("\n" in script[2] or self.before):
            self._write_script(*script, at=words[2])
        elif self.before or any(self.needs_shell(word) for word in words):
            self.draft.spec["run"] = f"{self._head()}exec {' '.join(map(self._quote, words))}\n"
        else:
            self.draft.spec["command"] = [self.fill(word) for word in words]

    def write_step(self, words: Sequence[Text]) -> None:
        """Add *words*, what an init container runs, to `setup`."""
        script = _read_script(words)
        text = (
            self.draft.take_script(script[2], words[2])
            if script
            else " ".join(map(self._quote, words))
        )
        before = self.draft.spec.get("setup", "")
        self.draft.spec["setup"] = (
            f"{before}(\n{text.rstrip()}\n)\n" if script else f"{before}{text}\n"
        )

    def _head(self) -> str:
        return "".join(f"{line}\n" for line in self.before)

    def _write_script(self, shell: str, flags: str, text: str, at: object) -> None:
        path = shell if shell.startswith("/") else f"/bin/{shell}"
        if self.is_gang:
            text = self._leader().sub("$RUNSPEC_LEADER", text)
        text = REFERENCE.sub(self._fill_in_script, text)
        head = "" if "e" in flags else "set +e\n"
        more = "".join(f"set -{flag}\n" for flag in flags.replace("e", ""))
        written = self.draft.take_script(text.rstrip("\n"), at)
        self.draft.spec["run"] = f"#!{path}\n{head}{more}{self._head()}{written}\n"

    def _fill_in_script(self, match: re.Match[str]) -> str:
        if match[1]:
            return match[0][1:]
        return self.env.get(match[2], f"${{{match[2]}}}") if self._knows(match[2]) else match[0]

    def _knows(self, name: str) -> bool:
        return name in self.env or name in self.made or name in self.draft.spec.get("secrets", {})

    def needs_shell(self, word: str) -> bool:
        names = [m[2] for m in REFERENCE.finditer(word) if not m[1]]
        is_leader = self.is_gang and self._leader().search(word)
        return bool(is_leader) or any(self._knows(n) and n not in self.env for n in names)

    def fill(self, word: str) -> str:
        """Return *word* with the values of its references, as a word of `command`."""
        return _join(word, literal, lambda match: self.env.get(match[2], match[0]))

    def _quote(self, word: str) -> str:
        def fill(match: re.Match[str]) -> str:
            name = match[2]
            if name in self.env:
                return _quote(self.env[name])
            return f'"${{{name}}}"' if self._knows(name) else _quote(match[0])

        return _join(word, self._quote_text, fill) or "''"

    def _quote_text(self, text: str) -> str:
        if not self.is_gang:
            return _quote(literal(text))
        pieces = self._leader().split(text)
        return '"$RUNSPEC_LEADER"'.join(_quote(literal(piece)) for piece in pieces)


def _quote(text: str) -> str:
    return shlex.quote(text) if text else ""


def _join(word: str, plain: Callable[[str], str], fill: Callable[[re.Match[str]], str]) -> str:
    """Return *word* with *plain* of its text, and *fill* of its references; `$$(` stands for `$(`."""
    text, at = "", 0
    for match in REFERENCE.finditer(word):
        text += plain(word[at : match.start()])
        text += plain(match[0][1:]) if match[1] else fill(match)
        at = match.end()
    return text + plain(word[at:])


def _read_script(words: Sequence[Text]) -> tuple[str, str, str] | None:
    """Return the shell, the flags and the script in *words*, if they are `sh -c SCRIPT`."""
    if len(words) != 3 or not SHELL.fullmatch(words[0]):
        return None
    match = FLAGS.fullmatch(words[1])
    return (words[0], match[1] + match[2], words[2]) if match else None
