"""The commands and their options. Building the parser imports no module that carries out a command."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.errors import UsageError

SHELLS = ("bash", "zsh", "fish")
FORMATS = ("text", "json", "github")

Make = Callable[..., ArgumentParser]


class Parser(ArgumentParser):
    """An argument parser that raises UsageError instead of printing the error and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message[:1].lower() + message[1:], f"see {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            words = [str(choice) for choice in action.choices]
            hint = did_you_mean(str(value), words) or f"choose one of {', '.join(words)}"
            option = (action.option_strings or [action.dest])[0]
            if action.dest == "verb":
                raise UsageError(f"runspec has no command '{value}'", hint)
            raise UsageError(f"{option}: invalid value '{value}'", hint)


class VerbParser(Parser):
    """A parser of one command that accepts options before, between and after its arguments."""

    _intermixing = False

    def parse_known_args(  # type: ignore[override]  # its overloads say that a namespace may be of any class
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse with `parse_known_intermixed_args`, which argparse itself never calls for subparsers.

        Otherwise, the first positional argument ends the list of those that follow it: an option between two arguments
        would leave the second one unrecognized. Before Python 3.13, `parse_known_intermixed_args` calls this method
        again, and it does not support `--`, after which no word is an option.
        """
        if self._intermixing or "--" in (args or ()):
            return super().parse_known_args(args, namespace)
        self._intermixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._intermixing = False


def parser(verb: str = "") -> ArgumentParser:
    """Return the parser of the whole command line, or, to save time, of the group of commands that *verb* is in."""
    top = Parser(
        prog="runspec",
        description="runspec apply job.yaml\n\n"
        "One YAML file describes a job; runspec runs it on this machine or on a batch\n"
        "service. To see the options of a command: runspec COMMAND --help",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="print the version")
    top.add_argument(
        "--no-color", action="store_true", help="print without colours (as if NO_COLOR were set)"
    )
    verbs = top.add_subparsers(dest="verb", metavar="COMMAND", parser_class=VerbParser)

    def make(name: str, example: str, what: str, *, json: bool = True) -> ArgumentParser:
        verb = verbs.add_parser(
            name,
            help=what,
            description=f"{example}\n\n{what[:1].upper()}{what[1:]}.",
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if json:
            verb.add_argument("--json", action="store_true", help="print the result as JSON")
        return verb

    for group in [group for group, names in GROUPS.items() if verb in names] or GROUPS:
        group(make)
    return top


def _before(make: Make) -> None:
    init = make("init", "runspec init", "write a first spec, for you to edit")
    init.add_argument(
        "file",
        nargs="?",
        default="job.yaml",
        metavar="FILE",
        help="the file to write (default: job.yaml)",
    )
    init.add_argument(
        "--provider",
        default="local",
        metavar="NAME",
        help="the provider of the spec (default: local)",
    )
    validate = make("validate", "runspec validate job.yaml", "check specs; contact no service")
    validate.add_argument(
        "files", nargs="+", metavar="FILE", help="spec files; - is standard input"
    )
    validate.add_argument(
        "--quiet", "-q", action="store_true", help="print nothing about valid specs"
    )
    _format(validate)
    plan = make("plan", "runspec plan job.yaml", "show every request that apply would make")
    plan.add_argument("file", metavar="FILE", help="the spec")
    plan.add_argument(
        "--provider", metavar="NAME", help="plan for this provider, not for the one in the spec"
    )
    plan.add_argument(
        "--export",
        metavar="FOLDER",
        help="write the plan to this folder as files for the service's own tool",
    )
    plan.add_argument(
        "--diff", action="store_true", help="show the changes since the last applied plan"
    )
    plan.add_argument(
        "--detailed-exitcode", action="store_true", help="exit with code 3 if there are changes"
    )
    plan.add_argument(
        "--smoke", action="store_true", help="plan the spec's smoke test, not its job"
    )
    _format(plan)
    imported = make(
        "import", "runspec import job.json", "convert another tool's job file to a spec"
    )
    imported.add_argument("file", metavar="FILE", help="the job file")
    imported.add_argument("--cluster", metavar="FILE", help="the file that describes the cluster")
    imported.add_argument(
        "--provider",
        default="azure-batch-ai",
        metavar="NAME",
        help="the provider that reads the files (default: azure-batch-ai)",
    )
    imported.add_argument(
        "--to", metavar="FOLDER", help="write job.yaml and runspec-profile.yaml to this folder"
    )
    trust = make(
        "trust",
        "runspec trust runspec-profile.yaml",
        "trust a profile in a checkout until it changes",
    )
    trust.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="the profile (default: the one that applies in this folder)",
    )
    which = trust.add_mutually_exclusive_group()
    which.add_argument("--list", "-l", action="store_true", help="list the trusted profiles")
    which.add_argument("--remove", action="store_true", help="stop trusting the profile")


def _format(verb: ArgumentParser) -> None:
    verb.add_argument(
        "--output-format",
        choices=FORMATS,
        default="text",
        help="the format of reported problems (default: text)",
    )


def _making(make: Make) -> None:
    apply = make("apply", "runspec apply job.yaml", "run a spec and follow it until it ends")
    apply.add_argument("file", metavar="FILE", help="the spec")
    apply.add_argument(
        "--detach", "-d", action="store_true", help="return as soon as the run is submitted"
    )
    apply.add_argument(
        "--new",
        action="store_true",
        help="start another run, even if one is alive or has succeeded",
    )
    _smoke(apply)
    _timeout(apply)
    _format(apply)


def _rehearsing(make: Make) -> None:
    rehearse = make(
        "rehearse",
        "runspec rehearse job.yaml",
        "run a cloud job on this machine, against emulators",
    )
    rehearse.add_argument("file", metavar="FILE", help="the spec")
    rehearse.add_argument(
        "--engine",
        choices=("process", "podman"),
        help="run the job in processes or in podman containers",
    )
    rehearse.add_argument(
        "--folder", metavar="FOLDER", help="keep the outputs and the logs in this folder"
    )
    _smoke(rehearse)
    _format(rehearse)


def _smoke(verb: ArgumentParser) -> None:
    verb.add_argument(
        "--smoke",
        action="store_true",
        help="run the spec's smoke test first, and the job only if it succeeds",
    )


def _timeout(verb: ArgumentParser) -> None:
    verb.add_argument(
        "--timeout", metavar="TIME", help="stop waiting after a time such as 10m; the job goes on"
    )


def _run(verb: ArgumentParser) -> None:
    verb.add_argument(
        "run",
        metavar="RUN",
        help="a run such as mnist-7k2m9p, or the name of a spec: its newest run that is alive, "
        "or else its newest run",
    )


def _looking(make: Make) -> None:
    listing = make("list", "runspec list", "list the runs of this machine")
    which = listing.add_mutually_exclusive_group()
    which.add_argument("--all", "-a", action="store_true", help="also list destroyed runs")
    which.add_argument(
        "--remote",
        action="store_true",
        help="list runs of other machines that can be adopted, not the runs of this machine",
    )
    _run(
        make(
            "status",
            "runspec status mnist",
            "show the state of a run, and the reason for that state",
        )
    )
    logs = make("logs", "runspec logs -f mnist", "print the log of a run")
    _run(logs)
    logs.add_argument(
        "--follow", "-f", action="store_true", help="print new lines until the run has ended"
    )
    logs.add_argument(
        "--save",
        metavar="PATH",
        help="save an exact copy of the log to this file or, for several nodes or tasks, to this folder",
    )
    logs.add_argument("--node", type=int, metavar="N", help="only node N, counted from 0")
    logs.add_argument(
        "--task", type=int, metavar="N", help="only task N of a sweep, counted from 0"
    )
    _timeout(logs)
    fetch = make("fetch", "runspec fetch mnist out/", "copy the outputs of a run to this machine")
    _run(fetch)
    fetch.add_argument(
        "to", nargs="?", metavar="FOLDER", help="where to copy them (default: ./RUN)"
    )
    fetch.add_argument("--output", metavar="NAME", help="copy only this output")
    fetch.add_argument(
        "--save",
        type=int,
        metavar="N",
        help="copy save number N instead of the last one, if the spec's `keep` keeps it",
    )


def _reporting(make: Make) -> None:
    report = make(
        "report",
        "runspec report lr-search\nrunspec report --points specs/scaling/resnet50-imagenet.json",
        "rank the tasks of a sweep, compare numbers of nodes, or show what membership changes cost",
    )
    report.add_argument("run", nargs="?", metavar="RUN", help="a run, or the name of a spec")
    report.add_argument("--html", metavar="FILE", help="also write the report as an HTML page")
    report.add_argument(
        "--spec", metavar="FILE", help="use the metric of this spec, not of the run's spec"
    )
    report.add_argument(
        "--points",
        metavar="FILE",
        help="compare the measurements in this JSON file, not those of a run",
    )
    report.add_argument(
        "--follow",
        "-f",
        action="store_true",
        help="wait until the run has ended; stop the other tasks as metric.stop in the spec says",
    )
    report.add_argument(
        "--stop-rest", action="store_true", help="stop all tasks except the best one so far"
    )
    report.add_argument(
        "--baseline",
        metavar="SIZE",
        help="the number of nodes that the others are compared with (default: the smallest)",
    )
    report.add_argument(
        "--price-per-node-hour",
        metavar="PRICE",
        help="price of a node for an hour, in any currency: also report the cost at each size "
        "of the job",
    )
    report.add_argument(
        "--samples", metavar="N", help="samples of a whole job: also report its time at each size"
    )
    _timeout(report)


def _entering(make: Make) -> None:
    shell = make(
        "shell",
        "runspec shell mnist\nrunspec shell mnist -- nvidia-smi",
        "open a shell on a node, or run on it the command that follows --",
        json=False,
    )
    _run(shell)
    _node(shell)
    tunnel = make(
        "tunnel", "runspec tunnel mnist 8888", "forward a port of this machine to a node of a run"
    )
    _run(tunnel)
    tunnel.add_argument(
        "port",
        metavar="[LOCAL:]PORT",
        help="PORT of the node; LOCAL is the port of this machine (default: PORT if it is free; "
        "0: any free port)",
    )
    _node(tunnel)


def _node(verb: ArgumentParser) -> None:
    verb.add_argument(
        "--node", type=int, metavar="N", help="node N (default: the first that is running)"
    )
    verb.add_argument(
        "--task",
        type=int,
        metavar="N",
        help="task N of a sweep (default: the first task in which the node is running)",
    )


def parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate the command that `runspec shell` is to start, after the first `--`, from runspec's own words.

    >>> parted(["shell", "mnist", "--", "git", "log", "--", "x"])
    (['shell', 'mnist'], ['git', 'log', '--', 'x'])
    """
    own = list(words)
    verb = next((word for word in own if not word.startswith("-")), "")
    if verb != "shell" or "--" not in own:
        return own, []
    at = own.index("--")
    return own[:at], own[at + 1 :]


def _adopting(make: Make) -> None:
    adopt = make(
        "adopt",
        "runspec adopt aws-batch\nrunspec adopt aws-batch mnist-7k2m9p",
        "copy the records of other machines' runs from the store",
    )
    adopt.add_argument("provider", metavar="PROVIDER", help="the provider of the run")
    adopt.add_argument(
        "run", nargs="?", metavar="RUN", help="the run (default: all that have no record here)"
    )


def _ending(make: Make) -> None:
    cancel = make("cancel", "runspec cancel mnist", "cancel a run, and wait until it has ended")
    _run(cancel)
    destroy = make(
        "destroy",
        "runspec destroy mnist\nrunspec destroy --site",
        "cancel a run and delete everything that was made for it alone",
    )
    destroy.add_argument("run", nargs="?", metavar="RUN", help="a run, or the name of a spec")
    gc = make(
        "gc",
        "runspec gc aws-batch",
        "find resources of runspec that no local record mentions",
    )
    gc.add_argument("provider", metavar="PROVIDER", help="the provider to search")
    gc.add_argument("--yes", action="store_true", help="delete these resources")
    gc.add_argument(
        "--alive",
        action="store_true",
        help="with --yes: also cancel jobs that are alive and that no local record mentions",
    )
    destroy.add_argument(
        "--site",
        action="store_true",
        help="delete the resources that runs share (environments, uploads, queues), not a run",
    )


def _around(make: Make) -> None:
    doctor = make(
        "doctor",
        "runspec doctor aws-batch",
        "check this machine and your account for what would stop a job",
    )
    doctor.add_argument(
        "provider", nargs="?", metavar="PROVIDER", help="check only this provider (default: all)"
    )
    doctor.add_argument(
        "--node",
        action="store_true",
        help="also check from a node; this allocates a machine for a short time",
    )
    doctor.add_argument(
        "--probe",
        action="store_true",
        help="test, in your own account, what runspec assumes about the service "
        "(docs/unverified.md)",
    )
    doctor.add_argument("--only", metavar="ID,...", help="with --probe: run only these probes")
    doctor.add_argument(
        "--yes", action="store_true", help="with --probe: do not ask for confirmation"
    )
    policy = make(
        "policy", "runspec policy job.yaml", "print the minimal permissions that a plan needs"
    )
    policy.add_argument("file", metavar="FILE", help="the spec")
    policy.add_argument(
        "--job",
        action="store_true",
        help="print the permissions that the job itself needs, not those of its user",
    )
    _format(policy)
    schema = make(
        "schema", "runspec schema > job.schema.json", "print the JSON Schema of specs", json=False
    )
    schema.add_argument(
        "--reference",
        action="store_true",
        help="print the reference page in Markdown, not the JSON Schema",
    )
    make("providers", "runspec providers", "list the providers")
    completion = make(
        "completion",
        'eval "$(runspec completion bash)"',
        "print a script with completions for bash, zsh or fish",
        json=False,
    )
    completion.add_argument("shell", choices=SHELLS, help="your shell")


def _simulating(make: Make) -> None:
    simulate = make(
        "simulate",
        "runspec simulate job.yaml --prices prices.csv --scaling scaling.yaml --samples 60000",
        "estimate the time and cost of a job, fixed and elastic",
    )
    simulate.add_argument("file", metavar="FILE", help="the spec")
    simulate.add_argument(
        "--prices",
        metavar="FILE",
        required=True,
        help="machines: price, number and interruptions, as YAML or CSV",
    )
    simulate.add_argument(
        "--scaling",
        metavar="FILE",
        required=True,
        help="samples per second by number of nodes, as YAML or JSON",
    )
    simulate.add_argument(
        "--series", metavar="NAME", help="which series of the --scaling file, if it has several"
    )
    simulate.add_argument(
        "--samples", metavar="N", type=_count, required=True, help="samples of one epoch"
    )
    simulate.add_argument(
        "--epochs", metavar="N", type=_count, default=1, help="number of epochs (default: 1)"
    )
    simulate.add_argument(
        "--fixed",
        metavar="N",
        type=_count,
        help="number of nodes of the jobs of fixed size (default: the spec's largest number)",
    )
    simulate.add_argument(
        "--take",
        metavar="POOL=N,...",
        help="use at most N nodes of each of these pools of the --prices file, in this order of preference "
        "(default: as the spec's capacity says)",
    )
    simulate.add_argument(
        "--join",
        metavar="TIME",
        default="10s",
        help="time without work after a node joined (default: 10s)",
    )
    simulate.add_argument(
        "--loss",
        metavar="TIME",
        default="15s",
        help="time without work after a node left or was lost (default: 15s)",
    )
    simulate.add_argument(
        "--checkpoint",
        metavar="TIME",
        help="time between two saves (default: the shortest sync of the outputs)",
    )
    simulate.add_argument(
        "--runs",
        metavar="N",
        type=_count,
        help="number of simulated runs if something is drawn at random (default: 200)",
    )
    simulate.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of the random draws (default: 0)"
    )
    _format(simulate)


def _count(text: str) -> int:
    try:
        count = int(text.replace(",", ""))
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return count


GROUPS: Mapping[Callable[[Make], None], Collection[str]] = {
    _before: ("init", "validate", "plan", "import", "trust"),
    _simulating: ("simulate",),
    _making: ("apply",),
    _rehearsing: ("rehearse",),
    _looking: ("list", "status", "logs", "fetch"),
    _reporting: ("report",),
    _entering: ("shell", "tunnel"),
    _adopting: ("adopt",),
    _ending: ("cancel", "destroy", "gc"),
    _around: ("doctor", "policy", "schema", "providers", "completion"),
}
