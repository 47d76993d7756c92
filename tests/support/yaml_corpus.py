"""Texts that have crashed, hung or fooled readers of YAML, made anew each time from a line of code.

Each comes from a known trap: of libyaml (nesting, %TAG, long gaps), of PyYAML (tags, duplicates,
numbers) or of YAML itself (aliases, merges, line ends).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

MIB = 1024 * 1024
Recipe = Callable[[], bytes]

# Each of these is written again and again until it fills a mebibyte.
TILES = (
    *("[", "{", "]", "}", "[}", ",", ":", ": ", "?", "? ", "-", "- ", "? - ", "- ? ", "|", ">"),
    *("&a ", "*a ", "*a : ", "!a ", "!!str ", "<<: ", "%", "@", "`", "\\", "#", "'", '"', "~", "a"),
    *("\n", "\r", "\r\n", "\t", " ", "\0", "\x01", "\x85", "\xa0", "\u2028", "\ufeff", "\ufffe"),
    *("# x\n", "#\n", "%\n", "%FOO\n", "%YAML 1.1\n", "%TAG ! x\n", "---\n", "--- a\n", "...\n"),
    *("- a\n", "-\n", "- |\n", "- >-\n", "?\n", ":\n", "?\n:\n", "a: b\n", "a:\n", "a:\n ", "a\n"),
    *("- &a x\n", "- *a\n", "&a b: c\n", "- !!str a\n", "'a' ", '"a": ', "a: |\n x\n", "a:\t", "é"),
    *("a:\n- b\n", "a\n---\n", "a:\n\t", "😀"),
)
# The same, after a beginning that makes another part of the scanner read them.
OPENED = {
    "double quotes": ('"', ("x ", " ", "\n", "x\n", "\\n", "\\\n", "\\U0001F600", "\\0", "''")),
    "single quotes": ("'", ("x ", "\n", "x\n", "''", "\\")),
    "a block": ("a: |\n", (" x\n", " x y\n", "\n", " \n", " \t\n", "x\n")),
    "a folded block": ("a: >\n", (" x\n", " x\n\n", "  x\n x\n", " -\n")),
    "a plain text": ("a: b", (" c", "\n c", " #", ":c", "\tc", "\n\n c")),
    "a list": ("[", ("a,", "[],", "{},", '"",', "a: b,", '"a" : b, ', "? ", "\n", "a,\n", "a ")),
    "a mapping": ("{", ("a,", "a: b,", "[a]: b,", "? a,", '"a":b,', ": ,")),
    "a tag": ("!", ("a", "%20", "!")),
    "a verbatim tag": ("!<", ("a", "%20", "%C3%A9")),
    "an anchor": ("&", ("a",)),
    "an alias": ("*", ("a",)),
    "a comment": ("#", ("x", " ", "é")),
}


def fill(start: str, tile: str) -> bytes:
    """Give *start* and as many *tile* as make a mebibyte with it."""
    data = tile.encode()
    begun = start.encode()
    return (begun + data * (MIB // len(data) + 1))[: MIB - (MIB - len(begun)) % len(data)]


def alias_bomb(width: int, height: int) -> bytes:
    """Give a few lines that stand for width ** height values."""
    lines = ["l0: &l0 [" + ", ".join(["x"] * width) + "]"]
    lines += [
        f"l{level}: &l{level} [" + ", ".join([f"*l{level - 1}"] * width) + "]"
        for level in range(1, height)
    ]
    return "\n".join(lines).encode()


def merge_bomb(width: int, height: int) -> bytes:
    """Give a few lines that PyYAML spends minutes on before it returns anything."""
    lines = ["m0: &m0 {a: 1}"]
    lines += [
        f"m{level}: &m{level} {{<<: [" + ", ".join([f"*m{level - 1}"] * width) + "]}"
        for level in range(1, height)
    ]
    return "\n".join(lines).encode()


def alias_ladder(rungs: int, depth: int) -> bytes:
    """Give a tree that is *rungs* times as deep as any of its lines."""
    lines = [f"l0: &l0 {'[' * depth}{']' * depth}"]
    lines += [
        f"l{rung}: &l{rung} {'[' * depth}*l{rung - 1}{']' * depth}" for rung in range(1, rungs)
    ]
    return "\n".join(lines).encode()


def random_bytes(seed: int) -> bytes:
    """Give 10 to 100,000 bytes, the same for the same *seed*."""
    return random.Random(seed).randbytes(10 ** (seed % 5 + 1))


def random_marks(seed: int) -> bytes:
    """Give 10 to 100,000 of YAML's own marks, the same for the same *seed*."""
    marks = b"[]{}:,-?&*!|>'\"%@`#\n\n\n   \tab\\<~."
    return bytes(random.Random(seed).choices(marks, k=10 ** (seed % 5 + 1)))


