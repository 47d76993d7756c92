"""The command line as Typer reads it: a group that imports each verb on demand, and what all verbs have in common."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.completion import get_completion_inspect_parameters, install_callback, show_callback
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from runspec_jobs import __version__
from runspec_jobs.cli.commands.options import flag
from runspec_jobs.cli.commands.verbs import ALIASES, VERBS
from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.errors import UsageError

PROGRAM = "runspec"
ALIKE = 0.7  # options have more in common with each other than verbs have
PROGRAMS = (PROGRAM, "runspec-jobs")  # the second is ours even where another package owns the first
# The environment variables in which shells ask for completions, with the program that is typed.
COMPLETE = {"_RUNSPEC_COMPLETE": PROGRAM, "_RUNSPEC_JOBS_COMPLETE": "runspec-jobs"}
RUNS = "runspec list shows the runs"
GIVEN = "runspec.given"  # the key of `Context.meta` under which the values of the parameters are
SETTINGS = {"help_option_names": ["--help", "-h"]}
Inner = Any  # a class of Click, which Typer has in a private module


class VerbCommand(TyperCommand):
    """One verb. Words that are likely mistakes are refused, and its help is plain text unless a terminal shows it."""

    def parse_args(self, ctx: Inner, args: list[str]) -> list[str]:
        assert self.name is not None, "BUG: every verb has a name"
        own, rest = parted(args) if VERBS[self.name].takes_command else (args, [])
        if ctx.resilient_parsing:
            return _parse_for_completion(self, ctx, own)
        with refusals(ctx, own):
            _check(self, ctx, own)
            super().parse_args(ctx, own)
        ctx.args = rest
        ctx.meta.setdefault(GIVEN, {}).update(ctx.params)
        if ctx.params.get("as_json") or ctx.params.get("output_format") == "json":
            _print_utf_8()
        return rest

    def invoke(self, ctx: Inner) -> int:
        """Carry out the verb, and return the exit code; the module that does it is imported only now."""
        assert self.name is not None, "BUG: every verb has a name"
        if module := VERBS[self.name].module:
            importlib.import_module(f"runspec_jobs.cli.{module}")
        gc.freeze()
        gc.enable()
        try:
            code: int = super().invoke(ctx)
        except ImportError:
            from runspec_jobs.api import machine  # not every verb needs it

            with machine.translate_import_errors():
                raise
        return code

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
        if name in VERBS:
            return name, load(name), args[1:]
        if ctx.resilient_parsing:
            return None, None, args[1:]
        what = f"runspec has no command '{args[0]}'"
        known = [*VERBS, *ALIASES]
        raise UsageError(what, did_you_mean(args[0], known) or f"choose one of {', '.join(VERBS)}")

    def parse_args(self, ctx: Inner, args: list[str]) -> list[str]:
        with refusals(ctx):
            return super().parse_args(ctx, args)

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


def load(name: str) -> VerbCommand:
    """Return the verb called *name*, from the module that has its options."""
    module = importlib.import_module(f"runspec_jobs.cli.commands.{VERBS[name].options}")
    # A name may be a keyword of Python, or that of a builtin function.
    function: Callable[..., int] = getattr(module, name, None) or getattr(module, f"{name}_")
    app = typer.Typer(add_completion=False)
    app.command(name, cls=VerbCommand, context_settings=SETTINGS)(function)
    found = get_command(app)
    assert isinstance(found, VerbCommand), "BUG: an app with one command is this command"
    return found


def program() -> LazyGroup:
    """Return the whole command line."""
    app = typer.Typer(name=PROGRAM, cls=LazyGroup, context_settings=SETTINGS, add_completion=False)
    short = " and ".join(f"{alias} is short for {name}" for alias, name in ALIASES.items())
    app.callback(
        invoke_without_command=True,
        epilog=f"{short}. To explain an exit code or a message: runspec explain 75",
    )(runspec)
    found = get_command(app)
    assert isinstance(found, LazyGroup), "BUG: an app with a callback is a group"
    return found


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{PROGRAM} {__version__}")
        raise typer.Exit


def complete() -> NoReturn:
    """Print the completions that a shell asks for in its environment variable, and exit."""
    get_completion_inspect_parameters()  # makes the shells known to Typer
    program().main([], prog_name=next(COMPLETE[name] for name in COMPLETE if name in os.environ))
    raise AssertionError("BUG: Typer exits after completions")


def _install(ctx: typer.Context, param: typer.CallbackParam, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        _for_each_program(ctx, lambda: install_callback(ctx, param, wanted))
        raise typer.Exit


def print_completion(ctx: Inner, shell: str) -> None:
    """Print the script with which *shell* completes all names of the program."""
    _for_each_program(ctx, lambda: show_callback(ctx, ctx.command.params[0], shell))


def _for_each_program(ctx: Inner, act: Callable[[], object]) -> None:
    """Call a function of Typer's, which exits, once under each name of the program."""
    for ctx.find_root().info_name in PROGRAMS:
        with contextlib.suppress(SystemExit):
            act()


def _use_no_color(wanted: bool) -> None:
    if wanted:
        os.environ["NO_COLOR"] = "1"


