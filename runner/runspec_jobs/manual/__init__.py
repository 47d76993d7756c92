"""Reads the tables of the pages, and finds the rows that a word or a message is about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple

HERE = Path(__file__).parent
# The kind of what stands in the first column, by the page and the title of that column.
KINDS = {
    ("exit-codes.md", "code"): "exit code of runspec",
    ("exit-codes.md", "exit code"): "exit code of a job",
    ("exit-codes.md", "state"): "state of a run",
    ("glossary.md", "term"): "term",
    ("glossary.md", "instead of"): "not a term",
    ("reference.md", "key"): "field",
    ("troubleshooting.md", "message"): "message",
}
MESSAGE, FIELD = "message", "field"
TEXTS = ("meaning", "description")  # columns that come first
LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")
PLACEHOLDER = re.compile(r"\b(?:NAME|N|PATH|PROVIDER|WORDS?)\b")
CELLS = re.compile(r"(?<!\\)\|")


class Entry(NamedTuple):
    """A row of a page: the words that it explains, and its other columns as pairs of a title and a text.

    *section* is the heading above it, which says of what a field is.
    """

    kind: str
    words: str
    texts: tuple[tuple[str, str], ...]
    page: str
    section: str = ""

    @property
    def title(self) -> str:
        """The words without the quotes of Markdown."""
        return self.words.strip("`") if self.words.count("`") == 2 else self.words

    def is_about(self, asked: str) -> bool:
        """Return whether *asked*, in lower case, is one of the names, perhaps below another field: `retry.attempts`."""
        # `retry.attempts` is `attempts` in the section on `retry`.
        above, _, name = asked.rpartition(".")
        if above and not self.kind.startswith(FIELD):
            return False
        part = above.rpartition(".")[2].split("[")[0]
        subject = self.section.lower().rpartition(" ")[2]
        return name in self.list_names() and part in ("", subject, f"{subject}s")

    def list_names(self) -> Iterator[str]:
        """Yield the words by which the row is looked up, in lower case."""
        for part in re.split(r"[,()]", self.words):
            if name := part.strip(" `").lower():
                yield name


@cache
def read_entries() -> tuple[Entry, ...]:
    """Return all rows of all pages, in their order."""
    pages = dict.fromkeys(page for page, _ in KINDS)
    return tuple(e for page in pages for e in parse_rows(page, (HERE / page).read_text("utf-8")))


def parse_rows(page: str, text: str) -> Iterator[Entry]:
    """Yield the rows of the tables of a page whose first column is of a known kind."""
    titles: list[str] | None = None
    section = ""
    for line in text.splitlines():
        if not line.startswith("|"):
            titles = None
            section = line.removeprefix("## ") if line.startswith("## ") else section
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in CELLS.split(line)[1:-1]]
        if titles is None:
            titles = cells
        elif (kind := KINDS.get((page, titles[0]))) and not set(cells[0]) <= set("-: "):
            texts = [
                (t, _strip_markdown(c)) for t, c in zip(titles[1:], cells[1:], strict=True) if c
            ]
            texts.sort(key=lambda text: not text[0].startswith(TEXTS))
            suffix = (
                f" of {section.removeprefix('providers: ') or 'a spec'}" if kind == FIELD else ""
            )
            yield Entry(f"{kind}{suffix}", cells[0], tuple(texts), f"docs/{page}", section)


def find(asked: str) -> list[Entry]:
    """Return the rows about *asked*: a code, a state, a term or a field, or else a message or words of one."""
    word = " ".join(asked.lower().split()).removeprefix("runspec: ")
    named = [e for e in read_entries() if e.kind != MESSAGE and e.is_about(word)]
    # `attempts` in place of `attempt`.
    if not named and word.endswith("s"):
        named = [e for e in read_entries() if e.kind != MESSAGE and e.is_about(word[:-1])]
    return named or _find_messages([e for e in read_entries() if e.kind == MESSAGE], word)


def _find_messages(known: Sequence[Entry], word: str) -> list[Entry]:
    """Return the messages that *word* is, or else those that contain all of its words."""
    printed = [entry for entry in known if compile_pattern(entry.words).search(word)]
    if printed:
        return printed
    parts = word.split()
    return [e for e in known if parts and all(part in e.words.lower() for part in parts)]


def compile_pattern(message: str) -> re.Pattern[str]:
    """Return what finds a message of a page in printed text, whatever stands in place of its placeholders.

    >>> bool(compile_pattern("`there is no run 'NAME'`").search("runspec: there is no run 'toy'"))
    True
    """
    parts = PLACEHOLDER.split(message.strip("`"))
    return re.compile(".+?".join(map(re.escape, parts)), re.IGNORECASE)


def list_known() -> list[str]:
    """Return all codes, states, terms and fields."""
    return [
        name for entry in read_entries() if entry.kind != MESSAGE for name in entry.list_names()
    ]


def _strip_markdown(text: str) -> str:
    """Return Markdown as it is printed: a link as its text, with the address or page behind it.

    >>> _strip_markdown("see [profiles](profile.md#trust)")
    'see profiles (docs/profile.md#trust)'
    """

    def show_link(link: re.Match[str]) -> str:
        text, target = link.groups()
        if "://" in target or target.startswith("#"):
            return text if target.startswith("#") else f"{text} ({target})"
        page = target.removeprefix("../") if target.startswith("../") else f"docs/{target}"
        return f"{text} ({page})"

    return LINK.sub(show_link, text)
