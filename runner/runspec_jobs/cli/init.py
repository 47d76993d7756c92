"""`runspec init`: a first spec and profile, for a person to edit."""

from __future__ import annotations

import shlex
from pathlib import Path

from runspec_jobs.api import machine, profiles
from runspec_jobs.cli import output
from runspec_jobs.errors import OK, UsageError
from runspec_jobs.options.shared import JOB_YAML
from runspec_jobs.options.spec_verbs import InitOptions


def init(options: InitOptions) -> int:
    path, provider, program = options.file, options.provider, None
    if machine.is_program(path):
        program = _read_program(path, ask=not options.as_json)
        path = options.to or JOB_YAML
    elif options.to is not None:
        raise UsageError("--to is for a program", f"runspec init {options.to}")
    made = machine.write_first(path, provider, program)
    if options.as_json:
        profile = made.profile and str(made.profile)
        written = {"file": str(path), "schema": str(made.schema), "profile": profile}
        output.out_json("runspec.init/v1", written)
        return OK
    if made.kept:
        output.tell(f"{path} was there before, and is unchanged")
    else:
        output.tell(f"wrote {path}, and its JSON Schema for your editor, {made.schema}")
    if made.profile is not None:
        trust_it = f"runspec trust {shlex.quote(str(made.profile))}"
        new = "the new " if made.kept else ""
        output.tell(f"fill in {new}{made.profile}, then run: {trust_it}")
        if profiles.supports_setup(provider):
            output.tell(f"in an empty account, make all of it instead: runspec setup {provider}")
        output.tell(f"to check the profile: runspec doctor {provider}")
    elif made.missing is not None:
        output.tell(f"{made.existing} has no settings of {provider}; add and fill in these:")
        output.out(made.missing)
    output.tell(f"next: runspec {'plan' if made.needs_profile else 'apply'} {path}")
    return OK


def _read_program(path: Path, *, ask: bool) -> machine.Program:
    """Return what a program asks for; a person is asked for the folder of its results if the text does not say it."""
    program = machine.read_program(path)
    known = program.output_option or program.output_folder
    if known or not ask or not output.at_terminal():
        return program
    question = f"folder that {path} writes its results to (empty: the current folder):"
    answer = output.ask(question)
    folder = machine.get_top_folder(answer)
    if answer and not folder:
        raise UsageError(f"'{answer}' is not a folder below the current one", "such as results")
    return program._replace(output_folder=folder)
