"""The words of a command line: options of a verb may stand anywhere among its arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli import rehearse
from runspec_jobs.cli.app import run
from runspec_jobs.cli.commands import command_line
from runspec_jobs.cli.commands.verbs import ALIASES, FOREIGN, VERBS, options_of
from runspec_jobs.options.declare import Option
from runspec_jobs.options.shared import count, duration, integer
from runspec_jobs.state import run_record

Words = list[str]
Capture = pytest.CaptureFixture[str]


def value(option: Option, number: int) -> str:
    if option.choices:
        return option.choices[0]
    if option.read is duration:
        return f"{number}s"
    return str(number) if option.read in (count, integer) else f"word{number}"


def declared(verb: str) -> list[Option]:
    return list(options_of(verb).declared.values())


def positional(verb: str) -> Words:
    arguments = [one for one in declared(verb) if not one.names]
    twice = [one for one in arguments for _ in range(2 if one.several else 1)]
    return [value(argument, number) for number, argument in enumerate(twice)]


def options(verb: str) -> list[Words]:
    named = [one for one in declared(verb) if one.names]
    return [
        [one.names[0], *([] if one.is_flag else [value(one, number)])]
        for number, one in enumerate(named, 1)
    ]


def placed(verb: str) -> Iterator[Words]:
    """Yield the command lines that have all options in one place, and those that have one apart from the others."""
    words, found = positional(verb), options(verb)
    for at in range(len(words) + 1):
        yield [*words[:at], *chain(*found), *words[at:]]
        for option in found:
            others = chain(*(other for other in found if other is not option))
            yield [*others, *words[:at], *option, *words[at:]]


def parsed(verb: str, words: Words) -> dict[str, Any]:
    return vars(command_line.read(verb, words))


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let options contradict each other."""
    for verb in VERBS:
        monkeypatch.setattr(options_of(verb), "check", lambda self: None)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("verb", VERBS)
def test_options_stand_anywhere_among_the_arguments_of_a_verb(verb: str) -> None:
    words = positional(verb)
    expected = parsed(verb, [*chain(*options(verb)), *words])

    for line in placed(verb):
        assert parsed(verb, line) == expected, line
    flat = chain.from_iterable(v if isinstance(v, tuple) else [v] for v in expected.values())
    assert set(words) <= {str(one) for one in flat}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("verb", VERBS)
def test_each_option_reaches_its_field(verb: str) -> None:
    without = parsed(verb, [*required(verb), *positional(verb)])

    for option in options(verb):
        found = parsed(verb, [*required(verb, option[0]), *option, *positional(verb)])
        changed = {name for name in found if found[name] != without[name]}
        assert len(changed) == 1 or option[0] in required(verb) or option[-1] == "text", option


def required(verb: str, but: str = "") -> Words:
    """Return the options without which *verb* is refused, except *but*."""
    found = []
    for number, one in enumerate(declared(verb), 1):
        if one.names and one.required and one.names[0] != but:
            found += [one.names[0], value(one, 100 + number)]
    return found


def test_after_two_dashes_no_word_is_an_option() -> None:
    found = parsed("fetch", ["--", "run", "--output"])

    assert (found["run"], found["to"], found["output"]) == ("run", Path("--output"), None)


def test_after_two_dashes_shell_takes_the_words_of_a_command() -> None:
    found = parsed("shell", "job --node 1 -- git log --node 2 -- x".split())

    assert (found["run"], found["node"]) == ("job", 1)
    assert found["words"] == tuple("git log --node 2 -- x".split())


