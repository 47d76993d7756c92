"""What a job may cost is said before it starts, asked at a terminal, and refused above a limit."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs import api
from runspec_jobs.api.jobs import estimate
from runspec_jobs.cli import costs
from runspec_jobs.cli.app import run
from runspec_jobs.errors import UsageError
from runspec_jobs.machines.estimate import Offer, StandingCost, Work, estimate as estimated
from tests.support.terminal import RUNSPEC, Terminal

Capture = pytest.CaptureFixture[str]
SPEC = """\
apiVersion: runspec/v1
name: dear
provider: local
timeout: 2h
retry: {spot_attempts: 1}
command: ["true"]
"""


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(SPEC)
    profile(monkeypatch, tmp_path, "prices: {local: 7.5}")
    return path


def profile(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    (folder / "mine.yaml").write_text(text + "\n")
    monkeypatch.setenv("RUNSPEC_PROFILE", str(folder / "mine.yaml"))


def answering(monkeypatch: pytest.MonkeyPatch, answer: str) -> Screen:
    """Give the process a terminal at which somebody types *answer*; return what is shown there."""
    shown = Screen()
    monkeypatch.setattr("sys.stdin", Screen(answer))
    monkeypatch.setattr("sys.stderr", shown)
    return shown


def test_a_plan_says_what_the_job_may_cost_and_its_digest_does_not(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def planned() -> dict[str, Any]:
        assert run(["plan", "--json", str(spec)]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    first = planned()
    profile(monkeypatch, spec.parent, "prices: {local: 1}")
    second = planned()
    profile(monkeypatch, spec.parent, "providers: {}")
    third = planned()

    assert (first["cost"]["most_usd_hour"], first["cost"]["bound_usd"]) == (7.5, 15.0)
    assert second["cost"]["bound_usd"] == 2.0
    assert third["cost"] is None
    assert first["digest"] == second["digest"] == third["digest"]
    assert run(["plan", str(spec)]) == 0
    assert "cost" not in capsys.readouterr().out


def test_the_text_of_a_plan_names_the_price_and_the_bound(spec: Path, capsys: Capture) -> None:
    assert run(["plan", str(spec)]) == 0

    shown = capsys.readouterr().out
    assert "1 x a node of local: 7.50 USD an hour (the profile's price)" in shown
    assert "at most: 15.00 USD (2 h)" in shown


def test_stored_data_has_a_price_and_unknown_prices_are_named() -> None:
    standing = (
        StandingCost("a file system", 0.23),
        StandingCost("what is kept", usd_gb_month=0.0208),
        StandingCost("something else"),
    )
    found = estimated(Offer((), standing=standing), Work(1, 1, 1, 3600, 1), "aws-batch", {})
    shown = [line.strip() for line in costs.lines(found)]

    head = shown.index("also while nothing runs:")
    assert shown[head + 1 : head + 4] == [
        "0.23 USD an hour: a file system",
        "0.0208 USD a GB and month: what is kept",
        "price unknown: something else",
    ]
    assert not [line for line in shown if "0 USD" in line or "0.00" in line]


def test_a_job_that_may_cost_too_much_is_refused(spec: Path, capsys: Capture) -> None:
    assert run(["apply", "--max-usd", "14.9", str(spec)]) == UsageError.exit_code

    assert "the job may cost 15.00 USD, and 14.90 USD are allowed" in capsys.readouterr().err
    assert api.runs() == []
    assert run(["plan", "--max-usd", "15", str(spec)]) == 0


def test_a_job_without_a_known_limit_is_refused_by_any_limit(spec: Path, capsys: Capture) -> None:
    spec.write_text(SPEC.replace("timeout: 2h\n", ""))

    assert run(["plan", "--max-usd", "1000", str(spec)]) == UsageError.exit_code

    assert "the cost has no known limit: the spec has no timeout" in capsys.readouterr().err
    assert run(["plan", str(spec)]) == 0
    assert "at most: no limit, because the spec has no timeout" in capsys.readouterr().out


SIZES = SPEC.replace(
    "retry:",
    "scaling: [1, 1]\nmetric: {name: x, goal: max, pattern: 'x=(\\d+)'}\nretry:",
)


def test_all_sizes_of_a_spec_count_against_the_limit_before_the_first_one_starts(
    spec: Path, capsys: Capture
) -> None:
    spec.write_text(SIZES.replace("[1, 1]", "[1, 2]"))

    assert run(["plan", str(spec)]) == 0
    assert "\nall 2 jobs at most: 45.00 USD\n" in capsys.readouterr().out
    for verb in ("plan", "apply"):
        assert run([verb, "--max-usd", "44", str(spec)]) == UsageError.exit_code
        assert "the 2 jobs may cost 45.00 USD, and 44.00 USD are allowed" in capsys.readouterr().err
    assert api.runs() == []


def test_the_question_is_about_all_sizes_and_no_starts_none(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of the sizes costs more than `confirm_above`, and all together do."""
    profile(monkeypatch, spec.parent, "prices: {local: 3}")
    spec.write_text(SIZES.replace("[1, 1]", "[1, 2]"))
    shown = answering(monkeypatch, "n\n")

    assert run(["apply", str(spec)]) == UsageError.exit_code

    assert "all 2 jobs at most: 18.00 USD" in shown.getvalue()
    assert shown.getvalue().count("start them? [y/N]") == 1
    assert api.runs() == []


