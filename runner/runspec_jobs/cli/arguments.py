"""The verbs and their options. Building this imports nothing that a verb needs."""

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
    """Tells what is wrong with a command line the way everything else is told."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message[:1].lower() + message[1:], f"see {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            words = [str(choice) for choice in action.choices]
            hint = did_you_mean(str(value), words) or f"one of {', '.join(words)}"
            kind = (
                "verb"
                if action.dest == "verb"
                else f"choice for {(action.option_strings or [action.dest])[0]}"
            )
            raise UsageError(f"'{value}' is no {kind}", hint)


class VerbParser(Parser):
    """Takes options before, between and after the arguments of a verb."""

    _intermixing = False

    def parse_known_args(  # type: ignore[override]  # its overloads say that a namespace may be of any class
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does where it was asked to intermix, which it cannot be for subparsers.

        By itself it gives the first argument it meets to all that may follow: an option between two arguments would
        leave the second over. Before Python 3.13, intermixing calls this method; and it does not know `--`, after which
        no word is an option.
        """
        if self._intermixing or "--" in (args or ()):
            return super().parse_known_args(args, namespace)
        self._intermixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._intermixing = False


def parser(verb: str = "") -> ArgumentParser:
    """Give the parser of the whole command line, or enough of it for *verb*: the rest takes time to make."""
    top = Parser(
        prog="runspec",
        description="runspec apply job.yaml\n\n"
        "One YAML file says what a job needs; runspec runs it on this machine or a batch service.",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="print the version")
    top.add_argument("--no-color", action="store_true", help="no colours; NO_COLOR does the same")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=VerbParser)

    def make(name: str, example: str, what: str, *, json: bool = True) -> ArgumentParser:
        verb = verbs.add_parser(
            name,
            help=what,
            description=f"{example}\n\n{what[:1].upper()}{what[1:]}.",
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if json:
            verb.add_argument("--json", action="store_true", help="print JSON, for programs")
        return verb

    for group in [group for group, names in GROUPS.items() if verb in names] or GROUPS:
        group(make)
    return top


def _before(make: Make) -> None:
    init = make("init", "runspec init", "write a first spec to change")
    init.add_argument("file", nargs="?", default="job.yaml", help="where (job.yaml)")
    init.add_argument("--provider", default="local", help="where it is to run (local)")
    validate = make("validate", "runspec validate job.yaml", "check specs, and touch nothing else")
    validate.add_argument("files", nargs="+", metavar="FILE", help="specs, or - for standard input")
    validate.add_argument("--quiet", "-q", action="store_true", help="say nothing when all is well")
    _format(validate)
    plan = make("plan", "runspec plan job.yaml", "show every request that apply would make")
    plan.add_argument("file", metavar="FILE", help="the spec")
    plan.add_argument("--provider", metavar="NAME", help="plan it for another provider")
    plan.add_argument(
        "--export", metavar="FOLDER", help="write it as files of the service's own tool"
    )
    plan.add_argument(
        "--diff", action="store_true", help="show what changed since the last applied plan"
    )
    plan.add_argument(
        "--detailed-exitcode", action="store_true", help="exit with 3 when there are changes"
    )
    plan.add_argument("--smoke", action="store_true", help="plan the spec's smoke test instead")
    _format(plan)
    taken = make("import", "runspec import job.json", "make a spec of a job file of another tool")
    taken.add_argument("file", metavar="FILE", help="the job file")
    taken.add_argument("--cluster", metavar="FILE", help="the file of its machines")
    taken.add_argument(
        "--provider", default="azure-batch-ai", help="whose files they are (azure-batch-ai)"
    )
    taken.add_argument(
        "--to", metavar="FOLDER", help="write job.yaml and runspec-profile.yaml there"
    )
    trust = make(
        "trust",
        "runspec trust runspec-profile.yaml",
        "trust a profile that came with a checkout, as long as it does not change",
    )
    trust.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="the profile (if not given: the one that counts in this folder)",
    )
    which = trust.add_mutually_exclusive_group()
    which.add_argument(
        "--list", "-l", action="store_true", help="print the profiles that are trusted"
    )
    which.add_argument("--remove", action="store_true", help="no longer trust the profile")


def _format(verb: ArgumentParser) -> None:
    verb.add_argument(
        "--output-format", choices=FORMATS, default="text", help="how problems are printed (text)"
    )


