"""`runspec adopt`."""

from __future__ import annotations

from collections.abc import Sequence

from runspec_jobs.api import adoption
from runspec_jobs.api.lifecycle import Run, suggest_commands
from runspec_jobs.cli import output
from runspec_jobs.errors import OK
from runspec_jobs.options.run_verbs import AdoptOptions


def adopt(options: AdoptOptions) -> int:
    """Copy records of runs from a store; of several runs, one that cannot be adopted does not stop the others."""
    provider, run, as_json = options.provider, options.run, options.as_json
    if run is not None:
        _say([adoption.adopt(provider, run, on_event=output.tell_event)], as_json=as_json)
        return OK
    adopted = adoption.adopt_all(provider, on_event=output.tell_event)
    for exc in adopted.failures:
        output.tell(exc.message)
    _say(adopted.runs, as_json=as_json)
    if not adopted.runs and not adopted.failures and not as_json:
        output.tell(f"no runs to adopt in the store of {provider}")
    return next((exc.exit_code for exc in adopted.failures), OK)


def _say(adopted: Sequence[Run], *, as_json: bool) -> None:
    if as_json:
        rows = [{"run": of.id, "provider": of.provider} for of in adopted]
        output.out_json("runspec.adopt/v1", {"runs": rows})
        return
    for of in adopted:
        output.out(of.id)
        output.tell(f"adopted {of.id}. {suggest_commands(of.id)}")
