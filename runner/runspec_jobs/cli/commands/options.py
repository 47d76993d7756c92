"""Options and arguments that several verbs share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from runspec_jobs.cli.commands import suggestions
from runspec_jobs.errors import UsageError


def flag(*names: str, **settings: Any) -> Any:
    """Return an option without a value, for which Typer would show the type `bool`."""
    return Option(*names, metavar="", **settings)


def count(text: str | int) -> int:
    """Return *text* as a whole number of at least 1, in which commas may separate thousands."""
    try:
        number = int(str(text).replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise ValueError(f"'{text}' is not a whole number of at least 1")
    return number


def integer(text: str | int) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a whole number") from None


def duration(text: str | int) -> int:
    """Return the seconds in a duration such as "7d" or "1h30m", in the notation of specs."""
    from runspec_jobs.api.specs import parse_seconds  # only here, because importing it takes time

    try:
        return int(parse_seconds(str(text)))
    except ValueError:
        what = f"'{text}' is not a length of time: write it as 30m, 12h or 7d"
        raise ValueError(what) from None


# With `parser=Path` Typer does not look at the file: the verb does, and says what is wrong with it.
SpecFile = Annotated[
    Path,
    Argument(metavar="FILE", parser=Path, help="the spec", autocompletion=suggestions.specs),
]
DEFAULT_SPEC = Path("job.yaml")
DefaultSpecFile = Annotated[
    Path,
    Argument(
        metavar="FILE",
        parser=Path,
        show_default=False,
        help="the spec (default: job.yaml)",
        autocompletion=suggestions.specs,
    ),
]
MaybeSpecFile = Annotated[
    Path,
    Argument(
        metavar="FILE",
        parser=Path,
        show_default=False,
        help="the spec (default: job.yaml); words after -- are added to its command",
        autocompletion=suggestions.specs,
    ),
]
ProviderName = Annotated[
    str | None,
    Option(
        "--provider",
        metavar="NAME",
        help="use this provider, not the one in the spec",
        autocompletion=suggestions.providers,
    ),
]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="PATH=VALUE",
        show_default=False,
        help="replace or add a field of the spec, such as cluster.nodes=4; may be repeated",
    ),
]
RunName = Annotated[
    str,
    Argument(
        metavar="RUN",
        help="a run such as mnist-7k2m9p, or the name of a spec: its newest run, first of specs in "
        "the current folder",
        autocompletion=suggestions.runs,
    ),
]
MaybeRunName = Annotated[
    str | None,
    Argument(metavar="RUN", help="a run, or the name of a spec", autocompletion=suggestions.runs),
]
Force = Annotated[
    bool, flag("--force", help="also replace files that this command has not written for the run")
]
AsJson = Annotated[bool, flag("--json", help="print the result as JSON")]
Form = Literal["text", "json", "github"]
OutputFormat = Annotated[
    Form,
    Option(
        "--output-format",
        metavar="{text,json,github}",
        show_default=False,
        help="the format of reported problems (default: text)",
    ),
]
Only = Annotated[
    list[str] | None,
    Option(
        "--only",
        metavar="JOB",
        show_default=False,
        help="of a chain, this job alone, with the last runs of the jobs that it needs; may be repeated",
    ),
]
Until = Annotated[
    list[str] | None,
    Option(
        "--until",
        metavar="JOB",
        show_default=False,
        help="of a chain, this job and all that it needs; may be repeated",
    ),
]
Smoke = Annotated[
    bool,
    flag("--smoke", help="run the spec's smoke test first, and the job only if it succeeds"),
]
Engine = Annotated[
    Literal["process", "podman"] | None,
    Option(
        "--engine",
        metavar="{process,podman}",
        help="run the job in processes or in podman containers",
    ),
]
KeptIn = Annotated[
    Path | None,
    Option(
        "--folder",
        metavar="FOLDER",
        parser=Path,
        help="run in this folder and keep it: outputs and logs, and the files of the emulators",
    ),
]
Containers = Annotated[
    list[str] | None,
    Option(
        "--container",
        metavar="NAME=FOLDER",
        show_default=False,
        help="put the files of FOLDER into the container or shared folder NAME first; may be repeated",
    ),
]
Timeout = Annotated[
    int | None,
    Option(
        "--timeout",
        metavar="TIME",
        parser=duration,
        help="stop waiting after a time such as 10m; the job goes on",
    ),
]
Yes = Annotated[bool, flag("--yes", "-y", help="start it whatever it may cost")]
MaxUsd = Annotated[
    str | None,
    Option("--max-usd", metavar="N", help="refuse a job that may cost more than N USD"),
]
NodeNumber = Annotated[
    int | None,
    Option(
        "--node", metavar="N", parser=integer, help="node N (default: the first that is running)"
    ),
]
TaskNumber = Annotated[
    int | None,
    Option(
        "--task",
        metavar="N",
        parser=integer,
        help="task N of a sweep (default: the first task in which the node is running)",
    ),
]


def exclusive(given: Mapping[str, bool]) -> None:
    """Raise UsageError if more than one of the options is given."""
    both = [option for option, is_given in given.items() if is_given]
    if len(both) > 1:
        raise UsageError(f"{both[1]} cannot be used with {both[0]}", "remove one of them")
