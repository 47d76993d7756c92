"""Options and arguments that several verbs share, and the functions that read their values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_jobs.errors import UsageError
from runspec_jobs.options import suggestions
from runspec_jobs.options.declare import argument, argument_or, flag, option


def count(text: str) -> int:
    """Return *text* as a whole number of at least 1, in which commas may separate thousands."""
    try:
        number = int(text.replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError(f"'{text}' is not a whole number of at least 1")
    return number


def integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a whole number") from None


def duration(text: str) -> int:
    """Return the seconds in a duration such as "7d" or "1h30m", in the notation of specs."""
    from runspec_jobs.spec.types import parse_seconds  # only here, because importing it takes time

    try:
        return int(parse_seconds(text))
    except ValueError:
        what = f"'{text}' is not a length of time: write it as 30m, 12h or 7d"
        raise ValueError(what) from None


JOB_YAML = Path("job.yaml")
# The verb looks at the file, and says what is wrong with it.
SPEC: Any = argument("FILE", "the spec", read=Path, complete=suggestions.specs)
SPEC_HERE: Any = argument_or(
    JOB_YAML, "FILE", "the spec (default: job.yaml)", read=Path, complete=suggestions.specs
)
SPEC_AND_WORDS: Any = argument_or(
    JOB_YAML,
    "FILE",
    "the spec (default: job.yaml); words after -- are added to its command",
    read=Path,
    complete=suggestions.specs,
)
PROVIDER: Any = option(
    "--provider",
    "NAME",
    "use this provider, not the one in the spec",
    complete=suggestions.providers,
)
SETTINGS: Any = option(
    "--set",
    "PATH=VALUE",
    "replace or add a field of the spec, such as cluster.nodes=4; may be repeated",
    default=(),
    several=True,
)
PARAMS: Any = option(
    "--param",
    "NAME=VALUE",
    "give a parameter of the spec a value, such as size=7b; may be repeated",
    default=(),
    several=True,
)
RUN: Any = argument(
    "RUN",
    "a run such as mnist-7k2m9p, or the name of a spec: its newest run, first of specs in "
    "the current folder",
    complete=suggestions.runs,
)
RUN_OR_CHAIN: Any = argument(
    "RUN",
    "a run such as mnist-7k2m9p, the name of a spec: its newest run, first of specs in the "
    "current folder, or the name of a chain",
    complete=suggestions.runs_and_chains,
)
MAYBE_RUN: Any = argument_or(
    None,
    "RUN",
    "a run, or the name of a spec or a chain",
    complete=suggestions.runs_and_chains,
)
RESUME: Any = flag(
    "--resume", help="begin with the last save of the last run, if it has not succeeded"
)
FROM_SAVE: Any = option(
    "--from",
    "RUN[:SAVE]",
    "begin with the last save of any run, or with save number SAVE",
    complete=suggestions.runs,
)
FORCE: Any = flag(
    "--force", help="also replace files that this command has not written for the run"
)
AS_JSON: Any = flag("--json", help="print the result as JSON")
OUTPUT_FORMAT: Any = option(
    "--output-format",
    "{text,json,github}",
    "the format of reported problems (default: text)",
    default="text",
    choices=("text", "json", "github"),
)
ONLY: Any = option(
    "--only",
    "JOB",
    "of a chain, this job alone, with the last runs of the jobs that it needs; may be repeated",
    default=(),
    several=True,
)
UNTIL: Any = option(
    "--until",
    "JOB",
    "of a chain, this job and all that it needs; may be repeated",
    default=(),
    several=True,
)
SMOKE: Any = flag(
    "--smoke", help="run the spec's smoke test first, and the job only if it succeeds"
)
TIMEOUT: Any = option(
    "--timeout", "TIME", "stop waiting after a time such as 10m; the job goes on", read=duration
)
YES: Any = flag("--yes", "-y", help="start it whatever it may cost")
MAX_USD: Any = option("--max-usd", "N", "refuse a job that may cost more than N USD")
NODE: Any = option("--node", "N", "node N (default: the first that is running)", read=integer)
TASK: Any = option(
    "--task",
    "N",
    "task N of a sweep (default: the first task in which the node is running)",
    read=integer,
)


def exclusive(given: Mapping[str, object]) -> None:
    """Raise UsageError if more than one of the options is given."""
    both = [option for option, value in given.items() if value]
    if len(both) > 1:
        raise UsageError(f"{both[1]} cannot be used with {both[0]}", "remove one of them")
