"""The options of the verbs that act on a run. Each imports its module only when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Option

from runspec_jobs.cli.commands import suggestions
from runspec_jobs.cli.commands.options import (
    AsJson,
    Force,
    MaxUsd,
    MaybeRunName,
    NodeNumber,
    ProviderName,
    RunName,
    Settings,
    TaskNumber,
    Yes,
    duration,
    exclusive,
    flag,
    integer,
)
from runspec_jobs.errors import UsageError


def fetch(
    run: RunName,
    to: Annotated[
        Path | None,
        Argument(metavar="FOLDER", parser=Path, help="where to copy them (default: ./RUN)"),
    ] = None,
    output: Annotated[
        str | None,
        Option(
            "--output",
            metavar="NAME",
            help="copy only this output",
            autocompletion=suggestions.outputs,
        ),
    ] = None,
    save: Annotated[
        int | None,
        Option(
            "--save",
            metavar="N",
            parser=integer,
            help="copy save number N instead of the last one, if the spec's `keep` keeps it",
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Copy the outputs of a run to this machine.

    Examples:
      runspec fetch mnist out/
      runspec fetch mnist --output model

    More: docs/inside.md
    """
    from runspec_jobs.cli import fetch

    return fetch.fetch(run, to, output, save, as_json=as_json, force=force)


def shell(
    ctx: Context,
    run: Annotated[
        str,
        Argument(
            metavar="RUN",
            help="a run, or the name of a spec: its newest run that is alive; with --new, a spec",
            autocompletion=suggestions.runs,
        ),
    ],
    new: Annotated[
        bool,
        flag("--new", help="ask for a node as the spec describes it; the job ends with the shell"),
    ] = False,
    provider: ProviderName = None,
    settings: Settings = None,
    yes: Yes = False,
    max_usd: MaxUsd = None,
    node: NodeNumber = None,
    task: TaskNumber = None,
) -> int:
    """Open a shell on a node, or run on it the command that follows --.

    Examples:
      runspec shell mnist -- nvidia-smi
      runspec shell --new job.yaml

    More: docs/interactive.md
    """
    from runspec_jobs.api.jobs import Overrides
    from runspec_jobs.cli import shell

    if new:
        exclusive({"--new": True, "--node": node is not None})
        exclusive({"--new": True, "--task": task is not None})
        overrides = Overrides(provider, settings or (), ())
        return shell.new(shell.NewShell(Path(run), ctx.args, overrides, yes, max_usd))
    given = {"--provider": provider, "--set": settings, "--yes": yes, "--max-usd": max_usd}
    for option in (option for option, value in given.items() if value):
        raise UsageError(f"{option} is for a new job", "add --new, and name a spec")
    return shell.shell(run, ctx.args, node, task)


def tunnel(
    run: RunName,
    port: Annotated[
        str,
        Argument(
            metavar="[LOCAL:]PORT",
            help="PORT of the node; LOCAL is the port of this machine (default: PORT if it is free; 0: any free port)",
        ),
    ],
    node: NodeNumber = None,
    task: TaskNumber = None,
    as_json: AsJson = False,
) -> int:
    """Forward a port of this machine to a node of a run.

    Examples:
      runspec tunnel mnist 8888
      runspec tunnel mnist 9000:8888 --node 1

    More: docs/parallelcluster.md
    """
    from runspec_jobs.cli import shell

    return shell.tunnel(run, port, node, task, as_json=as_json)


def adopt(
    provider: Annotated[
        str,
        Argument(
            metavar="PROVIDER",
            help="the provider of the run",
            autocompletion=suggestions.providers,
        ),
    ],
    run: Annotated[
        str | None,
        Argument(metavar="RUN", help="the run (default: all that have no record here)"),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Copy the records of other machines' runs from the store.

    Examples:
      runspec adopt aws-batch
      runspec adopt aws-batch mnist-7k2m9p

    More: docs/adopt.md
    """
    from runspec_jobs.cli import adopt

    return adopt.adopt(provider, run, as_json=as_json)


def cancel(run: RunName, as_json: AsJson = False) -> int:
    """Cancel a run, and wait until it has ended.

    Examples:
      runspec cancel mnist
      runspec cancel mnist-7k2m9p

    More: docs/exit-codes.md
    """
    from runspec_jobs.cli import destroy

    return destroy.cancel(run, as_json=as_json)


def destroy(
    run: MaybeRunName = None,
    ended: Annotated[bool, flag("--ended", help="destroy all runs that have ended")] = False,
    older_than: Annotated[
        int | None,
        Option(
            "--older-than",
            metavar="TIME",
            parser=duration,
            help="with --ended: only runs that began longer ago than a time such as 7d",
        ),
    ] = None,
    every: Annotated[
        bool, flag("--all", help="destroy all runs; those alive are cancelled")
    ] = False,
    shared: Annotated[
        bool,
        flag(
            "--shared",
            help="delete what runs share (environments, uploads, queues), not a run",
        ),
    ] = False,
    forget: Annotated[
        bool,
        flag(
            "--forget",
            help="if the service of the run does not answer, delete only its record on this machine",
        ),
    ] = False,
    site: Annotated[bool, flag("--site", hidden=True, help="the former name of --shared")] = False,
    yes: Annotated[bool, flag("--yes", "-y", help="do not ask")] = False,
    as_json: AsJson = False,
) -> int:
    """Cancel a run and delete everything that was made for it alone.

    Examples:
      runspec destroy mnist
      runspec destroy --ended --older-than 7d

    More: docs/upgrades.md
    """
    from runspec_jobs.cli import destroy

    return destroy.destroy(
        destroy.DestroyOptions(
            run,
            ended=ended,
            older_than_s=older_than,
            every=every,
            shared=shared or site,
            yes=yes,
            forget=forget,
            as_json=as_json,
        )
    )


def gc(
    provider: Annotated[
        str,
        Argument(
            metavar="PROVIDER",
            help="the provider to search",
            autocompletion=suggestions.providers,
        ),
    ],
    yes: Annotated[bool, flag("--yes", help="delete these resources")] = False,
    alive: Annotated[
        bool,
        flag(
            "--alive",
            help="with --yes: also cancel jobs that are alive and that no local record mentions",
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Find resources of runspec that no local record mentions.

    Examples:
      runspec gc aws-batch
      runspec gc aws-batch --yes

    More: docs/aws-batch.md
    """
    from runspec_jobs.cli import cleanup

    return cleanup.gc(provider, yes=yes, alive=alive, as_json=as_json)
