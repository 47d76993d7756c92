"""What docs/elastic-costs.md says is what the simulator says.

`RUNSPEC_GOLDEN=write pytest tests/unit/specs/test_elastic_costs.py` writes its tables anew.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from tests.support.root import ROOT
from tests.unit.specs import elastic_costs

PAGE = ROOT / "docs" / "elastic-costs.md"


@pytest.mark.parametrize("name", elastic_costs.TABLES)
def test_the_tables_are_what_is_simulated(name: str) -> None:
    found = str(elastic_costs.TABLES[name]())
    place = re.compile(rf"(<!-- table: {name} -->\n\n)((?:\|.*\n)*)")
    text = PAGE.read_text()
    if os.environ.get("RUNSPEC_GOLDEN") == "write":
        PAGE.write_text(place.sub(lambda match: match[1] + found, text))
        return

    (table,) = (match[2] for match in place.finditer(text))
    assert table == found


def test_at_one_price_nothing_is_saved_by_coming_and_going() -> None:
    base = elastic_costs.stays(4)

    for pool in ("few", "wave", "many"):
        assert elastic_costs.scheduled(pool, 1.0).cost > base.cost


def test_the_claim_of_dynamic_training_holds_on_the_wave_with_cheap_machines_alone() -> None:
    """15 to 50 % lower cost and 15 to 30 % less time, against 4 machines that stay."""
    base = elastic_costs.stays(4)

    def claim(pool: str, price: float) -> bool:
        found = elastic_costs.scheduled(pool, price)
        less_time, less_cost = 1 - found.time_s / base.time_s, 1 - found.cost / base.cost
        return 0.15 <= less_time <= 0.30 and 0.15 <= less_cost <= 0.50

    held = {(pool, p) for pool in ("few", "wave", "many") for p in (1, 0.6, 0.4) if claim(pool, p)}
    assert held == {("wave", 0.6), ("wave", 0.4)}


def test_its_command_gives_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The spec and the command of the page stand there as they are tried here."""
    (spec,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (command,) = re.findall(r"```sh\n(runspec .*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "job.yaml").write_text(spec)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)

    assert run([*shlex.split(command.replace("\\\n", " "))[1:], "--json"]) == 0

    cases = json.loads(capsys.readouterr().out)["cases"]
    wave, base = elastic_costs.scheduled("wave", 1.0), elastic_costs.stays(4)
    assert cases[0]["time_s"]["mean"] == pytest.approx(wave.time_s)
    assert cases[-1]["cost"]["mean"] == pytest.approx(base.cost)
