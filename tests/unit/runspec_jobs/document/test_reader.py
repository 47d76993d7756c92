"""Whatever is in the file, the reader gives a tree with places or flaws with places, and soon."""

from __future__ import annotations

import copy
import json
import math
import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
import yaml
from hypothesis import example, given, settings, strategies as st

from runspec_jobs.document import nodes, reader
from runspec_jobs.document.reader import (
    Document,
    Mark,
    Text,
    Value,
    YamlError,
    read,
    resolve,
    resolve_kind,
    split_lines,
)
from tests.support.yaml_corpus import hostile

CORPUS = hostile()
CPU_S = 0.5
ALIGN = "align the keys, and write a space after each colon"
ESCAPE = "write \\\\ for a backslash, or use single quotes"
IN_QUOTES = "align the keys; after the closing quote a value cannot go on"
IF_TEXT = "put it in quotes if it is text"
TOO_DEEP = "more than 64 nested lists and mappings"
TOO_EMPTY = "1000 spaces or empty lines in a row"
TOO_LARGE = "the file is larger than 1 MiB"
SPEC = """\
# yaml-language-server: $schema=../schemas/job.schema.json
apiVersion: runspec/v1
name: mnist-chainer
cluster:
  nodes: 2                    # a number
  memory: 16GiB
mounts:
  - {name: code, source: ./mnist, target: /job/code}
  - name: data
    source: store://datasets/mnist
env: &env {OMP_NUM_THREADS: "4", VERSION: 3.10, 'NO': NO}
command: [python, "${mounts.code}/train.py", --epoch, "20"]
run: |
  set -e
  echo größer
other: *env
"""


def places(read_in_vain: str | bytes) -> list[str]:
    """Give the flaws of a text that cannot be read, as a person would see them."""
    with pytest.raises(YamlError) as caught:
        read(read_in_vain)
    return [
        f"{flaw.mark.line}:{flaw.mark.column}: {flaw.what}"
        + (f" / {flaw.hint}" if flaw.hint else "")
        for flaw in caught.value.flaws
    ]


def outcome(text: str | bytes) -> str:
    """Read *text* and walk what comes of it; whatever is not YamlError goes on to the test."""
    try:
        document = read(text)
    except YamlError as exc:
        return exc.flaws[0].what
    return json.dumps(resolve(document.value))[:100]


def cpu_s(work: Callable[[], object]) -> float:
    """Give the least CPU time *work* took, as others may be busy on this machine."""
    least = math.inf
    for _ in range(5):
        begun = time.process_time()
        work()
        least = min(least, time.process_time() - begun)
        if least < CPU_S:
            break
    return least


def walk(value: Value, path: nodes.Path = ()) -> Iterator[tuple[nodes.Path, Value]]:
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from walk(inner, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from walk(item, (*path, index))


def walk_texts(value: Value) -> Iterator[tuple[nodes.Path, Text]]:
    for path, inner in walk(value):
        if path and isinstance(path[-1], Text):
            yield path, path[-1]
        if isinstance(inner, Text):
            yield path, inner


# ---- what can be read


def test_scalars_keep_their_text() -> None:
    """A scalar is what its author wrote, and only the quotes say that it cannot be a number."""
    env = read("{OMP_NUM_THREADS: \"4\", VERSION: 3.10, 'NO': NO}").value

    assert env == {"OMP_NUM_THREADS": "4", "VERSION": "3.10", "NO": "NO"}
    assert [(text, text.plain) for _, text in walk_texts(env)] == [
        ("OMP_NUM_THREADS", True),
        ("4", False),
        ("VERSION", True),
        ("3.10", True),
        ("NO", False),
        ("NO", True),
    ]


@pytest.mark.parametrize(
    "text, value",
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("nULL", "nULL"),
        ("true", True),
        ("FALSE", False),
        ("NO", "NO"),
        ("on", "on"),
        ("y", "y"),
        ("0", 0),
        ("-12", -12),
        ("+12", 12),
        ("010", 10),
        ("08", 8),
        ("0o17", 15),
        ("-0o17", "-0o17"),
        ("0x1F", 31),
        ("0b1", "0b1"),
        ("1_000", "1_000"),
        ("1:00:00", "1:00:00"),
        ("3.10", 3.1),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("-1.5E-2", -0.015),
        ("1e", "1e"),
        (".", "."),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("+.INF", math.inf),
        ("inf", "inf"),
        ("2024-01-02", "2024-01-02"),
        ("<<", "<<"),
        ("١٢", "١٢"),
        ("1\n", "1\n"),
        ("9" * 5000, math.inf),
        ("-0x" + "f" * 5000, "-0x" + "f" * 5000),
        ("-" + "9" * 5000, -math.inf),
        ("0x" + "f" * 5000, math.inf),
        ("1e999", math.inf),
    ],
)
def test_resolve_follows_the_core_schema(text: str, value: Any) -> None:
    """An editor sees the types of YAML 1.2, not those of PyYAML; nothing in quotes has one."""
    names = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str"}
    is_huge = value in (math.inf, -math.inf) and "inf" not in text.lower() and "." not in text

    assert resolve(Text(text)) == value
    assert type(resolve(Text(text))) is type(value)
    assert resolve_kind(Text(text)) == (
        "int" if is_huge and "e" not in text else names[type(value)]
    )
    assert resolve(Text(text, plain=False)) == text


