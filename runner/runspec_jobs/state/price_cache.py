"""The prices of machines that `runspec prices --update` has read, on this machine. No plan contains them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_jobs.machines.price_list import NOT_READ, ListedPrices, PriceList, from_json
from runspec_jobs.state import atomic_io
from runspec_jobs.state_folder import find_home

FORMAT = "runspec.price-cache/v1"
MOST_BYTES = 16 << 20


def find_file() -> Path:
    """Return the file of the prices."""
    return find_home() / "prices.json"


def read() -> Mapping[str, ListedPrices]:
    """Return all prices by the keys of their lists. A file that cannot be read has none: an update replaces it."""
    try:
        with find_file().open("rb") as file:
            content = json.loads(file.read(MOST_BYTES))
        if content["format"] != FORMAT:
            return {}
        return {str(key): from_json(prices) for key, prices in content["lists"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def read_prices(wanted: PriceList | None) -> ListedPrices:
    """Return the prices of a list, or `NOT_READ`."""
    return NOT_READ if wanted is None else read().get(wanted.key, NOT_READ)


def add(fresh: Mapping[PriceList, ListedPrices]) -> None:
    """Keep prices beside those of other lists, in a file that only the user can read."""
    path = find_file()
    with atomic_io.translate_os_errors(path):
        atomic_io.make_folder(path.parent)
        # Not locked: two updates at once lose a list at most, and the next update reads it again.
        lists: dict[str, Any] = {key: prices._asdict() for key, prices in read().items()}
        lists |= {price_list.key: prices._asdict() for price_list, prices in fresh.items()}
        atomic_io.write(path, json.dumps({"format": FORMAT, "lists": lists}).encode())