def runspec(
    ctx: typer.Context,
    _version: Annotated[
        bool,
        flag("--version", help="print the version", callback=_print_version, is_eager=True),
    ] = False,
    _no_color: Annotated[
        bool,
        flag(
            "--no-color",
            help="print without colours (as if NO_COLOR were set)",
            callback=_use_no_color,
            is_eager=True,
        ),
    ] = False,
    _install_completion: Annotated[
        bool,
        flag(
            "--install-completion",
            help="install completion for the shell that this is typed into",
            callback=_install,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """runspec apply job.yaml

    One YAML file describes a job; runspec runs it on this machine or on a batch
    service. To see the options of a command: runspec COMMAND --help
    """  # noqa: D403 - it is a command
    if ctx.invoked_subcommand is None:
        with contextlib.redirect_stdout(sys.stderr):
            print(ctx.get_help())
        raise typer.Exit(UsageError.exit_code)


def parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separate the command that `runspec shell` is to start, after the first `--`, from runspec's own words.

    >>> parted(["mnist", "--", "git", "log", "--", "x"])
    (['mnist'], ['git', 'log', '--', 'x'])
    """
    own = list(words)
    if "--" not in own:
        return own, []
    at = own.index("--")
    return own[:at], own[at + 1 :]


@contextlib.contextmanager
def refusals(ctx: Inner, words: Sequence[str] = ()) -> Iterator[None]:
    """Raise the errors of Typer about *words* as UsageError."""
    try:
        yield
    except typer.BadParameter as exc:
        text = exc.message.removeprefix("Value error, ")
        if exc.param is not None and text:
            raise UsageError(f"{exc.param.opts[0]}: {text}", _see(ctx)) from exc
        missing = exc.format_message().partition(" Choose from:")[0]  # its name has the choices
        of_run = exc.param is not None and exc.param.name == "run"
        raise UsageError(_plain(missing), RUNS if of_run else _see(ctx)) from exc
    except typer.TyperException as exc:
        typed = getattr(exc, "option_name", "")
        names = {name for param in ctx.command.get_params(ctx) for name in param.opts}
        hint = None
        if typed not in names:
            hint = _of_a_file(words) or _of_the_group(ctx, typed)
            hint = hint or did_you_mean(typed, names, alike=ALIKE)
        raise UsageError(_plain(exc.message), hint or _see(ctx)) from exc


def _of_a_file(words: Sequence[str]) -> str | None:
    """Return a hint if one of *words* is a file whose name begins with a dash, or None."""
    file = next((word for word in words if word.startswith("-") and os.path.lexists(word)), None)
    return None if file is None else f"for the file of that name, write {shlex.quote(f'./{file}')}"


def _of_the_group(ctx: Inner, typed: str) -> str | None:
    """Return a hint if *typed* is an option that stands before the verb, or None."""
    above = ctx.parent
    if above is None or all(typed not in param.opts for param in above.command.get_params(above)):
        return None
    return f"write it before the command: {above.command_path} {typed} {ctx.info_name}"


def _plain(message: str) -> str:
    return f"{message[:1].lower()}{message[1:]}".rstrip(".")


def _see(ctx: Inner) -> str:
    return f"see {ctx.command_path} --help"


def _parse_for_completion(command: VerbCommand, ctx: Inner, words: Sequence[str]) -> list[str]:
    """Read only the values that are on the line: Typer would import pydantic to check the others, for each TAB."""
    params: list[Any] = command.get_params(ctx)
    open_ = {
        name for param in params if not getattr(param, "is_flag", False) for name in param.opts
    }
    known = words[:-1] if words and words[-1] in open_ else words  # its value is being typed
    values, rest, order = command.make_parser(ctx).parse_args(list(known))
    for param in order:
        if values.get(param.name) is not None:
            param.handle_parse_result(ctx, values, rest)
    return rest


def _check(command: VerbCommand, ctx: Inner, words: Sequence[str]) -> None:
    """Raise UsageError for words that Typer would accept, or refuse without a hint."""
    values, unused, _ = command.make_parser(ctx).parse_args(list(words))
    if unused:
        assert command.name is not None, "BUG: every verb has a name"
        what = "RUN -- COMMAND" if command.name == "shell" else "FILE -- WORDS"
        after = f"a command comes after --: {ctx.command_path} {what}"
        hint = after if VERBS[command.name].takes_command else _see(ctx)
        raise UsageError(f"unexpected argument '{unused[0]}'", hint)
    params: list[Any] = command.get_params(ctx)
    options = {name for param in params for name in param.opts if name.startswith("-")}
    for param in params:
        value, name = values.get(param.name), param.opts[0]
        if not isinstance(value, str):
            continue
        if name in options and (not value or value.partition("=")[0] in options):
            raise UsageError(f"{name} requires an argument", _see(ctx))
        choices = [str(choice) for choice in param.type_descriptor.choices or ()]
        if choices and value not in choices:
            hint = did_you_mean(value, choices) or f"choose one of {', '.join(choices)}"
            raise UsageError(f"{name}: invalid value '{value}'", hint)


def _quick(option: TyperOption | None) -> TyperOption | None:
    """Return the option `--help` with a default, because Typer would import pydantic to check that it has none."""
    if option is not None:
        option.default = False
        option.metavar = ""
    return option


def _print_utf_8() -> None:
    """Make standard output UTF-8, which JSON demands, whatever the locale is."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def _is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
