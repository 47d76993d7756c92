"""The pages of the documentation, which are in the package; and the rows of their tables, by what they are about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from runspec_agent.base.light_typing import NamedTuple

PAGES = Path(__file__).parent / "pages"
INDEX = "index"
INDEX_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
INDEX_ROW = re.compile(r"^\| \[([^\]]+)\]\(([\w-]+)\.md\) \| (.*) \|$", re.MULTILINE)
FENCE = re.compile(r"^ *```")
PAGE_HEADING = re.compile(r"^(#+) (.+)$")
PAGE_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
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


# Words of other tools and of the field, what to write here, and the page about it.
OTHER_WORDS = (
    (
        "CUDA, cuDNN, NCCL",
        "a part of the image or of the packages; drivers come with machines",
        "gpus",
    ),
    ("gang scheduling, all-or-nothing", "`nodes`: no node starts before all are there", "gpus"),
    (
        "DDP, FSDP, distributed training, world size",
        "`nodes` and `gpus` of `cluster`, with `launch: torchrun`",
        "gpus",
    ),
    ("cron, cronjob, schedule, timetable", "runspec has none: have cron call runspec", "after"),
    ("preemptible, low priority, interruptible", "`capacity: spot`", "spot"),
    (
        "checkpointing, auto-resume",
        "write checkpoints into an output with `sync`: a later attempt finds them there",
        "resume",
    ),
    ("requeue on failure, restart policy, max retries", "`retry: {attempts: 3}`", "spot"),
    ("walltime, time limit", "`timeout`", "reference"),
    ("hyperparameter, hpo, grid search, trial", "a sweep, whose tasks are the trials", "params"),
    ("DAG, pipeline, workflow", "several jobs in one file, a chain", "chains"),
    ("notebook, Jupyter", "`runspec.load(...)` and `apply` in a cell", "python"),
)


class Entry(NamedTuple):
    """A row of a page: the words that it explains, and its other columns as pairs of a title and a text.

    *section* is the heading above it, which names the part of the spec that a field belongs to.
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
    """Return all rows of all pages, in their order, and the words of other tools."""
    pages = dict.fromkeys(page for page, _ in KINDS)
    rows = [e for page in pages for e in parse_rows(page, read_page(page.removesuffix(".md")))]
    others = [
        Entry("word of other tools", words, (("here", text),), f"docs/{page}.md")
        for words, text, page in OTHER_WORDS
    ]
    return (*rows, *others)


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
    'see profiles (runspec docs profile#trust)'
    """

    def show_link(link: re.Match[str]) -> str:
        text, target = link.groups()
        if "://" in target or target.startswith("#"):
            return text if target.startswith("#") else f"{text} ({target})"
        if target.startswith("../"):
            return f"{text} ({target.removeprefix('../')})"
        return f"{text} (runspec docs {target.replace('.md', '', 1)})"

    return LINK.sub(show_link, text)


class Page(NamedTuple):
    """A page: its name, as in `runspec docs NAME`, its title, what it is about, and the section of the index."""

    name: str
    title: str
    about: str
    section: str


def list_pages() -> list[Page]:
    """Return all pages but the index, in its order."""
    return list(parse_index((PAGES / f"{INDEX}.md").read_text("utf-8")))


def parse_index(text: str) -> Iterator[Page]:
    """Yield the pages that the page index.md lists.

    >>> next(parse_index("## Start\\n| [Tutorial](tutorial.md) | from nothing |\\n"))
    Page(name='tutorial', title='Tutorial', about='from nothing', section='Start')
    """
    parts = INDEX_SECTION.split(text)[1:]
    for section, rows in zip(parts[::2], parts[1::2], strict=True):
        for title, name, about in INDEX_ROW.findall(rows):
            yield Page(name, title, about, section)


def list_page_names() -> list[str]:
    return sorted(path.stem for path in PAGES.glob("*.md"))


def read_page(name: str) -> str:
    """Return the text of a page. Raises OSError if there is none of that name."""
    return (PAGES / f"{name}.md").read_text("utf-8")


def make_anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading.

    >>> make_anchor("`launch`: how nodes start")
    'launch-how-nodes-start'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def list_anchors(text: str) -> list[str]:
    """Return the anchors of a page: those of its headings, and those that are written."""
    return [anchor for _, _, anchor in _list_places(text)]


def cut_section(text: str, anchor: str) -> str | None:
    """Return what a reader sees from *anchor* to the next heading of the same level; None if there is no such anchor.

    >>> cut_section("# A\\n\\n## B\\nb\\n\\n### C\\nc\\n\\n## D\\n", "b")
    '## B\\nb\\n\\n### C\\nc\\n'
    """
    lines = text.splitlines()
    places = list(_list_places(text))
    for number, (line, level, found) in enumerate(places):
        if found == anchor:
            rest = places[number + 1 :]
            # An anchor alone before a heading is an older name of its section.
            if rest and not level and not "".join(lines[line + 1 : rest[0][0]]).strip():
                start, depth, _ = rest.pop(0)
            else:
                start, depth = line, level
            ends = (at for at, other, _ in rest if 0 < other <= (depth or 6))
            return "\n".join(lines[start : next(ends, len(lines))]).rstrip() + "\n"
    return None


def find_pages(words: str) -> list[str]:
    """Return the pages with all of *words*: first that of the name, then by headings with them, then by their share.

    >>> find_pages("resume")[0]
    'resume'
    """
    wanted = [re.compile(rf"\b{re.escape(word)}", re.IGNORECASE) for word in words.split()]
    found = []
    for name in list_page_names() if wanted else ():
        text = read_page(name)
        if all(word.search(text) for word in wanted):
            heads = " ".join(line for line in text.splitlines() if PAGE_HEADING.match(line))
            headed = all(word.search(heads) for word in wanted)
            share = sum(len(word.findall(text)) for word in wanted) / len(text)
            found.append((name != words.lower(), not headed, -share, name))
    return [name for _, _, _, name in sorted(found)]


def _list_places(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the number of the line of each anchor, the level of its heading, 0 for none, and the anchor."""
    fenced = False
    for number, line in enumerate(text.splitlines()):
        fenced ^= bool(FENCE.match(line))
        if fenced:
            continue
        if heading := PAGE_HEADING.match(line):
            yield number, len(heading[1]), make_anchor(heading[2])
        for written in PAGE_ANCHOR.findall(line):
            yield number, 0, written
