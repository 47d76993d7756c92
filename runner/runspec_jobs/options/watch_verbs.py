"""The options of the verbs that show what runs do."""

from __future__ import annotations

from pathlib import Path

from runspec_jobs.errors import UsageError
from runspec_jobs.options import suggestions
from runspec_jobs.options.declare import Options, flag, option
from runspec_jobs.options.shared import (
    AS_JSON,
    FORCE,
    MAYBE_RUN,
    RUN_OR_CHAIN,
    TIMEOUT,
    count,
    duration,
    exclusive,
    integer,
)


class ListOptions(Options):
    """List the runs of this machine.

    Examples:
      runspec list --alive --watch
      runspec list --failed --since 7d

    More: runspec docs status
    """

    destroyed: bool = flag("--all", "-a", help="also list destroyed runs")
    remote: bool = flag(
        "--remote",
        help="list runs that other machines started and this one can adopt, not those on record here",
    )
    alive: bool = flag("--alive", help="only runs that wait or run")
    failed: bool = flag("--failed", help="only runs that failed")
    name: str | None = option(
        "--name",
        "NAME",
        "only runs of this spec or chain; * stands for any text",
        complete=suggestions.runs,
    )
    provider: str | None = option(
        "--provider", "NAME", "only runs on this provider", complete=suggestions.providers
    )
    since_s: int | None = option(
        "--since",
        "TIME",
        "only runs that were started in the last 12h, or another length of time",
        read=duration,
    )
    limit: int | None = option("--limit", "N", "only the newest N of them", read=count)
    watch: bool = flag("--watch", "-w", help="show the list again every two seconds, until Ctrl-C")
    as_json: bool = AS_JSON

    def check(self) -> None:
        exclusive({"--all": self.destroyed, "--remote": self.remote})
        exclusive({"--watch": self.watch, "--json": self.as_json})
        here = ("alive", "failed", "name", "provider", "since_s", "limit", "watch")
        for field in here if self.remote else ():
            exclusive({"--remote": True, self.declared[field].names[0]: getattr(self, field)})


class StatusOptions(Options):
    """Show the state of a run, and the reason for that state.

    Examples:
      runspec status mnist --watch
      runspec status mnist-7k2m9p --json

    More: runspec docs status
    """

    run: str = RUN_OR_CHAIN
    watch: bool = flag(
        "--watch", "-w", help="show the state every two seconds, until the run has ended"
    )
    as_json: bool = AS_JSON

    def check(self) -> None:
        exclusive({"--watch": self.watch, "--json": self.as_json})


class CostOptions(Options):
    """Show what the runs of this machine have cost.

    Examples:
      runspec cost --since 30d
      runspec cost --by provider --json

    More: runspec docs machines
    """

    since_s: int | None = option(
        "--since", "TIME", "count only the last 30d, or another length of time", read=duration
    )
    by: str | None = option(
        "--by",
        "{name,provider}",
        "add up the runs of each provider, or of each name of a spec (default: name)",
        choices=("name", "provider"),
    )
    as_json: bool = AS_JSON


class PricesOptions(Options):
    """Show the prices that were read from price lists, or read them.

    Examples:
      runspec prices
      runspec prices --update

    More: runspec docs machines
    """

    update: bool = flag(
        "--update", help="read the prices of the regions in the profile from their services"
    )
    as_json: bool = AS_JSON


class LogsOptions(Options):
    """Print the log of a run.

    Examples:
      runspec logs -f mnist --tail 20
      runspec logs mnist --since 5m --timestamps

    More: runspec docs logs
    """

    run: str = RUN_OR_CHAIN
    follow: bool = flag("--follow", "-f", help="print new lines until the run has ended")
    save: Path | None = option(
        "--save",
        "PATH",
        "save an exact copy of the log to this file or, for several nodes or tasks, to this folder",
        read=Path,
    )
    node: int | None = option("--node", "N", "only node N, counted from 0", read=integer)
    task: int | None = option("--task", "N", "only task N of a sweep, counted from 0", read=integer)
    tail: int | None = option(
        "--tail", "N", "of the lines so far only the last N of each node", read=integer
    )
    grep: str | None = option(
        "--grep", "RE", "only lines in which this regular expression of Python is found"
    )
    since_s: int | None = option(
        "--since",
        "TIME",
        "only lines that were printed in the last 5m, or another length of time",
        read=duration,
    )
    timestamps: bool = flag("--timestamps", help="print the time of each line before it")
    timeout: int | None = TIMEOUT
    force: bool = FORCE
    as_json: bool = AS_JSON

    def check(self) -> None:
        if self.save is None:
            if self.force:
                raise UsageError("--force is for --save", "add --save PATH")
            return
        exclusive({"--save": True, "--tail": self.tail is not None})
        exclusive({"--save": True, "--grep": self.grep is not None})
        exclusive({"--save": True, "--since": self.since_s is not None})
        exclusive({"--save": True, "--timestamps": self.timestamps})


class ReportOptions(Options):
    """Rank the tasks of a sweep, compare numbers of nodes, or show what membership changes cost.

    Examples:
      runspec report lr-search
      runspec report --points specs/scaling/resnet50-imagenet.json

    More: runspec docs report
    """

    run: str | None = MAYBE_RUN
    html: Path | None = option(
        "--html", "FILE", "also write a page with plots, of any run", read=Path
    )
    spec: Path | None = option(
        "--spec", "FILE", "use the metric of this spec, not of the run's spec", read=Path
    )
    points: Path | None = option(
        "--points",
        "FILE",
        "compare the measurements in this JSON file, not those of a run",
        read=Path,
    )
    follow: bool = flag(
        "--follow",
        "-f",
        help="wait until the run has ended; stop the other tasks as metric.stop in the spec says",
    )
    stop_rest: bool = flag("--stop-rest", help="stop all tasks except the best one so far")
    baseline: str | None = option(
        "--baseline",
        "SIZE",
        "the number of nodes that the others are compared with (default: the smallest)",
    )
    price_per_node_hour: str | None = option(
        "--price-per-node-hour",
        "PRICE",
        "price of a node for an hour, in any currency: also report the cost at each size of the job",
    )
    samples: str | None = option(
        "--samples", "N", "samples of a whole job: also report its time at each size"
    )
    timeout: int | None = TIMEOUT
    force: bool = FORCE
    as_json: bool = AS_JSON

    def check(self) -> None:
        if self.force and self.html is None:
            raise UsageError("--force is for --html", "add --html FILE")
