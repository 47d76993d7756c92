"""Twenty ordinary questions are answered within 200 words of where a reader lands; the pages stay short."""

from __future__ import annotations

import re

import pytest

from runspec_jobs import manual
from tests.support.root import ROOT

QUESTIONS = [
    tuple(part.strip() for part in line.split("|"))
    for line in (ROOT / "tests/unit/questions.txt").read_text().splitlines()
    if not line.startswith("#")
]
WITHIN = 200
# What programs write is not counted: `runspec schema --reference`, tools/commands_page.py, tools/python_page.py and
# the table of ends. The bound is the goal: never raise it.
GENERATED = {"reference", "commands", "python-reference", "ends"}
MOST_WORDS = 45_000


def list_words(text: str) -> list[str]:
    """Return the words of a page as a reader counts them: marks of tables and fences are no words."""
    return [word for word in text.split() if re.search(r"\w", word)]


def first_words(text: str, count: int) -> str:
    return " ".join(list_words(text)[:count])


def test_there_are_twenty_questions() -> None:
    assert len({question for question, _, _ in QUESTIONS}) == len(QUESTIONS) == 20


@pytest.mark.parametrize(("question", "place", "answer"), QUESTIONS, ids=lambda text: text[:40])
def test_a_question_is_answered_where_a_reader_lands(
    question: str, place: str, answer: str
) -> None:
    page, _, anchor = place.partition("#")
    text = manual.read_page(page)

    landed = manual.cut_section(text, anchor) if anchor else text

    assert landed is not None
    shown = first_words(landed, WITHIN)
    assert [words for words in answer.split("; ") if words not in shown] == []


def test_the_pages_of_our_own_stay_short_together() -> None:
    counts = {
        name: len(list_words(manual.read_page(name)))
        for name in manual.list_page_names()
        if name not in GENERATED
    }

    assert sum(counts.values()) <= MOST_WORDS, sorted(counts.items(), key=lambda item: -item[1])[:5]
