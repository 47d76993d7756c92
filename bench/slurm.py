"""The figures of Slurm, on a real one that is started on this machine, beside sbatch itself and submitit."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from bench.installs import ROOT, ours, packaged, peer
from bench.measure import Command, Sample, Timing, in_rounds
from bench.rows import Bench, Row
from runspec_emulators.slurm import Cluster, Shape

LINE = "a line of the job"
TASKS, SOME_TASKS, QUICK_TASKS, QUICK_ROUNDS = 1_000, 200, 40, 5
LASTING_S = 5  # how long a task lasts at least, for which people use an array
BEAT_S = 1.0  # slurmctld looks for what may start once a second
FOLLOWED_S, STARTED_S, UP_S = 60.0, 3.0, 60.0
# Slurm's own default; the emulated cluster is set to start jobs sooner.
DEFAULTS = {"SchedulerParameters": "default_queue_depth=100"}
# The option of sbatch that does what each value of our `environment` does.
EXPORTS = {"clean": "--export-file=/dev/null", "login": "--export=NONE"}
# Arguments: the option for the environment, and the program. Submits it and waits for its end, as users' scripts do.
BARE = """\
#!/bin/sh
export=$1; shift
printf '#!/bin/sh\\nexec "%s" -c "%s"\\n' "$1" "$2" >bare-job.sh
id=$(sbatch --parsable $export --output="$PWD/bare-%A-%a.txt" $3 bare-job.sh) || exit 1
while squeue --noheader --jobs="$id" --states=PENDING,RUNNING,COMPLETING,CONFIGURING --format=%i | grep -q .; do
sleep 0.1
done
cat bare-"$id"-*.txt
rm -f bare-"$id"-*.txt
"""
# submitit prints into its own log; `result` waits for the file with the result: see submitit's documentation.
SUBMITIT = """
import sys, submitit
executor = submitit.SlurmExecutor(folder=sys.argv[1])
executor.update_parameters(array_parallelism=100_000)
count = int(sys.argv[3])
jobs = executor.map_array(eval, count * [sys.argv[2]]) if count > 1 else [executor.submit(eval, sys.argv[2])]
for job in jobs:
    job.result()
