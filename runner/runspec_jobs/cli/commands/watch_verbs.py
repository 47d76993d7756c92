"""The options of the verbs that show what runs do. Each imports its module only when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from runspec_jobs.cli.commands import suggestions
from runspec_jobs.cli.commands.options import (
    AsJson,
    Force,
    MaybeRunName,
    RunName,
    Timeout,
    count,
    duration,
    exclusive,
    flag,
    integer,
)
from runspec_jobs.errors import UsageError


def list_(
    all_: Annotated[bool, flag("--all", "-a", help="also list destroyed runs")] = False,
    remote: Annotated[
        bool,
        flag(
            "--remote",
            help="list runs that other machines started and this one can adopt, not those on record here",
        ),
    ] = False,
    alive: Annotated[bool, flag("--alive", help="only runs that wait or run")] = False,
    failed: Annotated[bool, flag("--failed", help="only runs that failed")] = False,
    name: Annotated[
        str | None,
        Option(
            "--name",
            metavar="NAME",
            help="only runs of this spec; * stands for any text",
            autocompletion=suggestions.runs,
        ),
    ] = None,
    provider: Annotated[
        str | None,
        Option(
            "--provider",
            metavar="NAME",
            help="only runs on this provider",
            autocompletion=suggestions.providers,
        ),
    ] = None,
    since: Annotated[
        int | None,
        Option(
            "--since",
            metavar="TIME",
            parser=duration,
            help="only runs that were started in the last 12h, or another length of time",
        ),
    ] = None,
    limit: Annotated[
        int | None, Option("--limit", metavar="N", parser=count, help="only the newest N of them")
    ] = None,
    watch: Annotated[
        bool, flag("--watch", "-w", help="show the list again every two seconds, until Ctrl-C")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """List the runs of this machine.

    Examples:
      runspec list --alive --watch
      runspec list --failed --since 7d

    More: docs/status.md
    """
    from runspec_jobs.cli import status

    exclusive({"--all": all_, "--remote": remote})
    exclusive({"--watch": watch, "--json": as_json})
    options = status.ListOptions(all_, alive, failed, name, provider, since, limit, as_json)
    if remote:
        options_here = ("--alive", "--failed", "--name", "--provider", "--since", "--limit")
        values = (alive, failed, name, provider, since, limit)
        for option, value in zip((*options_here, "--watch"), (*values, watch), strict=True):
            exclusive({"--remote": True, option: bool(value)})
        return status.list_remote(as_json=as_json)
    return status.watch_runs(options) if watch else status.list_runs(options)


def status(
    run: RunName,
    watch: Annotated[
        bool,
        flag("--watch", "-w", help="show the state every two seconds, until the run has ended"),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show the state of a run, and the reason for that state.

    Examples:
      runspec status mnist --watch
      runspec status mnist-7k2m9p --json

    More: docs/status.md
    """
    from runspec_jobs.cli import status

    exclusive({"--watch": watch, "--json": as_json})
    return status.watch_status(run) if watch else status.status(run, as_json=as_json)