def _making(make: Make) -> None:
    apply = make("apply", "runspec apply job.yaml", "run a spec and follow it to its end")
    apply.add_argument("file", metavar="FILE", help="the spec")
    apply.add_argument("--detach", "-d", action="store_true", help="start it and do not follow")
    apply.add_argument(
        "--new", action="store_true", help="start another run even if one is alive or done"
    )
    _smoke(apply)
    _timeout(apply)
    _format(apply)


def _rehearsing(make: Make) -> None:
    rehearse = make(
        "rehearse", "runspec rehearse job.yaml", "run a cloud job against stand-ins on this machine"
    )
    rehearse.add_argument("file", metavar="FILE", help="the spec")
    rehearse.add_argument("--engine", choices=("process", "podman"), help="what runs the jobs")
    rehearse.add_argument("--folder", metavar="FOLDER", help="keep what it wrote, and the logs")
    _smoke(rehearse)
    _format(rehearse)


def _smoke(verb: ArgumentParser) -> None:
    verb.add_argument(
        "--smoke", action="store_true", help="first have the spec's smoke test succeed on the nodes"
    )


def _timeout(verb: ArgumentParser) -> None:
    verb.add_argument(
        "--timeout", metavar="TIME", help="stop waiting after this long (10m); the job goes on"
    )


def _run(verb: ArgumentParser) -> None:
    verb.add_argument("run", metavar="RUN", help="a run, or the name of a spec for its newest run")


def _looking(make: Make) -> None:
    listing = make("list", "runspec list", "show the runs of this machine")
    which = listing.add_mutually_exclusive_group()
    which.add_argument("--all", "-a", action="store_true", help="destroyed ones as well")
    which.add_argument(
        "--remote", action="store_true", help="instead, runs of other machines that can be adopted"
    )
    _run(make("status", "runspec status mnist", "show how a run stands, and why"))
    logs = make("logs", "runspec logs -f mnist", "show what a run prints")
    _run(logs)
    logs.add_argument("--follow", "-f", action="store_true", help="go on until the run has ended")
    logs.add_argument("--save", metavar="PATH", help="save an exact copy to a file, or a folder")
    logs.add_argument("--node", type=int, metavar="N", help="only node N")
    logs.add_argument("--task", type=int, metavar="N", help="only task N of a sweep")
    _timeout(logs)
    fetch = make("fetch", "runspec fetch mnist out/", "bring back what a run wrote")
    _run(fetch)
    fetch.add_argument("to", nargs="?", metavar="FOLDER", help="where to (./RUN)")
    fetch.add_argument("--output", metavar="NAME", help="only this output")
    fetch.add_argument(
        "--save",
        type=int,
        metavar="N",
        help="save number N, where `keep` keeps more than the last one",
    )


def _reporting(make: Make) -> None:
    report = make(
        "report",
        "runspec report lr-search\nrunspec report --points specs/scaling/resnet50-imagenet.json",
        "rank the tasks of a sweep, tell what changes of nodes cost, or compare sizes",
    )
    report.add_argument("run", nargs="?", metavar="RUN", help="a run, or the name of a spec")
    report.add_argument("--html", metavar="FILE", help="write it as one page, too")
    report.add_argument("--spec", metavar="FILE", help="take the metric from this spec instead")
    report.add_argument("--points", metavar="FILE", help="sizes and their figures, as JSON")
    report.add_argument(
        "--follow",
        "-f",
        action="store_true",
        help="wait for the end; stop the rest as metric.stop says",
    )
    report.add_argument(
        "--stop-rest", action="store_true", help="end now all tasks but the best so far"
    )
    report.add_argument("--baseline", metavar="SIZE", help="compare with this size (the smallest)")
    report.add_argument(
        "--price-per-node-hour", metavar="PRICE", help="what a node costs, in any currency"
    )
    report.add_argument("--samples", metavar="N", help="samples of a whole job: how long it takes")
    _timeout(report)


def _entering(make: Make) -> None:
    shell = make(
        "shell",
        "runspec shell mnist\nrunspec shell mnist -- nvidia-smi",
        "start a shell, or the words after --, where a node works",
        json=False,
    )
    _run(shell)
    _node(shell)
    tunnel = make("tunnel", "runspec tunnel mnist 8888", "bring a port of a node to this machine")
    _run(tunnel)
    tunnel.add_argument(
        "port", metavar="[LOCAL:]PORT", help="the node's, and the one here (the same; 0 is any)"
    )
    _node(tunnel)


def _node(verb: ArgumentParser) -> None:
    verb.add_argument("--node", type=int, metavar="N", help="node N (the first that runs)")
    verb.add_argument(
        "--task", type=int, metavar="N", help="task N of a sweep (the first that runs)"
    )


def parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Take off what is no word of ours: what a shell is to start, after the first `--`.

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
        "take up runs that another machine began, or whose state is lost here",
    )
    adopt.add_argument("provider", metavar="PROVIDER", help="where they run")
    adopt.add_argument(
        "run", nargs="?", metavar="RUN", help="only this one (all that are not here)"
    )


def _ending(make: Make) -> None:
    cancel = make("cancel", "runspec cancel mnist", "end a run, and wait until it has ended")
    _run(cancel)
    destroy = make(
        "destroy", "runspec destroy mnist", "end a run and take away all that it made for itself"
    )
    destroy.add_argument("run", nargs="?", metavar="RUN", help="a run, or the name of a spec")
    gc = make("gc", "runspec gc aws-batch", "find what no record knows, and take it away")
    gc.add_argument("provider", metavar="PROVIDER", help="where to look")
    gc.add_argument("--yes", action="store_true", help="take away what was found")
    gc.add_argument("--alive", action="store_true", help="what a job that is alive needs, too")
    destroy.add_argument(
        "--site", action="store_true", help="all that runs share: environments, uploads, queues"
    )


def _around(make: Make) -> None:
    doctor = make("doctor", "runspec doctor", "look for what would stop a job")
    doctor.add_argument("provider", nargs="?", metavar="PROVIDER", help="only this one")
    doctor.add_argument(
        "--node", action="store_true", help="from one node, too, which takes a machine for a moment"
    )
    doctor.add_argument(
        "--probe",
        action="store_true",
        help="try out in your own account what runspec believes of the service (docs/unverified.md)",
    )
    doctor.add_argument(
        "--only", metavar="ID,...", help="with --probe: carry out only these probes"
    )
    doctor.add_argument("--yes", action="store_true", help="with --probe: do not ask first")
    policy = make("policy", "runspec policy job.yaml", "print the least rights that a plan needs")
    policy.add_argument("file", metavar="FILE", help="the spec")
    policy.add_argument("--job", action="store_true", help="those of what runs in the job")
    _format(policy)
    schema = make(
        "schema", "runspec schema > job.schema.json", "print the JSON Schema of specs", json=False
    )
    schema.add_argument("--reference", action="store_true", help="the reference page instead")
    make("providers", "runspec providers", "show what jobs can run on")
    completion = make(
        "completion",
        'eval "$(runspec completion bash)"',
        "print what makes a shell complete runspec's words",
        json=False,
    )
    completion.add_argument("shell", choices=SHELLS, help="which shell")


def _simulating(make: Make) -> None:
    simulate = make(
        "simulate",
        "runspec simulate job.yaml --prices prices.csv --scaling scaling.yaml --samples 60000",
        "tell when a job would finish and what it would cost, fixed and elastic",
    )
    simulate.add_argument("file", metavar="FILE", help="the spec")
    simulate.add_argument(
        "--prices", metavar="FILE", required=True, help="prices and interruptions, YAML or .csv"
    )
    simulate.add_argument(
        "--scaling", metavar="FILE", required=True, help="samples a second by nodes, YAML or JSON"
    )
    simulate.add_argument("--series", metavar="NAME", help="which series of a report, of several")
    simulate.add_argument(
        "--samples", metavar="N", type=_count, required=True, help="samples of an epoch"
    )
    simulate.add_argument("--epochs", metavar="N", type=_count, default=1, help="epochs (1)")
    simulate.add_argument(
        "--fixed", metavar="N", type=_count, help="nodes of the fixed cluster (the spec's most)"
    )
    simulate.add_argument(
        "--take", metavar="POOL=N,...", help="how many nodes of which pool, first ones first"
    )
    simulate.add_argument(
        "--join", metavar="TIME", default="10s", help="no work after a node came (10s)"
    )
    simulate.add_argument(
        "--loss", metavar="TIME", default="15s", help="no work after a node went (15s)"
    )
    simulate.add_argument(
        "--checkpoint", metavar="TIME", help="between two saves (the shortest sync of the outputs)"
    )
    simulate.add_argument(
        "--runs", metavar="N", type=_count, help="how often, where something is drawn (200)"
    )
    simulate.add_argument("--seed", metavar="N", type=int, default=0, help="of what is drawn (0)")
    _format(simulate)


def _count(text: str) -> int:
    count = int(text.replace(",", ""))
    if count < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is below 1")
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