def test_resolve_knows_what_is_not_a_number() -> None:
    """.nan in any of its three forms is a float, and "nan" is a word."""
    assert [resolve_kind(Text(word)) for word in (".nan", ".NaN", ".NAN", "nan")] == [
        *["float"] * 3,
        "str",
    ]
    assert all(math.isnan(resolve(Text(word))) for word in (".nan", ".NaN", ".NAN"))


@pytest.mark.parametrize("digits", [nodes.INT_CHARACTERS, nodes.INT_CHARACTERS + 1])
@pytest.mark.parametrize("start, digit", [("", "9"), ("0x", "f"), ("0o", "7")])
def test_whole_numbers_can_be_printed(start: str, digit: str, digits: int) -> None:
    """Python refuses to print the longest whole numbers, so none of them is ever made."""
    value = resolve(Text(start + digit * (digits - len(start))))

    assert str(value)
    assert isinstance(value, int) == (digits == nodes.INT_CHARACTERS)


def test_str_tag_makes_text_of_a_number() -> None:
    """`!!str 1` is text, as if it were in quotes; it is the one tag that is read."""
    assert resolve(read("{a: !!str 1, b: !<tag:yaml.org,2002:str> ~, !!str c: d}").value) == {
        "a": "1",
        "b": "~",
        "c": "d",
    }


def test_an_alias_repeats_its_value() -> None:
    """An alias gives the value again; as a key, a text; an anchor may move on."""
    document = read("a: &x {k: 1}\nb: *x\nc: &x d\n*x : [*x]\n")

    assert resolve(document.value) == {"a": {"k": 1}, "b": {"k": 1}, "c": "d", "d": ["d"]}


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfa: 1\n",
        "\ufeffa: 1\n",
        "a: 1\r\n",
        "a: 1\r",
        "a: 1",
        "--- {a: 1}\n...\n# the end\n",
        "%YAML 1.2\n---\na: 1\n",
        "\n\n# first\na: 1",
        "? a\n: 1",
        '{"a":1}',
        "a:\t1",
    ],
)
def test_ways_to_write_the_same(text: str | bytes) -> None:
    """A mark at the start, line ends and a document's brackets change nothing."""
    assert resolve(read(text).value) == {"a": 1}


def test_an_alias_of_text_is_text() -> None:
    """What was in quotes where it was written is text wherever it is repeated."""
    assert resolve(read("a: &x '1'\nb: *x").value) == {"a": "1", "b": "1"}


def test_values_copy_and_pickle() -> None:
    """A tree may be copied and sent to another process with all its places."""
    value = read(SPEC).value

    for other in (copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert other == value
        assert Document(other).find_key_mark(("env", "NO")) == Mark(11, 49)


def json_values(without: str) -> st.SearchStrategy[Any]:
    """Give all that JSON can say but nothing at all, in texts *without* some characters."""
    text = st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters=without), max_size=99
    )
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
        max_leaves=12,
    ).filter(lambda value: value is not None)


class Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.2 takes for a number and YAML 1.1 does not, such as 1e3 and 0o7."""


def quoted_number(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if text[:1] in tuple("+-.0123456789") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


Dumper.add_representer(str, quoted_number)


@settings(deadline=None)
@given(json_values(without="\0"), st.sampled_from([None, True, False]))
def test_dumped_yaml_is_read_back(value: Any, flow: bool | None) -> None:
    """Whatever JSON can say comes back as it was from any of the styles PyYAML writes."""
    text = yaml.dump(value, Dumper=Dumper, default_flow_style=flow, sort_keys=False)

    assert resolve(read(text).value) == value


# ---- where it stands


def test_every_key_and_value_has_its_place() -> None:
    """Lines and columns count from 1, in characters; a list's items stand where they begin."""
    document = read(SPEC)

    assert document.find_key_mark(("cluster", "nodes")) == Mark(5, 3)
    assert document.find_value_mark(("cluster", "nodes")) == Mark(5, 10)
    assert document.find_value_end(("cluster", "nodes")) == Mark(5, 11)
    assert document.find_key_mark(("mounts", 0)) == Mark(8, 5)
    assert document.find_key_mark(("mounts", 1, "source")) == Mark(10, 5)
    assert document.find_value_mark(("command", 1)) == Mark(12, 19)
    assert document.find_value_end(("command", 1)) == Mark(12, 44)
    assert document.find_value_mark(("run",)) == Mark(13, 6)
    assert document.find_key_mark(()) == document.find_value_mark(()) == Mark(2, 1)


def test_a_collection_ends_with_its_bracket_or_its_last_value() -> None:
    """A block ends where its last value does, not where the next key begins."""
    document = read(SPEC)

    assert document.find_value_end(("cluster",)) == Mark(6, 16)
    assert document.find_value_end(("mounts",)) == Mark(10, 35)
    assert document.find_value_end(("mounts", 0)) == Mark(8, 53)
    assert document.find_value_end(("env",)) == Mark(11, 58)


def test_no_value_at_the_end_has_a_place() -> None:
    """What a file without a last line end leaves out stands at the end of its last line."""
    document = read("a:\n  ?")

    assert document.find_key_mark(("a", "")) == Mark(2, 4)
    assert document.find_value_mark(("a", "")) == Mark(2, 4)
    assert document.find_value_end(()) == Mark(2, 4)


def test_the_value_of_an_alias_has_the_position_of_the_alias() -> None:
    """What is wrong with a repeated value is told where it is used; what is in it has one place."""
    document = read(SPEC)

    assert document.find_value_mark(("env",)) == Mark(11, 6)
    assert document.find_value_mark(("other",)) == Mark(16, 8)
    assert document.find_value_end(("other",)) == Mark(16, 12)
    assert document.find_key_mark(("other", "NO")) == Mark(11, 49)


@pytest.mark.parametrize(
    "path, found, mark",
    [
        (("cluster", "nodes"), ("cluster", "nodes"), Mark(5, 3)),
        (("cluster", "nodes", "min"), ("cluster", "nodes"), Mark(5, 3)),
        (("cluster", "cpus"), ("cluster",), Mark(4, 1)),
        (("mounts", 1, "target"), ("mounts", 1), Mark(9, 5)),
        (("mounts", 2), ("mounts",), Mark(7, 1)),
        (("mounts", -1), ("mounts",), Mark(7, 1)),
        (("mounts", "name"), ("mounts",), Mark(7, 1)),
        (("cluster", 0), ("cluster",), Mark(4, 1)),
        (("launch", 1, "x"), (), Mark(2, 1)),
        ((), (), Mark(2, 1)),
    ],
)
def test_nearest_goes_as_far_as_the_path_does(
    path: nodes.Path, found: nodes.Path, mark: Mark
) -> None:
    """What is missing is told at the nearest key above it."""
    document = read(SPEC)

    assert document.find_nearest(path) == (found, mark)
    assert (document.find_key_mark(path) is None) == (path != found)
    assert (document.find_value_mark(path) is None) == (path != found)
    assert (document.find_value_end(path) is None) == (path != found)


