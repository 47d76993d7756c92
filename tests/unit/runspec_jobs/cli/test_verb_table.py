"""The table of verbs agrees with the verbs themselves; their help, and what is imported for which line."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import commands_page
import pytest

from runspec_jobs import __version__
from runspec_jobs.cli.app import run
from runspec_jobs.cli.commands import command_line
from runspec_jobs.cli.commands.verbs import ALIASES, VERBS, options_of
from runspec_jobs.options.declare import Options
from tests.support.root import ROOT

Capture = pytest.CaptureFixture[str]
MODULES = ("spec_verbs", "start_verbs", "watch_verbs", "run_verbs", "setup_verbs")
OF_RUNSPEC = {("program", "setup_verbs")}  # the options before the verb
GROUPS = {
    "Write": "init validate plan simulate import schema",
    "Run": "apply rehearse resize release",
    "Watch": "list status logs report cost prices outputs fetch shell tunnel adopt explain docs",
    "Clean up": "cancel destroy gc",
    "Set up": "setup doctor providers policy trust completion help version",
}


def test_the_table_has_every_verb_and_its_module() -> None:
    modules = {name: importlib.import_module(f"runspec_jobs.options.{name}") for name in MODULES}
    classes = [(n, kind) for n, module in modules.items() for kind in vars(module).values()]
    defined = {
        (kind.__name__.removesuffix("Options").lower(), name)
        for name, kind in classes
        if isinstance(kind, type) and issubclass(kind, Options) and kind is not Options
    }

    assert {(name, verb.options) for name, verb in VERBS.items()} | OF_RUNSPEC == defined


@pytest.mark.parametrize("name", VERBS)
def test_the_table_has_the_help_of_a_verb(name: str) -> None:
    assert str(options_of(name).__doc__).splitlines()[0] == VERBS[name].title


@pytest.mark.parametrize("name", VERBS)
def test_the_table_names_the_function_that_carries_a_verb_out(name: str) -> None:
    module = importlib.import_module(f"runspec_jobs.cli.{VERBS[name].module}")

    function = getattr(module, name, None) or getattr(module, f"{name}_")

    assert list(get_type_hints(function).values()) in (
        [options_of(name), int],
        [options_of(name) | None, int],
    )


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_helps_with_two_examples_and_a_page(name: str, capsys: Capture) -> None:
    assert run([name, "--help"]) == 0

    text = capsys.readouterr().out
    examples = re.findall(
        r"^  (.*)$", text.partition("Examples:\n")[2].partition("\n\n")[0], re.MULTILINE
    )
    page = re.findall(r"^More: runspec docs (\S+)$", text, re.MULTILINE)
    assert len(examples) == 2 and all("runspec " in line for line in examples)
    assert f"runspec {name}" in examples[0]
    assert len(page) == 1 and (ROOT / "docs" / f"{page[0]}.md").is_file()


@pytest.mark.parametrize("name", VERBS)
def test_the_examples_of_a_verb_are_accepted(name: str) -> None:
    text = str(options_of(name).__doc__)

    for line in re.findall(r"^  runspec (.*?)(?: > .*)?$", text, re.MULTILINE):
        verb, *words = line.replace("specs/*.yaml", "a.yaml b.yaml").split()
        if verb in VERBS:
            assert isinstance(command_line.read(verb, words), options_of(verb))


def test_the_page_of_commands_is_made_from_their_options() -> None:
    assert (ROOT / "docs/commands.md").read_text() == "\n".join(commands_page.page())


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_the_help_lists_all_verbs_by_group(words: list[str], capsys: Capture) -> None:
    assert run(words) == 0

    text = capsys.readouterr().out
    listed = {
        title: re.findall(r"^  ([a-z]+)  ", part, re.MULTILINE)
        for title, part in re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n)+)", text, re.MULTILINE)
        if title in GROUPS
    }
    assert list(listed.items()) == [(group, verbs.split()) for group, verbs in GROUPS.items()]
    assert text.count("--install-completion") == 1


@pytest.mark.parametrize("words", [["plan", "-h"], ["help", "plan"]])
def test_help_can_be_asked_for_in_several_ways(words: list[str], capsys: Capture) -> None:
    assert run(["plan", "--help"]) == 0
    expected = capsys.readouterr().out

    assert run(words) == 0

    assert capsys.readouterr().out == expected


def test_without_a_verb_the_help_is_an_error(capsys: Capture) -> None:
    assert run([]) == 2

    printed = capsys.readouterr()
    assert printed.out == "" and "Clean up:" in printed.err


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_an_alias_is_the_verb(alias: str, name: str, capsys: Capture) -> None:
    assert run([name, "--help"]) == 0
    expected = capsys.readouterr().out

    assert run([alias, "--help"]) == 0

    assert capsys.readouterr().out == expected
    assert dict(ALIASES) == {"ls": "list", "rm": "destroy"}


@pytest.mark.parametrize("words", [["--version"], ["version"], ["--version", "list"]])
def test_the_version_is_printed(words: list[str], capsys: Capture) -> None:
    assert run(words) == 0

    assert capsys.readouterr().out == f"runspec {__version__}\n"


def imported(code: str, *words: str) -> set[str]:
    """Return the modules that a process has imported after *code*."""
    program = f"import json, sys\n{code}\nprint(json.dumps(list(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


MAIN = "from runspec_jobs.__main__ import main\nassert main() == 0"


@pytest.mark.process
@pytest.mark.parametrize("word", ["--version", "version"])
def test_the_version_imports_neither_typer_nor_pydantic(word: str) -> None:
    assert imported(MAIN, word).isdisjoint({"typer", "pydantic", "rich", "yaml"})


@pytest.mark.process
@pytest.mark.parametrize("words", [["--help"], ["plan", "--help"]])
def test_help_imports_nothing_that_carries_out_a_verb(words: list[str]) -> None:
    found = imported(MAIN, *words)

    modules = {f"runspec_jobs.cli.{verb.module}" for verb in VERBS.values()}
    assert found & modules == {"runspec_jobs.cli.commands.help"}
    assert found.isdisjoint({"pydantic", "rich", "yaml"})


@pytest.mark.process
def test_a_verb_imports_its_own_module_alone(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "apiVersion: runspec/v1\nname: job\nprovider: local\ncommand: [echo]\n"
    )

    found = imported(MAIN, "validate", str(tmp_path / "job.yaml"))

    modules = {f"runspec_jobs.cli.{verb.module}" for verb in VERBS.values()}
    assert found & modules == {"runspec_jobs.cli.validate"}
    others = {f"runspec_jobs.options.{name}" for name in MODULES} & found
    assert others == {"runspec_jobs.options.spec_verbs", "runspec_jobs.options.setup_verbs"}
    assert found.isdisjoint({"rich", "typer", "importlib.metadata", "subprocess", "difflib"})
    assert not [name for name in found if name.startswith("runspec_jobs.machines.")]
    found = imported(MAIN, "plan", str(tmp_path / "job.yaml"))
    unused = ("runspec_jobs.engine.wait", "runspec_jobs.logs", "runspec_jobs.api.lifecycle")
    assert not [name for name in found if name.startswith((*unused, "concurrent."))]


@pytest.mark.process
def test_apply_imports_nothing_for_other_jobs_than_this_one(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        "apiVersion: runspec/v1\nname: job\nprovider: local\ncommand: [echo]\n"
    )

    found = imported(MAIN, "apply", str(tmp_path / "job.yaml"))

    others = {"api.chains", "api.listing", "api.profiles", "engine.adopt", "state.downloads"}
    assert found.isdisjoint({"ssl", "http.client", *(f"runspec_jobs.{name}" for name in others)})


def on_a_terminal(*words: str, **env: str) -> str:
    """Return what `runspec` prints where its output is a terminal."""
    master, slave = os.openpty()
    unset = ("NO_COLOR", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TERMINAL_WIDTH")
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    with subprocess.Popen(
        [sys.executable, "-m", "runspec_jobs", *words],
        stdout=slave,
        stderr=slave,
        env={**inherited, "TERM": "xterm-256color", "COLUMNS": "100", **env},
    ):
        os.close(slave)
        printed = b""
        try:
            while part := os.read(master, 1 << 16):
                printed += part
        except OSError:  # the terminal was closed
            pass
    os.close(master)
    return printed.decode()


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


COLOR = re.compile(r"\x1b\[1;36m\S")  # of options and verbs


@pytest.mark.process
@pytest.mark.parametrize("words", [["--help"], ["plan", "--help"], ["help", "plan"], []])
def test_help_has_colours_and_borders_on_a_terminal(words: list[str]) -> None:
    text = on_a_terminal(*words)

    assert COLOR.search(text) and "╭─ Options ─" in plain(text)


@pytest.mark.process
def test_all_groups_are_on_a_terminal() -> None:
    text = plain(on_a_terminal("--help"))

    assert all(f"╭─ {title} ─" in text for title in GROUPS)
    assert [n for n in VERBS if not re.search(rf"│ {n}\s", text)] == []


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "env"), [(["--help"], {"NO_COLOR": "1"}), (["--no-color", "--help"], {})]
)
def test_no_color_is_heeded(words: list[str], env: dict[str, str]) -> None:
    text = on_a_terminal(*words, **env)

    assert not COLOR.search(text) and "╭─ Write ─" in plain(text)


@pytest.mark.parametrize("name", VERBS)
def test_a_terminal_shows_the_same_words(name: str) -> None:
    """Text in brackets would be taken for markup."""
    text = str(options_of(name).__doc__)
    helps = [option.help for option in options_of(name).declared.values()]

    assert not re.search(r"\[[a-z#/@]", "".join([text, *helps]))
