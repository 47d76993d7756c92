"""The options of the verbs that run a spec, or simulate that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runspec_jobs.options.declare import Options, flag, option, required
from runspec_jobs.options.shared import (
    AS_JSON,
    FROM_SAVE,
    MAX_USD,
    ONLY,
    OUTPUT_FORMAT,
    PARAMS,
    PROVIDER,
    RESUME,
    SETTINGS,
    SMOKE,
    SPEC,
    SPEC_AND_WORDS,
    SPEC_HERE,
    TIMEOUT,
    UNTIL,
    YES,
    count,
    exclusive,
    integer,
)


class SimulateOptions(Options):
    """Estimate the time and cost of a job, fixed and elastic.

    Examples:
      runspec simulate job.yaml --prices prices.csv --scaling scaling.yaml --samples 60000
      runspec simulate job.yaml --prices prices.yaml --scaling scaling.json --samples 60000 --take on-demand=2,spot=4

    More: runspec docs simulate
    """

    file: Path = SPEC
    prices: Path = required(
        "--prices",
        "FILE",
        "machines: price, number and interruptions, as YAML or CSV",
        read=Path,
    )
    scaling: Path = required(
        "--scaling",
        "FILE",
        "samples per second by number of nodes, as YAML or JSON",
        read=Path,
    )
    params: Sequence[str] = PARAMS
    samples: int = required("--samples", "N", "samples of one epoch", read=count)
    series: str | None = option(
        "--series", "NAME", "which series of the --scaling file, if it has several"
    )
    epochs: int = option("--epochs", "N", "number of epochs (default: 1)", default=1, read=count)
    fixed: int | None = option(
        "--fixed",
        "N",
        "number of nodes of the jobs of fixed size (default: the spec's largest number)",
        read=count,
    )
    take: str | None = option(
        "--take",
        "POOL=N,...",
        "use at most N nodes of each of these pools of the --prices file, in this order of "
        "preference (default: as the spec's capacity says)",
    )
    join: str = option(
        "--join", "TIME", "time without work after a node joined (default: 10s)", default="10s"
    )
    loss: str = option(
        "--loss",
        "TIME",
        "time without work after a node left or was lost (default: 15s)",
        default="15s",
    )
    checkpoint: str | None = option(
        "--checkpoint",
        "TIME",
        "time between two saves (default: the shortest sync of the outputs)",
    )
    runs: int | None = option(
        "--runs",
        "N",
        "number of simulated runs if something is drawn at random (default: 200)",
        read=count,
    )
    seed: int = option(
        "--seed", "N", "seed of the random draws (default: 0)", default=0, read=integer
    )
    output_format: str = OUTPUT_FORMAT
    as_json: bool = AS_JSON


class ApplyOptions(Options):
    """Run a spec and follow it until it ends.

    Examples:
      runspec apply --detach --resume job.yaml
      runspec apply --set cluster.nodes=4 job.yaml -- --epochs 10

    More: runspec docs inside
    """

    file: Path = SPEC_AND_WORDS
    provider: str | None = PROVIDER
    settings: Sequence[str] = SETTINGS
    params: Sequence[str] = PARAMS
    detach: bool = flag("--detach", "-d", help="return as soon as the run is submitted")
    new: bool = flag("--new", help="start another run, even if one is alive or has succeeded")
    resume: bool = RESUME
    from_save: str | None = FROM_SAVE
    smoke: bool = SMOKE
    timeout: int | None = TIMEOUT
    yes: bool = YES
    max_usd: str | None = MAX_USD
    only: Sequence[str] = ONLY
    until: Sequence[str] = UNTIL
    output_format: str = OUTPUT_FORMAT
    as_json: bool = AS_JSON
    words: Sequence[str] = ()
    rehearsed: bool = False  # by `rehearse`: on emulators, which end with the run

    def check(self) -> None:
        exclusive({"--resume": self.resume, "--from": self.from_save is not None})


class RehearseOptions(Options):
    """Run a cloud job on this machine, against emulators.

    Examples:
      runspec rehearse job.yaml -- --epochs 1
      runspec rehearse --folder rehearsed/ job.yaml

    More: runspec docs aws-batch
    """

    file: Path = SPEC_HERE
    engine: str | None = option(
        "--engine",
        "{process,podman}",
        "run the job in processes or in podman containers",
        choices=("process", "podman"),
    )
    folder: Path | None = option(
        "--folder",
        "FOLDER",
        "run in this folder and keep it: outputs and logs, and the files of the emulators",
        read=Path,
    )
    containers: Sequence[str] = option(
        "--container",
        "NAME=FOLDER",
        "put the files of FOLDER into the container or shared folder NAME first; may be repeated",
        default=(),
        several=True,
    )
    smoke: bool = SMOKE
    provider: str | None = PROVIDER
    settings: Sequence[str] = SETTINGS
    params: Sequence[str] = PARAMS
    output_format: str = OUTPUT_FORMAT
    as_json: bool = AS_JSON
    words: Sequence[str] = ()
