"""The options of the verbs that prepare this machine. Each imports the module that carries it out when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Context, Option

from runspec_jobs import __version__
from runspec_jobs.cli.commands import suggestions
from runspec_jobs.cli.commands.group import PROGRAM, LazyGroup, print_completion
from runspec_jobs.cli.commands.options import (
    DEFAULT_SPEC,
    AsJson,
    DefaultSpecFile,
    OutputFormat,
    exclusive,
    flag,
)
from runspec_jobs.errors import OK, UsageError


def doctor(
    provider: Annotated[
        str | None,
        Argument(
            metavar="PROVIDER",
            help="check only this provider (default: local, and those of the profile)",
            autocompletion=suggestions.providers,
        ),
    ] = None,
    node: Annotated[
        bool,
        flag("--node", help="also check from a node; this allocates a machine for a short time"),
    ] = False,
    probe: Annotated[
        bool,
        flag(
            "--probe",
            help="test, in your own account, what runspec assumes about the service "
            "(docs/unverified.md)",
        ),
    ] = False,
    only: Annotated[
        str | None,
        Option("--only", metavar="ID,...", help="with --probe: run only these probes"),
    ] = None,
    yes: Annotated[bool, flag("--yes", help="with --probe: do not ask for confirmation")] = False,
    as_json: AsJson = False,
) -> int:
    """Check this machine and your account for what would stop a job.

    Examples:
      runspec doctor aws-batch
      runspec doctor aws-batch --probe

    More: docs/unverified.md
    """
    if probe:
        from runspec_jobs.cli import probe as probes

        return probes.probe(provider, only, node=node, yes=yes, as_json=as_json)
    if only or yes:
        raise UsageError("--only and --yes can only be used with --probe")
    from runspec_jobs.cli import setup

    return setup.doctor(provider, node=node, as_json=as_json)


def explain(
    words: Annotated[
        list[str],
        Argument(
            metavar="CODE|WORD...",
            help="an exit code, a state, a term, a field of a spec, or words of a message",
            autocompletion=suggestions.explained,
        ),
    ],
    as_json: AsJson = False,
) -> int:
    """Explain an exit code, a state, a term, a field or a message.

    Examples:
      runspec explain 75
      runspec explain retry.spot_attempts

    More: docs/troubleshooting.md
    """
    from runspec_jobs.cli import setup

    return setup.explain(" ".join(words), as_json=as_json)


def providers(as_json: AsJson = False) -> int:
    """List the providers.

    Examples:
      runspec providers
      runspec providers --json

    More: docs/provider.md
    """
    from runspec_jobs.cli import setup

    return setup.providers(as_json=as_json)


def policy(
    file: DefaultSpecFile = DEFAULT_SPEC,
    job: Annotated[
        bool,
        flag(
            "--job", help="print the permissions that the job itself needs, not those of its user"
        ),
    ] = False,
    output_format: OutputFormat = "text",
    as_json: AsJson = False,
) -> int:
    """Print the minimal permissions that a plan needs.

    Examples:
      runspec policy job.yaml
      runspec policy --job job.yaml

    More: docs/aws-batch.md
    """
    from runspec_jobs.cli import cleanup

    return cleanup.policy(file, of_job=job, output_format=output_format, as_json=as_json)


def trust(
    file: Annotated[
        Path | None,
        Argument(
            metavar="FILE",
            parser=Path,
            help="the profile (default: the one that applies in this folder)",
            autocompletion=suggestions.specs,
        ),
    ] = None,
    list_: Annotated[bool, flag("--list", "-l", help="list the trusted profiles")] = False,
    remove: Annotated[bool, flag("--remove", help="stop trusting the profile")] = False,
    as_json: AsJson = False,
) -> int:
    """Trust a profile in a checkout until it changes.

    Examples:
      runspec trust runspec-profile.yaml
      runspec trust --list

    More: docs/profile.md
    """
    from runspec_jobs.cli import trust

    exclusive({"--list": list_, "--remove": remove})
    if list_:
        return trust.list_trusted(as_json=as_json)
    if remove:
        return trust.remove(file, as_json=as_json)
    return trust.add(file, as_json=as_json)


def completion(
    ctx: Context,
    shell: Annotated[
        Literal["bash", "zsh", "fish", "powershell"],
        Argument(metavar="{bash,zsh,fish,powershell}", help="your shell"),
    ],
) -> int:
    """Print a script with completions for bash, zsh, fish or powershell.

    Examples:
      eval "$(runspec completion bash)"
      runspec completion fish > ~/.config/fish/completions/runspec.fish

    More: README.md
    """
    print_completion(ctx, shell)
    return OK


def help_(
    ctx: Context,
    verb: Annotated[str | None, Argument(metavar="COMMAND", help="the command")] = None,
) -> int:
    """Show the commands, or the options of one.

    Examples:
      runspec help
      runspec help apply

    More: README.md
    """
    whole = ctx.find_root()
    assert isinstance(whole.command, LazyGroup), "BUG: the whole command line is a group"
    if verb is None:
        typer.echo(whole.get_help())
        return OK
    name, command, _ = whole.command.resolve_command(whole, [verb])
    assert command is not None, "BUG: what is not a verb is an error"
    command.make_context(name, ["--help"], parent=whole)  # prints the help, and exits
    return OK


def version() -> int:
    """Print the version.

    Examples:
      runspec version
      runspec --version

    More: docs/upgrades.md
    """
    typer.echo(f"{PROGRAM} {__version__}")
    return OK
