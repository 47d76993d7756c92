"""The options of the verbs that act on a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runspec_jobs.errors import UsageError
from runspec_jobs.options import suggestions
from runspec_jobs.options.declare import Options, argument, argument_or, flag, option
from runspec_jobs.options.shared import (
    AS_JSON,
    FORCE,
    MAX_USD,
    MAYBE_RUN,
    NODE,
    PARAMS,
    PROVIDER,
    RUN,
    RUN_OR_CHAIN,
    SETTINGS,
    TASK,
    YES,
    duration,
    exclusive,
    integer,
)

OUTPUT: Any = option("--output", "NAME", "this output alone", complete=suggestions.outputs)
OF_TASK: Any = option("--task", "N", "task N of a sweep alone", read=integer)
BEST: Any = flag("--best", help="the task with the best value of the metric alone")
PATH: Any = option(
    "--path",
    "GLOB",
    "the files alone whose path matches, such as 'model/*.pt'; * also stands for /",
)


class OutputsOptions(Options):
    """List the saved files of a run with their sizes, times and saves.

    Examples:
      runspec outputs mnist
      runspec outputs search --best --path '*.pt'

    More: runspec docs resume
    """

    run: str = RUN
    output: str | None = OUTPUT
    save: int | None = option("--save", "N", "save number N alone (default: all)", read=integer)
    task: int | None = OF_TASK
    best: bool = BEST
    path: str | None = PATH
    as_json: bool = AS_JSON

    def check(self) -> None:
        exclusive({"--task": self.task is not None, "--best": self.best})


class FetchOptions(Options):
    """Copy the outputs of a run to this machine.

    Examples:
      runspec fetch mnist out/
      runspec fetch search out/ --best --output model

    More: runspec docs resume
    """

    run: str = RUN
    to: Path | None = argument_or(None, "FOLDER", "where to copy them (default: ./RUN)", read=Path)
    output: str | None = OUTPUT
    save: int | None = option(
        "--save",
        "N",
        "copy save number N instead of the last one, if the spec's `keep` keeps it",
        read=integer,
    )
    task: int | None = OF_TASK
    best: bool = BEST
    path: str | None = PATH
    force: bool = FORCE
    as_json: bool = AS_JSON

    def check(self) -> None:
        exclusive({"--task": self.task is not None, "--best": self.best})


class ShellOptions(Options):
    """Open a shell on a node, or run on it the command that follows --.

    Examples:
      runspec shell mnist -- nvidia-smi
      runspec shell --new job.yaml

    More: runspec docs interactive
    """

    run: str = argument(
        "RUN",
        "a run, or the name of a spec: its newest run that is alive; with --new, a spec",
        complete=suggestions.runs,
    )
    new: bool = flag(
        "--new", help="ask for a node as the spec describes it; the job ends with the shell"
    )
    provider: str | None = PROVIDER
    settings: Sequence[str] = SETTINGS
    params: Sequence[str] = PARAMS
    yes: bool = YES
    max_usd: str | None = MAX_USD
    node: int | None = NODE
    task: int | None = TASK
    words: Sequence[str] = ()

    def check(self) -> None:
        if self.new:
            exclusive({"--new": True, "--node": self.node is not None})
            exclusive({"--new": True, "--task": self.task is not None})
            return
        for field in ("provider", "settings", "params", "yes", "max_usd"):
            if getattr(self, field):
                name = self.declared[field].names[0]
                raise UsageError(f"{name} is for a new job", "add --new, and name a spec")


class TunnelOptions(Options):
    """Forward a port of this machine to a node of a run.

    Examples:
      runspec tunnel mnist 8888
      runspec tunnel mnist 9000:8888 --node 1

    More: runspec docs parallelcluster
    """

    run: str = RUN
    port: str = argument(
        "[LOCAL:]PORT",
        "PORT of the node; LOCAL is the port of this machine (default: PORT if it is free; 0: any free port)",
    )
    node: int | None = NODE
    task: int | None = TASK
    as_json: bool = AS_JSON


class AdoptOptions(Options):
    """Copy the records of other machines' runs from the store.

    Examples:
      runspec adopt aws-batch
      runspec adopt aws-batch mnist-7k2m9p

    More: runspec docs adopt
    """

    provider: str = argument("PROVIDER", "the provider of the run", complete=suggestions.providers)
    run: str | None = argument_or(None, "RUN", "the run (default: all that have no record here)")
    as_json: bool = AS_JSON


class ResizeOptions(Options):
    """Change how many nodes an elastic run has while it goes on.

    Nodes that leave save first, and stay away until more nodes are asked for.

    Examples:
      runspec resize mnist 4
      runspec resize search 2 --task 3

    More: runspec docs elastic
    """

    run: str = RUN
    nodes: int = argument("N", "how many nodes, within min and max of the spec", read=integer)
    task: int | None = OF_TASK
    as_json: bool = AS_JSON


class ReleaseOptions(Options):
    """Have nodes of an elastic run save and leave while the others go on.

    They stay away until `runspec resize` asks for more nodes.

    Examples:
      runspec release mnist 3
      runspec release mnist 8 9 10 11

    More: runspec docs elastic
    """

    run: str = RUN
    nodes: Sequence[int] = argument(
        "NODE", "the number of a node, as status shows it", read=integer, several=True
    )
    task: int | None = OF_TASK
    as_json: bool = AS_JSON


class CancelOptions(Options):
    """Cancel a run, and wait until it has ended.

    Examples:
      runspec cancel mnist
      runspec cancel mnist-7k2m9p

    More: runspec docs exit-codes
    """

    run: str = RUN_OR_CHAIN
    as_json: bool = AS_JSON


class DestroyOptions(Options):
    """Cancel a run and delete everything that was made for it alone.

    Examples:
      runspec destroy mnist
      runspec destroy --ended --older-than 7d

    More: runspec docs upgrades
    """

    run: str | None = MAYBE_RUN
    ended: bool = flag("--ended", help="destroy all runs that have ended")
    older_than_s: int | None = option(
        "--older-than",
        "TIME",
        "with --ended: only runs that began longer ago than a time such as 7d",
        read=duration,
    )
    every: bool = flag("--all", help="destroy all runs; those alive are cancelled")
    shared: bool = flag(
        "--shared", help="delete what runs share (environments, uploads, queues), not a run"
    )
    forget: bool = flag(
        "--forget",
        help="if the service of the run does not answer, delete only its record on this machine",
    )
    site: bool = flag("--site", help="the former name of --shared", hidden=True)
    yes: bool = flag("--yes", "-y", help="do not ask")
    as_json: bool = AS_JSON

    def check(self) -> None:
        if self.forget and self.run is None:
            raise UsageError("--forget is for one run", "runspec destroy RUN --forget")
        if self.older_than_s is not None and not self.ended:
            hint = "runspec destroy --ended --older-than 7d"
            raise UsageError("--older-than is for --ended", hint)
        shared = self.shared or self.site
        chosen = {"--ended": self.ended, "--all": self.every, "--shared": shared}
        exclusive(chosen)
        for name in (
            name for name, is_given in chosen.items() if is_given and self.run is not None
        ):
            hint = f"to destroy that run: runspec destroy {shlex.quote(str(self.run))}"
            raise UsageError(f"{name} takes no run (got '{self.run}')", hint)


class GcOptions(Options):
    """Find resources of runspec that no local record mentions.

    Examples:
      runspec gc aws-batch
      runspec gc aws-batch --yes

    More: runspec docs aws-batch
    """

    provider: str = argument("PROVIDER", "the provider to search", complete=suggestions.providers)
    yes: bool = flag("--yes", help="delete these resources")
    alive: bool = flag(
        "--alive",
        help="with --yes: also cancel jobs that are alive and that no local record mentions",
    )
    as_json: bool = AS_JSON
