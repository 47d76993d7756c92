"""`json.loads` and `json.dumps` by the C functions that `json` itself uses, without its import of `re`.

Whatever is not plain goes through `json`, which is imported then: another input than text, a mistake, an option.
"""

from typing import Any, Tuple

_encode: Any = None
_make_encoder: Any = None
_make_scanner: Any = None
try:
    import _json

    _encode = _json.encode_basestring_ascii
    _make_encoder, _make_scanner = _json.make_encoder, _json.make_scanner
except (ImportError, AttributeError):  # not CPython
    pass


class _Context:
    """What `json.JSONDecoder` gives its scanner."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int
    parse_constant = float  # NaN, Infinity and -Infinity


def loads(text: Any, **options: Any) -> Any:
    if _make_scanner is not None and type(text) is str and not options:
        try:
            found, end = _make_scanner(_Context())(text, 0)
            if end == len(text):
                return found
        except (StopIteration, ValueError):
            pass
    import json

    return json.loads(text, **options)


def dumps(
    value: Any, sort_keys: bool = False, separators: Tuple[str, str] = (", ", ": "), **options: Any
) -> str:
    if _make_encoder is not None and not options:
        item, key = separators
        encoder = _make_encoder({}, _refuse, _encode, None, key, item, sort_keys, False, True)
        return "".join(encoder(value, 0))
    import json

    return json.dumps(value, sort_keys=sort_keys, separators=separators, **options)


def _refuse(value: Any) -> Any:
    raise TypeError("Object of type {} is not JSON serializable".format(type(value).__name__))
