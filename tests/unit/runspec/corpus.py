"""Texts that have crashed, hung or fooled readers of YAML, made anew each time from a line of code.

Each comes from a known trap: of libyaml (nesting, %TAG, long gaps), of PyYAML (tags, duplicates,
numbers) or of YAML itself (aliases, merges, line ends).
"""

from __future__ import annotations

import random

MIB = 1024 * 1024

# Each of these is written again and again until it fills a mebibyte.
TILES = (
    *("[", "{", "]", "}", "[}", ",", ":", ": ", "?", "? ", "-", "- ", "? - ", "- ? ", "|", ">", "%"),
    *("&a ", "*a ", "*a : ", "!a ", "!!str ", "<<: ", "@", "`", "\\", "#", "'", '"', "~", "a", "é", "😀"),
    *("\n", "\r", "\r\n", "\t", " ", "\0", "\x01", "\x85", "\xa0", "\u2028", "\ufeff", "\ufffe"),
    *("# x\n", "#\n", "%\n", "%FOO\n", "%YAML 1.1\n", "%TAG ! x\n", "---\n", "--- a\n", "...\n", "a\n---\n"),
    *("- a\n", "-\n", "- |\n", "- >-\n", "?\n", ":\n", "?\n:\n", "a: b\n", "a:\n", "a:\n ", "a:\n- b\n"),
    *("- &a x\n", "- *a\n", "&a b: c\n", "- !!str a\n", "'a' ", '"a": ', "a: |\n x\n", "a:\t", "a:\n\t"),
)  # fmt: skip
# The same, after a beginning that makes another part of the scanner read them.
OPENED = {
    "double quotes": ('"', ("x ", " ", "\n", "x\n", "\\n", "\\\n", "\\U0001F600", "\\0", "''")),
    "single quotes": ("'", ("x ", "\n", "x\n", "''", "\\")),
    "a block": ("a: |\n", (" x\n", " x y\n", "\n", " \n", " \t\n", "x\n")),
    "a folded block": ("a: >\n", (" x\n", " x\n\n", "  x\n x\n", " -\n")),
    "a plain text": ("a: b", (" c", "\n c", " #", ":c", "\tc", "\n\n c")),
    "a list": ("[", ("a,", "[],", "{},", '"",', "a: b,", '"a" : b, ', "? ", "\n", "a,\n", "a ", ",")),
    "a mapping": ("{", ("a,", "a: b,", "[a]: b,", "? a,", '"a":b,', ": ,")),
    "a tag": ("!", ("a", "%20", "!")),
    "a verbatim tag": ("!<", ("a", "%20", "%C3%A9")),
    "an anchor": ("&", ("a",)),
    "an alias": ("*", ("a",)),
    "a comment": ("#", ("x", " ", "é")),
}  # fmt: skip