@settings(deadline=None)
@given(
    json_values(without="\0\x85\u2028\u2029\ufeff"),
    st.sampled_from([None, True, False]),
    st.sampled_from(["\n", "\r\n"]),
)
@example({"a": ["é", {"ü": "ö x"}, []]}, None, "\n")
@example("", None, "\n")
def test_the_text_at_a_mark_is_what_stands_there(
    value: Any, flow: bool | None, line_end: Literal["\n", "\r\n"]
) -> None:
    """From the mark to the end of a text is that text, or else there are its quotes."""
    text = yaml.dump(
        value, Dumper=Dumper, default_flow_style=flow, allow_unicode=True, line_break=line_end
    )
    document = read(text)

    for path, found in walk_texts(document.value):
        mark = (
            document.find_key_mark(path)
            if path and found is path[-1]
            else document.find_value_mark(path)
        )
        assert found.mark == mark
        if found.mark.line == found.end.line:
            rest = split_lines(text)[found.mark.line - 1][found.mark.column - 1 :]
            written = rest[: found.end.column - found.mark.column]
            assert written == found if found.plain else written[0] == written[-1] in "'\""


# ---- what is wrong with it


@pytest.mark.parametrize(
    "text, flaw",
    [
        ("", "1:1: the file is empty"),
        ("\n \n# nothing\n", "1:1: the file is empty"),
        ("---\n...\n", "1:1: the file is empty"),
        ("\n" * 2000, "1:1: the file is empty"),
        (b"\xff\xfea\0", "1:1: the file is UTF-16 or UTF-32 / save it as UTF-8"),
        ("é: a\né: \0", "2:4: the character NUL / remove it"),
        ("a: \x1b", '1:4: the character U+001B / write "\\u001b" in double quotes'),
        ("a: b\u2028c", '1:5: the character U+2028 / write "\\u2028" in double quotes'),
        ("a: 1\n\ufeffb: 2", "2:1: the character U+FEFF / remove it"),
        ("a: \ud800", "1:4: the character U+D800 / remove it"),
        ("a: 1\r\r\n\nb: \0", "4:4: the character NUL / remove it"),
        (b"a\nb: \xc3\xa9\xff", "2:5: the byte 0xff is not UTF-8 text / save the file as UTF-8"),
        ('a: ["\\0"]', "1:5: an escape for NUL / no program accepts this character: remove it"),
        ("a\n--- b", "2:1: a second document begins / keep one document per file: remove the '---'"),
        ("%TAG ! x\n--- a", "1:1: tags are not supported / remove the %TAG line"),
        ("a: !!int 1", "1:4: the tag '!!int' is not supported / remove it"),
        ("a: !!str {}", "1:4: the tag '!!str' is not supported / remove it"),
        ("a: ! 1", "1:4: the tag '!' is not supported / remove it"),
        ("<<: {a: b}", "1:1: merge keys are not supported / write the keys out"),
        ("a: {{ b }}", "1:5: a list or a mapping cannot be a key / put it in quotes"),
        ("? [a]\n: b", "1:3: a list or a mapping cannot be a key / put it in quotes"),
        ("a: *b", "1:4: '*b' has no anchor '&b' before it / put text that begins with * in quotes: \"*b\""),
        ("a: &x [*x]", "1:8: '*x' refers to the value that contains it / write the value out"),
        ("a:\n\tb: 1", "2:1: tab found / indent with spaces"),
        ("a:\n  b: 1\n \tc: 2", "3:2: tab found / indent with spaces"),
        ("- a\n-\t- b", "2:2: tab found / indent with spaces"),
        ("a: [", f"1:5: a value is expected here / {IF_TEXT}"),
        ("a: [b", "1:6: a ',' or ']' is expected here"),
        ("a: [b\n", "2:1: a ',' or ']' is expected here; the list began on line 1"),
        ("a: 'b\nc: d\n", "1:4: the quotes are never closed / close them"),
        ("a: @b", "1:4: no value can begin with '@' / put it in quotes"),
        ("a: echo: b", "1:8: a second ': ' in one value / put the value in quotes"),
        (
            "a:b\nc: d",
            f"2:2: a key cannot begin here, inside the value of another key / {ALIGN}",
        ),
        (
            "a: b\nc\nd: e",
            "2:1: a key needs ': ' after it / write key: value, with a space after the colon",
        ),
        ("a: [b,\n  c\nd: e", "3:2: a ',' or ']' is expected here; the list began on line 1"),
        (
            'a:\n  "b" c',
            f"2:7: a key is expected here; the mapping began on line 1 / {IN_QUOTES}",
        ),
        ("a: *.py", f"1:5: a name of letters and digits is expected after '*' or '&' / {IF_TEXT}"),
        (
            'a: "\\d"',
            f"1:5: an unknown escape in double quotes / {ESCAPE}",
        ),
    ],
)  # fmt: skip
def test_a_flaw_says_what_where_and_what_to_do(text: str | bytes, flaw: str) -> None:
    """A flaw has a place, plain words, and a hint where there is an obvious way out."""
    assert places(text) == [flaw]


