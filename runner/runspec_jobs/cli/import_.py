"""`runspec import` and `runspec plan --export`: read and write files of other tools."""

from __future__ import annotations

from pathlib import Path

from runspec_jobs.api import convert
from runspec_jobs.api.jobs import Job
from runspec_jobs.cli import output
from runspec_jobs.errors import OK
from runspec_jobs.options.spec_verbs import ImportOptions


def export(job: Job, folder: Path, *, as_json: bool) -> None:
    """Write the plan of *job* to *folder* as files for the own tool of its service."""
    written = convert.export(job, folder)
    if as_json:
        output.out_json("runspec.export/v1", {"files": written.files, "notes": list(written.notes)})
        return
    for note in written.notes:
        output.tell(note)
    for name in written.files:
        output.out(name)


def import_(options: ImportOptions) -> int:
    """Convert a file by its content, perhaps for the provider that is named; write spec and profile, or print them."""
    imported = convert.import_job(options.file, options.second, options.provider)
    written = [] if options.to is None else convert.write_imported(imported, options.to)
    if options.as_json:
        result = {"spec": imported.spec, "profile": imported.profile, "notes": list(imported.notes)}
        output.out_json("runspec.import/v1", {**result, "files": written})
        return OK
    for note in imported.notes:
        output.tell(note)
    if written:
        spec = next(path for path in written if path.endswith("job.yaml"))
        output.tell(f"wrote {' and '.join(written)}; now run: runspec plan {spec}")
        return OK
    more = f" and {', '.join(imported.files)}" if imported.files else ""
    output.tell(f"no files were written; --to FOLDER writes the spec, the profile{more}")
    profile = "".join(f"# {line}\n" for line in imported.profile.splitlines())
    output.out(f"{imported.spec}\n# {convert.PROFILE}:\n{profile}".rstrip("\n"))
    return OK
