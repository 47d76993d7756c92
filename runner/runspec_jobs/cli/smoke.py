"""The smoke test of a job as a job of its own, and what is said when its nodes cannot talk."""

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
    """Give the smoke test of *found*, which has the same facts: it runs on the same, in the same.

    Raises UsageError when the spec has none, and Wrong when the provider cannot do it.
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
    """Say why the job does not begin; give what is in the JSON of it besides."""
    found, rule = smoke.unreached(lines) if status.exit_code == smoke.UNREACHED else ([], None)
    if not as_json:
        what = "its nodes cannot reach each other" if found else "it has not succeeded"
        output.tell(f"{run} is the smoke test, and {what}: the job is not started")
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
