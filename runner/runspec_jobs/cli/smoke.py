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
                "from": {"node": test.node, "host": test.host},
                "to": {"node": test.other, "host": test.other_host, "port": test.port},
                "why": test.why,
            }
            for test in unreached
        ],
        "rule": rule,
    }
