"""Makes the smoke test of a job a job of its own, and reports its failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from runspec_jobs.cli import output
from runspec_jobs.errors import UsageError
from runspec_jobs.load import inputs, source
from runspec_jobs.plan import smoke
from runspec_jobs.provider import Status


def job_of(found: inputs.PlanInputs) -> inputs.PlanInputs:
    """Return the smoke test of *found* as a job with the same facts, machines and container.

    Raises UsageError if the spec has no smoke test, and InvalidSpec if the provider cannot run it.
    """
    if found.spec.smoke is None:
        raise UsageError(
            f"{found.text.name} has no smoke test", "add smoke: [program, argument] or smoke: |"
        )
    assert found.text.document is not None, "BUG: a spec was read"
    assert isinstance(found.text.document.value, dict), "BUG: a spec was checked"
    data = smoke.text(found.spec, found.text.document.value).encode()
    text = source.read(f"the smoke test of {found.text.name}", data)
    spec = inputs.spec_in(text)
    text.complain(found.provider.check(spec, found.facts))
    if text.failed:
        raise source.InvalidSpec(text)
    return replace(found, text=text, spec=spec)


def report_failure(
    run: str, status: Status, lines: Sequence[str], *, as_json: bool
) -> dict[str, Any]:
    """Print the reason why the job does not start; return further keys of the JSON."""
    found, rule = smoke.unreached(lines) if status.exit_code == smoke.UNREACHED else ([], None)
    if not as_json:
        what = "found that nodes cannot reach each other" if found else "has not succeeded"
        output.tell(f"the smoke test {run} {what}: the job is not started")
    return {
        "unreached": [
            {
                "from": {"node": one.node, "host": one.host},
                "to": {"node": one.other, "host": one.other_host, "port": one.port},
                "why": one.why,
            }
            for one in found
        ],
        "rule": rule,
    }
