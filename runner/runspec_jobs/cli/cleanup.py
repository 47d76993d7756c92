"""`runspec gc` and `policy`."""

from __future__ import annotations

import json

from runspec_jobs.api import cleanup, jobs, probes, profiles
from runspec_jobs.cli import output, plan
from runspec_jobs.cli.live.progress import ProgressPrinter
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.errors import OK
from runspec_jobs.options.run_verbs import GcOptions
from runspec_jobs.options.setup_verbs import PolicyOptions


def gc(options: GcOptions) -> int:
    """Print the orphans of a provider; with `--yes`, delete them, and with `--alive` those in use too."""
    name, yes = options.provider, options.yes
    rows = cleanup.list_orphans(name, delete=yes, alive=options.alive, on_event=output.tell_event)
    if options.as_json:
        output.out_json("runspec.gc/v1", {"orphans": [row._asdict() for row in rows]})
        return OK
    for row in rows:
        output.out(f"{'removed' if row.removed else 'found  '} {escape_control(row.what)}")
    if not rows:
        output.tell("no orphans")
    elif not yes:
        orphans = "1 orphan" if len(rows) == 1 else f"{len(rows)} orphans"
        in_use = " (and --alive for what live jobs use)" if any(row.alive for row in rows) else ""
        output.tell(f"{orphans}; to delete: runspec gc {name} --yes{in_use}")
    return OK


def policy(options: PolicyOptions) -> int:
    """Print the minimal permissions for the plan of a spec, or those of its job or of doctor."""
    if options.of_setup is not None:
        rights = profiles.make_setup_policy(options.of_setup, options.settings)
        output.out(json.dumps(rights, indent=2))
        return OK
    job = plan.load(
        options.file,
        ProgressPrinter(),
        output_format=options.output_format,
        as_json=options.as_json,
    )
    if options.of_doctor:
        rights = probes.make_doctor_policy(job)
    else:
        rights = jobs.make_policy(job, of_job=options.of_job)
    output.out(json.dumps(rights, indent=2))
    return OK