@pytest.mark.parametrize("word", ["--quiet", "-q"])
def test_a_file_whose_name_is_not_utf_8_is_a_file(
    word: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "bad\udcff.yaml"
    path.write_text("apiVersion: runspec/v1\nname: job\nprovider: local\ncommand: [echo]\n")

    assert run(["validate", word, str(path)]) == 0


REFUSED = [
    ("status", "missing argument 'RUN'", "runspec list shows the runs"),
    ("gc", "missing argument 'PROVIDER'", "see runspec gc --help"),
    (
        "completion",
        "missing argument '{bash,zsh,fish,powershell}'",
        "see runspec completion --help",
    ),
    (
        "plan a --no-color",
        "no such option: --no-color",
        "before the command: runspec --no-color plan",
    ),
    ("ls --version", "no such option: --version", "before the command: runspec --version list"),
    ("rehearse a b", "unexpected argument 'b'", "runspec rehearse FILE -- WORDS"),
    ("plan a b", "unexpected argument 'b'", "runspec plan FILE -- WORDS"),
    ("shell job ls", "unexpected argument 'ls'", "runspec shell RUN -- COMMAND"),
    ("plan --jsn a", "no such option: --jsn", "did you mean '--json'?"),
    ("plan -x a", "no such option: -x", "see runspec plan --help"),
    ("plan a --provider", "--provider", "see runspec plan --help"),
    ("plan a --provider --json", "--provider requires an argument", "see runspec plan --help"),
    ("plan a --provider=", "--provider requires an argument", "see runspec plan --help"),
    ("plan a --json=yes", "--json", "see runspec plan --help"),
    ("plan a --prov x", "no such option: --prov", "did you mean '--provider'?"),
    ("plan a --output-format jsn", "invalid value 'jsn'", "did you mean 'json'?"),
    ("logs job --node one", "--node: 'one' is not a whole number", "see runspec logs --help"),
    ("simulate a --prices p --scaling s", "missing option '--samples'", "simulate --help"),
    (
        "simulate a --prices p --scaling s --samples 0",
        "--samples: '0' is not a whole number of at least 1",
        "see runspec simulate --help",
    ),
    ("trust --list --remove", "--remove cannot be used with --list", "remove one of them"),
    ("list --all --remote", "--remote cannot be used with --all", "remove one of them"),
    ("doctor --only x", "--only and --yes can only be used with --probe", ""),
    ("lst", "runspec has no command 'lst'", "did you mean 'list'?"),
    ("zzzzzz", "runspec has no command 'zzzzzz'", "choose one of init, validate"),
    ("run job.yaml", "runspec has no command 'run'", "write: runspec apply"),
    ("ps", "runspec has no command 'ps'", "write: runspec list"),
    ("delete x", "runspec has no command 'delete'", "write: runspec cancel"),
    ("ssh x", "runspec has no command 'ssh'", "write: runspec shell"),
    ("help vlidate", "runspec has no command 'vlidate'", "did you mean 'validate'?"),
    ("--jsn list", "no such option: --jsn", "see runspec --help"),
    ("--json list", "no such option: --json", "see runspec --help"),
]


def test_no_word_of_another_tool_leads_to_a_verb_that_deletes() -> None:
    leads = {FOREIGN[word].split()[0] for word in FOREIGN}

    assert leads <= VERBS.keys() - {"destroy", "gc"}
    assert FOREIGN.keys().isdisjoint({*VERBS, *ALIASES})


@pytest.mark.parametrize(("line", "what", "hint"), REFUSED)
def test_a_line_that_is_refused_ends_with_2_and_a_hint(
    line: str, what: str, hint: str, capsys: Capture
) -> None:
    assert run(line.split()) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    first, *others = printed.err.splitlines()
    assert first.startswith("runspec: ") and what in first
    assert "Choose" not in first
    assert hint in "".join(others)


def test_an_option_may_be_given_twice_and_the_last_counts() -> None:
    assert parsed("logs", ["job", "--node", "1", "--node", "2"])["node"] == 2


def test_thousands_may_be_separated() -> None:
    line = "a --prices p --scaling s --samples 60,000 --seed -5".split()

    found = parsed("simulate", line)

    assert (found["samples"], found["seed"]) == (60_000, -5)


def test_no_color_may_stand_before_the_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")

    assert run(["--no-color", "version"]) == 0

    assert os.environ["NO_COLOR"] == "1"


# Exit codes


def test_ctrl_c_ends_any_verb_with_130(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_record, "list_all_states", interrupted)

    assert run(["list"]) == 130
    assert "run the same command again to continue" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.parametrize("words", [["--help"], ["plan", "--help"], ["help"], ["completion", "zsh"]])
def test_output_that_nobody_reads_ends_with_141(words: Words) -> None:
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [sys.executable, "-m", "runspec_jobs", *words], stdout=writer, stderr=subprocess.PIPE
    )

    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_error_of_a_verb_is_json_too(capsys: Capture) -> None:
    assert run(["status", "nothing", "--json"]) == 2

    printed = json.loads(capsys.readouterr().out)
    assert printed["exit_code"] == 2 and "there is no run 'nothing'" in printed["error"]


def test_problems_have_the_format_that_is_asked_for(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "job.yaml").write_text("a: [")

    assert run(["plan", str(tmp_path / "job.yaml"), "--output-format", "github"]) == 2

    assert capsys.readouterr().out.startswith("::error ")


def test_the_spec_of_this_folder_needs_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text("apiVersion: runspec/v1\nname: job\nprovider: local\n")

    assert run(["validate"]) == 2
    assert "job.yaml:1:1: nothing to run" in capsys.readouterr().err
    for verb in ("plan", "apply", "rehearse", "policy"):
        assert parsed(verb, [])["file"] == Path("job.yaml")


def test_a_file_whose_name_begins_with_a_dash_is_pointed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-dash.job.yaml").write_text("x")

    assert run(["validate", "-dash.job.yaml"]) == 2
    assert "hint: for the file of that name, write ./-dash.job.yaml" in capsys.readouterr().err
    assert run(["validate", "--", "-dash.job.yaml"]) == 2
    assert "-dash.job.yaml:1:1" in capsys.readouterr().err


def test_words_after_two_dashes_are_added_to_the_command_of_a_rehearsal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []

    def kept(options: Any) -> int:
        given.append(options)
        return 0

    monkeypatch.setattr(rehearse, "rehearse", kept)

    assert run(["rehearse", "job.yaml", "--", "--epochs", "1"]) == 0

    assert list(given[0].words) == ["--epochs", "1"]
