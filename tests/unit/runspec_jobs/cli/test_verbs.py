"""What verbs do about runs that ended in odd ways, and about input that nobody should give."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspec_jobs.api.lifecycle import get
from runspec_jobs.cli import output
from runspec_jobs.cli.app import run
from runspec_jobs.engine import apply as engine
from runspec_jobs.errors import CredentialsError
from runspec_jobs.load import registry
from runspec_jobs.provider import Finding, NoAnswer, Status
from runspec_jobs.state import run_record
from runspec_local.client import LocalClient
from runspec_local.provider import PROVIDER
from tests.support.profiles import own_profile

pytestmark = pytest.mark.process

HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\nproviders: {local: {engine: process}}\n"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "job.yaml"
    path.write_text(HEAD + "command: [echo, hi]\n")
    return path


def homes() -> Path:
    return Path(os.environ["RUNSPEC_HOME"])


# Runs that were there before


def test_a_newest_run_that_failed_is_not_hidden_by_an_older_success(
    spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    spec.write_text(HEAD + f"run: test ! -e {tmp_path}/broken\n")
    assert run(["apply", str(spec)]) == 0
    (tmp_path / "broken").touch()
    assert run(["apply", str(spec), "--new"]) == 1
    capsys.readouterr()

    code = run(["apply", str(spec)])

    assert (code, "starting no other" in capsys.readouterr().err) == (1, False)
    assert len(run_record.list_runs("job")) == 3


def test_cancelling_what_has_succeeded_changes_nothing(spec: Path, capsys: Capture) -> None:
    assert run(["apply", str(spec)]) == 0
    assert run(["cancel", "job"]) == 0
    capsys.readouterr()

    assert run(["apply", str(spec)]) == 0
    assert "starting no other" in capsys.readouterr().err


def test_why_an_apply_was_refused_is_kept(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (homes() / "local").mkdir(parents=True)
    (homes() / "local" / "runs").write_text("in the way")
    assert run(["apply", str(spec)]) == 69
    capsys.readouterr()

    assert run(["status", "job"]) == 0
    told = capsys.readouterr().out
    assert "not-started" in told
    assert "its apply was refused: " in told
    assert run(["status", "job", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "not-started"


def test_a_status_that_was_kept_has_its_nodes(spec: Path, capsys: Capture) -> None:
    spec.write_text(HEAD + "sweep: {n: 1..3}\nrun: test $RUNSPEC_SWEEP_N = 2\n")
    run(["apply", str(spec)])
    capsys.readouterr()

    assert run(["status", "job"]) == 0
    told = capsys.readouterr().out
    assert told.count("  task ") == 3
    assert "task 1 node 0: succeeded" in told


def test_a_missing_secret_leaves_nothing_that_is_in_the_way_of_the_next_apply(spec: Path) -> None:
    own_profile().write_text("providers: {local: {secrets: {t: 'env:NO_SUCH'}}}\n")
    spec.write_text(HEAD + "secrets: {TOKEN: t}\nrun: echo\n")
    assert run(["apply", str(spec)]) == 5

    spec.write_text(HEAD + "command: [echo, hi]\n")

    assert run(["apply", str(spec)]) == 0


def test_a_secret_with_a_nul_is_told_before_anything_starts(
    spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "secret").write_bytes(b"one\0two")
    options = f"providers: {{local: {{secrets: {{t: 'file:{tmp_path}/secret'}}}}}}\n"
    own_profile().write_text(options)
    spec.write_text(HEAD + "secrets: {TOKEN: t}\nrun: echo\n")

    assert run(["apply", str(spec)]) == 5
    told = capsys.readouterr().err
    assert "contains a NUL" in told and "one" not in told


@pytest.mark.parametrize(
    ("value", "why"), [("key\udcff", "is not text in UTF-8"), ("key" * 50_000, "has 150,000 bytes")]
)
def test_a_secret_that_no_variable_of_a_service_can_be_is_told_before_anything_starts(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, value: str, why: str
) -> None:
    """The API of Kubernetes, for example, would replace bytes that are not UTF-8 without a word."""
    monkeypatch.setenv("TOKEN", value)
    spec.write_text(HEAD + "secrets: {TOKEN: {from: caller}}\nrun: echo\n")

    assert run(["apply", str(spec)]) == 5
    told = capsys.readouterr().err
    assert f"the secret env:TOKEN {why}" in told and "key" not in told


def test_destroy_site_deletes_shared_resources_of_all_runs(
    spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    """The newest run may have failed before it needed anything."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a").write_text("a")
    spec.write_text(HEAD + "mounts: [{name: m, source: ./src, target: /job/m}]\nrun: echo\n")
    assert run(["apply", str(spec)]) == 0
    assert run(["apply", str(spec), "--new"]) == 0
    newest = run_record.list_runs("job")[-1]
    journal = newest.folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().split(b"\n")[0] + b"\n")  # cut off at once
    for old in run_record.list_runs("job"):
        assert run(["destroy", old.run]) == 0
    capsys.readouterr()

    assert run(["destroy", "--site", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["destroyed"]) == 1
    assert list((homes() / "local" / "blobs").iterdir()) == []


@pytest.fixture
def never_begun(spec: Path, monkeypatch: pytest.MonkeyPatch) -> run_record.Record:
    """A run that its provider refused before its first step; nobody can open a client for it."""
    spec.write_text(HEAD + "secrets: {TOKEN: t}\ncommand: [echo, hi]\n")
    own_profile().write_text("providers: {local: {secrets: {t: 'env:NO_SUCH'}}}\n")
    assert run(["apply", str(spec)]) == 5

    def refuse(facts: object) -> object:
        raise CredentialsError("nobody is logged in")

    monkeypatch.setattr(PROVIDER, "connect", refuse)
    (of,) = run_record.list_runs("job")
    return of


def test_a_run_that_began_nothing_is_destroyed_without_a_client(
    never_begun: run_record.Record,
) -> None:
    assert run(["destroy", never_begun.run]) == 0

    assert never_begun.read_memory().deleted
    assert run_record.list_runs("job") == []
    assert run(["destroy", "--site"]) == 0


def test_a_run_that_began_nothing_is_cancelled_without_a_client(
    never_begun: run_record.Record, capsys: Capture
) -> None:
    assert run(["cancel", never_begun.run]) == 0
    assert run(["cancel", never_begun.run]) == 0
    assert run(["list"]) == 0
    assert "cancelled" in capsys.readouterr().out
    assert run(["destroy", never_begun.run]) == 0

    assert never_begun.read_memory().want == "destroy"
    assert never_begun.read_memory().deleted


def test_apply_goes_on_where_the_service_is_down_right_after_it_took_the_run(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    asked: list[str] = []

    def state(client: LocalClient, run: str) -> Status:
        asked.append(run)
        if len(asked) < 3:
            raise NoAnswer("503")
        return real(client, run)

    real = LocalClient.state
    monkeypatch.setattr(LocalClient, "state", state)

    assert run(["apply", str(spec)]) == 0
    told = capsys.readouterr().err
    assert told.count("the service does not answer") == 1
    assert "the service answers again" in told


# Records that somebody has damaged


def test_a_damaged_record_does_not_hide_the_others(spec: Path, capsys: Capture) -> None:
    assert run(["apply", str(spec)]) == 0
    other = spec.with_name("other.yaml")
    other.write_text(spec.read_text().replace("name: job", "name: other"))
    assert run(["apply", str(other)]) == 0
    (damaged,) = run_record.list_runs("job")
    journal = damaged.folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"born"', b'"burn"', 1))
    (homes() / "runs" / "backup").mkdir()
    capsys.readouterr()

    assert run(["list", "--json"]) == 0
    rows = {row["name"]: row["state"] for row in json.loads(capsys.readouterr().out)["runs"]}
    assert rows == {"job": "unreadable", "other": "succeeded"}
    assert run(["status", "other"]) == 0
    assert run(["apply", str(other)]) == 0
    assert run(["status", "job"]) == 69


@pytest.mark.parametrize(
    "name, content",
    [
        ("journal.jsonl", b""),
        ("journal.jsonl", None),
        ("plan.json", b'{"provider": "local", "run'),
        ("plan.json", b"[]"),
        ("facts.json", b'{"base'),
    ],
)
def test_a_damaged_file_stands_in_the_way_of_its_own_run_alone(
    spec: Path, capsys: Capture, name: str, content: bytes | None
) -> None:
    """The message names the file and what to do; --new starts another run, and --site is not guessed at."""
    assert run(["apply", str(spec)]) == 0
    (damaged,) = run_record.list_runs("job")
    (damaged.folder / name).unlink()
    if content is not None:
        (damaged.folder / name).write_bytes(content)
    capsys.readouterr()

    assert run(["status", damaged.run]) == (0 if name == "facts.json" else 69)
    assert run(["list"]) == 0
    listed = capsys.readouterr()
    if name != "facts.json":
        assert str(damaged.folder / name) in listed.err
        # The state of a run that has ended is in its journal, and a list needs no more.
        is_unreadable = f"why: {damaged.folder / name}" in listed.out
        assert is_unreadable == (name == "journal.jsonl")
        assert run(["apply", str(spec)]) == 69
        assert "apply --new starts another" in capsys.readouterr().err
        assert run(["destroy", "--site"]) == 4
    assert run(["apply", "--new", str(spec)]) == 0
    assert run(["status", "job"]) == 0
    newest = run_record.list_runs("job")[-1].run
    if name == "journal.jsonl":  # nothing says whether the damaged one is newer
        capsys.readouterr()
        assert run(["destroy", "job"]) == 2
        assert "may be one whose record cannot be read" in capsys.readouterr().err
        assert run(["destroy", newest]) == 0
    else:
        assert run(["destroy", "job"]) == 0


@pytest.mark.parametrize("verb", ["cancel", "destroy"])
@pytest.mark.parametrize(
    "content", [b"", None, b"garbage\ngarbage", b'{"crc": "01234567", "event": "bo']
)
def test_a_live_run_without_the_beginning_of_its_journal_is_ended_by_its_id(
    spec: Path, capsys: Capture, verb: str, content: bytes | None
) -> None:
    """Its job is alive; and what is left of the file may help to restore it."""
    spec.write_text(f"{HEAD}command: [sleep, '300']\n")
    assert run(["apply", "-d", str(spec)]) == 0
    (damaged,) = run_record.list_runs("job")
    path = damaged.folder / "journal.jsonl"
    whole = path.read_bytes()
    path.unlink() if content is None else path.write_bytes(content)
    capsys.readouterr()

    assert run([verb, damaged.run]) == 0
    if verb == "destroy":
        assert not damaged.folder.exists()
        return
    assert (path.read_bytes() if path.exists() else None) == content
    path.write_bytes(whole)
    assert run(["status", damaged.run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "cancelled"
    assert run(["destroy", damaged.run]) == 0


@pytest.mark.parametrize(
    "content, why",
    [
        (b"run: [", "it is damaged"),
        (b"\xff\xfe", "it is damaged"),
        (b"apiVersion: runspec/v1\n", "this version of runspec refuses it: 'name' is missing"),
    ],
)
def test_a_spec_on_record_that_cannot_be_read_is_told_as_such(
    spec: Path, capsys: Capture, content: bytes, why: str
) -> None:
    assert run(["apply", str(spec)]) == 0
    (damaged,) = run_record.list_runs("job")
    (damaged.folder / "job.yaml").write_bytes(content)
    capsys.readouterr()

    assert run(["logs", "job"]) == 69
    assert f"{damaged.folder / 'job.yaml'}: {why}" in capsys.readouterr().err
    assert run(["status", "job"]) == 0
    assert run(["destroy", "job"]) == 0


@pytest.mark.parametrize("line", [b"timeout: 0s\n", b"container: {image: 'Ubuntu:22.04'}\n"])
def test_a_spec_on_record_that_a_newer_rule_refuses_is_read(
    spec: Path, capsys: Capture, line: bytes
) -> None:
    """An earlier version accepted it, and its run must be followed, fetched and ended as any other."""
    assert run(["apply", str(spec)]) == 0
    (of,) = run_record.list_runs("job")
    with (of.folder / "job.yaml").open("ab") as file:
        file.write(line)
    capsys.readouterr()

    assert run(["logs", "job"]) == 0
    assert run(["destroy", "job"]) == 0


@pytest.mark.parametrize("name", ["job.yaml", "plan.json", "journal.jsonl"])
@pytest.mark.parametrize("damage", ["empty", "folder"])
def test_an_empty_file_or_a_folder_in_its_place_is_told_and_no_bug(
    spec: Path, capsys: Capture, name: str, damage: str
) -> None:
    assert run(["apply", str(spec)]) == 0
    (damaged,) = run_record.list_runs("job")
    path = damaged.folder / name
    path.unlink()
    path.touch() if damage == "empty" else path.mkdir()
    capsys.readouterr()

    assert run(["list"]) == 0
    assert run(["logs", damaged.run]) == 69
    assert str(path) in capsys.readouterr().err


def test_a_list_of_destroyed_runs_alone_says_so(
    never_begun: run_record.Record, capsys: Capture
) -> None:
    assert run(["destroy", never_begun.run]) == 0
    capsys.readouterr()

    assert run(["list"]) == 0
    assert "no runs: 1 was destroyed, --all shows it" in capsys.readouterr().err
    assert run(["list", "--all"]) == 0
    assert never_begun.run in capsys.readouterr().out


# Which run a name means


def test_runs_are_suggested_whose_names_begin_with_what_was_typed(
    spec: Path, capsys: Capture
) -> None:
    text = HEAD + "command: [echo, hi]\n"
    hints = {}
    for name in ("mnist-chainer", "mnist-torch"):
        spec.write_text(text.replace("name: job", f"name: {name}"))
        assert run(["apply", str(spec)]) == 0
        capsys.readouterr()
        assert run(["logs", "mnist"]) == 2
        hints[name] = capsys.readouterr().err

    assert "hint: did you mean 'mnist-chainer'?" in hints["mnist-chainer"]
    assert "hint: did you mean one of mnist-chainer, mnist-torch?" in hints["mnist-torch"]
    assert run(["logs", "other"]) == 2
    assert "hint: see runspec list" in capsys.readouterr().err


def sleeping(spec: Path, word: str) -> str:
    spec.write_text(HEAD + f"command: [sleep, '{word}']\n")
    assert run(["apply", "--new", "-d", str(spec)]) == 0
    newest = run_record.find_newest("job")
    assert newest is not None
    return newest.run


def test_a_repeated_command_ends_no_older_run(spec: Path, capsys: Capture) -> None:
    older, newer = sleeping(spec, "600"), sleeping(spec, "601")
    capsys.readouterr()

    assert run(["cancel", "job"]) == 0
    told = capsys.readouterr().err
    assert f"'job' means {newer}, its newest run; also alive: {older}" in told
    assert f"{newer} cancelled" in told
    for again in (f"{newer} cancelled", f"{newer} cancelled"):
        assert run(["cancel", "job"]) == 0
        told = capsys.readouterr().err
        assert again in told and f"also alive: {older}" in told
    assert run(["destroy", "job"]) == 0
    capsys.readouterr()
    assert run(["destroy", "job"]) == 0
    assert f"{newer} is already destroyed" in capsys.readouterr().err
    assert run(["cancel", "job"]) == 0
    assert f"{newer} is already destroyed" in capsys.readouterr().err
    assert run(["status", older]) == 0
    assert "running" in capsys.readouterr().out
    assert run(["cancel", older]) == 0


@pytest.mark.parametrize("verb", ["fetch", "logs"])
def test_reading_verbs_name_an_older_run_if_the_newest_is_destroyed(
    spec: Path, capsys: Capture, verb: str
) -> None:
    assert run(["apply", str(spec)]) == 0
    assert run(["apply", "--new", str(spec)]) == 0
    older, newer = run_record.list_runs("job")
    assert run(["destroy", "job"]) == 0
    capsys.readouterr()

    assert run([verb, "job"]) == 2

    told = capsys.readouterr().err
    assert f"'job' means {newer.run}, its newest run, which was destroyed" in told
    assert f"{older.run} is older" in told


def test_a_shell_goes_to_the_newest_run_that_is_alive(spec: Path, capsys: Capture) -> None:
    older, newer = sleeping(spec, "600"), sleeping(spec, "601")
    assert run(["cancel", newer]) == 0
    capsys.readouterr()

    found = get("job", alive=True, on_event=output.tell_event)

    told = capsys.readouterr().err
    assert found.id == older
    assert f"'job' means {older}, which is alive; {newer} is newer but has ended" in told
    assert run(["cancel", older]) == 0


def test_a_clock_that_goes_back_changes_no_order(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sleeping(spec, "600")
    now = time.time()
    with monkeypatch.context() as back:
        back.setattr(time, "time", lambda: now - 3600)
        second = sleeping(spec, "601")
    capsys.readouterr()

    assert [of.run for of in run_record.list_all()] == [first, second]
    assert run(["cancel", "job"]) == 0
    assert f"{second} cancelled" in capsys.readouterr().err
    assert run(["cancel", first]) == 0


def test_numbers_go_on_where_their_file_is_lost(spec: Path) -> None:
    for _ in range(2):
        assert run(["apply", "--new", str(spec)]) == 0
    (homes() / "sequence").write_text("x")

    assert run(["apply", "--new", str(spec)]) == 0

    assert [of.read_memory().number for of in run_record.list_all()] == [1, 2, 3]


# What is asked for


@pytest.mark.parametrize(
    "words, what",
    [
        (["logs", "job", "--node", "9"], "there is no node 9"),
        (["logs", "job", "--timeout", "xx"], "'xx' is not a length of time"),
        (["completion", "tcsh"], "shell: invalid value 'tcsh'"),
    ],
)
def test_an_unknown_run_or_task_is_a_usage_error(
    spec: Path, capsys: Capture, words: list[str], what: str
) -> None:
    assert run(["apply", str(spec)]) == 0

    assert run(words) == 2
    assert what in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["logs", "fetch"])
def test_a_destroyed_run_has_no_logs_and_outputs(spec: Path, capsys: Capture, verb: str) -> None:
    assert run(["apply", str(spec)]) == 0
    assert run(["destroy", "job"]) == 0

    assert run([verb, "job"]) == 2
    assert "was destroyed" in capsys.readouterr().err


def test_a_home_of_nobody_is_told(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSPEC_HOME", "~nobody-at-all/x")

    assert run(["list"]) == 2
    assert "'~nobody-at-all/x' cannot be expanded: there is no such user" in capsys.readouterr().err


@pytest.mark.parametrize("settings", ["{}", "{root: ~/elsewhere}"])
def test_gc_needs_no_spec(spec: Path, capsys: Capture, settings: str) -> None:
    own_profile().write_text(f"providers: {{local: {settings}}}\n")

    assert run(["gc", "local"]) == 0
    assert "no orphans" in capsys.readouterr().err


def test_the_doctor_tells_of_a_wrong_profile(spec: Path, capsys: Capture) -> None:
    (spec.parent / "runspec-profile.yaml").write_text("providers: {local: {engin: podman}}\n")

    assert run(["doctor", "local"]) == 69
    assert "unknown key 'engin'" in capsys.readouterr().out


def test_the_doctor_says_where_a_setting_is_wrong_and_shows_no_key(
    spec: Path, capsys: Capture
) -> None:
    text = "providers:\n  azure-batch:\n    batch_key: c2VjcmV0IGtleQ==\n"
    (spec.parent / "runspec-profile.yaml").write_text(text)

    assert run(["doctor", "azure-batch"]) == 69
    told = capsys.readouterr().out
    assert "runspec-profile.yaml:3:16: providers.azure-batch.batch_key: " in told
    assert "c2VjcmV0" not in told


def test_the_doctor_tells_each_finding_before_it_looks_for_the_next(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def examine(options: object) -> Iterator[Finding]:
        told.append(capsys.readouterr().out)
        yield Finding("one", True)
        told.append(capsys.readouterr().out)

    monkeypatch.setattr(PROVIDER, "examine", examine)

    assert run(["doctor", "local"]) == 0
    assert [text.splitlines()[-1] for text in told][1] == "ok  local: one"
    assert told[0].startswith("ok  profile: none found")


@pytest.mark.parametrize("well", [True, False])
def test_a_node_is_looked_from_only_when_asked_to_and_when_the_rest_is_well(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, *, well: bool
) -> None:
    """It takes a machine, and may cost something."""
    asked: list[object] = []

    def examine_node(options: object) -> Iterator[Finding]:
        asked.append(options)
        yield Finding("from within", True)

    monkeypatch.setattr(PROVIDER, "examine", lambda options: iter([Finding("one", well)]))
    run(["doctor", "local", "--node"])
    without = capsys.readouterr().out
    monkeypatch.setattr(type(PROVIDER), "examine_node", staticmethod(examine_node), raising=False)

    run(["doctor", "local"])
    before = len(asked)
    code = run(["doctor", "local", "--node"])

    assert "no checks from a node" in without
    assert (before, len(asked), code) == ((0, 1, 0) if well else (0, 0, 69))


def test_a_file_without_end_is_read_to_a_limit(capsys: Capture) -> None:
    assert run(["validate", "/dev/zero"]) == 2
    assert "larger than 1 MiB" in capsys.readouterr().err


def test_a_provider_that_is_not_here_is_told_at_its_place(spec: Path, capsys: Capture) -> None:
    spec.write_text(HEAD.replace("provider: local", "provider: locl") + "run: echo\n")

    assert run(["apply", str(spec)]) == 69
    told = capsys.readouterr().err
    assert "job.yaml:3:11: " in told and "did you mean 'local'?" in told


def test_a_misspelt_provider_is_told_beside_other_mistakes(spec: Path, capsys: Capture) -> None:
    text = spec.read_text().replace("provider: local", "provider: locl")
    spec.write_text(f"{text}bogus: 1\n")

    assert run(["validate", str(spec)]) == 2

    told = capsys.readouterr().err
    assert "unknown key 'bogus'" in told and "did you mean 'local'?" in told


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("AWS-Batch", "aws-batch"),
        ("aws_batch", "aws-batch"),
        ("Slrum", "slurm"),
        ("AZURE", "azure-batch"),
    ],
)
def test_a_provider_that_is_no_name_is_answered_with_the_one_that_is_meant(
    typed: str, meant: str, spec: Path, capsys: Capture
) -> None:
    spec.write_text(spec.read_text().replace("provider: local", f"provider: {typed}"))

    assert run(["validate", str(spec)]) == 2

    told = capsys.readouterr().err
    assert f"'{typed}' is not a name" in told and f"did you mean '{meant}'?" in told


@pytest.mark.parametrize(
    ("provider", "code", "what"),
    [
        ("azure-bach", 69, "did you mean 'azure-batch'?"),
        ("gcp-batch", 0, "note: provider: the provider 'gcp-batch' is not installed"),
        ("tomorrow", 0, "note: provider: the provider 'tomorrow' does not exist yet"),
    ],
)
def test_a_misspelt_provider_is_wrong_and_an_unknown_one_may_be_installed_elsewhere(
    spec: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    code: int,
    what: str,
) -> None:
    monkeypatch.setattr(registry, "EXPECTED", ("tomorrow",))
    spec.write_text(HEAD.replace("provider: local", f"provider: {provider}") + "run: echo\n")

    assert run(["validate", str(spec)]) == code
    assert what in capsys.readouterr().err


def test_validate_says_that_it_looks_at_no_profile(spec: Path, capsys: Capture) -> None:
    (spec.parent / "runspec-profile.yaml").write_text("providers: {local: {engin: podman}}\n")

    assert run(["validate", str(spec)]) == 0
    assert "(profile not checked; runspec plan checks it)" in capsys.readouterr().err


def test_an_unknown_key_hides_nothing_else(spec: Path, capsys: Capture) -> None:
    spec.write_text(HEAD + "comand: [echo]\ntimeout: -3\nenv: {RUNSPEC_X: a}\n")

    assert run(["validate", str(spec)]) == 2
    told = capsys.readouterr().err
    assert "unknown key 'comand'" in told and "'-3' is not a length of time" in told


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("name: a\nprovider: local\ncomand: [echo]\n", "nothing to run"),
        ("nmae: a\nprovider: local\ncommand: [echo]\n", "'name' is missing"),
    ],
)
def test_a_misspelt_key_is_one_error(spec: Path, capsys: Capture, text: str, hidden: str) -> None:
    spec.write_text(f"apiVersion: runspec/v1\n{text}")

    assert run(["validate", "job.yaml"]) == 2

    told = capsys.readouterr().err
    assert hidden not in told
    assert told.count("unknown key") == told.count("job.yaml:") == 1


def test_a_misspelt_key_hides_no_other_that_is_missing(spec: Path, capsys: Capture) -> None:
    spec.write_text("apiVersion: runspec/v1\ncomand: [echo]\nprovider: local\n")

    assert run(["validate", "job.yaml"]) == 2

    assert "'name' is missing" in capsys.readouterr().err


def test_wrong_settings_hide_no_wrong_mount(spec: Path, capsys: Capture) -> None:
    spec.write_text(
        HEAD.replace("engine: process", "engin: process")
        + "mounts: [{name: m, source: ./nowhere, target: /job/m}]\nrun: echo\n"
    )

    assert run(["plan", str(spec)]) == 2
    told = capsys.readouterr().err
    assert "unknown key 'engin'" in told and "nowhere" in told


def test_every_wrong_line_of_the_requirements_is_told(spec: Path, capsys: Capture) -> None:
    spec.with_name("req.txt").write_text("six\n-r more.txt\n--index-url x\n")
    spec.write_text(HEAD + "container: {requirements: req.txt}\nrun: echo\n")

    assert run(["plan", str(spec)]) == 2
    told = capsys.readouterr().err
    assert "req.txt:2: " in told and "req.txt:3: " in told


def test_a_character_that_cannot_be_shown_is_an_escape(spec: Path) -> None:
    spec.write_text(HEAD + "run: printf '\\342\\226\\210 done\\n'\n")

    done = subprocess.run(
        [sys.executable, "-m", "runspec_jobs", "apply", str(spec)],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
    )

    assert (done.returncode, done.stdout) == (0, b"\\u2588 done\n"), done.stderr


def test_a_wait_for_another_runspec_is_told(spec: Path) -> None:
    assert run(["apply", str(spec)]) == 0
    (old,) = run_record.list_runs("job")
    assert engine.is_made(old.plan, old.read_memory())
    with old.open_journal():
        words = [sys.executable, "-m", "runspec_jobs", "destroy", "job"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as child:
            assert child.stderr is not None
            told = child.stderr.readline()
            child.kill()
            child.wait()

    assert f"waiting for another runspec at work on {old.run}" in told


def test_saving_logs_of_a_run_that_goes_on_ends_with_its_time_limit(
    spec: Path, tmp_path: Path
) -> None:
    name = sleeping(spec, "20")

    assert run(["logs", "-f", "--save", str(tmp_path / "saved"), "--timeout", "1s", name]) == 124
    assert run(["destroy", name]) == 0


def test_the_doctor_leaves_out_providers_that_nobody_uses(spec: Path, capsys: Capture) -> None:
    assert run(["doctor"]) == 0

    lines = capsys.readouterr().out.splitlines()
    (left_out,) = [line.partition("of them: ")[2] for line in lines if line.startswith("-   ")]
    assert left_out.split(", ") == [name for name in registry.list_installed() if name != "local"]
    assert not [line for line in lines if line.startswith("BAD") or "does not work" in line]


def test_the_doctor_checks_the_providers_of_the_profile(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (spec.parent / "runspec-profile.yaml").write_text("providers: {azure-batch: {batch_key: x}}\n")

    assert run(["doctor"]) == 69

    assert "BAD azure-batch: " in capsys.readouterr().out
