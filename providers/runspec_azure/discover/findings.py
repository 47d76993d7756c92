"""Findings that the doctors of all Azure providers share: requests, free quota, and offered VM sizes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from runspec_jobs.provider import Finding, RunspecError

MORE = "request it (portal: Quotas, or a support request), or set another vm_size"


class Usage(NamedTuple):
    """A quota: how much of it is used, and its limit."""

    used: int
    limit: int


class Offered(Protocol):
    """A VM size in a region; *refused* is why the subscription cannot use it, or None."""

    @property
    def refused(self) -> str | None: ...


def asked(ask: Callable[[], Any], good: str, hint: str) -> tuple[Finding, Any]:
    """Return a finding about *ask*, and its result; None if it was refused."""
    try:
        found = ask()
    except RunspecError as exc:
        return Finding(exc.message, False, exc.hint or hint), None
    return Finding(good, True), found


def free(usage: Usage, what: str, least: int, hint: str) -> Finding:
    """Return a finding about how much of *what* is free; it is a problem if less than *least* is."""
    left = usage.limit - usage.used
    return Finding(f"{left:,} of {usage.limit:,} {what} are free", left >= least, hint)


def sizes(
    names: Collection[str], there: Mapping[str, Offered], where: str, *, needed: bool
) -> Iterator[Finding]:
    """Yield findings about which of *names* the region *where* offers; missing ones are a problem if *needed*."""
    missing = [name for name in names if name not in there]
    closed = {name: there[name].refused for name in names if name in there}
    refused = [f"{name} ({why})" for name, why in closed.items() if why is not None]
    if missing:
        yield Finding(f"not offered in {where}: {', '.join(missing)}", not needed, MORE)
    if refused:
        what = f"not available to this subscription in {where}: {', '.join(refused)}"
        yield Finding(what, not needed, MORE)
    if names and not missing and not refused:
        yield Finding(f"{where} offers all {len(names)} VM sizes", True)
