"""Lays out pages in headless Chromium, and measures what a reader would see."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

LIMIT_S = 120
HEIGHT = 4000
# The page is in a frame, because a window cannot be narrower than 500 pixels. Its policy allows no script, but one
# outside the frame can measure it, because the text of `srcdoc` has the origin of the page around it.
MEASURE = """
const frame = document.querySelector('iframe');
frame.addEventListener('load', () => {
  const page = frame.contentDocument, root = page.documentElement, texts = [], found = {overlaps: [], outside: []};
  for (const area of page.querySelectorAll('svg.area')) {
    const own = [...area.querySelectorAll('text')].map(
      (one) => [one.textContent, one.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
    own.forEach(([text, box], n) => {
      if (box.left < 0 || box.right > root.clientWidth) found.outside.push(text);
      for (const [other, at] of own.slice(n + 1))
        if (box.left < at.right && at.left < box.right && box.top + 2 < at.bottom && at.top + 2 < box.bottom)
          found.overlaps.push([text, other]);
    });
    texts.push(own.length);
  }
  const sizes = [...page.querySelectorAll('body *')].filter((one) => one.textContent.trim()).map(
    (one) => parseFloat(page.defaultView.getComputedStyle(one).fontSize));
  found.width = root.clientWidth;
  found.scrolled = root.scrollWidth;
  found.texts = texts;
  found.smallest = Math.min(...sizes);
  found.paper = page.defaultView.getComputedStyle(page.body).backgroundColor;
  document.querySelector('#found').textContent = JSON.stringify(found);
});
"""


class Layout(NamedTuple):
    """What was measured of a page: *texts* is the number of texts in each plot, the sizes are in pixels."""

    width: int
    scrolled: int
    texts: list[int]
    overlaps: list[list[str]]
    outside: list[str]
    smallest: float
    paper: str


def layout(page: str, width: int, folder: Path, *, dark: bool = False) -> Layout:
    """Return what Chromium makes of *page* in a window of *width* pixels; *folder* is for its files."""
    place = folder / "framed.html"
    place.write_text(
        f'<body style="margin:0"><pre id="found"></pre><iframe style="border:0;width:{width}px;height:{HEIGHT}px">'
        f"</iframe><script>{MEASURE}frame.srcdoc = {_script_text(page)};</script>"
    )
    shown = subprocess.run(
        [
            *(
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--dump-dom",
            ),
            *(f"--user-data-dir={folder / 'profile'}", f"--window-size=1300,{HEIGHT}"),
            *(
                "--virtual-time-budget=5000",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            ),
            place.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    ).stdout
    found = re.search(r'<pre id="found">(.+?)</pre>', shown, re.DOTALL)
    assert found is not None, "the page was not laid out"
    return Layout(**json.loads(html.unescape(found[1])))


def _script_text(text: str) -> str:
    return json.dumps(text).replace("<", "\\u003c")
