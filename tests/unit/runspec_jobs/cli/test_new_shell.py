"""A signal between "the node is there" and the shell on it: nobody comes, so the run is cancelled."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_jobs.api import lifecycle, nodes as api
from runspec_jobs.cli import shell
from runspec_jobs.options.run_verbs import ShellOptions
from runspec_jobs.provider.types import ExecSpec

SPEC = """\
apiVersion: runspec/v1
name: job
provider: local
command: ['true']
timeout: 1h
"""


def test_a_signal_while_the_shell_is_being_opened_cancels_the_run_and_keeps_no_handler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = list[str]()

    def opened(words: Any, *, terminal: bool) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return ExecSpec(("/bin/false",))

    run = SimpleNamespace(id="job-shell-1", cancel=lambda **_: done.append("cancelled"))
    monkeypatch.setattr(lifecycle, "apply", lambda *_, **__: run)
    monkeypatch.setattr(api, "await_shell", lambda *_, **__: None)
    monkeypatch.setattr(shell, "get", lambda *_, **__: run)
    monkeypatch.setattr(api, "enter", lambda *_, **__: SimpleNamespace(open_new_shell=opened))
    (tmp_path / "job.yaml").write_text(SPEC)
    before = handlers()
    try:
        options = ShellOptions(run=str(tmp_path / "job.yaml"), new=True, words=["true"])
        code = shell.shell(options)
        after = handlers()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

    assert (code, done) == (128 + signal.SIGTERM, ["cancelled"])
    assert after == before


def handlers() -> dict[signal.Signals, Any]:
    return {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
