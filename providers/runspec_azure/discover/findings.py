"""What every doctor of Azure says alike: what was asked, what is free of a quota, which machines there are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from runspec_jobs.provider import Finding, RunspecError

MORE = "ask for it (portal: Quotas, or a support request), or name another vm_size"


class Usage(NamedTuple):
    """How much of something is in use, and how much may be."""

    used: int
    limit: int


class Offered(Protocol):
    """A size of machine in a region; *refused* says why the subscription may not have it."""

    @property
    def refused(self) -> str | None: ...


def asked(ask: Callable[[], Any], good: str, hint: str) -> tuple[Finding, Any]:
    """Return a finding about *ask*, and what it gave; None when it was refused."""
    try:
        found = ask()
    except RunspecError as exc:
        return Finding(exc.message, False, exc.hint or hint), None
    return Finding(good, True), found


def free(usage: Usage, what: str, least: int, hint: str) -> Finding:
    """Return how much of *what* is free; it is well when that is *least* at least."""
    left = usage.limit - usage.used
    return Finding(f"{left:,} of {usage.limit:,} {what} are free", left >= least, hint)


def sizes(
    names: Collection[str], there: Mapping[str, Offered], where: str, *, needed: bool
) -> Iterator[Finding]:
    """Yield which of *names* the region *where* has; *needed*: that one is away is no good."""
    away = [name for name in names if name not in there]
    closed = {name: there[name].refused for name in names if name in there}
    refused = [f"{name} ({why})" for name, why in closed.items() if why is not None]
    if away:
        yield Finding(f"not in {where}: {', '.join(away)}", not needed, MORE)
    if refused:
        what = f"not for this subscription in {where}: {', '.join(refused)}"
        yield Finding(what, not needed, MORE)
    if names and not away and not refused:
        yield Finding(f"all {len(names)} sizes of machines are in {where}", True)
