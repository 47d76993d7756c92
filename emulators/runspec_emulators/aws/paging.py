"""Pages of a list, with an opaque token for the rest."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from runspec_emulators.aws.errors import refused


def token(position: int) -> str:
    return base64.urlsafe_b64encode(f"after {position}".encode()).decode()


def position(params: Mapping[str, Any]) -> int | None:
    """Return where the page before ended; None for the first page."""
    if "nextToken" not in params:
        return None
    try:
        word, _, number = base64.urlsafe_b64decode(params["nextToken"]).decode().partition(" ")
        return int(number) if word == "after" else int(word)
    except ValueError as exc:
        raise refused("Invalid nextToken") from exc


def page(
    member: str, items: Sequence[Mapping[str, Any]], params: Mapping[str, Any], most: int
) -> dict[str, Any]:
    """Return one page of *items* under the name *member*, members that are None left out."""
    first = position(params) or 0
    last = first + min(params.get("maxResults", most), most)
    kept = [{k: v for k, v in item.items() if v is not None} for item in items[first:last]]
    return {member: kept, **({"nextToken": token(last)} if last < len(items) else {})}