def test_all_flaws_are_told_at_once() -> None:
    """Reading goes on after a flaw as long as it can, and the flaws come from the top down."""
    text = "a: !x 1\nb: 2\n'a': 3\nb: *y\n<<: {a: 1}\na: @"

    assert places(text) == [
        "1:4: the tag '!x' is not supported / remove it",
        "3:1: 'a' is a duplicate key; the first is on line 1 / keep one of them",
        "4:1: 'b' is a duplicate key; the first is on line 2 / keep one of them",
        "4:4: '*y' has no anchor '&y' before it / put text that begins with * in quotes: \"*y\"",
        "5:1: merge keys are not supported / write the keys out",
        "6:1: 'a' is a duplicate key; the first is on line 1 / keep one of them",
        "6:4: no value can begin with '@' / put it in quotes",
    ]


def test_flaws_are_told_from_the_top_down() -> None:
    """A key that is a mapping is known to be one when it ends, and told where it begins."""
    flaw = "a list or a mapping cannot be a key / put it in quotes"

    assert places("{{{ a }}: b}") == [f"1:2: {flaw}", f"1:3: {flaw}"]


def test_flaws_come_to_an_end() -> None:
    """A hopeless file is told to be so twenty times, not a thousand."""
    assert len(places("a: 1\n" * 1000)) == reader.FLAWS
    assert len(places("\0" * 1000)) == reader.FLAWS


def test_words_of_the_file_cannot_drive_the_terminal() -> None:
    """A key that an escape made dangerous or long is shown harmless and short."""
    assert places('"\\e[2J": 1\n"\\e[2J": 2')[0].startswith("2:1: '\\x1b[2J' is a duplicate")
    assert len(places(f"{'k' * 500}: 1\n" * 2)[0]) < 150


# ---- what is too much of it


@pytest.mark.parametrize(
    "most, more, what",
    [
        ("[" * 64 + "]" * 64, "[" * 65 + "]" * 65, TOO_DEEP),
        (
            "a: &x " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 23 + "*x" + "]" * 23,
            "a: &x " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 24 + "*x" + "]" * 24,
            TOO_DEEP,
        ),
        (
            "- &x [" + "[" * 39 + "]" * 39 + ", []]\n- " + "[" * 23 + "*x" + "]" * 23,
            "- &x [" + "[" * 39 + "]" * 39 + ", []]\n- " + "[" * 24 + "*x" + "]" * 24,
            TOO_DEEP,
        ),
        ("- a\n" * 19_999, "- a\n" * 20_000, "more than 20000 keys and values"),
        ("- a\n" * 15_000 + "- []\n" * 4999, "- []\n" * 20_000, "more than 20000 keys and values"),
        (
            "- &x [" + "a," * 7999 + "]\n" + "- *x\n" * 3 + "- a\n" * 7999,
            "- &x [" + "a," * 7999 + "]\n" + "- *x\n" * 3 + "- a\n" * 8000,
            "more than 40000 keys and values, with aliases written out",
        ),
        ("- &x a\n" + "- *x\n" * 100, "- &x a\n" + "- *x\n" * 101, "more than 100 aliases"),
        ("a: " + "x" * 2**18, "a: " + "x" * (2**18 + 1), "a text of more than 262144 characters"),
        ("a: b" + " " * 999 + "c", "a: b" + " " * 1000 + "c", TOO_EMPTY),
        ("a: |\n b" + "\n" * 998 + " c", "a: |\n b" + "\n" * 999 + " c", TOO_EMPTY),
        ("a: 1\n#" + "é" * (2**19 - 3), "a: 1\n#" + "é" * (2**19 - 2), TOO_LARGE),
    ],
)  # fmt: skip
def test_limits_are_where_they_are_said_to_be(most: str, more: str, what: str) -> None:
    """What is at a limit is read, what is past it is refused with the limit's name."""
    read(most)

    with pytest.raises(YamlError) as caught:
        read(more)

    assert [flaw.what for flaw in caught.value.flaws] == [what]