def test_the_cost_of_a_smoke_test_counts_against_the_limit(spec: Path, capsys: Capture) -> None:
    spec.write_text(SPEC + 'smoke: ["true"]\n')

    assert run(["apply", "--smoke", "--max-usd", "15", str(spec)]) == UsageError.exit_code

    # 30 minutes at most, at 7.50 USD an hour
    assert "the 2 jobs may cost 18.75 USD, and 15.00 USD are allowed" in capsys.readouterr().err
    assert api.runs() == []


@pytest.mark.process
@pytest.mark.parametrize(("answer", "code", "started"), [("n", 2, 0), ("", 2, 0), ("y", 0, 1)])
def test_a_real_terminal_is_asked_and_only_yes_starts_the_job(
    spec: Path, answer: str, code: int, started: int
) -> None:
    at = Terminal("apply", str(spec))

    at.until("at most: 15.00 USD (2 h)")
    at.until("start it? [y/N]")
    at.type(f"{answer}\n")

    assert at.code() == code
    assert ("not confirmed: nothing was started" in at.shown) == (not started)
    assert len(api.runs()) == started


def test_a_person_is_asked_with_json_as_well(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    shown = answering(monkeypatch, "n\n")

    assert run(["apply", "--json", str(spec)]) == UsageError.exit_code

    assert "at most: 15.00 USD (2 h)" in shown.getvalue()
    assert "start it? [y/N]" in shown.getvalue()
    assert api.runs() == []


@pytest.mark.process
def test_without_a_terminal_nothing_is_asked(spec: Path) -> None:
    done = subprocess.run(
        [*RUNSPEC, "apply", str(spec)], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert "at most: 15.00 USD (2 h)" in done.stderr
    assert "start it?" not in done.stderr


@pytest.mark.parametrize("text", ["-1", "lots", "nan", "inf"])
def test_a_limit_that_is_no_amount_is_refused(spec: Path, text: str, capsys: Capture) -> None:
    assert run(["plan", f"--max-usd={text}", str(spec)]) == UsageError.exit_code

    assert f"'{text}' is not an amount of USD" in capsys.readouterr().err


def test_no_at_a_terminal_starts_nothing(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = answering(monkeypatch, "n\n")

    assert run(["apply", str(spec)]) == UsageError.exit_code

    assert "at most: 15.00 USD (2 h)" in shown.getvalue()
    assert "start it? [y/N]" in shown.getvalue()
    assert api.runs() == []


@pytest.mark.process
@pytest.mark.parametrize(
    "words,settings",
    [
        ([], "prices: {local: 5}"),  # 10 USD: not above
        (["--yes"], "prices: {local: 50}"),
        ([], "prices: {local: 50}\nconfirm_above: 1000"),
        ([], "providers: {}"),
    ],
)
def test_apply_asks_nothing_with_yes_or_below_the_limit(
    spec: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], settings: str
) -> None:
    profile(monkeypatch, spec.parent, settings)
    shown = answering(monkeypatch, "n\n")

    assert run(["apply", *words, str(spec)]) == 0

    assert "start it?" not in shown.getvalue()


@pytest.mark.process
def test_a_run_that_is_there_is_not_asked_about_again(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, "y\n")
    assert run(["apply", str(spec)]) == 0
    shown = answering(monkeypatch, "n\n")

    assert run(["apply", str(spec)]) == 0

    assert "start it?" not in shown.getvalue()
    assert len(api.runs()) == 1


def test_a_profile_of_somebody_else_cannot_keep_apply_from_asking(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RUNSPEC_PROFILE")
    theirs = spec.parent / "runspec-profile.yaml"
    theirs.write_text("prices: {local: 7.5}\nconfirm_above: 1000\n")

    assert api.load(spec).confirm_above_usd == 10.0
    theirs.write_text("confirm_above: 3\n")
    assert api.load(spec).confirm_above_usd == 3.0
    assert run(["trust", str(theirs)]) == 0
    theirs.write_text("confirm_above: 1000\n")
    assert api.load(spec).confirm_above_usd == 10.0  # it has changed since
    assert run(["trust", str(theirs)]) == 0
    assert api.load(spec).confirm_above_usd == 1000.0


def test_python_asks_for_the_estimate_itself(spec: Path) -> None:
    found = estimate(api.load(spec))

    assert found is not None and found.bound_usd == 15.0


SLURM = SPEC.replace("local", "slurm") + "cluster: {gpus: 1}\n"
CLUSTER = """\
providers:
  parallelcluster: {region: us-east-1, key_pair: k, subnets: [subnet-0123456789abcdef0]}
"""
UNKNOWN = "the price of a node hour is unknown: set prices: {slurm: USD} in the profile"


@pytest.mark.process
def test_a_plan_for_slurm_says_in_a_line_that_the_price_is_unknown(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    spec.write_text(SLURM)

    assert run(["plan", str(spec)]) == 0
    assert f"\ncost\n     {UNKNOWN}\n\n" in capsys.readouterr().out

    profile(monkeypatch, spec.parent, "prices: {slurm: 1.5}")
    assert run(["plan", str(spec)]) == 0
    shown = capsys.readouterr().out
    assert "at most: 3.00 USD (2 h)" in shown and UNKNOWN not in shown


@pytest.mark.process
def test_a_limit_refuses_a_job_on_slurm_whose_price_is_unknown(spec: Path, capsys: Capture) -> None:
    spec.write_text(SLURM)

    assert run(["plan", "--max-usd", "100", str(spec)]) == UsageError.exit_code

    assert f"the cost has no known limit: {UNKNOWN}" in capsys.readouterr().err


@pytest.mark.process
def test_apply_neither_tells_nor_asks_about_a_price_that_only_the_user_knows(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec.write_text(SLURM)
    shown = answering(monkeypatch, "n\n")

    job = api.load(spec)
    costs.Confirmation([job], yes=False, quiet=False)(job)

    assert shown.getvalue() == ""


NOWHERE = """\
providers:
  aws-batch:
    region: eu-west-1
    bucket: jobs
    subnets: [subnet-0123456789abcdef0]
    security_groups: [sg-0123456789abcdef0]
    job_role: arn:aws:iam::123456789012:role/job
    instance_role: arn:aws:iam::123456789012:instance-profile/machine
"""


@pytest.mark.parametrize(
    ("cluster", "asks"),
    [({"gpus": 1}, True), ({"gpus": 1, "gpu_type": "T4"}, True), ({"cpus": 4}, False)],
)
def test_an_unknown_price_of_gpus_is_asked_about_and_one_of_cpus_is_not(
    spec: Path, monkeypatch: pytest.MonkeyPatch, cluster: dict[str, Any], asks: bool
) -> None:
    profile(monkeypatch, spec.parent, NOWHERE)
    spec.write_text(
        f"{SPEC.replace('local', 'aws-batch')}cluster: {json.dumps(cluster)}\ncontainer: {{image: python}}\n"
    )
    job, shown = api.load(spec), answering(monkeypatch, "n\n")
    found = estimate(job)
    assert found is not None and found.machines and found.bound_usd is None

    refused = pytest.raises(UsageError) if asks else contextlib.nullcontext()
    with refused:
        costs.Confirmation([job], yes=False, quiet=False)(job)

    assert ("start it? [y/N]" in shown.getvalue()) is asks
    assert "at most: unknown, because the price of " in shown.getvalue()


def test_a_job_without_an_end_is_asked_about(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile(monkeypatch, spec.parent, "prices: {local: 0.01}")
    spec.write_text(SPEC.replace("timeout: 2h\n", ""))
    shown = answering(monkeypatch, "n\n")

    assert run(["apply", str(spec)]) == UsageError.exit_code

    assert "at most: no limit, because the spec has no timeout" in shown.getvalue()
    assert api.runs() == []


def test_apply_names_machines_standing_costs_and_alternatives(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile(monkeypatch, spec.parent, CLUSTER)
    spec.write_text(SPEC.replace("local", "parallelcluster") + "cluster: {gpus: 2, nodes: 4}\n")
    shown = answering(monkeypatch, "n\n")

    assert run(["apply", str(spec)]) == UsageError.exit_code

    lines = [line.removeprefix("runspec: ") for line in shown.getvalue().splitlines()]
    assert (
        "cost: 4 x g4dn.12xlarge, in all: 15.65 USD an hour; at most: 31.30 USD (2 h x 4 nodes)"
        in lines
    )
    assert (
        "also while nothing runs: the head node, m6i.xlarge, until `runspec destroy --shared`: "
        "0.19 USD an hour"
    ) in lines
    (others,) = [line for line in lines if line.startswith("other machines, each: ")]
    assert others.count(" an hour") == 2
    assert api.runs() == []


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("", "15.00 USD (2 h)"),
        ("cluster: {capacity: spot}\n", "15.00 USD (2 h)"),
        ("retry: {attempts: 2}\n", "30.00 USD (2 h x 2 attempts)"),
        ("cluster: {nodes: {min: 1, max: 2}}\n", "150.00 USD (2 h x 5 attempts x 2 nodes)"),
    ],
)
def test_only_attempts_that_may_be_made_count_on_this_machine(
    text: str, most: str, spec: Path, capsys: Capture
) -> None:
    spec.write_text(SPEC.replace("retry: {spot_attempts: 1}\n", text))

    assert run(["plan", str(spec)]) == 0

    assert f"at most: {most}" in capsys.readouterr().out


DEAR_CLUSTER = """\
apiVersion: runspec/v1
name: dear
provider: parallelcluster
timeout: 1m
cluster: {nodes: 1, cpus: 2}
providers:
  parallelcluster: {min_count: 10, max_count: 10, head_node: p5.48xlarge, instance_types: [p5.48xlarge]}
command: ["true"]
"""
DEAR_PROFILE = (
    "confirm_above: 1\nproviders:\n  parallelcluster: {region: us-east-1, subnets: [subnet-0123456789abcdef0], "
    "head_subnet: subnet-0123456789abcdef0, key_pair: k}"
)


@pytest.fixture
def dear_cluster(spec: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cheap job whose cluster stays and costs 605 USD an hour."""
    profile(monkeypatch, spec.parent, DEAR_PROFILE)
    spec.write_text(DEAR_CLUSTER)
    return spec


def test_standing_costs_count_against_the_limit(dear_cluster: Path, capsys: Capture) -> None:
    assert run(["apply", "--max-usd", "100", str(dear_cluster)]) == UsageError.exit_code

    told = capsys.readouterr().err
    assert "the job may cost 14,531.48 USD, and 100.00 USD are allowed" in told
    assert "14,530.56 USD of it are for what stays beside the job" in told
    assert api.runs() == []


def test_standing_costs_above_the_limit_need_a_confirmation(
    dear_cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile(monkeypatch, dear_cluster.parent, DEAR_PROFILE.replace("above: 1", "above: 100"))
    shown = answering(monkeypatch, "n\n")

    assert run(["apply", str(dear_cluster)]) == UsageError.exit_code

    assert "with what stays, which counts for a day at least: 14,531.48 USD" in shown.getvalue()
    assert "start it? [y/N]" in shown.getvalue()


def batch(spec: Path, monkeypatch: pytest.MonkeyPatch, cluster: str, more: str = "") -> Path:
    """Make *spec* one for AWS Batch in a region of which no price is known."""
    profile(monkeypatch, spec.parent, f"{NOWHERE}{more}")
    text = SPEC.replace("local", "aws-batch")
    text += f"cluster: {cluster}\ncontainer: {{image: python:3.12}}\n"
    spec.write_text(text)
    return spec


@pytest.mark.parametrize(("nodes", "asked"), [(1, False), (32, True)])
def test_an_unknown_price_is_asked_about_by_that_of_the_nearest_region(
    spec: Path, monkeypatch: pytest.MonkeyPatch, nodes: int, asked: bool
) -> None:
    job = api.jobs.load(batch(spec, monkeypatch, f"{{nodes: {nodes}, cpus: 16}}"))

    assert costs.is_much([job]) == asked
    found = estimate(job)
    assert found is not None and " USD by the prices of us-east-1" in costs.bound(found)


def test_the_refusal_of_an_unknown_price_names_that_of_the_nearest_region(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    batch(spec, monkeypatch, "{nodes: 8, cpus: 16}")

    assert run(["plan", "--max-usd", "5", str(spec)]) == UsageError.exit_code

    assert "is unknown; " in (told := capsys.readouterr().err)
    assert "USD by the prices of us-east-1" in told


@pytest.mark.parametrize(("nodes", "asked"), [(4, False), (8, True)])
def test_a_machine_without_a_price_anywhere_is_asked_about_by_its_hours(
    spec: Path, monkeypatch: pytest.MonkeyPatch, nodes: int, asked: bool
) -> None:
    job = api.jobs.load(
        batch(spec, monkeypatch, f"{{nodes: {nodes}}}", "    instance_types: [x99.large]")
    )

    assert costs.is_much([job]) == asked
    found = estimate(job)
    assert found is not None and f"; {2 * nodes} machine hours" in costs.bound(found)


def test_the_price_of_one_of_several_machines_is_told_apart_from_that_of_all(
    spec: Path, capsys: Capture
) -> None:
    spec.write_text(SPEC + "cluster: {nodes: 3}\n")

    assert run(["plan", str(spec)]) == 0

    shown = capsys.readouterr().out
    assert "3 x a node of local: each 7.50 USD an hour" in shown
    assert "in all: 22.50 USD an hour" in shown
