"""The content of outputs of runs that a job mounts: its digest, and its files where they go to another store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from runspec_jobs.engine import clients
from runspec_jobs.engine.outputs import layout
from runspec_jobs.engine.outputs.saves_bundle import SavesBundle
from runspec_jobs.errors import RunspecError, UsageError
from runspec_jobs.load.inputs import PlanInputs
from runspec_jobs.load.run_mounts import MountedRun
from runspec_jobs.provider import Bundle, OutputFile, State, SupportsOutputs
from runspec_jobs.provider.saved_outputs import select_newest
from runspec_jobs.spec.needs import RunOutput
from runspec_jobs.state import run_record
from runspec_jobs.state.run_record import Record


def choose_files(client: SupportsOutputs, run: str, output: RunOutput) -> list[OutputFile]:
    """Return what the newest saves of *output* contain. Raises UsageError if nothing was saved."""
    files = [
        file
        for file in select_newest(client.outputs(run))
        if file.output == output.output and output.task in (None, file.task)
    ]
    if not files:
        of_task = "" if output.task is None else f" of task {output.task}"
        raise UsageError(f"{run} has saved nothing in its output '{output.output}'{of_task}")
    return files


def compute_digest(files: Sequence[OutputFile]) -> str:
    """Return the SHA-256 of what *files* are, without their times: equal for equal content of equal layout."""
    entries = sorted(
        # A tar of signed URLs has no digests; the key of its object is unique to a save.
        [f.task, f.rank, f.path, f.kind, f.sha256 or f.key, f.target, f.mode]
        for f in files
    )
    return hashlib.sha256(json.dumps(entries).encode(errors="backslashreplace")).hexdigest()


def read_digest(mounted: MountedRun) -> str:
    """Return the digest of the output that a mount has read; nothing if it is not there any more."""
    record = run_record.Record(run_record.find_runs_folder() / mounted.run)
    try:
        if not record.folder.exists() or record.read_memory().deleted:
            return ""
        return compute_digest(_list_files(record, mounted))
    except RunspecError:
        return ""


def _list_files(record: Record, mounted: MountedRun) -> list[OutputFile]:
    client = clients.connect(record)[1]
    if not isinstance(client, SupportsOutputs):
        raise UsageError(f"'{record.plan.provider}' cannot read outputs")
    output = RunOutput(record.name, mounted.output, mounted.task)
    return choose_files(client, record.run, output)


def add_copies(made: PlanInputs) -> PlanInputs:
    """Return *made* with the content of the outputs that go to another store, as it is saved now."""
    return _put(made, {name: _bundle(made, name) for name in made.copied_mounts})


def continue_copies(made: PlanInputs, old: Record, left: set[str]) -> PlanInputs:
    """Return *made* with the content of those mounts of the interrupted run *old* that are *left* to upload.

    Raises UsageError if it does not exist any more.
    """
    names = [name for name in made.copied_mounts if name in left]
    if not names:
        return made
    kept = old.read_memory().about.get("inputs", {})
    mounted = {name: MountedRun(**kept[name]) for name in names}
    made = replace(made, mounted_runs={**made.mounted_runs, **mounted})
    bundles = {name: _bundle(made, name) for name in names}
    if any(bundle.source != old.sources[name] for name, bundle in bundles.items()):
        message = (
            f"what {', '.join(m.run for m in mounted.values())} had saved for {old.run} is gone"
        )
        raise UsageError(message, f"runspec destroy {old.run}")
    return _put(made, bundles)


def _put(made: PlanInputs, bundles: Mapping[str, SavesBundle]) -> PlanInputs:
    if not bundles:
        return made
    copies: dict[str, Bundle] = {**made.copies, **bundles}
    sources = {name: bundle.source for name, bundle in bundles.items()}
    facts = made.facts._replace(sources={**made.facts.sources, **sources})
    return replace(made, facts=facts, copies=copies)


def _bundle(made: PlanInputs, name: str) -> SavesBundle:
    """Return the content of the output that the mount *name* refers to, whose run has ended."""
    mounted = made.mounted_runs[name]
    record = run_record.require_kept(run_record.find(mounted.run))
    files = _list_files(record, mounted)
    if name in made.facts.outputs:
        return SavesBundle.of(files, lambda file: f"{file.task}/{file.rank}")
    shape = layout.make_layout(record.spec)
    if mounted.task is not None:
        shape = shape._replace(several_tasks=False)
    return SavesBundle.laid_out(files, shape)


def list_provenance(record: Record) -> list[tuple[str, str]]:
    """Return what a run has read of others, as pairs of a name and a text: its mounts, and the saves it began with."""
    about = record.read_memory().about
    pairs = []
    for mount, one in about.get("inputs", {}).items():
        of = MountedRun(**one)
        task = "" if of.task is None else f", task {of.task}"
        content = _describe_content(of.digest or _read_kept_digest(of))
        pairs.append((mount, f"output {of.output} of {of.run}{task}{content}"))
    if began := about.get("resume"):
        save = f"save {began['number']}" if began["number"] else "its last save"
        content = _describe_content(began.get("content", ""))
        pairs.append(("goes on from", f"{began['run']}, {save}{content}"))
    return pairs


def _read_kept_digest(mounted: MountedRun) -> str:
    """Return the digest of an output that a service waited for: it was not known when the job was submitted.

    The saves of a run that has succeeded do not change any more.
    """
    record = run_record.Record(run_record.find_runs_folder() / mounted.run)
    if not record.folder.exists() or run_record.find_damage(record):
        return ""
    status = record.read_memory().status
    return read_digest(mounted) if status is not None and status.state is State.SUCCEEDED else ""


def _describe_content(digest: str) -> str:
    return f", content {digest[:12]}" if digest else ""