print(jobs[-1].stdout())
"""
# Messages that no client sends: those of the daemons, and the request of sdiag itself.
NOT_ASKED = re.compile(
    r"REQUEST_STATS_INFO|MESSAGE_\w+|REQUEST_COMPLETE_\w+|REQUEST_STEP_\w+|RESPONSE_\w+|REQUEST_PING"
)
CALL = re.compile(r"^\s*([A-Z][A-Z_0-9]+)\s+\(\s*\d+\) count:(\d+)", re.MULTILINE)


def plan(bench: Bench) -> Iterator[Row]:
    """Say what would be done of one spec, beside the same spec on this machine.

    The facts of a cluster would come from Slurm's commands, whose CPU time would count, so there are none here.
    """
    settings = {
        "workspace": "/nowhere",
        "python": sys.executable,
    }  # so that no script looks for a Python
    local, there = _job(bench, "local", {}), _job(bench, "slurm", settings)
    with _slurm(bench) as cluster:
        nothing = {"SLURM_CONF": str(bench.room / "none"), "PATH": str(_without_slurm(bench))}
        for where, env in (("", dict(cluster.env)), (", no Slurm here", nothing)):
            mine, theirs = bench.in_turns(
                _ours(bench, "plan", there), _ours(bench, "plan", local), more=env
            )
            what, name = f"plan for slurm{where}", "plan for local"
            yield Row(f"{what}, CPU", mine.cpu_s, "s", name, theirs.cpu_s, at_most=1.1)
            yield Row(f"{what}, wall", mine.wall_s, "s", name, theirs.wall_s)


def apply(bench: Bench) -> Iterator[Row]:
    """Run a job of one Python program that prints a line, from start to exit, in a clean environment.

    Once on the cluster of rehearsals, and once on one with Slurm's own pauses before a job starts.
    """
    for named, more in (("", {}), (", Slurm's defaults", DEFAULTS)):
        with _slurm(bench, more=more) as cluster:
            yield from _applied(bench, cluster, "clean", named)


def login(bench: Bench) -> Iterator[Row]:
    """The same in the environment of a login, as by default: a login shell of this machine begins each job."""
    with _slurm(bench) as cluster:
        yield from _applied(bench, cluster, "login", ", login")


def _applied(bench: Bench, cluster: Cluster, environment: str, named: str) -> Iterator[Row]:
    program = f"print('{LINE}')"
    commands = [
        _apply(bench, environment, program),
        _bare(bench, environment, program),
        _submitit(bench, program),
    ]
    mine, bare, submitit = _rounds(bench, cluster, commands, bench.rounds)
    what = f"apply{named}"
    yield Row(f"{what}, wall", mine.wall_s, "s", "sbatch, squeue", bare.wall_s, at_most=1.2)
    yield Row(f"{what}, wall", mine.wall_s, "s", "submitit", submitit.wall_s, at_most=1.0)
    yield Row(f"{what}, CPU of the client", mine.cpu_s, "s", "sbatch, squeue", bare.cpu_s)
    yield Row(f"{what}, CPU of the client", mine.cpu_s, "s", "submitit", submitit.cpu_s)
    yield Row(f"{what}, lines lost in {mine.runs} runs", mine.lost, "", "submitit", submitit.lost)


def array(bench: Bench) -> Iterator[Row]:
    """Run a sweep as one array, to its end; each task is a Python program that prints a line.

    One of 1,000 is measured once: it takes minutes, and has as many tasks as 25 rounds of the others.
    """
    count = QUICK_TASKS if bench.rounds <= QUICK_ROUNDS else TASKS
    yield from _swept(bench, count, f"print('{LINE}')", "")


def lasting(bench: Bench) -> Iterator[Row]:
    """The same with tasks that sleep for some seconds; as many run at once as the cluster has processors."""
    program = f"import time; time.sleep({LASTING_S}); print('{LINE}')"
    yield from _swept(bench, QUICK_TASKS, program, f" of {LASTING_S} s")


def job_by_default(bench: Bench) -> Iterator[Row]:
    """Run a job of one Python program that prints a line, with no settings: beside plain sbatch, and submitit."""
    yield from _by_default(bench, 1)


def array_by_default(bench: Bench) -> Iterator[Row]:
    """The same of an array of 200 tasks."""
    yield from _by_default(bench, SOME_TASKS)


def large_array_by_default(bench: Bench) -> Iterator[Row]:
    """The same of an array of 1,000 tasks, which takes minutes."""
    yield from _by_default(bench, TASKS)


def _by_default(bench: Bench, count: int) -> Iterator[Row]:
    program = f"print('{LINE}')"
    commands = [
        _apply(bench, None, program, more={"sweep": {"seed": f"1..{count}"}} if count > 1 else {}),
        _bare(bench, None, program, *([f"--array=0-{count - 1}"] if count > 1 else [])),
        _submitit(bench, program, count),
    ]
    with _slurm(bench, shape=Shape(cpus=2)) as cluster:
        mine, bare, submitit = _rounds(bench, cluster, commands, bench.rounds)
    what = f"array of {count:,}, defaults" if count > 1 else "job, defaults"
    most = 1.5 if count > 1 else None
    yield Row(f"{what}, wall", mine.wall_s, "s", "sbatch", bare.wall_s, at_most=most)
    yield Row(f"{what}, wall", mine.wall_s, "s", "submitit", submitit.wall_s, at_most=1.0)
    yield Row(f"{what}, lines lost in {mine.runs} runs", mine.lost, "", "submitit", submitit.lost)


def _swept(bench: Bench, count: int, program: str, named: str) -> Iterator[Row]:
    sweep = {"sweep": {"seed": f"1..{count}"}}
    commands = [
        _apply(bench, "clean", program, more=sweep),
        _bare(bench, "clean", program, f"--array=0-{count - 1}"),
    ]
    with _slurm(bench, shape=Shape(cpus=2)) as cluster:
        mine, theirs = _rounds(bench, cluster, commands, bench.rounds if count < TASKS else 1)
    what = f"array of {count:,}{named}"
    yield Row(f"{what}, wall", mine.wall_s, "s", "sbatch --array", theirs.wall_s, at_most=1.1)
    yield Row(f"{what}, CPU of the client", mine.cpu_s, "s", "sbatch --array", theirs.cpu_s)


def calls(bench: Bench) -> Iterator[Row]:
    """Count what the controller is asked to submit a job, and an array of 1,000: nothing is timed."""
    with _slurm(bench) as cluster:
        for what, count in (("job", 1), (f"sweep of {TASKS:,}", TASKS)):
            sweep = {"sweep": {"seed": f"1..{count}"}}
            command = _apply(bench, "clean", "pass", "--detach", sbatch=["--hold"], more=sweep)
            before = asked(cluster)
            Sample.of(command, {**bench.env, **cluster.env})
            found = asked(cluster) - before
            cluster.run("scancel", f"--user={cluster.user}")
            yield Row(f"{what}, calls of the controller", found.total(), "")
            for kind, number in sorted(found.items()):
                yield Row(f"{what}, {kind}", number, "")


def follow(bench: Bench) -> Iterator[Row]:
    """Count what the controller is asked by who follows a job that prints nothing, in its first minute."""
    with _slurm(bench) as cluster:
        env = {**bench.env, **cluster.env}
        command = _apply(bench, "clean", "import time; time.sleep(600)", "--detach")
        run = re.findall(r"\bline-[a-z0-9]+\b", Sample.of(command, env).output)[-1]
        _until_running(cluster)
        mine = _asked_by(cluster, _ours(bench, "logs", "--follow", run), env)
        cluster.run("scancel", f"--user={cluster.user}")
        theirs = _asked_by(
            cluster, _submitit(bench, "__import__('time').sleep(600)"), env, STARTED_S
        )
        cluster.run("scancel", f"--user={cluster.user}")
    per = 60 / FOLLOWED_S
    yield Row("following, calls a minute", mine.total() * per, "", "submitit", theirs.total() * per)
    for name, found in (("following", mine), ("submitit", theirs)):
        for kind, number in sorted(found.items()):
            yield Row(f"{name}, {kind}", number * per, "")


def asked(cluster: Cluster) -> Counter[str]:
    """Give how often commands have asked the controller for each thing since it began: sdiag(1)."""
    said = cluster.run("sdiag")
    kinds = said.partition("by message type")[2].partition("by user")[0]
    found = {kind: int(count) for kind, count in CALL.findall(kinds)}
    return Counter({kind: n for kind, n in found.items() if not NOT_ASKED.fullmatch(kind)})


def _asked_by(
    cluster: Cluster, command: Command, env: Mapping[str, str], settle_s: float = 0
) -> Counter[str]:
    """Give what is asked in FOLLOWED_S while *command* runs, from *settle_s* after its start."""
    null = subprocess.DEVNULL
    before = asked(cluster)
    with subprocess.Popen(
        command.argv, stdin=null, stdout=null, stderr=null, cwd=command.cwd, env=env
    ) as follower:
        if settle_s:
            _until_running(cluster)
            before = asked(cluster)
        time.sleep(FOLLOWED_S)
        found = asked(cluster) - before
        if follower.poll() is not None:
            raise RuntimeError(f"who follows has ended: exit {follower.returncode}")
        follower.kill()
    return found


def _until_running(cluster: Cluster) -> None:
    end = time.monotonic() + UP_S
    while "RUNNING" not in cluster.run("squeue", "--noheader", "--format=%T"):
        if time.monotonic() > end:
            raise RuntimeError("the job does not begin")
        time.sleep(0.2)


def _rounds(
    bench: Bench, cluster: Cluster, commands: Sequence[Command], rounds: int
) -> tuple[Timing, ...]:
    env = {**bench.env, **cluster.env}
    return in_rounds(commands, rounds, lambda: contextlib.nullcontext(env), BEAT_S)


def _slurm(bench: Bench, **settings: Any) -> AbstractContextManager[Cluster]:
    return Cluster(bench.room / f"slurm-{time.monotonic_ns()}", **settings)


def _apply(
    bench: Bench,
    environment: str | None,
    program: str,
    *options: str,
    sbatch: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> Command:
    settings = {
        "workspace": str(bench.room / "workspace"),
        "python": sys.executable,
        "sbatch": list(sbatch),
        **({"environment": environment} if environment else {}),
    }
    spec = {
        "apiVersion": "runspec/v1",
        "name": "line",
        "provider": "slurm",
        "command": [sys.executable, "-c", program],
        **(more or {}),
    }
    path = bench.job(f"line-{time.monotonic_ns()}", json.dumps(spec), "slurm", settings)
    return Command((*_ours(bench, "apply", "--new", *options).argv, path), LINE, bench.room)


def _bare(bench: Bench, environment: str | None, program: str, *words: str) -> Command:
    script = bench.room / "bare.sh"
    script.write_text(BARE)
    export = EXPORTS[environment] if environment else ""
    argv = ("/bin/sh", str(script), export, sys.executable, program, *(words or ("",)))
    return Command(argv, LINE, bench.room)


def _submitit(bench: Bench, program: str, count: int = 1) -> Command:
    """Time submitit until the file with the result exists, which takes no call of sacct: that fails here."""
    script = bench.room / "slurm-line.py"
    script.write_text(SUBMITIT)
    python = peer("submitit").command("python")
    # Files are named by the job's number, and each cluster counts from 1.
    folder = str(bench.room / f"submitit-{time.monotonic_ns()}")
    return Command((python, str(script), folder, program, str(count)), LINE, bench.room)


def _ours(bench: Bench, *words: str) -> Command:
    return Command((ours(bench.room).command("runspec"), *words), cwd=bench.room)


def _job(bench: Bench, provider: str, settings: Mapping[str, Any]) -> str:
    """Give the spec of all figures for *provider*, with what its profile would say."""
    text = (ROOT / "bench" / "job.yaml").read_text()
    text = text.replace("provider: local", f"provider: {provider}")
    return bench.job(f"plan-of-{provider}-{time.monotonic_ns()}", text, provider, settings)


def _without_slurm(bench: Bench) -> Path:
    """Give a folder with what a shell needs, and no command of Slurm."""
    folder = bench.room / "bin"
    folder.mkdir(exist_ok=True)
    for name in ("sh", "env", "sed", "grep"):
        with contextlib.suppress(FileExistsError):
            (folder / name).symlink_to(packaged(f"/bin/{name}", "coreutils"))
    return folder
