"""The options of the verbs that take a spec. Each imports the module that carries it out only when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from runspec_jobs.cli.commands import suggestions
from runspec_jobs.cli.commands.options import (
    DEFAULT_SPEC,
    AsJson,
    Containers,
    DefaultSpecFile,
    Engine,
    KeptIn,
    MaxUsd,
    MaybeSpecFile,
    OutputFormat,
    ProviderName,
    Settings,
    Smoke,
    SpecFile,
    Timeout,
    Yes,
    count,
    flag,
    integer,
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
        )
    )


def simulate(
    file: SpecFile,
    prices: Annotated[
        Path,
        Option(
            "--prices",
            metavar="FILE",
            parser=Path,
            help="machines: price, number and interruptions, as YAML or CSV",
        ),
    ],
    scaling: Annotated[
        Path,
        Option(
            "--scaling",
            metavar="FILE",
            parser=Path,
            help="samples per second by number of nodes, as YAML or JSON",
        ),
    ],
    samples: Annotated[
        int, Option("--samples", metavar="N", parser=count, help="samples of one epoch")
    ],
    series: Annotated[
        str | None,
        Option(
            "--series",
            metavar="NAME",
            help="which series of the --scaling file, if it has several",
        ),
    ] = None,
    epochs: Annotated[
        int,
        Option(
            "--epochs",
            metavar="N",
            parser=count,
            show_default=False,
            help="number of epochs (default: 1)",
        ),
    ] = 1,
    fixed: Annotated[
        int | None,
        Option(
            "--fixed",
            metavar="N",
            parser=count,
            help="number of nodes of the jobs of fixed size (default: the spec's largest number)",
        ),
    ] = None,
    take: Annotated[
        str | None,
        Option(
            "--take",
            metavar="POOL=N,...",
            help="use at most N nodes of each of these pools of the --prices file, in this order of "
            "preference (default: as the spec's capacity says)",
        ),
    ] = None,
    join: Annotated[
        str,
        Option(
            "--join",
            metavar="TIME",
            show_default=False,
            help="time without work after a node joined (default: 10s)",
        ),
    ] = "10s",
    loss: Annotated[
        str,
        Option(
            "--loss",
            metavar="TIME",
            show_default=False,
            help="time without work after a node left or was lost (default: 15s)",
        ),
    ] = "15s",
    checkpoint: Annotated[
        str | None,
        Option(
            "--checkpoint",
            metavar="TIME",
            help="time between two saves (default: the shortest sync of the outputs)",
        ),
    ] = None,
    runs: Annotated[
        int | None,
        Option(
            "--runs",
            metavar="N",
            parser=count,
            help="number of simulated runs if something is drawn at random (default: 200)",
        ),
    ] = None,
    seed: Annotated[
        int,
        Option(
            "--seed",
            metavar="N",
            parser=integer,
            show_default=False,
            help="seed of the random draws (default: 0)",
        ),
    ] = 0,
    output_format: OutputFormat = "text",  # noqa: ARG001 - where errors are printed, it is looked up
    as_json: AsJson = False,
) -> int:
    """Estimate the time and cost of a job, fixed and elastic.

    Examples:
      runspec simulate job.yaml --prices prices.csv --scaling scaling.yaml --samples 60000
      runspec simulate job.yaml --prices prices.yaml --scaling scaling.json --samples 60000 --take on-demand=2,spot=4

    More: docs/simulate.md
    """
    from runspec_jobs.cli import simulate

    return simulate.simulate(
        simulate.SimulateOptions(
            file=file,
            prices=prices,
            scaling=scaling,
            samples=samples * epochs,
            series=series,
            fixed=fixed,
            take=take,
            join=join,
            loss=loss,
            checkpoint=checkpoint,
            runs=runs,
            seed=seed,
            as_json=as_json,
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
        str,
        Option(
            "--provider",
            metavar="NAME",
            show_default=False,
            help="the provider that reads the files (default: azure-batch-ai)",
            autocompletion=suggestions.providers,
        ),
    ] = "azure-batch-ai",
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


def apply(
    ctx: Context,
    file: MaybeSpecFile = DEFAULT_SPEC,
    provider: ProviderName = None,
    settings: Settings = None,
    detach: Annotated[
        bool, flag("--detach", "-d", help="return as soon as the run is submitted")
    ] = False,
    new: Annotated[
        bool, flag("--new", help="start another run, even if one is alive or has succeeded")
    ] = False,
    smoke: Smoke = False,
    timeout: Timeout = None,
    yes: Yes = False,
    max_usd: MaxUsd = None,
    output_format: OutputFormat = "text",
    as_json: AsJson = False,
) -> int:
    """Run a spec and follow it until it ends.

    Examples:
      runspec apply --detach --new job.yaml
      runspec apply --set cluster.nodes=4 job.yaml -- --epochs 10

    More: docs/inside.md
    """
    from runspec_jobs.api.jobs import Overrides
    from runspec_jobs.cli import apply

    return apply.apply(
        apply.ApplyOptions(
            file,
            detach,
            new,
            smoke,
            timeout,
            output_format,
            as_json,
            yes=yes,
            max_usd=max_usd,
            overrides=Overrides(provider, settings or (), ctx.args),
        )
    )


def rehearse(
    file: DefaultSpecFile = DEFAULT_SPEC,
    engine: Engine = None,
    folder: KeptIn = None,
    container: Containers = None,
    smoke: Smoke = False,
    provider: ProviderName = None,
    settings: Settings = None,
    output_format: OutputFormat = "text",
    as_json: AsJson = False,
) -> int:
    """Run a cloud job on this machine, against emulators.

    Examples:
      runspec rehearse job.yaml
      runspec rehearse --folder rehearsed/ job.yaml

    More: docs/aws-batch.md
    """
    from runspec_jobs.api.jobs import Overrides
    from runspec_jobs.cli import rehearse

    overrides = Overrides(provider, settings or ())
    chosen = rehearse.RehearsalOptions(
        file, engine, folder, container or (), smoke, output_format, overrides
    )
    return rehearse.rehearse(chosen, as_json=as_json)