def cost(
    since: Annotated[
        int | None,
        Option(
            "--since",
            metavar="TIME",
            parser=duration,
            help="count only the last 30d, or another length of time",
        ),
    ] = None,
    by: Annotated[
        Literal["name", "provider"] | None,
        Option(
            "--by",
            metavar="{name,provider}",
            help="add up the runs of each provider, or of each name of a spec (default: name)",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show what the runs of this machine have cost.

    Examples:
      runspec cost --since 30d
      runspec cost --by provider --json

    More: docs/machines.md
    """
    from runspec_jobs.cli import spending

    return spending.spent_by(since, by_provider=by == "provider", as_json=as_json)


def prices(
    update: Annotated[
        bool,
        flag("--update", help="read the prices of the regions in the profile from their services"),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show the prices that were read from price lists, or read them.

    Examples:
      runspec prices
      runspec prices --update

    More: docs/machines.md
    """
    from runspec_jobs.cli import spending

    return spending.show_prices(update=update, as_json=as_json)


def logs(
    run: RunName,
    follow: Annotated[
        bool, flag("--follow", "-f", help="print new lines until the run has ended")
    ] = False,
    save: Annotated[
        Path | None,
        Option(
            "--save",
            metavar="PATH",
            parser=Path,
            help="save an exact copy of the log to this file or, for several nodes or tasks, to this folder",
        ),
    ] = None,
    node: Annotated[
        int | None,
        Option("--node", metavar="N", parser=integer, help="only node N, counted from 0"),
    ] = None,
    task: Annotated[
        int | None,
        Option(
            "--task", metavar="N", parser=integer, help="only task N of a sweep, counted from 0"
        ),
    ] = None,
    tail: Annotated[
        int | None,
        Option(
            "--tail",
            metavar="N",
            parser=integer,
            help="of the lines so far only the last N of each node",
        ),
    ] = None,
    grep: Annotated[
        str | None,
        Option(
            "--grep",
            metavar="RE",
            help="only lines in which this regular expression of Python is found",
        ),
    ] = None,
    since: Annotated[
        int | None,
        Option(
            "--since",
            metavar="TIME",
            parser=duration,
            help="only lines that were printed in the last 5m, or another length of time",
        ),
    ] = None,
    timestamps: Annotated[
        bool, flag("--timestamps", help="print the time of each line before it")
    ] = False,
    timeout: Timeout = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Print the log of a run.

    Examples:
      runspec logs -f mnist --tail 20
      runspec logs mnist --since 5m --timestamps

    More: docs/logs.md
    """
    from runspec_jobs.cli import status

    if save is not None:
        exclusive({"--save": True, "--tail": tail is not None})
        exclusive({"--save": True, "--grep": grep is not None})
        exclusive({"--save": True, "--since": since is not None})
        exclusive({"--save": True, "--timestamps": timestamps})
    elif force:
        raise UsageError("--force is for --save", "add --save PATH")
    return status.logs(
        status.LogsOptions(
            run, follow, save, node, task, timeout, as_json, tail, grep, since, timestamps, force
        )
    )


def report(
    run: MaybeRunName = None,
    html: Annotated[
        Path | None,
        Option(
            "--html", metavar="FILE", parser=Path, help="also write a page with plots, of any run"
        ),
    ] = None,
    spec: Annotated[
        Path | None,
        Option(
            "--spec",
            metavar="FILE",
            parser=Path,
            help="use the metric of this spec, not of the run's spec",
        ),
    ] = None,
    points: Annotated[
        Path | None,
        Option(
            "--points",
            metavar="FILE",
            parser=Path,
            help="compare the measurements in this JSON file, not those of a run",
        ),
    ] = None,
    follow: Annotated[
        bool,
        flag(
            "--follow",
            "-f",
            help="wait until the run has ended; stop the other tasks as metric.stop in the spec says",
        ),
    ] = False,
    stop_rest: Annotated[
        bool, flag("--stop-rest", help="stop all tasks except the best one so far")
    ] = False,
    baseline: Annotated[
        str | None,
        Option(
            "--baseline",
            metavar="SIZE",
            help="the number of nodes that the others are compared with (default: the smallest)",
        ),
    ] = None,
    price_per_node_hour: Annotated[
        str | None,
        Option(
            "--price-per-node-hour",
            metavar="PRICE",
            help="price of a node for an hour, in any currency: also report the cost at each size of the job",
        ),
    ] = None,
    samples: Annotated[
        str | None,
        Option(
            "--samples",
            metavar="N",
            help="samples of a whole job: also report its time at each size",
        ),
    ] = None,
    timeout: Timeout = None,
    force: Force = False,
    as_json: AsJson = False,
) -> int:
    """Rank the tasks of a sweep, compare numbers of nodes, or show what membership changes cost.

    Examples:
      runspec report lr-search
      runspec report --points specs/scaling/resnet50-imagenet.json

    More: docs/report.md
    """
    from runspec_jobs.cli import report

    if force and html is None:
        raise UsageError("--force is for --html", "add --html FILE")
    return report.report(
        report.ReportOptions(
            run=run,
            html=html,
            spec=spec,
            points=points,
            follow=follow,
            stop_rest=stop_rest,
            baseline=baseline,
            price_per_node_hour=price_per_node_hour,
            samples=samples,
            timeout=timeout,
            as_json=as_json,
            force=force,
        )
    )
