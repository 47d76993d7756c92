"""Complaints: at their place, readable, and harmless to a terminal."""

from __future__ import annotations

import json

import pytest

from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.diagnostics.render import Diagnostic, Format, format_json, render
from runspec_jobs.document import reader
from runspec_jobs.load import source
from runspec_jobs.provider import Options
from runspec_jobs.spec import validate

TEXT = "apiVersion: runspec/v1\nname: job\nprovider: local\nclutser: {nodes: 2}\ncommand: [a]\n"


def diagnostics(text: str) -> source.SourceFile:
    read = source.read("job.yaml", text.encode())
    _, problems = source.validate_text(read)
    if read.document is not None:
        read.add_problems(problems)
    return read


def test_a_complaint_names_file_line_and_column_and_puts_a_caret_under_the_word() -> None:
    read = diagnostics(TEXT)

    assert render(read.diagnostics, Format.TEXT, read.lines) == (
        "job.yaml:4:1: clutser: unknown key 'clutser'\n"
        "    4 | clutser: {nodes: 2}\n"
        "      | ^^^^^^^\n"
        "  hint: did you mean 'cluster'?"
    )


def test_json_has_one_line_for_each_complaint() -> None:
    read = diagnostics(TEXT)

    assert json.loads(render(read.diagnostics, Format.JSON)) == {
        "format": "runspec.diagnostic/v1",
        "file": "job.yaml", "line": 4, "column": 1, "length": 7, "path": "clutser",
        "what": "unknown key 'clutser'", "hint": "did you mean 'cluster'?", "severity": "error",
    }  # fmt: skip


def test_annotations_of_a_pull_request_escape_what_would_end_them() -> None:
    diagnostic = Diagnostic("a,b:c.yaml", 3, 4, 1, "run", "50% wrong\nreally", None)

    assert render([diagnostic], Format.GITHUB) == (
        "::error file=a%2Cb%3Ac.yaml,line=3,col=4::run: 50%25 wrong%0Areally"
    )


def test_an_annotation_about_an_option_names_no_file() -> None:
    diagnostic = Diagnostic("--set cluster.cpus", 0, 0, 1, "", "too many", None, "note")

    assert render([diagnostic], Format.GITHUB) == "::notice::--set cluster.cpus: too many"


def test_no_control_sequence_of_a_spec_reaches_the_terminal() -> None:
    read = diagnostics(TEXT.replace("clutser", '"\\e[31mx"'))

    shown = render(read.diagnostics, Format.TEXT, read.lines)

    assert "\x1b" not in shown
    assert "\\x1b[31mx" in shown


def test_the_caret_stands_under_wide_characters_too() -> None:
    read = diagnostics(TEXT.replace("command: [a]", "command: [日本, [x]]"))

    shown = render(read.diagnostics, Format.TEXT, read.lines)

    assert "    5 | command: [日本, [x]]\n      |                 ^^^" in shown


@pytest.mark.parametrize(
    ("before", "width"),
    [
        ("日本", 4),
        ("e\u0301", 1),
        ("\u0e01\u0e31", 1),  # a Thai vowel above its consonant, of combining class 0
        ("\u1112\u1161\u11ab", 2),  # one Korean syllable of three letters
        ("\U0001f600", 2),
        ("\u2764\ufe0f", 2),  # a sign that a selector makes an emoji
        ("\U0001f1e9\U0001f1ea", 2),  # a flag of two letters
        ("\U0001f44d\U0001f3fd", 2),  # a hand with the colour of its skin
        ("a\tb", 3),  # shown with a space in place of the tab
        ("\u202e", 6),  # shown as an escape: it would turn the direction of the line
    ],
    ids=ascii,
)
def test_the_caret_stands_below_what_it_names_whatever_is_before_it(
    before: str, width: int
) -> None:
    read = diagnostics(TEXT.replace("command: [a]", f'command: ["{before}", [日本]]'))

    *_, line, caret = render(read.diagnostics, Format.TEXT, read.lines).split("\n")

    assert line.startswith("    5 | command: [")
    assert caret == "      | " + " " * len('command: ["", ') + " " * width + "^" * len("[日日]本]")


@pytest.mark.parametrize(
    "written",
    [
        b"\xef\xbb\xbf" + b"clutser: {nodes: 2}\n" + TEXT.replace("clutser", "cluster").encode(),
        b"clutser: {nodes: 2}\r" + TEXT.replace("clutser", "cluster").replace("\n", "\r").encode(),
        b"clutser: {nodes: 2}\r\n"
        + TEXT.replace("clutser", "cluster").replace("\n", "\r\n").encode(),
    ],
    ids=["byte order mark", "CR", "CR LF"],
)
def test_a_byte_order_mark_and_any_line_ends_leave_line_and_caret_where_they_are(
    written: bytes,
) -> None:
    """And no more of the file is shown than the line."""
    read = source.read("job.yaml", written)
    _, problems = source.validate_text(read)
    read.add_problems(problems)

    assert render(read.diagnostics, Format.TEXT, read.lines) == (
        "job.yaml:1:1: clutser: unknown key 'clutser'\n"
        "    1 | clutser: {nodes: 2}\n"
        "      | ^^^^^^^\n"
        "  hint: did you mean 'cluster'?"
    )


