"""`docs/unverified.md`, the probes, and what the code says of them, name the same beliefs."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import NamedTuple

from runspec_jobs.load import registry
from runspec_jobs.provider import SupportsProbes
from tests.support.root import ROOT

PAGE = ROOT / "docs" / "unverified.md"
ID = r"(?:local|aws|azure|pcluster|slurm)-[0-9]+"
PLACE = re.compile(r"`([\w/]+\.py):(\w+)`")


# `* [ID](source) (date): belief (`place`, `place`). test`
LINE = re.compile(
    rf"^\* (?:\[({ID})\]\(https://\S+\)|({ID}))(?: \((\S+)\))?: (.+?) \((`[^`]+`(?:, `[^`]+`)*)\)\.(?: (.+))?$",
    re.MULTILINE,
)
USUAL = re.compile(r"if that is not (\S+);")


class Row(NamedTuple):
    id: str
    of: str
    belief: str
    places: str
    probe: str


def rows() -> list[Row]:
    text = PAGE.read_text()
    (usual,) = USUAL.findall(text)
    return [
        Row(linked or plain, of or usual, belief, places, probe)
        for linked, plain, of, belief, places, probe in LINE.findall(text)
    ]


ROWS = rows()
PROBED = {
    probe.id
    for provider in map(registry.load, registry.list_installed())
    if isinstance(provider, SupportsProbes)
    for probe in provider.probes(provider.options_model())
}


def test_every_belief_has_one_row() -> None:
    ids = [row.id for row in ROWS]

    assert len(ids) == len(set(ids)) > 40
    assert ids == re.findall(rf"^\* \[?({ID})\b", PAGE.read_text(), re.MULTILINE)


def test_each_row_is_complete() -> None:
    for row in ROWS:
        assert row.belief and PLACE.search(row.places), row
        assert row.probe.endswith(".") or row.id in PROBED, row


def test_each_row_has_a_date_that_has_passed() -> None:
    """A service changes: a reader has to know how old a belief is."""
    days = {row.id: date.fromisoformat(row.of) for row in ROWS}

    first, today = (
        date(2026, 11, 1),
        datetime.now(UTC).date(),
    )  # the history of this project, and no later day
    assert {name: day for name, day in days.items() if not first <= day <= today} == {}


def test_each_row_names_places_that_are_there() -> None:
    assert [
        place for row in ROWS for place in PLACE.findall(row.places) if not _there(*place)
    ] == []


def _there(name: str, what: str) -> bool:
    """Say whether the module *name* defines *what*."""
    tops = ("providers", "runner", "emulators")
    (path,) = [p for top in tops if (p := ROOT / top / name).is_file()]
    defined = rf"^\s*(def|class) {what}\b|^({what}|[A-Z_]+, {what})\b.* = |^    {what}: \w+ = "
    return re.search(defined, path.read_text(), re.MULTILINE) is not None


def test_every_automatic_belief_has_a_probe_and_every_probe_a_row() -> None:
    automatic = {row.id for row in ROWS if re.match(r"Probed(?! as )|$", row.probe)}

    assert automatic == PROBED


def test_probes_that_stand_for_another_are_there() -> None:
    named = {found for row in ROWS for found in re.findall(rf"[Aa]s ({ID})", row.probe)}

    assert named <= {row.id for row in ROWS}


def test_the_code_names_beliefs_that_are_there() -> None:
    folders = ("providers", "runner", "emulators", "docs", "tests")
    texts = [p for f in folders for p in (ROOT / f).rglob("*") if p.suffix in (".py", ".md", ".sh")]
    named = {
        (found, str(path))
        for path in texts
        for found in re.findall(rf"unverified\.md, ({ID})", path.read_text(errors="replace"))
    }

    assert named  # somewhere it is said
    assert [one for one in named if one[0] not in {row.id for row in ROWS}] == []
