"""The verbs of runspec: a table, so that listing them imports nothing that carries one out."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Mapping

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.options.declare import Options

WRITE, RUN, WATCH, CLEAN_UP, SET_UP = "Write", "Run", "Watch", "Clean up", "Set up"


class Verb(NamedTuple):
    """A verb: its group in the help, the module with its options, the module that carries it out, one line of help.

    The options of `logs` are the class `LogsOptions`. The function `logs`, or `logs_`, carries it out, and returns the
    exit code.
    """

    group: str
    options: str
    module: str
    help: str
    takes_command: bool = False  # the words after `--` are a command of the user

    @property
    def title(self) -> str:
        """The line of help as a sentence."""
        return f"{self.help[:1].upper()}{self.help[1:]}."


VERBS: Mapping[str, Verb] = {
    "init": Verb(WRITE, "spec_verbs", "init", "write a first spec, for you to edit"),
    "validate": Verb(WRITE, "spec_verbs", "validate", "check specs; contact no service"),
    "plan": Verb(
        WRITE, "spec_verbs", "plan", "show every request that apply would make", takes_command=True
    ),
    "simulate": Verb(
        WRITE, "start_verbs", "simulate", "estimate the time and cost of a job, fixed and elastic"
    ),
    "import": Verb(WRITE, "spec_verbs", "import_", "convert another tool's job file to a spec"),
    "schema": Verb(
        WRITE, "spec_verbs", "lookup", "print the JSON Schema of specs, or of a format of --json"
    ),
    "apply": Verb(
        RUN, "start_verbs", "apply", "run a spec and follow it until it ends", takes_command=True
    ),
    "rehearse": Verb(
        RUN,
        "start_verbs",
        "rehearse",
        "run a cloud job on this machine, against emulators",
        takes_command=True,
    ),
    "resize": Verb(
        RUN, "run_verbs", "destroy", "change how many nodes an elastic run has while it goes on"
    ),
    "release": Verb(
        RUN,
        "run_verbs",
        "destroy",
        "have nodes of an elastic run save and leave while the others go on",
    ),
    "list": Verb(WATCH, "watch_verbs", "status", "list the runs of this machine"),
    "status": Verb(
        WATCH, "watch_verbs", "status", "show the state of a run, and the reason for that state"
    ),
    "logs": Verb(WATCH, "watch_verbs", "status", "print the log of a run"),
    "report": Verb(
        WATCH,
        "watch_verbs",
        "report",
        "rank the tasks of a sweep, compare numbers of nodes, or show what membership changes cost",
    ),
    "cost": Verb(WATCH, "watch_verbs", "spending", "show what the runs of this machine have cost"),
    "prices": Verb(
        WATCH,
        "watch_verbs",
        "spending",
        "show the prices that were read from price lists, or read them",
    ),
    "outputs": Verb(
        WATCH,
        "run_verbs",
        "fetch",
        "list the saved files of a run with their sizes, times and saves",
    ),
    "fetch": Verb(WATCH, "run_verbs", "fetch", "copy the outputs of a run to this machine"),
    "shell": Verb(
        WATCH,
        "run_verbs",
        "shell",
        "open a shell on a node, or run on it the command that follows --",
        takes_command=True,
    ),
    "tunnel": Verb(
        WATCH, "run_verbs", "shell", "forward a port of this machine to a node of a run"
    ),
    "adopt": Verb(
        WATCH, "run_verbs", "adopt", "copy the records of other machines' runs from the store"
    ),
    "explain": Verb(
        WATCH,
        "setup_verbs",
        "lookup",
        "explain an exit code, a state, a term, a field or a message",
    ),
    "docs": Verb(
        WATCH, "setup_verbs", "lookup", "show a page of the documentation, or list the pages"
    ),
    "cancel": Verb(CLEAN_UP, "run_verbs", "destroy", "cancel a run, and wait until it has ended"),
    "destroy": Verb(
        CLEAN_UP,
        "run_verbs",
        "destroy",
        "cancel a run and delete everything that was made for it alone",
    ),
    "gc": Verb(
        CLEAN_UP, "run_verbs", "cleanup", "find resources of runspec that no local record mentions"
    ),
    "setup": Verb(
        SET_UP,
        "setup_verbs",
        "setup",
        "make what your account lacks before its first job, and write the profile",
    ),
    "doctor": Verb(
        SET_UP,
        "setup_verbs",
        "doctor",
        "check this machine and your account for what would stop a job",
    ),
    "providers": Verb(SET_UP, "setup_verbs", "lookup", "list the providers"),
    "policy": Verb(
        SET_UP, "setup_verbs", "cleanup", "print the minimal permissions that a plan needs"
    ),
    "trust": Verb(SET_UP, "setup_verbs", "setup", "trust a profile in a checkout until it changes"),
    "completion": Verb(
        SET_UP,
        "setup_verbs",
        "commands.help",
        "print a script with completions for bash, zsh, fish or powershell",
    ),
    "help": Verb(
        SET_UP, "setup_verbs", "commands.help", "show the commands, or the options of one"
    ),
    "version": Verb(SET_UP, "setup_verbs", "commands.help", "print the version"),
}
ALIASES: Mapping[str, str] = {"ls": "list", "rm": "destroy"}
# Verbs of other tools, and what to type here. None leads to a verb that deletes.
FOREIGN: Mapping[str, str] = {
    **dict.fromkeys(("run", "submit", "start", "launch", "up", "create", "sbatch"), "apply"),
    **dict.fromkeys(("ps", "jobs", "queue", "squeue", "history", "runs"), "list"),
    **dict.fromkeys(("kill", "stop", "abort", "scancel", "terminate", "down", "delete"), "cancel"),
    **dict.fromkeys(("remove", "del", "drop", "undo", "qdel", "bkill"), "cancel"),
    **dict.fromkeys(("clean", "cleanup", "prune", "purge"), "list"),
    **dict.fromkeys(("ssh", "exec", "attach", "connect"), "shell"),
    **dict.fromkeys(("log", "tail", "watch", "follow"), "logs --follow"),
    **dict.fromkeys(("download", "get", "pull", "cp"), "fetch"),
    **dict.fromkeys(("describe", "info", "show", "top", "inspect"), "status"),
    **dict.fromkeys(("lint", "check"), "validate"),
    **dict.fromkeys(("dry-run", "dryrun", "diff", "preview"), "plan"),
    **dict.fromkeys(("new", "generate", "scaffold"), "init"),
    **dict.fromkeys(("retry", "restart", "resume", "rerun"), "apply --resume"),
    **dict.fromkeys(("forward", "port-forward"), "tunnel"),
    **dict.fromkeys(("estimate", "price"), "plan"),
}


def options_of(verb: str) -> type[Options]:
    """Return the class of the options of *verb*."""
    module = importlib.import_module(f"runspec_jobs.options.{VERBS[verb].options}")
    kind: type[Options] = getattr(module, f"{verb.title()}Options")
    return kind


def carry_out(verb: str, options: Options) -> int:
    """Carry out *verb*, and return the exit code; the module that does it is imported only now."""
    module = importlib.import_module(f"runspec_jobs.cli.{VERBS[verb].module}")
    gc.freeze()  # what was imported is no garbage
    gc.enable()
    # A name may be a keyword of Python, or that of a builtin function.
    code: int = (getattr(module, verb, None) or getattr(module, f"{verb}_"))(options)
    return code