def test_a_very_long_line_is_cut_around_the_caret() -> None:
    read = diagnostics(TEXT.replace("command: [a]", f"command: [{'x, ' * 500}[y]]"))

    shown = render(read.diagnostics, Format.TEXT, read.lines)

    assert max(len(line) for line in shown.split("\n")) < 200
    assert "^^^" in shown


def test_a_word_far_from_all_known_ones_gets_no_guess() -> None:
    assert did_you_mean("zebra", ["cluster", "command"]) is None


def test_problems_of_one_file_come_in_the_order_of_its_lines() -> None:
    read = diagnostics("apiVersion: x\nname: Y\nprovider: 3\nlaunch: z\n")

    lines = [c.line for c in read.diagnostics]
    assert lines == sorted(lines)


@pytest.mark.parametrize("secret", ["hf_Ab12Cd", "0xAb12"])
def test_a_value_in_place_of_a_secrets_name_is_not_shown(secret: str) -> None:
    """Also not if YAML takes it for a number."""
    found = diagnostics(TEXT.replace("clutser: {nodes: 2}", f"secrets: {{TOKEN: {secret}, 4: x}}"))

    for form in Format:
        shown = render(found.diagnostics, form, found.lines)
        assert "this is not a secret's name" in shown
        assert "Ab12" not in shown  # nor under what else is wrong on its line


def test_the_value_of_an_unknown_secret_like_key_is_hidden() -> None:
    found = diagnostics(TEXT.replace("clutser: {nodes: 2}", "api_token: Ab12Cd"))

    shown = render(found.diagnostics, Format.TEXT, found.lines)

    assert "    4 | api_token: ***\n      | ^^^^^^^^^" in shown


def test_the_name_of_a_pair_of_keys_is_no_secret() -> None:
    found = diagnostics(TEXT.replace("clutser: {nodes: 2}", "key_pair: mine"))

    assert "    4 | key_pair: mine\n" in render(found.diagnostics, Format.TEXT, found.lines)


def test_a_secret_in_unclosed_quotes_is_not_shown() -> None:
    found = diagnostics(TEXT.replace("clutser: {nodes: 2}", 'secrets: {TOKEN: "hunter2'))

    shown = render(found.diagnostics, Format.TEXT, found.lines)

    assert "the quotes are never closed" in shown
    assert "hunter2" not in shown


def test_a_line_that_is_no_yaml_is_not_shown_beyond_the_name_of_a_secret() -> None:
    found = diagnostics(TEXT.replace("clutser: {nodes: 2}", "password: hunter2: x"))

    shown = render(found.diagnostics, Format.TEXT, found.lines)

    assert "a second ': ' in one value" in shown
    assert "    4 | password: ***" in shown


def test_a_line_that_is_no_yaml_is_marked_at_one_character() -> None:
    found = diagnostics(TEXT.replace("clutser: {nodes: 2}", "cluster: nodes: 2"))

    shown = render(found.diagnostics, Format.TEXT, found.lines)

    assert "    4 | cluster: nodes: 2\n      |               ^\n" in shown


@pytest.mark.parametrize("place", ["admin:hunter2", "postgres://u:hunter2@h", "env:hunter2!"])
def test_a_secret_in_the_place_of_its_source_is_refused_and_not_shown(place: str) -> None:
    text = f"secrets:\n  hf: '{place}'\n"

    _, problems = validate.parse_model(Options, reader.read(text).value)

    (problem,) = problems
    assert problem.private
    assert place not in f"{problem.what} {problem.hint}"


CONTROL = {
    "the end of an escape sequence": "\x9b31m",
    "an escape": "\x1b[31m",
    "a deletion": "\x7f",
    "text from right to left": "\u202e",
    "an isolate": "\u2066",
    "a mark of direction": "\u200f",
    "a separator of lines": "\u2028",
}


@pytest.mark.parametrize("form", Format)
@pytest.mark.parametrize("name", CONTROL)
def test_no_form_shows_a_control_character_as_it_is(form: Format, name: str) -> None:
    """Neither one that a terminal obeys nor one that turns the text around it, wherever it stands."""
    found = CONTROL[name]
    diagnostic = Diagnostic(f"{found}.yaml", 1, 1, 1, f"env.{found}", found, found)

    shown = render([diagnostic], form, f"env: {found}")

    assert found not in shown and shown.replace("\n", "").isprintable()
    if form is Format.JSON:
        assert json.loads(shown)["what"] == found


def test_json_is_escaped_and_still_the_same_value() -> None:
    value = {"日本": ["\u202e\x1b", "\U000e0001", "é\n"]}

    text = format_json(value, indent=1)

    assert json.loads(text) == value
    assert "日本" in text and text.replace("\n", "").isprintable()
