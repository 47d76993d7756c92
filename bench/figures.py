"""The figures: what is measured, beside what, and the limit that must hold."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench import aws, azure, azure_upload, elastic, elastic_change, mpi, slurm, upload
from bench.installs import ROOT, peer
from bench.measure import Command, Sample
from bench.rows import Bench, Row

LINE = "a line of the job"
SUBMITIT = f"""
import sys, submitit
executor = submitit.LocalExecutor(folder=sys.argv[1])
job = executor.submit(print, {LINE!r})
job.result()
print(job.stdout())
"""


def version(bench: Bench) -> Iterator[Row]:
    """Start and say the version."""
    (ours,) = bench.in_turns(bench.ours("--version"))
    yield Row("runspec --version, CPU", ours.cpu_s, "s", at_most=0.08)
    yield Row("runspec --version, wall", ours.wall_s, "s")


def validate(bench: Bench) -> Iterator[Row]:
    """Check one spec of 30 lines."""
    spec = str(shutil.copy(ROOT / "bench" / "job.yaml", bench.room))
    ours, theirs = bench.in_turns(bench.ours("validate", spec), _check_jsonschema(bench, spec))
    name = "check-jsonschema"
    yield Row("validate 1 spec, CPU", ours.cpu_s, "s", name, theirs.cpu_s, at_most=0.55)
    yield Row("validate 1 spec, wall", ours.wall_s, "s", name, theirs.wall_s)


def validate_many(bench: Bench) -> Iterator[Row]:
    """Check 1,000 specs in one call; files a second."""
    folder = bench.room / "many"
    folder.mkdir()
    text = (ROOT / "bench" / "job.yaml").read_text()
    specs = [str(folder / f"{n}.yaml") for n in range(1000)]
    for n, spec in enumerate(specs):
        Path(spec).write_text(text.replace("name: bench", f"name: bench-{n}"))
    ours, theirs = bench.in_turns(
        bench.ours("validate", "--quiet", *specs),
        _check_jsonschema(bench, *specs),
        rounds=max(3, bench.rounds // 4),
    )
    n, name = len(specs), "check-jsonschema"
    what = "validate 1,000 specs, files per CPU second"
    yield Row(what, n / ours.cpu_s, "/s", name, n / theirs.cpu_s, at_least=8)
    yield Row("validate 1,000 specs, wall", ours.wall_s, "s", name, theirs.wall_s)


def plan(bench: Bench) -> Iterator[Row]:
    """Measure a plan, which changes nothing."""
    spec = str(shutil.copy(ROOT / "bench" / "job.yaml", bench.room))
    dry = ("run", "--dryrun", *_local_cwd("hi"))
    ours, theirs = bench.in_turns(bench.ours("plan", spec), _torchx(bench, *dry))
    yield Row("plan, CPU", ours.cpu_s, "s", "torchx --dryrun", theirs.cpu_s, at_most=1.0)
    yield Row("plan, wall", ours.wall_s, "s", "torchx --dryrun", theirs.wall_s)


def apply(bench: Bench) -> Iterator[Row]:
    """Run a job that prints one line here, without a container, from start to exit."""
    ours, submitit, torchx = bench.in_turns(
        _apply(bench), _submitit(bench), _torchx(bench, "run", "--wait", "--log", *_local_cwd(LINE))
    )
    yield Row("apply, wall", ours.wall_s, "s", "submitit local", submitit.wall_s, at_most=0.5)
    yield Row("apply, wall", ours.wall_s, "s", "torchx local_cwd", torchx.wall_s, at_most=0.9)
    yield Row("apply, CPU", ours.cpu_s, "s", "submitit local", submitit.cpu_s)
    yield Row("apply, CPU", ours.cpu_s, "s", "torchx local_cwd", torchx.cpu_s)
    what = f"apply, lines lost in {ours.runs} runs"
    yield Row(what, ours.lost, "", "submitit local", submitit.lost)
    yield Row(what, ours.lost, "", "torchx local_cwd", torchx.lost)


def losses(bench: Bench) -> Iterator[Row]:
    """Run that job very often and count the runs whose line was not shown."""
    missing = 0
    for n in range(bench.losses):
        missing += LINE not in Sample.of(_apply(bench), bench.env).output
        if n % 100 == 99:
            print(f"{n + 1} of {bench.losses} runs, {missing} without the line", file=sys.stderr)
    yield Row(f"apply, lines lost in {bench.losses:,} runs", missing, "", at_most=0)


def install(bench: Bench) -> Iterator[Row]:
    """What an install brings: distributions, and megabytes without compiled bytecode."""
    count, size = bench.runspec.distributions, bench.runspec.megabytes
    for name in ("check-jsonschema", "dstack", "submitit", "torchx"):
        theirs = peer(name)
        yield Row("install, distributions", count, "", name, theirs.distributions)
        yield Row("install, size", size, "MB", name, theirs.megabytes)


FIGURES: Mapping[str, Callable[[Bench], Iterator[Row]]] = {
    "version": version,
    "validate": validate,
    "validate-many": validate_many,
    "plan": plan,
    "apply": apply,
    "losses": losses,
    "install": install,
    "aws-plan": aws.plan,
    "aws-logs": aws.logs,
    "aws-upload": upload.upload,
    "aws-calls": aws.calls,
    "azure-plan": azure.plan,
    "azure-calls": azure.calls,
    "azure-idle": azure.idle,
    "azure-upload-sink": azure_upload.to_sink,
    "azure-upload-azurite": azure_upload.to_azurite,
    "slurm-plan": slurm.plan,
    "slurm-apply": slurm.apply,
    "slurm-login": slurm.login,
    "slurm-array": slurm.array,
    "slurm-default": slurm.job_by_default,
    "slurm-default-200": slurm.array_by_default,
    "slurm-default-1000": slurm.large_array_by_default,
    "slurm-lasting": slurm.lasting,
    "slurm-calls": slurm.calls,
    "slurm-follow": slurm.follow,
    "mpi": mpi.mpi,
    "elastic-meeting": elastic.meeting,
    "elastic-change": elastic_change.change,
}


def _check_jsonschema(bench: Bench, *files: str) -> Command:
    schema = str(ROOT / "schemas" / "job.schema.json")
    command = peer("check-jsonschema").command("check-jsonschema")
    return Command((command, "--schemafile", schema, *files), cwd=bench.room)


def _apply(bench: Bench) -> Command:
    spec = bench.room / "line.yaml"
    if not spec.exists():
        head = "apiVersion: runspec/v1\nname: line\nprovider: local\n"
        spec.write_text(f"{head}command: [echo, {json.dumps(LINE)}]\n")
    return bench.ours("apply", "--new", str(spec), shows=LINE)


def _submitit(bench: Bench) -> Command:
    script = bench.room / "line.py"
    script.write_text(SUBMITIT)
    python = peer("submitit").command("python")
    return Command((python, str(script), str(bench.room / "submitit")), LINE, cwd=bench.room)


def _torchx(bench: Bench, *words: str) -> Command:
    shows = "" if "--dryrun" in words else LINE
    return Command((peer("torchx").command("torchx"), *words), shows, cwd=bench.room)


def _local_cwd(message: str) -> tuple[str, ...]:
    return ("--workspace", "", "-s", "local_cwd", "utils.echo", "--msg", message)
