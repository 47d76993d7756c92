"""`runspec prices` shows and reads price lists, by which plan and the guards count, and no digest."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from runspec_aws import price_list
from runspec_jobs.cli.app import run
from runspec_jobs.errors import RemoteError, UsageError
from runspec_jobs.machines.price_list import ListedPrices
from runspec_jobs.state import price_cache

Capture = pytest.CaptureFixture[str]
PROFILE = """\
providers:
  aws-batch:
    region: eu-west-1
    bucket: jobs
    subnets: [subnet-0123456789abcdef0]
    security_groups: [sg-0123456789abcdef0]
    job_role: arn:aws:iam::123456789012:role/job
    instance_role: arn:aws:iam::123456789012:instance-profile/machine
    instance_types: [m5.4xlarge]
"""
SPEC = """\
apiVersion: runspec/v1
name: job
provider: aws-batch
timeout: 2h
retry: {spot_attempts: 1}
cluster: {cpus: 16}
container: {image: python}
command: ["true"]
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(PROFILE)
    monkeypatch.setenv("RUNSPEC_PROFILE", str(tmp_path / "mine.yaml"))
    (tmp_path / "job.yaml").write_text(SPEC)
    return tmp_path / "job.yaml"


def reading(monkeypatch: pytest.MonkeyPatch, usd: float) -> None:
    listed = ListedPrices({"m5.4xlarge": usd}, {"m5.4xlarge": 0.1}, "the list")
    monkeypatch.setattr(price_list, "read", lambda options: listed)


def planned(capsys: Capture, *more: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["plan", "--json", "job.yaml", *more]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_plan_and_the_guards_count_by_the_prices_that_were_read_and_the_digest_does_not(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    before = planned(capsys)
    assert before["cost"]["bound_usd"] is None
    reading(monkeypatch, 0.9)

    assert run(["prices", "--update"]) == 0

    after = planned(capsys)
    assert (after["cost"]["bound_usd"], after["cost"]["machines"][0]["usd_hour"]) == (1.8, 0.9)
    assert after["cost"]["catalogue"].startswith("read from the list on 2")
    assert after["digest"] == before["digest"] and after["steps"] == before["steps"]
    assert run(["plan", "--max-usd", "1", str(spec)]) == UsageError.exit_code
    assert run(["plan", "--max-usd", "2", str(spec)]) == 0


def test_spot_machines_have_their_price_with_its_age_and_the_guards_the_one_on_demand(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    spec.write_text(SPEC.replace("{cpus: 16}", "{cpus: 16, capacity: spot}"))
    reading(monkeypatch, 0.9)
    assert run(["prices", "--update"]) == 0
    aged(days=3)

    found = planned(capsys)["cost"]

    assert (found["bound_usd"], found["at_spot_usd"], found["spot_usd_hour"]) == (1.8, 0.2, 0.1)
    assert found["machines"][0]["spot_usd_hour"] == 0.1
    assert found["listed_on"] == day(3)
    assert run(["plan", str(spec)]) == 0
    said = capsys.readouterr().out
    assert f"0.90 USD an hour, or 0.10 USD on spot machines by prices of {day(3)}, 3 days" in said
    assert "or 0.20 USD by the spot prices" in said
    assert f"on {day(3)}, 3 days ago" in said
    assert run(["plan", "--max-usd", "1", str(spec)]) == UsageError.exit_code


def test_a_spot_price_above_the_one_on_demand_counts_as_that(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    spec.write_text(SPEC.replace("{cpus: 16}", "{cpus: 16, capacity: spot}"))
    reading(monkeypatch, 0.05)
    assert run(["prices", "--update"]) == 0

    assert planned(capsys)["cost"]["machines"][0]["spot_usd_hour"] == 0.05


def test_standing_costs_use_the_prices_of_the_list(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    listed = ListedPrices({"m5.4xlarge": 0.9}, {}, "the list", services={"nat gateway": 0.5})
    monkeypatch.setattr(price_list, "read", lambda options: listed)
    assert run(["prices", "--update"]) == 0

    found = planned(capsys)["cost"]

    (gateway,) = [one for one in found["standing"] if "NAT gateway" in one["what"]]
    assert (gateway["usd_hour"], found["standing_usd"]) == (0.5, 1.0)
    assert f"price of eu-west-1, {day(0)}" in gateway["what"]
    assert run(["plan", "--max-usd", "2", str(spec)]) == UsageError.exit_code
    assert run(["plan", "--max-usd", "3", str(spec)]) == 0


def day(ago: int) -> str:
    return (datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(ago)).isoformat()


def aged(days: int) -> None:
    """Make the prices that were read as old as that."""
    found = json.loads(price_cache.find_file().read_text())
    for one in found["lists"].values():
        one["date"] = day(days)
    price_cache.find_file().write_text(json.dumps(found))


def test_prices_of_the_profile_come_first(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (spec.parent / "mine.yaml").write_text("prices: {m5.4xlarge: 2}\n" + PROFILE)
    reading(monkeypatch, 0.9)
    assert run(["prices", "--update"]) == 0

    assert planned(capsys)["cost"]["bound_usd"] == 4.0


def test_without_a_list_the_command_that_reads_one_is_named(spec: Path, capsys: Capture) -> None:
    assert run(["prices"]) == 0

    told = capsys.readouterr().err
    assert "no price list was read" in told and "runspec prices --update" in told


def test_price_lists_are_shown_with_date_and_source(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    reading(monkeypatch, 0.9)
    assert run(["prices", "--update", "--json"]) == 0

    (found,) = json.loads(capsys.readouterr().out)["lists"]
    assert (found["list"], found["source"]) == ("ec2/eu-west-1", "the list")
    assert (found["usd_hour"], found["spot_usd_hour"]) == ({"m5.4xlarge": 0.9}, {"m5.4xlarge": 0.1})
    assert run(["prices"]) == 0
    assert "ec2/eu-west-1" in capsys.readouterr().out
    assert price_cache.find_file().stat().st_mode & 0o777 == 0o600


def test_a_list_that_cannot_be_read_is_an_error_and_leaves_what_was_read(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    reading(monkeypatch, 0.9)
    assert run(["prices", "--update"]) == 0

    def fails(options: Any) -> ListedPrices:
        raise RemoteError("the list is gone")

    monkeypatch.setattr(price_list, "read", fails)

    assert run(["prices", "--update"]) == RemoteError.exit_code
    assert "the list is gone" in capsys.readouterr().err
    assert planned(capsys)["cost"]["bound_usd"] == 1.8


def test_a_profile_without_a_region_is_told_what_to_write(spec: Path, capsys: Capture) -> None:
    (spec.parent / "mine.yaml").write_text("providers: {aws-batch: {bucket: jobs}}\n")

    assert run(["prices", "--update"]) == UsageError.exit_code

    assert "the profile names no region whose prices could be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"format": "runspec.price-cache/v9"}',
        '{"format": "runspec.price-cache/v1", "lists": {"ec2/eu-west-1": 3}}',
        (
            '{"format": "runspec.price-cache/v1", "lists": {"ec2/eu-west-1": {"usd_hour": {"m5.4xlarge": '
            '-1, "a": NaN}, "spot_usd_hour": {}, "source": "", "date": ""}}}'
        ),
        "[" * 100_000,
    ],
)
def test_a_damaged_file_of_prices_has_none(spec: Path, text: str, capsys: Capture) -> None:
    place = price_cache.find_file()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)

    assert planned(capsys)["cost"]["bound_usd"] is None
