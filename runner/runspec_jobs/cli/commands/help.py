"""What Typer makes of the options of verbs: their help, and completions for shells. Lines are read without it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer
from typer.completion import get_completion_inspect_parameters, install_callback, show_callback
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from runspec_jobs import __version__
from runspec_jobs.cli.commands.command_line import PROGRAM, find_verb
from runspec_jobs.cli.commands.verbs import ALIASES, VERBS, options_of
from runspec_jobs.errors import OK
from runspec_jobs.options.declare import Option, Options
from runspec_jobs.options.setup_verbs import (
    CompletionOptions,
    HelpOptions,
    ProgramOptions,
    VersionOptions,
)

PROGRAMS = (PROGRAM, "runspec-jobs")  # the second is ours even where another package owns the first
SETTINGS: Any = {"help_option_names": ["--help", "-h"]}
Inner = Any  # a class of Click, which Typer has in a private module


class VerbCommand(TyperCommand):
    """One verb. Its help is plain text unless a terminal shows it."""

    def parse_args(self, ctx: Inner, args: list[str]) -> list[str]:
        """Read only the values that are on the line: Typer would import pydantic to check the others, for each TAB."""
        params: list[Any] = self.get_params(ctx)
        open_ = {n for param in params if not getattr(param, "is_flag", False) for n in param.opts}
        known = (
            args[:-1] if args and args[-1] in open_ else args
        )  # the value of the last option is being typed
        values, rest, order = self.make_parser(ctx).parse_args(list(known))
        for param in order:
            if values.get(param.name) is not None:
                param.handle_parse_result(ctx, values, rest)
        return rest

    def get_help_option(self, ctx: Inner) -> TyperOption | None:
        return _quick(super().get_help_option(ctx))

    def format_help(self, ctx: Inner, formatter: Inner) -> None:
        self.rich_markup_mode = "rich" if _is_terminal() else None
        super().format_help(ctx, formatter)

    def format_help_text(self, ctx: Inner, formatter: Inner) -> None:
        formatter.write(f"\n{self.help}\n")


class LazyGroup(TyperGroup):
    """All verbs, from the table; a verb is imported when it is typed."""

    def list_commands(self, ctx: Inner) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Inner, cmd_name: str) -> TyperCommand | None:
        """Return what a list of verbs shows of one; `resolve_command` returns the verb itself."""
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        return TyperCommand(cmd_name, short_help=verb.help, rich_help_panel=verb.group)

    def resolve_command(
        self, ctx: Inner, args: list[str]
    ) -> tuple[str | None, TyperCommand | None, list[str]]:
        name = ALIASES.get(args[0], args[0])
        return (name, make_command(name), args[1:]) if name in VERBS else (None, None, args[1:])

    def get_help_option(self, ctx: Inner) -> TyperOption | None:
        return _quick(super().get_help_option(ctx))

    def format_help(self, ctx: Inner, formatter: Inner) -> None:
        self.rich_markup_mode = "rich" if _is_terminal() else None
        super().format_help(ctx, formatter)

    def format_help_text(self, ctx: Inner, formatter: Inner) -> None:
        formatter.write(f"\n{self.help}\n")

    def format_commands(self, ctx: Inner, formatter: Inner) -> None:
        for group in dict.fromkeys(verb.group for verb in VERBS.values()):
            with formatter.section(group):
                formatter.write_dl([(n, v.help) for n, v in VERBS.items() if v.group == group])


def make_command(verb: str) -> VerbCommand:
    """Return the command that Typer makes of the options of *verb*."""
    app = typer.Typer(add_completion=False)
    app.command(verb, cls=VerbCommand, context_settings=SETTINGS)(_signed(options_of(verb)))
    command = get_command(app)
    assert isinstance(command, VerbCommand), "BUG: an app with one command is this command"
    return command


def make_program() -> LazyGroup:
    """Return the whole command line."""
    app = typer.Typer(name=PROGRAM, cls=LazyGroup, context_settings=SETTINGS, add_completion=False)
    short = " and ".join(f"{alias} is short for {name}" for alias, name in ALIASES.items())
    app.callback(
        invoke_without_command=True,
        epilog=f"{short}. To explain an exit code or a message: runspec explain 75. The pages: runspec docs",
    )(_signed(ProgramOptions))
    group = get_command(app)
    assert isinstance(group, LazyGroup), "BUG: an app with a callback is a group"
    return group


def _signed(kind: type[Options]) -> Callable[..., None]:
    """Return a function with the parameters and the documentation that Typer wants for *kind*. It is never called."""

    def function(**_: object) -> None:
        raise AssertionError(f"BUG: Typer carries out {kind.__name__}")

    fields = {field: Annotated[_type(one), _info(one)] for field, one in kind.declared.items()}
    function.__doc__ = kind.__doc__
    function.__annotations__ = fields
    parameters = [
        Parameter(
            field,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if one.required else None if one.several else one.default,
            annotation=fields[field],
        )
        for field, one in kind.declared.items()
    ]
    vars(function)["__signature__"] = Signature(parameters)
    return function


def _type(option: Option) -> Any:
    if option.is_flag:
        return bool
    if option.choices:
        return Literal[option.choices]
    kind = {str: str, Path: Path}.get(option.read, int)  # type: ignore[call-overload] # a type is a function, too
    return list[kind] if option.several else kind  # type: ignore[valid-type] # for Typer, not for the type checker


def _info(option: Option) -> Any:
    reads = option.read is not str and not option.is_flag
    make = typer.Option if option.names else typer.Argument
    return make(
        *option.names,
        metavar=option.metavar,
        help=option.help,
        show_default=False,
        parser=option.read if reads else None,
        autocompletion=option.complete,
        hidden=option.hidden,
    )


def _contexts(verb: str | None = None) -> Inner:
    """Return the context of *verb*, or of the whole command line, in which Typer looks up names and settings."""
    whole = typer.Context(make_program(), info_name=PROGRAM, **SETTINGS)
    if verb is None:
        return whole
    return typer.Context(make_command(verb), info_name=verb, parent=whole, **SETTINGS)


def print_help(verb: str | None = None) -> None:
    """Print the help of *verb*, or the list of all verbs."""
    typer.echo(_contexts(verb).get_help())


def help_(options: HelpOptions) -> int:
    print_help(None if options.verb is None else find_verb(options.verb))
    return OK


def version(_: VersionOptions | None = None) -> int:
    typer.echo(f"{PROGRAM} {__version__}")
    return OK


def completion(options: CompletionOptions) -> int:
    """Print the script with which a shell completes all names of the program."""
    _for_each_program(lambda context: show_callback(context, context.command, options.shell))
    return OK


def install_completion() -> None:
    """Install the script for the shell that called this process."""
    _for_each_program(lambda context: install_callback(context, context.command, True))


def complete(program: str) -> NoReturn:
    """Print the completions for a line of *program*, which a shell has put into environment variables, and exit."""
    get_completion_inspect_parameters()  # makes the shells known to Typer
    make_program().main([], prog_name=program)
    raise AssertionError("BUG: Typer exits after completions")


def _for_each_program(act: Callable[[Inner], object]) -> None:
    """Call a function of Typer's, which exits, once under each name of the program."""
    context = _contexts()
    with context.scope():
        for context.info_name in PROGRAMS:
            try:
                act(context)
            except typer.Exit as exc:
                raise SystemExit(exc.exit_code) from exc
            except SystemExit:  # Typer exits after one program, and the others follow
                continue


def _quick(option: TyperOption | None) -> TyperOption | None:
    """Return the option `--help` with a default, because Typer would import pydantic to check that it has none."""
    if option is not None:
        option.default = False
        option.metavar = ""
    return option


def _is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
