"""The site of the pages is built strictly, without a network; its links, anchors and search are checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
import site_pages

from tests.support.root import ROOT

pytestmark = pytest.mark.slow
LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src")}


class Page(HTMLParser):
    """The anchors of a page, the addresses that it links to, and those that a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif (tag, name) in LOADED and value:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    # Proxies that do not answer stand for no network.
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            patch.setenv(name, "http://127.0.0.1:9")
        assert site_pages.build(folder) == 0
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    return {path.name: Page(path.read_text()) for path in site.glob("*.html")}


def broken(pages: dict[str, Page], site: Path) -> Iterator[str]:
    for name, page in pages.items():
        for link in page.links:
            path, anchor = urldefrag(unquote(link))
            if "://" in path or name == "404.html":
                continue
            target = path.removeprefix("./") or name
            there = (site / target).is_file()
            if not there or (anchor and anchor not in pages[target].anchors):
                yield f"{name}: {link}"


def test_each_page_of_docs_is_a_page_of_the_site(pages: dict[str, Page]) -> None:
    names = {page.with_suffix(".html").name for page in (ROOT / "docs").glob("*.md")}

    assert names == pages.keys() - {"404.html"}


def test_each_link_and_anchor_of_the_site_leads_somewhere(
    pages: dict[str, Page], site: Path
) -> None:
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert list(broken(pages, site)) == []


def test_a_page_of_the_site_loads_nothing_from_another_host(pages: dict[str, Page]) -> None:
    loaded = [address for page in pages.values() for address in page.loaded]

    assert [address for address in loaded if "://" in address or address.startswith("//")] == []


@pytest.mark.parametrize("word", ["rehearse", "preemption", "max_failed", "runspec trust"])
def test_the_search_knows_the_words_of_the_pages(site: Path, word: str) -> None:
    items = json.loads((site / "search.json").read_text())["items"]

    assert any(word in item["title"] + item["text"] for item in items)


@pytest.mark.parametrize("link", ["nowhere.md", "b.md#nowhere"])
def test_a_broken_link_ends_the_build(tmp_path: Path, link: str) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "index.md").write_text(f"# a\n\n## s\n\n[b]({link})\n\n| [B](b.md) | b |\n")
    (folder / "b.md").write_text("# b\n")

    assert site_pages.build(tmp_path / "site", folder) != 0
    assert not (tmp_path / "site").exists()
