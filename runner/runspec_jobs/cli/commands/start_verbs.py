"""The options of the verbs that run a spec, or simulate that. Each imports its module only when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Context, Option

from runspec_jobs.cli.commands.options import (
    DEFAULT_SPEC,
    AsJson,
    Containers,
    DefaultSpecFile,
    Engine,
    KeptIn,
    MaxUsd,
    MaybeSpecFile,
    Only,
    OutputFormat,
    ProviderName,
    Settings,
    Smoke,
    SpecFile,
    Timeout,
    Until,
    Yes,
    count,
    flag,
    integer,
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
    only: Only = None,
    until: Until = None,
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
            only=only or (),
            until=until or (),
            overrides=Overrides(provider, settings or (), ctx.args),
        )
    )


def rehearse(
    ctx: Context,
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
      runspec rehearse job.yaml -- --epochs 1
      runspec rehearse --folder rehearsed/ job.yaml

    More: docs/aws-batch.md
    """
    from runspec_jobs.api.jobs import Overrides
    from runspec_jobs.cli import rehearse

    overrides = Overrides(provider, settings or (), ctx.args)
    chosen = rehearse.RehearsalOptions(
        file, engine, folder, container or (), smoke, output_format, overrides
    )
    return rehearse.rehearse(chosen, as_json=as_json)
