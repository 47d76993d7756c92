"""What to write for short forms that other tools take, such as `mounts: [".:/job/code"]`."""

from __future__ import annotations

import re

from runspec_jobs.regex import regex

QUOTES = "\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb"  # typographic ones, which are letters to YAML
HIGHER = regex(r"acc|f1|auc|score|reward|recall|precision|bleu|iou|map|r2|psnr", re.IGNORECASE)
SOURCE = r"[./~]|\w+://"  # what a source begins with
INDENT = "indent the lines that belong to it by two spaces"

WHOLE = {
    "mounts": "an entry is {name: data, source: ./data, target: /job/data}",
    "outputs": "an entry is {name: model, path: /job/model}",
}


def suggest_mapping(field: str, given: object) -> str:
    """Return the hint for *given* where *field* takes a mapping.

    >>> suggest_mapping("mounts", ".:/job/code")
    'write {name: code, source: ., target: /job/code}'
    >>> suggest_mapping("outputs", "./results/")
    'write {name: results, path: /job/results}'
    >>> suggest_mapping("metric", "loss")
    "write {name: loss, goal: min, pattern: 'loss[=: ]+([-+.0-9eE]+)'}"
    >>> suggest_mapping("cluster", "")
    'indent the lines that belong to it by two spaces'
    """
    text = given.strip() if isinstance(given, str) else ""
    if given == "":
        return INDENT
    if field == "mounts" and _is_place(text):
        return f"write {_make_mount(text)}"
    if field == "outputs" and _is_place(text):
        return f"write {_make_output(text)}"
    if field == "metric" and re.fullmatch(r"[\w.-]+", text):
        goal = "max" if HIGHER.search(text) else "min"
        return (
            f"write {{name: {text}, goal: {goal}, pattern: '{re.escape(text)}[=: ]+([-+.0-9eE]+)'}}"
        )
    if field == "container" and re.fullmatch(r"[\w./:@-]+", text):
        return f"write {{image: {text}}}"
    return "write key: value lines"


def suggest_items(field: str, given: object) -> str | None:
    """Return the hint for *given* where *field* takes a list of mappings, or None for another field.

    >>> suggest_items("outputs", "./results"), suggest_items("mounts", {"/job/code": "."})
    ('write [{name: results, path: /job/results}]', 'write [{name: code, source: ., target: /job/code}]')
    """
    if field not in ("mounts", "outputs"):
        return None
    text = given.strip() if isinstance(given, str) else ""
    if isinstance(given, dict) and len(given) == 1:
        (key, source), *_ = given.items()
        # Its key is the target, a name or, as docker writes it, the source.
        target = str(key) if str(key).startswith("/") else f"/job/{_make_name(str(key))}"
        if str(source).startswith("/") and re.match(rf"(?!/)({SOURCE})", str(key)):
            target, source = source, str(key)
        text = f"{source}:{target}" if isinstance(source, str) and field == "mounts" else ""
    if not _is_place(text):
        text = "." if field == "mounts" else "results"
    item = _make_mount(text) if field == "mounts" else _make_output(text)
    return f"write [{item}]"


def _is_place(text: str) -> bool:
    return bool(re.fullmatch(r"[\w./:~@+-]+", text))


def _make_mount(text: str) -> str:
    """Return a mount as YAML for a source, or for a source and target as docker writes them."""
    # What follows the colon of an address, such as s3://bucket, is no target.
    match = re.fullmatch(r"(.+?):(/(?!/)[^:]*?)(:(ro|rw|z|Z))?", text)
    source, target = (match[1], match[2]) if match else (text, "")
    if not re.match(SOURCE, source):
        source = f"./{source}"
    name = _make_name(target or source) or "code"
    target = target if target.strip("/") else f"/job/{name}"
    digest = ", sha256: DIGEST" if source.startswith("https://") else ""
    return f"{{name: {name}, source: {source}, target: {target}{digest}}}"


def _make_output(text: str) -> str:
    name = _make_name(text) or "results"
    path = text.rstrip("/") if text.startswith("/") and text.strip("/") else f"/job/{name}"
    return f"{{name: {name}, path: {path}}}"


def _make_name(path: str) -> str:
    """Return the last part of *path* as a name of a spec.

    >>> _make_name("./My_Results/"), _make_name("..")
    ('my-results', '')
    """
    last = path.rstrip("/").rpartition("/")[2].partition(".")[0]
    return re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-").lstrip("0123456789-")


def has_typographic_quotes(word: str) -> bool:
    """Return whether *word* begins or ends with a typographic quote, as words from a word processor do."""
    return bool(word) and (word[0] in QUOTES or word[-1] in QUOTES)


def remove_typographic_quotes(text: str) -> str:
    return text.translate({ord(quote): None for quote in QUOTES})