def fill(start: str, tile: str) -> bytes:
    """Give *start* and as many *tile* as make a mebibyte with it."""
    data = tile.encode()
    begun = start.encode()
    return (begun + data * (MIB // len(data) + 1))[: MIB - (MIB - len(begun)) % len(data)]


def alias_bomb(width: int, height: int) -> bytes:
    """Give a few lines that stand for width ** height values."""
    lines = ["l0: &l0 [" + ", ".join(["x"] * width) + "]"]
    for level in range(1, height):
        lines.append(f"l{level}: &l{level} [" + ", ".join([f"*l{level - 1}"] * width) + "]")
    return "\n".join(lines).encode()


def merge_bomb(width: int, height: int) -> bytes:
    """Give a few lines that PyYAML spends minutes on before it returns anything."""
    lines = ["m0: &m0 {a: 1}"]
    for level in range(1, height):
        merged = ", ".join([f"*m{level - 1}"] * width)
        lines.append(f"m{level}: &m{level} {{<<: [{merged}]}}")
    return "\n".join(lines).encode()


def alias_ladder(rungs: int, depth: int) -> bytes:
    """Give a tree that is *rungs* times as deep as any of its lines."""
    lines = [f"l0: &l0 {'[' * depth}{']' * depth}"]
    for rung in range(1, rungs):
        lines.append(f"l{rung}: &l{rung} {'[' * depth}*l{rung - 1}{']' * depth}")
    return "\n".join(lines).encode()


def hostile() -> dict[str, bytes]:
    """Give every text of the corpus by a name that says what it is."""
    return {
        **{f"{tile!r} again and again": fill("", tile) for tile in TILES},
        **{
            f"{tile!r} again and again in {name}": fill(start, tile)
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


def _nested() -> dict[str, bytes]:
    deep = b"[" * 63 + b"]" * 63 + b","
    return {
        "lists nested and closed": b"[" * 30_000 + b"]" * 30_000,
        "mappings nested and closed": b"{a: " * 30_000 + b"}" * 30_000,
        "many lists that are just not too deep": b"[" + deep * 8000,
        "many dashes that are just not too deep": (b"- " * 63 + b"a\n") * 8000,
        "a staircase of keys": b"".join(b" " * i + b"a:\n" for i in range(1400)),
        "a staircase of dashes": b"".join(b" " * i + b"-\n" for i in range(1400)),
        "lists that begin a thousand letters apart": (b"[" + b"a," * 490) * 64,
        "lists that are a thousand letters long": b"[" + (b"[" + b"a," * 490 + b"],") * 1000,
        "deep indentation on every line": (b" " * 990 + b"-\n") * 1000,
    }


def _gaps() -> dict[str, bytes]:
    long, short = b" " * 400_000, b" " * 990
    return {
        "a long gap among short ones in quotes": b'"' + long + b"x " * 300_000 + b'"',
        "a long gap of lines among short ones": b'"' + b"\n" * 400_000 + b"x\n" * 300_000 + b'"',
        "a fair gap among short ones in quotes": b'"' + short + b"x " * 520_000 + b'"',
        "a fair gap of lines in quotes": b'"' + b"\n" * 990 + b"x\n" * 520_000 + b'"',
        "a fair gap of lines in a block": b"a: |\n" + b"\n" * 990 + b" x\n" * 340_000,
        "a fair gap of lines in a plain text": b"a: b" + b"\n" * 990 + b"\n x" * 340_000,
        "many fair gaps": (short + b"x") * 1000,
        "many fair gaps in quotes": b'"' + (short + b"x") * 1000,
        "comments far to the right": (short + b"# x\n") * 1000,
    }


def _anchored() -> dict[str, bytes]:
    return {
        "a billion laughs": alias_bomb(10, 9),
        "a hundred thousand laughs": alias_bomb(10, 5),
        "a billion merged keys": merge_bomb(10, 9),
        "a ladder of aliases": alias_ladder(90, 60),
        "a cycle of one": b"a: &x {b: *x}",
        "a cycle of two": b"a: &x [&y [*x, *y]]",
        "an anchor that takes over while it is open": b"a: &x 1\nb: &x [*x]",
        "an alias of nothing": b"a: *nothing",
        "an alias as a key": b"a: &x b\n*x : c\n",
        "an alias of a list as a key": b"a: &x [b]\n*x : c\n",
        "two hundred thousand aliases": b"a: &a x\nb: [" + b"*a," * 200_000 + b"]",
        "a few aliases of much": b"a: &a [" + b"x," * 9000 + b"]\nb: [" + b"*a," * 90 + b"]",
        "many anchors": b"".join(b"- &a%d x\n" % i for i in range(80_000)),
        "many tag handles": b"".join(b"%%TAG !a%d! x\n" % i for i in range(60_000)),
    }


def _many() -> dict[str, bytes]:
    return {
        "many keys": b"".join(b"a%d: b\n" % i for i in range(80_000)),
        "many keys in one line": b"{" + b",".join(b"a%d: b" % i for i in range(80_000)) + b"}",
        "many equal keys": b"a: 1\n" * 1000,
        "many pairs of equal keys": b"".join(b"a%d: b\n" % (i % 40_000) for i in range(80_000)),
        "many documents": b"a: 1\n---\n" * 1000,
        "much after the end": b"a: 1\n...\n" + b"%YAML 1.1\n" * 100_000,
        "more than a mebibyte": b"#" * (MIB + 1),
        "much more than a mebibyte": b"a" * (20 * MIB),
    }


def _scalars() -> dict[str, bytes]:
    return {
        "a number of 5,000 digits": b"a: " + b"9" * 5000,
        "a number of 250,000 digits": b"a: -" + b"9" * 250_000,
        "a number of 250,000 hexadecimal digits": b"a: 0x" + b"f" * 250_000,
        "a number of 250,000 octal digits": b"a: 0o" + b"7" * 250_000,
        "a long fraction": b"a: 0." + b"9" * 250_000 + b"e999999999",
        "a long exponent": b"a: 1e" + b"9" * 250_000,
        "a number that is none at its end": b"a: " + b"9" * 250_000 + b"x",
        "sixties": b"a: 1" + b":59" * 80_000,
        "underscores": b"a: 1" + b"_" * 250_000,
        "binary": b"a: !!binary " + b"QUFB" * 1000,
        "a Python object": b"a: !!python/object/apply:os.system [id]",
        "a tag on everything": b"!!map {!!str a: !!seq [!!int 1, !!null '']}",
        "a long key": b"a" * (MIB - 3) + b": 1",
        "a long key in quotes": b'"' + b"a" * (MIB - 5) + b'": 1',
        "a long text": b"a: " + b"x" * (MIB - 3),
        "escapes for what is no character": b'a: ["\\ud800", "\\U00110000", "\\UFFFFFFFF", "\\x00"]',
        "a long version": b"%YAML 1." + b"1" * 5000 + b"\n---\na: 1",
    }


def _encodings() -> dict[str, bytes]:
    return {
        "nothing": b"",
        "a mark and nothing": b"\xef\xbb\xbf",
        "two marks": b"\xef\xbb\xbf\xef\xbb\xbfa: 1",
        "UTF-16, little end first": "a: 1\n".encode("utf-16"),
        "UTF-16, big end first": b"\xfe\xff" + "a: 1\n".encode("utf-16-be"),
        "UTF-16 without a mark": "a: 1\n".encode("utf-16-le"),
        "UTF-32": "a: 1\n".encode("utf-32"),
        "Latin-1": "a: é\n".encode("latin-1"),
        "half a character": b"a: \xe2\x82",
        "an overlong slash": b"a: \xc0\xaf",
        "a surrogate": b"a: \xed\xa0\x80",
        "beyond Unicode": b"a: \xf4\x90\x80\x80",
        "a mebibyte and then no UTF-8": b"a" * (MIB - 1) + b"\xff",
        "0xff again and again": b"\xff" * MIB,
        "a NUL at the end": b"a: 1\0",
        "a shell script": b"#!/bin/sh\nexec true\n",
        "a picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        "JSON": b'{"a": [1, 2.5, true, null, "x\\u00e9\\/"]}',
    }


def _noise() -> dict[str, bytes]:
    dice = random.Random(4)
    marks = b"[]{}:,-?&*!|>'\"%@`#\n\n\n   \tab\\<~."
    return {
        **{f"random bytes {i}": dice.randbytes(10 ** (i % 5 + 1)) for i in range(10)},
        **{f"random marks {i}": bytes(dice.choices(marks, k=10 ** (i % 5 + 1))) for i in range(40)},
    }