def hostile() -> dict[str, Recipe]:
    """Give how to make every text of the corpus, by a name that says what it is."""
    return {
        **{f"{tile!r} again and again": partial(fill, "", tile) for tile in TILES},
        **{
            f"{tile!r} again and again in {name}": partial(fill, start, tile)
            for name, (start, tiles) in OPENED.items()
            for tile in tiles
        },
        **_nested(),
        **_gaps(),
        **_anchored(),
        **_many(),
        **_scalars(),
        **_encodings(),
        **_noise(),
    }


def _nested() -> dict[str, Recipe]:
    deep = b"[" * 63 + b"]" * 63 + b","
    return {
        "lists nested and closed": lambda: b"[" * 30_000 + b"]" * 30_000,
        "mappings nested and closed": lambda: b"{a: " * 30_000 + b"}" * 30_000,
        "many lists that are just not too deep": lambda: b"[" + deep * 8000,
        "many dashes that are just not too deep": lambda: (b"- " * 63 + b"a\n") * 8000,
        "a staircase of keys": lambda: b"".join(b" " * i + b"a:\n" for i in range(1400)),
        "a staircase of dashes": lambda: b"".join(b" " * i + b"-\n" for i in range(1400)),
        "lists that begin a thousand letters apart": lambda: (b"[" + b"a," * 490) * 64,
        "lists that are a thousand letters long": lambda: (
            b"[" + (b"[" + b"a," * 490 + b"],") * 1000
        ),
        "deep indentation on every line": lambda: (b" " * 990 + b"-\n") * 1000,
    }


def _gaps() -> dict[str, Recipe]:
    long, short = b" " * 400_000, b" " * 990
    return {
        "a long gap among short ones in quotes": lambda: b'"' + long + b"x " * 300_000 + b'"',
        "a long gap of lines among short ones": lambda: (
            b'"' + b"\n" * 400_000 + b"x\n" * 300_000 + b'"'
        ),
        "a fair gap among short ones in quotes": lambda: b'"' + short + b"x " * 520_000 + b'"',
        "a fair gap of lines in quotes": lambda: b'"' + b"\n" * 990 + b"x\n" * 520_000 + b'"',
        "a fair gap of lines in a block": lambda: b"a: |\n" + b"\n" * 990 + b" x\n" * 340_000,
        "a fair gap of lines in a plain text": lambda: b"a: b" + b"\n" * 990 + b"\n x" * 340_000,
        "many fair gaps": lambda: (short + b"x") * 1000,
        "many fair gaps in quotes": lambda: b'"' + (short + b"x") * 1000,
        "comments far to the right": lambda: (short + b"# x\n") * 1000,
    }


def _anchored() -> dict[str, Recipe]:
    return {
        "a billion laughs": lambda: alias_bomb(10, 9),
        "a hundred thousand laughs": lambda: alias_bomb(10, 5),
        "a billion merged keys": lambda: merge_bomb(10, 9),
        "a ladder of aliases": lambda: alias_ladder(90, 60),
        "a cycle of one": lambda: b"a: &x {b: *x}",
        "a cycle of two": lambda: b"a: &x [&y [*x, *y]]",
        "an anchor that takes over while it is open": lambda: b"a: &x 1\nb: &x [*x]",
        "an alias of nothing": lambda: b"a: *nothing",
        "an alias as a key": lambda: b"a: &x b\n*x : c\n",
        "an alias of a list as a key": lambda: b"a: &x [b]\n*x : c\n",
        "two hundred thousand aliases": lambda: b"a: &a x\nb: [" + b"*a," * 200_000 + b"]",
        "a few aliases of much": lambda: (
            b"a: &a [" + b"x," * 9000 + b"]\nb: [" + b"*a," * 90 + b"]"
        ),
        "many anchors": lambda: b"".join(b"- &a%d x\n" % i for i in range(80_000)),
        "many tag handles": lambda: b"".join(b"%%TAG !a%d! x\n" % i for i in range(60_000)),
    }


