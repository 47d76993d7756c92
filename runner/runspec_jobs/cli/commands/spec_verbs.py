"""The options of the verbs that write and check specs. Each imports its module only when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from runspec_jobs.cli.commands import suggestions
from runspec_jobs.cli.commands.options import (
    DEFAULT_SPEC,
    AsJson,
    MaxUsd,
    MaybeSpecFile,
    Only,
    OutputFormat,
    ProviderName,
    Settings,
    Until,
    flag,
)


def init(
    file: Annotated[
        Path,
        Argument(
            metavar="FILE",
            parser=Path,
            show_default=False,
            help="the file to write (default: job.yaml)",
        ),
    ] = Path("job.yaml"),
    provider: Annotated[
        str,
        Option(
            "--provider",
            metavar="NAME",
            show_default=False,
            help="the provider of the spec (default: local)",
            autocompletion=suggestions.providers,
        ),
    ] = "local",
    as_json: AsJson = False,
) -> int:
    """Write a first spec, for you to edit.

    Examples:
      runspec init
      runspec init --provider aws-batch train.yaml

    More: docs/profile.md
    """
    from runspec_jobs.cli import setup

    return setup.init(file, provider, as_json=as_json)


def validate(
    files: Annotated[
        list[Path] | None,
        Argument(
            metavar="FILE",
            parser=Path,
            help="spec files (default: job.yaml); - is standard input",
            autocompletion=suggestions.specs,
        ),
    ] = None,
    quiet: Annotated[bool, flag("--quiet", "-q", help="print nothing about valid specs")] = False,
    output_format: OutputFormat = "text",
    as_json: AsJson = False,
) -> int:
    """Check specs; contact no service.

    Examples:
      runspec validate job.yaml
      runspec validate --quiet specs/*.yaml

    More: docs/reference.md
    """
    from runspec_jobs.cli import diagnostics, validate

    form = diagnostics.wanted(output_format, as_json=as_json)
    return validate.validate(files or [DEFAULT_SPEC], form, quiet=quiet)


def plan(
    ctx: Context,
    file: MaybeSpecFile = DEFAULT_SPEC,
    provider: ProviderName = None,
    settings: Settings = None,
    export: Annotated[
        Path | None,
        Option(
            "--export",
            metavar="FOLDER",
            parser=Path,
            help="write the plan to this folder as files for the service's own tool",
        ),
    ] = None,
    diff: Annotated[
        bool, flag("--diff", help="show the changes since the last applied plan")
    ] = False,
    detailed_exitcode: Annotated[
        bool, flag("--detailed-exitcode", help="exit with code 3 if there are changes")
    ] = False,
    files: Annotated[
        bool, flag("--files", help="list the files of folders that are uploaded or left out")
    ] = False,
    full: Annotated[bool, flag("--full", help="show long values in full")] = False,
    smoke: Annotated[bool, flag("--smoke", help="plan the spec's smoke test, not its job")] = False,
    max_usd: MaxUsd = None,
    only: Only = None,
    until: Until = None,
    output_format: OutputFormat = "text",
    as_json: AsJson = False,
) -> int:
    """Show every request that apply would make.

    Examples:
      runspec plan job.yaml
      runspec plan --diff --set cluster.nodes=4 job.yaml

    More: docs/exit-codes.md
    """
    from runspec_jobs.api.jobs import Overrides
    from runspec_jobs.cli import plan

    return plan.plan_(
        plan.PlanOptions(
            file,
            Overrides(provider, settings or (), ctx.args),
            export,
            diff,
            detailed_exitcode,
            smoke,
            output_format,
            as_json,
            max_usd,
            full=full,
            files=files,
            only=only or (),
            until=until or (),
        )
    )


def import_(
    file: Annotated[Path, Argument(metavar="FILE", parser=Path, help="the job file")],
    cluster: Annotated[
        Path | None,
        Option(
            "--cluster", metavar="FILE", parser=Path, help="the file that describes the cluster"
        ),
    ] = None,
    provider: Annotated[
        str | None,
        Option(
            "--provider",
            metavar="NAME",
            help="the provider that reads the files (default: the one that can)",
            autocompletion=suggestions.providers,
        ),
    ] = None,
    to: Annotated[
        Path | None,
        Option(
            "--to",
            metavar="FOLDER",
            parser=Path,
            help="write job.yaml and runspec-profile.yaml to this folder",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Convert another tool's job file to a spec.

    Examples:
      runspec import job.json
      runspec import job.json --cluster cluster.json --to converted/

    More: docs/azure-batch-ai.md
    """
    from runspec_jobs.cli import import_

    return import_.import_(file, cluster, provider, to, as_json=as_json)


def schema(
    form: Annotated[
        str | None,
        Argument(metavar="FORMAT", help="a format of --json, such as runspec.status/v1"),
    ] = None,
    reference: Annotated[
        bool, flag("--reference", help="print the reference page in Markdown, not the JSON Schema")
    ] = False,
) -> int:
    """Print the JSON Schema of specs, or of a format of --json.

    Examples:
      runspec schema > job.schema.json
      runspec schema runspec.status/v1

    More: docs/reference.md
    """
    from runspec_jobs.cli import setup

    return setup.schema(form, reference=reference)
