"""What runs have cost: `status`, `list`, `report` and `cost` say it, from their records."""

from __future__ import annotations

import json
import re
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs import api
from runspec_jobs.cli.app import run
from runspec_jobs.cli.spending import short
from runspec_jobs.machines.spent import Part, write_part
from runspec_jobs.provider import State, Status
from runspec_jobs.state_folder import find_runs_folder
from runspec_local.client import LocalClient
from tests.support.wait import until

pytestmark = pytest.mark.process

Capture = pytest.CaptureFixture[str]
HEAD = "apiVersion: runspec/v1\nprovider: local\nproviders: {local: {engine: process}}\n"
TWICE = """\
name: twice
retry: {attempts: 2}
sweep: {n: [0, 1]}
metric: {name: n, goal: max, pattern: 'n=([0-9]+)'}
run: |
  echo n=${sweep.n}
  [ ${sweep.n} = 0 ] || [ "$RUNSPEC_ATTEMPT" = 2 ]
"""
USD_HOUR = 3600.0  # a USD for each second
FIELDS = ("attempts", "hours", "least_usd", "most_usd", "unpriced_hours", "untimed", "at_most")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(f"prices: {{local: {USD_HOUR}}}\n")
    monkeypatch.setenv("RUNSPEC_PROFILE", str(tmp_path / "mine.yaml"))
    return tmp_path


def applied(text: str, *words: str, code: int = 0) -> None:
    Path("job.yaml").write_text(HEAD + text)
    assert run(["apply", "-y", "job.yaml", *words]) == code


def printed(capsys: Capture, *words: str) -> Any:
    capsys.readouterr()
    assert run([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def shown(capsys: Capture, *words: str) -> str:
    capsys.readouterr()
    assert run([*words]) == 0
    return capsys.readouterr().out


def seconds(status: dict[str, Any], exit_code: int) -> float:
    each = [one for node in status["nodes"] for one in node["attempts"]]
    return float(sum(o["ended_s"] - o["began_s"] for o in each if o["exit_code"] == exit_code))


def test_every_command_says_the_same_amount_with_failed_attempts_apart(capsys: Capture) -> None:
    applied(TWICE)

    status = printed(capsys, "status", "twice")
    cost = status["cost"]

    assert [(part["outcome"], part["attempts"]) for part in cost["parts"]] == [
        ("succeeded", 2),
        ("failed", 1),
    ]
    for part, exit_code in zip(cost["parts"], (0, 1), strict=True):
        assert part["most_usd"] == pytest.approx(seconds(status, exit_code), abs=1e-4)
    whole = {name: cost[name] for name in FIELDS}
    assert printed(capsys, "list")["runs"][0]["cost"] == whole
    assert printed(capsys, "report", "twice")["cost"] == cost
    spending = printed(capsys, "cost", "--by", "provider")
    assert spending["groups"] == [{"group": "local", "runs": 1, "cost": cost}]
    assert spending["total"] == cost
    text = re.findall(r"\S+ USD", shown(capsys, "list"))[0]
    assert f"cost: {text}\n" in shown(capsys, "status", "twice")
    assert f"cost: {text}\n" in shown(capsys, "report", "twice")
    table = shown(capsys, "cost")
    assert [line.split()[:2] for line in table.splitlines()[1:]] == [["twice", "1"], ["in", "all"]]
    assert "failed" in table


def test_a_record_elsewhere_gives_the_same_amounts_even_of_a_destroyed_run(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(TWICE)
    expected = printed(capsys, "cost")
    assert run(["destroy", "twice"]) == 0
    home = find_runs_folder()
    shutil.copytree(home, folder / "elsewhere" / "runs")
    shutil.rmtree(home)
    monkeypatch.setenv("RUNSPEC_HOME", str(folder / "elsewhere"))
    monkeypatch.delenv("RUNSPEC_PROFILE")

    assert printed(capsys, "cost") == expected
    (row,) = printed(capsys, "list", "--all")["runs"]
    assert (row["state"], row["cost"]["attempts"]) == ("destroyed", 3)


def test_a_run_that_is_running_counts_so_far(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied("name: long\ncommand: [sleep, '60']\n", "--detach")
    try:
        until(lambda: api.get("long").status().state is State.RUNNING)
        first = printed(capsys, "cost")
        assert first["stale"] == [api.get("long").id], "nobody has looked at it yet"
        assert first["groups"] == []

        assert " USD so far\n" in shown(capsys, "status", "long")

        (group,) = printed(capsys, "cost")["groups"]
        before = group["cost"]["parts"][0]
        assert (before["outcome"], before["attempts"]) == ("running", 1)
        now = printed(capsys, "list")["runs"][0]["cost"]
        assert now["most_usd"] > before["most_usd"]
        assert printed(capsys, "cost")["groups"] == [group], "list writes nothing"

        def away(self: LocalClient, run: str) -> Status:
            raise AssertionError("cost asks no service")

        with monkeypatch.context() as patched:
            patched.setattr(LocalClient, "state", away)
            assert printed(capsys, "cost")["groups"] == [group]
    finally:
        assert run(["cancel", "long"]) == 0
    (part,) = printed(capsys, "status", "long")["cost"]["parts"]
    assert (part["outcome"], part["untimed"]) == ("cancelled", 0)
    assert printed(capsys, "cost")["stale"] == []


def test_runs_without_a_price_have_no_column_and_no_line(folder: Path, capsys: Capture) -> None:
    (folder / "mine.yaml").write_text("prices: {slurm: 1}\n")
    applied("name: free\ncommand: ['true']\n")

    assert "USD" not in shown(capsys, "list")
    assert "cost" not in shown(capsys, "status", "free")
    assert printed(capsys, "status", "free")["cost"] is None
    found = printed(capsys, "cost")
    assert (found["groups"], len(found["unpriced"])) == ([], 1)
    capsys.readouterr()
    assert run(["cost"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "no price on record: free-" in err


def test_an_old_run_is_left_out_since_a_later_time(capsys: Capture) -> None:
    applied("name: old\ncommand: ['true']\n")

    assert printed(capsys, "cost", "--since", "1h")["groups"][0]["group"] == "old"
    assert printed(capsys, "cost", "--since", "0s")["groups"] == []


@pytest.mark.parametrize("text", ["yesterday", "30", "-1d"])
def test_a_time_that_is_none_is_refused(text: str, capsys: Capture) -> None:
    assert run(["cost", f"--since={text}"]) == 2

    assert f"--since: '{text}' is not a length of time" in capsys.readouterr().err


def test_a_damaged_record_of_prices_hides_no_run(capsys: Capture) -> None:
    applied("name: torn\ncommand: ['true']\n")
    (api.get("torn").record.folder / "facts.json").write_text("{")

    assert "succeeded" in shown(capsys, "list")
    assert printed(capsys, "status", "torn")["cost"] is None
    assert printed(capsys, "cost")["unreadable"] == [api.get("torn").id]


NONE, ONE, TWO = Decimal(0), Decimal(1), Decimal(2)


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (Part(1, ONE, NONE, ONE), "<1.00 USD"),
        (Part(1, ONE, ONE, ONE), "1.00 USD"),
        (Part(2, TWO, ONE, ONE, unpriced_hours=ONE), ">1.00 USD"),
        (Part(2, ONE, ONE, TWO, untimed=1), "~2.00 USD"),
        (Part(1, ONE, ONE, ONE, at_most=True), "<1.00 USD"),
        (Part(1, ONE, unpriced_hours=ONE), ""),
    ],
)
def test_a_column_says_which_bound_it_is(part: Part, text: str) -> None:
    assert short(write_part(part)) == text