def _many() -> dict[str, Recipe]:
    return {
        "many keys": lambda: b"".join(b"a%d: b\n" % i for i in range(80_000)),
        "many keys in one line": lambda: (
            b"{" + b",".join(b"a%d: b" % i for i in range(80_000)) + b"}"
        ),
        "many equal keys": lambda: b"a: 1\n" * 1000,
        "many pairs of equal keys": lambda: b"".join(
            b"a%d: b\n" % (i % 40_000) for i in range(80_000)
        ),
        "many documents": lambda: b"a: 1\n---\n" * 1000,
        "much after the end": lambda: b"a: 1\n...\n" + b"%YAML 1.1\n" * 100_000,
        "more than a mebibyte": lambda: b"#" * (MIB + 1),
        "much more than a mebibyte": lambda: b"a" * (20 * MIB),
    }


def _scalars() -> dict[str, Recipe]:
    return {
        "a number of 5,000 digits": lambda: b"a: " + b"9" * 5000,
        "a number of 250,000 digits": lambda: b"a: -" + b"9" * 250_000,
        "a number of 250,000 hexadecimal digits": lambda: b"a: 0x" + b"f" * 250_000,
        "a number of 250,000 octal digits": lambda: b"a: 0o" + b"7" * 250_000,
        "a long fraction": lambda: b"a: 0." + b"9" * 250_000 + b"e999999999",
        "a long exponent": lambda: b"a: 1e" + b"9" * 250_000,
        "a number that is none at its end": lambda: b"a: " + b"9" * 250_000 + b"x",
        "sixties": lambda: b"a: 1" + b":59" * 80_000,
        "underscores": lambda: b"a: 1" + b"_" * 250_000,
        "binary": lambda: b"a: !!binary " + b"QUFB" * 1000,
        "a Python object": lambda: b"a: !!python/object/apply:os.system [id]",
        "a tag on everything": lambda: b"!!map {!!str a: !!seq [!!int 1, !!null '']}",
        "a long key": lambda: b"a" * (MIB - 3) + b": 1",
        "a long key in quotes": lambda: b'"' + b"a" * (MIB - 5) + b'": 1',
        "a long text": lambda: b"a: " + b"x" * (MIB - 3),
        "escapes for what is no character": lambda: b'["\\ud800", "\\U00110000", "\\x00"]',
        "a long version": lambda: b"%YAML 1." + b"1" * 5000 + b"\n---\na: 1",
    }


def _encodings() -> dict[str, Recipe]:
    return {
        "nothing": lambda: b"",
        "a mark and nothing": lambda: b"\xef\xbb\xbf",
        "two marks": lambda: b"\xef\xbb\xbf\xef\xbb\xbfa: 1",
        "UTF-16, little end first": lambda: "a: 1\n".encode("utf-16"),
        "UTF-16, big end first": lambda: b"\xfe\xff" + "a: 1\n".encode("utf-16-be"),
        "UTF-16 without a mark": lambda: "a: 1\n".encode("utf-16-le"),
        "UTF-32": lambda: "a: 1\n".encode("utf-32"),
        "Latin-1": lambda: "a: é\n".encode("latin-1"),
        "half a character": lambda: b"a: \xe2\x82",
        "an overlong slash": lambda: b"a: \xc0\xaf",
        "a surrogate": lambda: b"a: \xed\xa0\x80",
        "beyond Unicode": lambda: b"a: \xf4\x90\x80\x80",
        "a mebibyte and then no UTF-8": lambda: b"a" * (MIB - 1) + b"\xff",
        "0xff again and again": lambda: b"\xff" * MIB,
        "a NUL at the end": lambda: b"a: 1\0",
        "a shell script": lambda: b"#!/bin/sh\nexec true\n",
        "a picture": lambda: b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        "JSON": lambda: b'{"a": [1, 2.5, true, null, "x\\u00e9\\/"]}',
    }


def _noise() -> dict[str, Recipe]:
    return {
        **{f"random bytes {seed}": partial(random_bytes, seed) for seed in range(10)},
        **{f"random marks {seed}": partial(random_marks, seed) for seed in range(40)},
    }
