"""The options of the verbs that write and check specs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runspec_jobs.options import suggestions
from runspec_jobs.options.declare import Options, argument, argument_or, flag, option
from runspec_jobs.options.shared import (
    AS_JSON,
    FROM_SAVE,
    JOB_YAML,
    MAX_USD,
    ONLY,
    OUTPUT_FORMAT,
    PARAMS,
    PROVIDER,
    RESUME,
    SETTINGS,
    SPEC_AND_WORDS,
    UNTIL,
    exclusive,
)


class InitOptions(Options):
    """Write a first spec, for you to edit.

    Examples:
      runspec init train.py
      runspec init --provider aws-batch train.yaml

    More: runspec docs init
    """

    file: Path = argument_or(
        JOB_YAML,
        "FILE",
        "the file to write (default: job.yaml), or a program to write job.yaml for: train.py, train.sh",
        read=Path,
    )
    to: Path | None = option(
        "--to", "FILE", "the file to write for a program (default: job.yaml)", read=Path
    )
    provider: str = option(
        "--provider",
        "NAME",
        "the provider of the spec (default: local)",
        default="local",
        complete=suggestions.providers,
    )
    as_json: bool = AS_JSON


class ValidateOptions(Options):
    """Check specs; contact no service.

    Examples:
      runspec validate job.yaml
      runspec validate --quiet specs/*.yaml

    More: runspec docs reference
    """

    files: Sequence[Path] = argument_or(
        (),
        "FILE",
        "spec files (default: job.yaml); - is standard input",
        read=Path,
        complete=suggestions.specs,
        several=True,
    )
    params: Sequence[str] = PARAMS
    quiet: bool = flag("--quiet", "-q", help="print nothing about valid specs")
    output_format: str = OUTPUT_FORMAT
    as_json: bool = AS_JSON


class PlanOptions(Options):
    """Show every request that apply would make.

    Examples:
      runspec plan job.yaml
      runspec plan --diff --set cluster.nodes=4 job.yaml

    More: runspec docs exit-codes
    """

    file: Path = SPEC_AND_WORDS
    provider: str | None = PROVIDER
    settings: Sequence[str] = SETTINGS
    params: Sequence[str] = PARAMS
    export: Path | None = option(
        "--export",
        "FOLDER",
        "write the plan to this folder as files for the service's own tool",
        read=Path,
    )
    diff: bool = flag("--diff", help="show the changes since the last applied plan")
    detailed_exitcode: bool = flag(
        "--detailed-exitcode", help="exit with code 3 if there are changes"
    )
    files: bool = flag("--files", help="list the files of folders that are uploaded or left out")
    full: bool = flag("--full", help="show long values in full")
    resume: bool = RESUME
    from_save: str | None = FROM_SAVE
    smoke: bool = flag("--smoke", help="plan the spec's smoke test, not its job")
    max_usd: str | None = MAX_USD
    only: Sequence[str] = ONLY
    until: Sequence[str] = UNTIL
    output_format: str = OUTPUT_FORMAT
    as_json: bool = AS_JSON
    words: Sequence[str] = ()

    def check(self) -> None:
        exclusive({"--resume": self.resume, "--from": self.from_save is not None})


class ImportOptions(Options):
    """Convert another tool's job file to a spec.

    Examples:
      runspec import train.sbatch --to .
      runspec import definition.json --with submit.json --to converted/

    More: runspec docs import
    """

    file: Path = argument("FILE", "the job file of another tool, known by its content", read=Path)
    second: Path | None = option(
        "--with",
        "FILE",
        "a second file of the job: its cluster, or the request that submits it",
        read=Path,
        also=("--cluster",),
    )
    provider: str | None = option(
        "--provider",
        "NAME",
        "the provider whose file it is; of a file of no provider, the one for the spec",
        complete=suggestions.providers,
    )
    to: Path | None = option(
        "--to", "FOLDER", "write job.yaml and runspec-profile.yaml to this folder", read=Path
    )
    as_json: bool = AS_JSON


class SchemaOptions(Options):
    """Print the JSON Schema of specs, or of a format of --json.

    Examples:
      runspec schema > job.schema.json
      runspec schema runspec.status/v1

    More: runspec docs reference
    """

    form: str | None = argument_or(None, "FORMAT", "a format of --json, such as runspec.status/v1")
    reference: bool = flag(
        "--reference", help="print the reference page in Markdown, not the JSON Schema"
    )
