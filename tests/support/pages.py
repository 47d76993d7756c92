"""Reads the pages that reports write."""

from __future__ import annotations

import xml.etree.ElementTree as ET


def parsed(page: str) -> ET.Element:
    """Read a page as XML, which it is but for its first line and two tags without an end."""
    lines = [
        line.replace('">', '"/>') if line.startswith("<meta") else line
        for line in page.splitlines()[1:]
    ]
    return ET.fromstring("\n".join(lines).replace('<meta charset="utf-8">', ""))


def shown(page: str) -> str:
    """Return the text of a page, without its style."""
    found = parsed(page)
    body = found.find("body")
    assert body is not None
    return " ".join(text.strip() for text in body.itertext() if text.strip())


def rows_of(page: ET.Element) -> int:
    """Return how many rows the tables of a page have, without their heads."""
    return sum(len(list(body)) for body in page.iter("tbody"))


def dots(figure: ET.Element) -> list[tuple[float, float]]:
    """Return the positions of the dots of a plot in percent, without those of its legend."""
    return [
        (float(one.attrib["cx"][:-1]), float(one.attrib["cy"][:-1]))
        for one in figure.iter("circle")
        if one.attrib["cx"].endswith("%")
    ]
