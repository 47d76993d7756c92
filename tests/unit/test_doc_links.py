"""Every link between the pages leads to a file and, where it names one, to a heading or an anchor in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import python_page

from runspec_jobs import api, manual
from tests.support.root import ROOT

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")


def is_there(page: Path, link: str) -> bool:
    path, _, name = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return False
    return not name or name in manual.list_anchors(target.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = LINK.findall(FENCED.sub("", page.read_text()))

    assert [link for link in links if not is_there(page, link)] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    found, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        found.add(page)
        links = (link.partition("#")[0] for link in LINK.findall(FENCED.sub("", page.read_text())))
        linked = {(page.parent / link).resolve() for link in links if link.endswith(".md")}
        waiting += [path for path in linked - found if path.is_file()]

    assert [page.name for page in PAGES if page not in found] == []


def test_the_navigation_of_the_site_has_every_page_once() -> None:
    """It is that of docs/index.md: a new page gets a row there."""
    index = (ROOT / "docs" / "index.md").read_text()
    listed = [page.name for page in manual.parse_index(index)]

    assert sorted(listed) == sorted(
        {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    )


def test_the_python_reference_is_made_from_the_docstrings() -> None:
    page = "\n".join(python_page.page())

    assert (ROOT / "docs/python-reference.md").read_text() == page
    assert [name for name in api.__all__ if f"### `{name}`" not in page] == []


def test_the_readme_is_short_and_shows_a_picture_and_a_spec_on_its_first_screen() -> None:
    text = (ROOT / "README.md").read_text()

    assert len(text.split()) < 1200
    assert text.index("](docs/run.svg)") < text.index("```yaml") < text.index("```sh") < 1800
