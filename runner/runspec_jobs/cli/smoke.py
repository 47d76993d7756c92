"""Reports the failure of a smoke test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runspec_jobs.api.jobs import UNREACHED, find_unreached
from runspec_jobs.api.lifecycle import Run, Status
from runspec_jobs.cli import output


def report_failure(
    of: Run, status: Status, lines: Sequence[str], *, as_json: bool
) -> dict[str, Any]:
    """Print the reason why the job does not start; return further keys of the JSON."""
    unreached, rule = find_unreached(lines) if status.exit_code == UNREACHED else ([], None)
    if not as_json:
        what = "found that nodes cannot reach each other" if unreached else "has not succeeded"
        output.tell(f"the smoke test {of.id} {what}: the job is not started")
    return {
        "unreached": [
            {
                "from": {"node": one.node, "host": one.host},
                "to": {"node": one.other, "host": one.other_host, "port": one.port},
                "why": one.why,
            }
            for one in unreached
        ],
        "rule": rule,
    }