@pytest.mark.parametrize("name", CORPUS)
def test_hostile_texts_are_read_or_refused_in_half_a_second(name: str) -> None:
    """Nothing in the corpus crashes, hangs or raises anything but YamlError."""
    text = CORPUS[name]()

    assert cpu_s(lambda: outcome(text)) < CPU_S


@pytest.mark.parametrize("name", CORPUS)
def test_hostile_texts_are_refused_without_libyaml_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyYAML's own parser, where libyaml is missing, lets nothing else out either."""
    monkeypatch.setattr(reader, "parser", yaml.SafeLoader)

    text = CORPUS[name]()[:500]

    assert cpu_s(lambda: outcome(text)) < CPU_S


def test_both_parsers_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where libyaml is missing the tree and the places are the same."""
    with_libyaml = read(SPEC)
    monkeypatch.setattr(reader, "parser", yaml.SafeLoader)
    without = read(SPEC)

    assert without == with_libyaml
    assert [without.find_value_mark(path) for path, _ in walk(without.value)] == [
        with_libyaml.find_value_mark(path) for path, _ in walk(with_libyaml.value)
    ]


def check_mark(text: str | bytes, mark: Mark | None) -> None:
    seen = split_lines(text)
    assert mark is not None
    assert 1 <= mark.line <= len(seen)
    assert 1 <= mark.column <= len(seen[mark.line - 1]) + 1


def check_flaws(text: str | bytes) -> None:
    """Read *text*: flaws are of the file, one line each, in the house's style."""
    try:
        document = read(text)
    except YamlError as exc:
        for flaw in exc.flaws:
            check_mark(text, flaw.mark)
            for words in (flaw.what, flaw.hint or "-"):
                assert words.isprintable()
                assert not words.endswith(".")
    else:
        for path, _ in walk(document.value):
            assert document.find_nearest(path)[0] == path
            check_mark(text, document.find_key_mark(path))
            check_mark(text, document.find_value_mark(path))
            check_mark(text, document.find_value_end(path))
        resolve(document.value)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    """No bytes at all lead to anything but a tree or flaws with places in the file."""
    check_flaws(data)


FRAGMENTS = st.sampled_from(
    [
        *"[]{}:,-?&*!|>'\"%@`#\n \t~a\\.\r\0é\x85\u2028\ufeff",
        *(
            ": ",
            "- ",
            "? ",
            "\n  ",
            "&a ",
            "*a",
            "<<: ",
            "---\n",
            "...\n",
            "!!str ",
            "a: b\n",
            "|\n",
        ),
        *("\\x00", "\\ud800", "\\U00110000"),
    ]
)


@settings(deadline=None)
@given(st.lists(FRAGMENTS | st.text(max_size=3), max_size=30).map("".join))
@example("a: '\u2028")
@example("a\r\rb: c: d")
@example("?")
@example("a:\n- b\n-")
def test_random_marks_are_read_or_refused(text: str) -> None:
    """No mix of YAML's own marks leads to anything else either."""
    check_flaws(text)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SPEC)), st.integers(0, 3), FRAGMENTS), max_size=4))
def test_a_mutilated_spec_is_read_or_refused(edits: list[tuple[int, int, str]]) -> None:
    """A spec with a slip of the hand in it gets a tree or flaws with places in the file."""
    text = SPEC
    for at, length, new in edits:
        text = text[:at] + new + text[at + length :]

    check_flaws(text)


@settings(deadline=None)
@given(st.lists(FRAGMENTS, max_size=30).map("".join))
@example('"\\U00110000"')
@example('"\\ud800"')
def test_random_marks_are_refused_without_libyaml_too(text: str) -> None:
    """PyYAML's own parser lets nothing but YamlError out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "parser", yaml.SafeLoader)

        check_flaws(text)
