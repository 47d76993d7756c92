"""What TAB completes in each shell, and what it costs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs import state_folder
from runspec_jobs.cli.app import run
from runspec_jobs.cli.commands.help import PROGRAMS
from runspec_jobs.load import registry
from runspec_jobs.options import suggestions
from runspec_jobs.state import chain_record, run_record
from tests.support.requirements import need

pytestmark = pytest.mark.process

Capture = pytest.CaptureFixture[str]
SHELLS = ("bash", "zsh", "fish", "powershell")
HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\n"
SPEC = HEAD + "outputs: [{name: model, path: /job/m}, {name: logs, path: /job/l}]\nrun: echo\n"
RUNS = 1000
TAB = 6.0  # times the processor time of importing Typer: 0.9 to 3.1 were measured, on a busy machine 4.3


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which has a spec, a folder and another file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(SPEC)
    (tmp_path / "job.log").write_text("")
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "train.yml").write_text(SPEC)
    return tmp_path


@pytest.fixture
def runs(folder: Path) -> Sequence[str]:
    """Return the names of many runs that are on record."""
    made = [f"job{number % 20}-{number:06}" for number in range(RUNS)]
    for name in made:
        record = state_folder.find_runs_folder() / name
        record.mkdir(parents=True)
        (record / "job.yaml").write_text(SPEC)
    (state_folder.find_runs_folder() / ".new-job-000000").mkdir()
    return made


def asked(shell: str, line: str) -> Mapping[str, str]:
    """Return the environment in which *shell* asks for completions of *line*."""
    words = line.split(" ")
    return {
        **os.environ,
        "_RUNSPEC_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }


def completed(line: str, shell: str = "bash") -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "runspec_jobs"],
        env=asked(shell, line),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("runspec val", ["validate"]),
        ("runspec plan --d", ["--diff", "--detailed-exitcode"]),
        ("runspec plan jo", ["job.yaml"]),
        ("runspec plan specs/", ["specs/train.yml"]),
        ("runspec plan sp", []),  # the shell itself completes folders and other files
        ("runspec plan job.yaml --provider aw", ["aws-batch"]),
        ("runspec plan --output-format j", ["json"]),
        ("runspec gc lo", ["local"]),
        ("runspec completion f", ["fish"]),
        ("runspec logs nothing", []),
        ("runspec nothing x", []),
        ("runspec fetch nothing --output ", []),
    ],
)
def test_words_are_completed(line: str, expected: list[str], folder: Path) -> None:
    assert completed(line) == expected


def test_runs_are_completed_by_the_names_of_specs_and_in_full(runs: Sequence[str]) -> None:
    assert completed("runspec logs job7") == ["job7", *sorted(n for n in runs if "job7-" in n)]
    assert completed("runspec rm job19-00001") == ["job19-000019"]
    assert completed("runspec status .") == []


def test_chains_are_completed_where_they_can_be_named(folder: Path) -> None:
    for name in ("mnist", "mnist-all"):
        chain_record.keep(name, folder / f"{name}.yaml", {"prepare": {}}, ["prepare"])

    assert completed("runspec status mn") == ["mnist", "mnist-all"]
    assert completed("runspec destroy mnist-") == ["mnist-all"]
    assert completed("runspec fetch mn") == []


@pytest.mark.parametrize("run", ["job3", "job3-000003"])
def test_outputs_are_those_of_the_run(run: str, runs: Sequence[str]) -> None:
    assert completed(f"runspec fetch {run} --output ") == ["model", "logs"]
    assert completed(f"runspec fetch {run} --output m") == ["model"]


def test_a_damaged_record_completes_nothing(runs: Sequence[str]) -> None:
    for text in ("outputs: 3", "- a", "outputs: [x", ""):
        (state_folder.find_runs_folder() / "job3-000003" / "job.yaml").write_text(text)
        assert completed("runspec fetch job3-000003 --output ") == []


@pytest.mark.parametrize(
    "line",
    [
        "runspec va",
        "runspec plan --d",
        "runspec logs job1",
        "runspec fetch job3 --output ",
        "runspec gc ",
        "runspec plan jo",
    ],
)
@pytest.mark.parametrize("shell", ["bash", pytest.param("zsh", marks=pytest.mark.matrix)])
def test_a_tab_takes_little_time_however_many_runs_there_are(
    line: str, shell: str, runs: Sequence[str]
) -> None:
    bare = spent(lambda: subprocess.run([sys.executable, "-c", "import typer.main"], check=True))

    taken = spent(lambda: completed(line, shell))

    assert taken < TAB * bare, f"{taken / bare:.1f} times as much as importing Typer"


def spent(do: Callable[[], Any]) -> float:
    """Return the processor time in seconds, the least of five, that the processes started by *do* take."""
    taken = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert do()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(taken)  # what else the machine does adds to the others


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_every_shell(shell: str, capsys: Capture) -> None:
    assert run(["completion", shell]) == 0

    assert f"complete_{shell}" in capsys.readouterr().out


def test_powershell_is_answered_as_its_script_reads_it(folder: Path) -> None:
    env = {**asked("powershell", "runspec val"), "_TYPER_COMPLETE_WORD_TO_COMPLETE": "val"}
    words = [sys.executable, "-m", "runspec_jobs"]

    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)

    assert done.stdout == "validate:::check specs; contact no service\n"


# What a shell does at TAB: the words are those of a line, which ends where TAB was pressed.
COMPLETES = {
    "bash": """
        eval "$(runspec completion bash)"
        complete -p PROGRAM >/dev/null
        COMP_WORDS=(PROGRAM val) COMP_CWORD=1
        _FUNCTION_completion PROGRAM val PROGRAM
        echo "${COMPREPLY[@]}"
    """,
    # zsh asks for completions on a terminal only: what it would be shown is printed instead.
    "zsh": """
        autoload -U compinit; compinit -u -D
        eval "$(runspec completion zsh)"
        [[ ${_comps[PROGRAM]} == _FUNCTION_completion ]] || exit 1
        words=(PROGRAM val) CURRENT=2
        _arguments() { print -r -- "${1#*\\(\\(\\"}" | sed 's/".*//' }
        _FUNCTION_completion
    """,
    "fish": """
        runspec completion fish | source
        complete -C "PROGRAM val" | string split --fields 1 \\t
    """,
}
INSTALLED = {"bash": ".bash_completions/PROGRAM.sh", "zsh": ".zfunc/_PROGRAM"}
INSTALLED["fish"] = ".config/fish/completions/PROGRAM.fish"


def typed(shell: str, program: str, **env: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [shell, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path, **env},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("shell", COMPLETES)
def test_a_word_is_completed_in_the_shell_itself(shell: str, program: str, folder: Path) -> None:
    need(shell)
    text = COMPLETES[shell].replace("PROGRAM", program)

    assert typed(shell, text.replace("FUNCTION", program.replace("-", "_"))) == "validate"


@pytest.mark.parametrize("shell", COMPLETES)
def test_one_command_installs_completion(shell: str, folder: Path) -> None:
    need(shell)

    said = typed(shell, "runspec --install-completion; true", HOME=str(folder))

    assert f"{shell} completion installed in" in said
    for program in PROGRAMS:
        script = (folder / INSTALLED[shell].replace("PROGRAM", program)).read_text()
        assert f"complete_{shell}" in script


def test_the_few_imports_say_what_the_others_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert suggestions.PROVIDERS == registry.GROUP
    assert state_folder.find_runs_folder() == run_record.find_runs_folder()
