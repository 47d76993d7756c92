"""In GitHub Actions errors are annotations, and no text of a spec, a file or a job is taken for a workflow command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run

Capture = pytest.CaptureFixture[str]
HEAD = "apiVersion: runspec/v1\nname: ci\nprovider: local\n"
OURS = re.compile(
    r"::(end)?group::|::error |::error::|::notice |::[0-9a-f]{32}::$|::stop-commands::[0-9a-f]{32}$"
)


@pytest.fixture(autouse=True)
def _actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")


def commands(text: str) -> list[str]:
    """Return the lines of *text* that a runner takes for commands, besides those that it was told to leave alone."""
    found, token = [], None
    for line in text.splitlines():
        if token is not None:
            token = None if line == f"::{token}::" else token
        elif line.lstrip().startswith("::") or "##[" in line:
            found.append(line)
            stopped = re.fullmatch("::stop-commands::(.+)", line)
            token = stopped and stopped[1]
    return found


def test_a_mistake_in_a_spec_is_shown_at_its_line(capsys: Capture) -> None:
    Path("job.yaml").write_text(f"{HEAD}cluster: {{nodes: -2}}\nrun: a\n")

    assert run(["validate", "job.yaml"]) == 2

    told = capsys.readouterr()
    assert told.out == ""
    (shown,) = commands(told.err)
    what = "cluster.nodes: nodes must be at least 1 (got -2)"
    assert shown == f"::error file=job.yaml,line=4,col=18::{what}"


def test_other_errors_are_annotations_and_json_is_as_it_is(capsys: Capture) -> None:
    assert run(["status", "a%0Ab"]) == 2
    assert commands(capsys.readouterr().err) == ["::error::there is no run 'a%250Ab'"]

    assert run(["status", "##[x", "--json"]) == 2
    assert "there is no run '##[x'" in capsys.readouterr().out


@pytest.mark.process
def test_no_line_of_a_spec_a_file_name_or_a_job_is_a_command(capsys: Capture) -> None:
    script = "echo '::add-mask::a'; echo '##[add-mask]b'; exit 3"
    Path("job.yaml").write_text(
        f"{HEAD}env: {{A: '##[debug]x'}}\nrun: |\n  ::warning::z || {script}\n"
    )
    Path("::error::x.yaml").write_text(f"{HEAD}'::add-mask::y': 1\nrun: a\n")

    codes = [
        run(words)
        for words in (
            ["plan", "--full"],
            ["apply"],
            ["status", "ci"],
            ["validate", "::error::x.yaml"],
        )
    ]

    told = capsys.readouterr()
    assert codes == [0, 1, 0, 2]
    shown = commands(told.out) + commands(told.err)
    assert [line for line in shown if not OURS.match(line)] == []
    assert [line for line in shown if line.startswith("::error::ci-")]
    assert "::error file=%3A%3Aerror%3A%3Ax.yaml,line=4,col=1::" in told.err
