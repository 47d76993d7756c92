"""What is typed beside a spec becomes part of its plan and of the record of its run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_jobs import api
from runspec_jobs.cli.app import run
from runspec_jobs.errors import Conflict, UsageError
from runspec_jobs.state import run_record

Capture = pytest.CaptureFixture[str]
SPEC = """\
apiVersion: runspec/v1
name: toy
provider: slurm
cluster: {nodes: 1}
mounts: [{name: code, source: ./src, target: /job/code}]
outputs: [{name: model, path: /job/model}]
env: {GREETING: hello, N: 3}
command: [echo, "a b"]
"""


@pytest.fixture(autouse=True)
def _spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("job.yaml").write_text(SPEC)


def loaded(*settings: str, words: tuple[str, ...] = (), provider: str = "local") -> api.Job:
    return api.load("job.yaml", provider=provider, settings=settings, arguments=words)


def test_fields_are_replaced_and_added() -> None:
    job = loaded(
        "cluster.nodes=2", "env.NEW=x: y", "env.GREETING=", "timeout=5m", "retry.attempts=2"
    )

    spec = job.spec
    assert (spec.provider, spec.cluster.nodes.max, spec.timeout) == ("local", 2, 300)
    assert dict(spec.env) == {"GREETING": "", "N": "3", "NEW": "x: y"}
    assert spec.retry.attempts == 2


def test_items_of_lists_are_named_or_counted() -> None:
    job = loaded("mounts.code.target=/job/other", "outputs[0].sync=30s", "command[1]=c")

    assert job.spec.mounts[0].target == "/job/other"
    assert (job.spec.outputs[0].sync, job.spec.command) == (30, ("echo", "c"))


def test_each_change_sees_what_the_changes_before_it_have_made() -> None:
    job = loaded(
        "command=[printf, x]", "mounts=[{name: data, source: ., target: /d}]", words=("y",)
    )
    again = loaded("mounts=[{name: data, source: ., target: /d}]", "mounts.data.target=/job/data")

    assert job.spec.command == ("printf", "x", "y")
    assert [mount.target for mount in again.spec.mounts] == ["/job/data"]


def test_a_value_may_be_a_list_or_a_mapping() -> None:
    job = loaded("sweep.lr=[0.1, 0.2]", "cluster.nodes={min: 1, max: 3}")

    assert [task["lr"] for task in job.tasks()] == ["0.1", "0.2"]
    assert (job.spec.cluster.nodes.min, job.spec.cluster.nodes.max) == (1, 3)


def test_words_are_added_to_the_command_as_they_are() -> None:
    job = loaded(words=("--lr", "1e-3", "${mounts.code}/x", "$HOME; ls", "no", ""))

    added = ("--lr", "1e-3", "${mounts.code}/x", "$HOME; ls", "no", "")
    assert job.spec.command == ("echo", "a b", *added)


def test_the_record_of_a_run_reads_back_as_the_changed_spec() -> None:
    job = loaded("env.NEW=1", "cluster.nodes=2", words=("no", "5", 'q"\n'))

    again = api.load(job.text.applied, base=".")

    assert again.spec == job.spec


def test_overrides_change_the_plan() -> None:
    plain, same = (api.plan(loaded()).digest for _ in range(2))

    assert plain == same == api.plan(loaded("env.N=3")).digest
    assert plain != api.plan(loaded("env.N=4")).digest
    assert plain != api.plan(loaded(words=("x",))).digest


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--set", "cluster.nods=2"],
            "--set cluster.nods: unknown key 'nods'\n  hint: did you mean 'nodes'?",
        ),
        (["--set", "cluster.nodes=x"], "--set cluster.nodes: 'x' is not a number of nodes"),
        (["--set", "cluster.nodes"], "--set: 'cluster.nodes' is not PATH=VALUE"),
        (["--set", "=2"], "--set: '' is not PATH=VALUE"),
        (["--set", "a..b=2"], "--set: 'a..b' is not a path in a spec"),
        (["--set", "mounts[1].target=/x"], "the list has no item '1'"),
        (["--set", "mounts.data.target=/x"], "the list has no item 'data'"),
        (["--set", "name.x=1"], "'x' is not a field of the spec"),
        (["--set", "env=[1"], "--set env: a ',' or ']' is expected here"),
        (["--provider", "locl"], "the provider 'locl' is not installed"),
    ],
)
def test_a_mistake_is_told_with_its_option(words: list[str], told: str, capsys: Capture) -> None:
    provider = [] if "--provider" in words else ["--provider", "local"]

    assert run(["plan", *provider, *words]) != 0

    printed = capsys.readouterr().err
    assert told in printed and "job.yaml:" not in printed


def test_words_for_a_script_are_refused(capsys: Capture) -> None:
    Path("job.yaml").write_text(SPEC.replace('command: [echo, "a b"]', "run: echo a"))

    assert run(["plan", "--provider", "local", "--", "x"]) == UsageError.exit_code

    assert "the spec has none" in capsys.readouterr().err


def test_words_after_the_dashes_are_not_blamed_for_those_of_the_file(capsys: Capture) -> None:
    Path("job.yaml").write_text(SPEC.replace('"a b"', '"${env.X}"'))

    assert run(["plan", "--provider", "local", "--", "${env.Y}"]) == UsageError.exit_code

    told = capsys.readouterr().err
    assert "job.yaml:8:17: command[1]: '${env.X}'" in told
    assert "--: command[2]: '${env.Y}'" in told


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("metric.name=x", "--set metric.name: metric.goal: 'goal' is missing"),
        (
            "providers.local.secrets.x=abcdef",
            "--set providers.local.secrets.x: providers.local.secrets:",
        ),
    ],
)
def test_a_mistake_around_an_override_names_the_option(
    setting: str, told: str, capsys: Capture
) -> None:
    """The mapping around it is in no line of the file."""
    assert run(["plan", "--provider", "local", "--set", setting]) == UsageError.exit_code

    found = capsys.readouterr().err
    assert told in found
    assert "job.yaml" not in found and "abcdef" not in found


def test_a_mistake_of_the_file_is_still_told_with_its_line(capsys: Capture) -> None:
    Path("job.yaml").write_text(SPEC + "nme: x\n")

    assert run(["plan", "--provider", "local", "--set", "env.A=1"]) == UsageError.exit_code

    assert "job.yaml:9:1: nme: unknown key 'nme'" in capsys.readouterr().err


def test_without_a_file_job_yaml_is_meant(capsys: Capture) -> None:
    assert run(["plan", "--provider", "local"]) == 0
    assert capsys.readouterr().out.startswith("plan for local")

    Path("job.yaml").rename("other.yaml")

    assert run(["plan"]) == UsageError.exit_code
    told = capsys.readouterr().err
    assert "cannot read job.yaml: no such file or directory" in told and "runspec init" in told


@pytest.mark.process
def test_the_same_options_mean_the_same_run(capsys: Capture) -> None:
    words = ["apply", "--provider", "local", "--set", "env.GREETING=bye", "--set", "run=~"]
    words = [*words[:5], "--", "c d"]
    assert run(words) == 0
    first = run_record.list_runs("toy")[-1]
    capsys.readouterr()

    assert run(words) == 0
    assert run(["plan", "--diff", "--json", *words[1:]]) == 0

    assert [of.run for of in run_record.list_runs("toy")] == [first.run]
    assert first.spec.command == ("echo", "a b", "c d") and first.spec.env["GREETING"] == "bye"
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["changes"] == []


@pytest.mark.process
def test_other_options_conflict_with_a_live_run(capsys: Capture) -> None:
    Path("job.yaml").write_text(SPEC.replace('[echo, "a b"]', '[sleep, "60"]'))
    assert run(["apply", "-d", "--provider", "local"]) == 0

    code = run(["apply", "-d", "--provider", "local", "--set", "env.N=4"])

    assert code == Conflict.exit_code
    assert run(["destroy", "toy"]) == 0


PARAMS = SPEC.replace("cluster: {nodes: 1}", "cluster: {nodes: '${params.nodes}'}").replace(
    "provider: slurm\n", "provider: slurm\nparams: {size: 7b, nodes: 1, fast: false}\n"
)


@pytest.mark.process
def test_parameters_are_part_of_the_plan_and_of_the_record(capsys: Capture) -> None:
    Path("job.yaml").write_text(PARAMS.replace('[echo, "a b"]', '[echo, "${params.size}"]'))

    code = run(
        ["apply", "job.yaml", "--provider", "local", "--param", "size=13b", "--param", "fast=true"]
    )
    again = run(
        ["apply", "job.yaml", "--provider", "local", "--param", "size=13b", "--param", "fast=true"]
    )
    first = capsys.readouterr()
    run(["status", "toy"])
    shown = capsys.readouterr().out
    run(["status", "toy", "--json"])
    (record,) = run_record.list_all()

    assert (code, again) == (0, 0), first
    assert record.spec.command == ("echo", "13b")
    assert "  parameters: size=13b, nodes=1, fast=true\n" in shown
    assert json.loads(capsys.readouterr().out)["params"] == {
        "size": "13b",
        "nodes": "1",
        "fast": "true",
    }
    assert run(["apply", "job.yaml", "--provider", "local", "--param", "size=3b"]) == 0
    assert len(run_record.list_all()) == 2


def test_python_gives_parameters_as_a_mapping() -> None:
    Path("job.yaml").write_text(PARAMS)

    job = api.load("job.yaml", provider="local", params={"nodes": 1, "fast": True, "size": "a=b:c"})

    assert dict(job.spec.params) == {"size": "a=b:c", "nodes": "1", "fast": "true"}


@pytest.mark.parametrize(
    ("param", "said"),
    [
        ("siz=1", "--param siz: job.yaml has no parameter 'siz'"),
        ("size", "--param: 'size' is not NAME=VALUE"),
        ("=1", "--param: '' is not NAME=VALUE"),
        ("nodes=two", "--param nodes: 'two' is not a number, and the default is 1 (job.yaml:4:27)"),
        (
            "fast=yes",
            "--param fast: 'yes' is not true or false, and the default is false (job.yaml:4:36)",
        ),
    ],
)
def test_a_parameter_of_another_name_or_kind_is_refused(
    param: str, said: str, capsys: Capture
) -> None:
    Path("job.yaml").write_text(PARAMS)

    codes = {
        verb: run([verb, "job.yaml", "--param", param]) for verb in ("plan", "validate", "apply")
    }

    assert codes == {"plan": 2, "validate": 2, "apply": 2}
    assert said in capsys.readouterr().err


def test_a_parameter_of_a_chain_is_that_of_one_job_or_of_all_that_have_it(capsys: Capture) -> None:
    own = PARAMS.replace("name: toy", "name: other")
    Path("job.yaml").write_text(
        f"{PARAMS}---\n{own}---\n{SPEC.replace('name: toy', 'name: third')}"
    )

    chain = api.chains.load_chain(
        "job.yaml", provider="local", params={"other:size": "13b", "fast": True}
    )

    found = {name: dict(job.spec.params) for name, job in chain.jobs.items()}
    assert found == {
        "toy": {"size": "7b", "nodes": "1", "fast": "true"},
        "other": {"size": "13b", "nodes": "1", "fast": "true"},
        "third": {},
    }
    for wrong in ("x:size=1", "sise=1"):
        assert run(["validate", "job.yaml", "--param", wrong]) == 2
    err = capsys.readouterr().err
    assert "the chain has no job 'x'" in err
    assert "--param sise: no job of the chain has this parameter" in err
