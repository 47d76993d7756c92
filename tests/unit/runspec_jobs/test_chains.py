"""Chains run on this machine: each job starts when its needs have ended, and what is done is not done again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.api.chains import (
    SKIPPED,
    JobStatus,
    apply_chain,
    get_chain,
    list_inputs,
    load_chain,
)
from runspec_jobs.api.lifecycle import LogLine, get
from runspec_jobs.cli.app import run
from runspec_jobs.errors import UsageError
from runspec_jobs.load.source import InvalidSpec
from runspec_local.provider import LocalProvider

pytestmark = pytest.mark.process

HEAD = "apiVersion: runspec/v1\nprovider: local\nproviders: {local: {engine: process}}\n"
MADE = "outputs: [{name: data, path: /job/data}]\n"


def job(name: str, script: str, more: str = "") -> str:
    return f"{HEAD}name: {name}\n{more}run: |\n  {script}\n"


def reads(source: str) -> str:
    return f"mounts: [{{name: data, source: '{source}', target: /job/in}}]\n"


PREPARE = job(
    "prepare", "echo $V > ${outputs.data}/a; ln -s a ${outputs.data}/l", MADE + "env: {V: x}\n"
)
TRAIN = job("train", "cat ${mounts.data}/l", reads("run://prepare/data"))


class Chained:
    """Applies a chain of texts, and returns the end of each job; *lines* are those of the logs of the last call."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "all.yaml"
        self.lines: list[tuple[str, str]] = []

    def __call__(self, *texts: str, **options: Any) -> dict[str, JobStatus]:
        content = "---\n".join(texts)
        # Another apply of the same chain may read it now, and must not find it empty.
        if not self.path.exists() or self.path.read_text() != content:
            self.path.write_text(content)
        self.lines = []
        ends = apply_chain(load_chain(self.path), on_line=self._hear, **options)
        return {one.job: one for one in ends}

    def _hear(self, name: str, line: LogLine) -> None:
        self.lines.append((name, line.text))


@pytest.fixture
def chained(tmp_path: Path) -> Chained:
    return Chained(tmp_path)


def states(ends: dict[str, JobStatus]) -> dict[str, str]:
    return {name: one.state for name, one in ends.items()}


def ids(ends: dict[str, JobStatus]) -> list[str]:
    return [one.run.id for one in ends.values() if one.run is not None]


def test_a_job_reads_in_place_what_another_has_saved(chained: Chained) -> None:
    ends = chained(PREPARE, TRAIN)

    assert states(ends) == {"prepare": "succeeded", "train": "succeeded"}
    assert chained.lines == [("train", "x")]
    assert ends["train"].run is not None
    assert "copies" not in str(list(ends["train"].run.record.folder.iterdir()))


def test_list_inputs_names_the_run_and_its_content(chained: Chained) -> None:
    """Its service waited for the other one, whose content was not known yet."""
    ends = chained(PREPARE, TRAIN)
    train, prepare = ends["train"].run, ends["prepare"].run
    assert train is not None and prepare is not None

    (told,) = list_inputs(train)

    assert re.fullmatch(f"data: output data of {prepare.id}, content [0-9a-f]{{12}}", told)


def test_an_unchanged_chain_starts_nothing(chained: Chained) -> None:
    first = chained(PREPARE, TRAIN)

    again = chained(PREPARE, TRAIN)

    assert ids(again) == ids(first)


def test_a_changed_job_is_repeated_with_those_that_read_what_it_changed(chained: Chained) -> None:
    rest = job("rest", "true", "needs: [train]\n")
    first = chained(PREPARE, TRAIN, rest)

    changed = chained(PREPARE.replace("V: x", "V: y"), TRAIN, rest)
    equal = chained(PREPARE.replace("V: x", "V: y, W: z"), TRAIN, rest)

    assert changed["prepare"].run != first["prepare"].run
    assert changed["train"].run != first["train"].run
    assert changed["rest"].run == first["rest"].run  # it reads nothing of them
    assert equal["prepare"].run != changed["prepare"].run
    assert equal["train"].run == changed["train"].run  # the content is the same


def test_why_a_job_is_started_again_is_told(chained: Chained) -> None:
    chained(PREPARE, TRAIN)
    told: dict[str, str] = {}

    def hear(status: JobStatus) -> None:
        if status.state == "waiting":
            told[status.job] = status.reason

    chained(PREPARE.replace("V: x", "V: y"), TRAIN, on_status=hear)

    assert told["prepare"] == "changed: env.V"
    assert re.fullmatch(r"what it reads from prepare-\w{6} has changed", told["train"])


def test_a_job_after_a_failed_one_never_starts(chained: Chained) -> None:
    ends = chained(
        job("first", "exit 3"),
        job("second", "echo no", "needs: [first]\n"),
        job("third", "echo no", "needs: [second]\n"),
        job("tidy", "echo yes", "needs: {first: failed}\n"),
        job("last", "echo yes", "needs: {first: ended, second: ended}\n"),
    )

    assert states(ends) == {
        "first": "failed", "second": SKIPPED, "third": SKIPPED, "tidy": "succeeded", "last": "succeeded",
    }  # fmt: skip
    assert ends["second"].reason == "first has failed"
    assert sorted(chained.lines) == [("last", "yes"), ("tidy", "yes")]


def test_a_failed_job_is_repeated_alone(chained: Chained, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    middle = job("middle", f"test -e {flag}", "needs: [prepare]\n")
    first = chained(PREPARE, middle, job("end", "true", "needs: [middle]\n"))
    flag.touch()

    again = chained(PREPARE, middle, job("end", "true", "needs: [middle]\n"))

    assert states(first) == {"prepare": "succeeded", "middle": "failed", "end": SKIPPED}
    assert states(again) == {"prepare": "succeeded", "middle": "succeeded", "end": "succeeded"}
    assert again["prepare"].run == first["prepare"].run


def test_the_best_task_of_a_sweep_is_mounted(chained: Chained) -> None:
    search = job(
        "search",
        "echo ${sweep.lr} > ${outputs.data}/m; echo loss=$((10 - ${sweep.lr}))",
        MADE + "sweep: {lr: [1, 3, 2]}\nmetric: {name: loss, goal: min, pattern: 'loss=(\\S+)'}\n",
    )
    predict = job("predict", "cat ${mounts.data}/m", reads("run://search/data?best"))
    every = job("every", "cat ${mounts.data}/task-2/m", reads("run://search/data"))

    chained(search, predict, every)

    lines = chained.lines
    assert [line for line in lines if line[0] != "search"] in (
        [("predict", "3"), ("every", "2")],
        [("every", "2"), ("predict", "3")],
    )


def test_each_task_reads_the_task_of_its_own_number(chained: Chained) -> None:
    made = job("made", "echo of-${sweep.n} > ${outputs.data}/m", MADE + "sweep: {n: [1, 2, 3]}\n")
    read = job(
        "read",
        "echo ${sweep.m} $(cat ${mounts.data}/m)",
        reads("run://made/data?task=same") + "sweep: {m: [a, b, c]}\n",
    )

    chained(made, read)

    assert sorted(line for _, line in chained.lines) == ["a of-1", "b of-2", "c of-3"]


@pytest.mark.parametrize("sweep", ["", "sweep: {m: [a, b]}\n"])
def test_tasks_are_paired_in_sweeps_of_equal_length_alone(chained: Chained, sweep: str) -> None:
    made = job("made", "true", MADE + "sweep: {n: [1, 2, 3]}\n")

    with pytest.raises(InvalidSpec) as caught:
        chained(made, job("read", "true", reads("run://made/data?task=same") + sweep))

    said = str([one for text in caught.value.texts for one in text.diagnostics])
    assert "?task=same needs a sweep with as many tasks as 'made' has" in said
    assert "'made' has 3" in said


def test_a_detached_chain_needs_no_client(chained: Chained, tmp_path: Path) -> None:
    slow = PREPARE.replace("echo $V", "sleep 1; echo $V")

    ends = chained(slow, TRAIN, detach=True)

    train = ends["train"].run
    assert train is not None
    assert str(train.wait().state) == "succeeded"
    assert [line.text for line in train.logs()] == ["x"]


def test_cancel_and_destroy_end_the_chain_however_often(
    chained: Chained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chained(job("long", "sleep 60"), job("next", "true", "needs: [long]\n"), detach=True)
    chain = get_chain("all")
    assert chain is not None

    assert run(["cancel", "all"]) == 0
    assert {one.state for one in chain.status()} <= {"cancelled", SKIPPED}
    for _ in range(2):
        assert run(["destroy", "all"]) == 0
    assert [of for of in chain.jobs.values() if of is not None] == []
    assert run(["status", "all"]) == 0
    assert "destroyed" in capsys.readouterr().out


def test_an_output_of_an_earlier_run_is_mounted_by_its_name(
    chained: Chained, tmp_path: Path
) -> None:
    chained(PREPARE, TRAIN)
    path = tmp_path / "later.yaml"
    path.write_text(TRAIN.replace("name: train", "name: later"))

    assert run(["apply", str(path)]) == 0
    assert [line.text for line in get("later").logs()] == ["x"]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("run://nothing/data", "there is no run 'nothing'"),
        ("run://prepare/dota", "the job 'prepare' has no output 'dota'"),
        ("run://failed/data", "has failed, so its outputs are not read"),
    ],
)
def test_an_output_that_is_not_there_is_refused(
    chained: Chained, tmp_path: Path, source: str, what: str
) -> None:
    chained(PREPARE, job("failed", "exit 1", MADE))
    path = tmp_path / "later.yaml"
    path.write_text(job("later", "true", reads(source)))

    with pytest.raises(InvalidSpec) as caught:
        load_chain(path)

    assert what in str([one.what for text in caught.value.texts for one in text.diagnostics])


def test_the_page_of_a_chain_has_its_jobs_their_times_and_what_they_read(
    chained: Chained, tmp_path: Path
) -> None:
    chained(PREPARE, TRAIN, job("bad", "exit 1", "needs: [train]\n"))

    assert run(["report", "all", "--html", str(tmp_path / "page.html")]) == 0

    page = (tmp_path / "page.html").read_text()
    prepare = get("prepare").id
    assert page.count('<path class="edge"') == 2
    assert '<g class="job failed">' in page
    assert f"data: output data of {prepare}" in page
    assert "<h2>When</h2>" in page


def test_watch_shows_a_chain_until_its_jobs_have_ended(
    chained: Chained, capsys: pytest.CaptureFixture[str]
) -> None:
    chained(PREPARE, job("next", "sleep 1", "needs: [prepare]\n"), detach=True)

    assert run(["status", "all", "--watch"]) == 0

    assert re.search(r"next +next-\w{6} +succeeded", capsys.readouterr().out)


def test_only_and_until_choose_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "all.yaml"
    path.write_text("---\n".join((PREPARE, TRAIN, job("end", "true", "needs: [train]\n"))))

    assert run(["apply", str(path), "--until", "train"]) == 0
    assert run(["apply", str(path), "--only", "end"]) == 0
    assert run(["apply", str(path), "--only", "nd"]) == 2

    said = capsys.readouterr().err
    assert "the chain has no job 'nd'" in said
    assert said.count("end ") >= 1


def test_a_chain_of_which_some_jobs_are_applied_keeps_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "all.yaml"
    path.write_text("---\n".join((PREPARE, TRAIN, job("end", "sleep 600", "needs: [prepare]\n"))))
    assert run(["apply", str(path), "--until", "prepare"]) == 0
    assert run(["apply", str(path), "--detach"]) == 0
    assert run(["apply", str(path), "--only", "prepare"]) == 0
    capsys.readouterr()

    assert run(["status", "all", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["jobs"]
    assert run(["cancel", "all"]) == 0

    assert [one["job"] for one in shown] == ["prepare", "train", "end"]
    assert shown[2]["state"] in ("waiting", "running")
    assert shown[2]["needs"] == {"prepare": "succeeded"}
    assert "end cancelled" in capsys.readouterr().err


def test_the_runs_of_a_chain_are_listed_by_its_name(
    chained: Chained, capsys: pytest.CaptureFixture[str]
) -> None:
    chained(job("alone", "true"))
    first = chained(PREPARE, job("next", "true", "needs: [prepare]\n"))
    chained(PREPARE.replace("V: x", "V: y"), job("next", "true", "needs: [prepare]\n"))
    capsys.readouterr()

    assert run(["list", "--name", "all", "--json"]) == 0

    listed = [one["run"] for one in json.loads(capsys.readouterr().out)["runs"]]
    assert len(listed) == 4 and {*ids(first)} < {*listed}


@pytest.mark.parametrize("words", [["outputs"], ["fetch"], ["shell"], ["logs", "--task", "1"]])
def test_what_is_for_one_run_says_so_of_a_chain(
    words: list[str], chained: Chained, capsys: pytest.CaptureFixture[str]
) -> None:
    chained(PREPARE, job("next", "true"))
    verb, *options = words

    assert run([verb, "all", *(["here"] if verb == "fetch" else []), *options]) == 2

    said = capsys.readouterr().err
    assert "one run" in said and "runspec status all" in said


@pytest.mark.parametrize("option", [["--json"], ["--timestamps"], ["--since", "1h"]])
def test_the_log_of_a_chain_ignores_no_option(
    option: list[str], chained: Chained, capsys: pytest.CaptureFixture[str]
) -> None:
    chained(PREPARE, job("next", "echo here"))

    code = run(["logs", "all", *option])

    said = capsys.readouterr()
    assert (code, "here" in said.out) == ((0, True) if option[0] == "--since" else (2, False))


def test_a_killed_apply_is_continued_by_the_same_command(chained: Chained) -> None:
    class Killed(BaseException):
        pass

    def kill(status: JobStatus) -> None:
        if status.state == "succeeded":
            raise Killed

    texts = (PREPARE, TRAIN)
    with pytest.raises(Killed):
        chained(*texts, on_status=kill)

    ends = chained(*texts)

    assert states(ends) == {"prepare": "succeeded", "train": "succeeded"}
    assert [len(list(get(name).record.folder.parent.glob(f"{name}-*"))) for name in ends] == [1, 1]


def test_a_plan_says_of_each_job_who_waits(
    chained: Chained, capsys: pytest.CaptureFixture[str]
) -> None:
    search = job(
        "search",
        "true",
        MADE + "sweep: {a: [1, 2]}\nmetric: {name: m, goal: min, pattern: 'm=(\\d)'}\n",
    )
    last = job("last", "true", reads("run://search/data?best") + "needs: [train]\n")
    chained.path.write_text(f"{PREPARE}---\n{TRAIN}---\n{search}---\n{last}")

    assert run(["plan", str(chained.path)]) == 0

    shown = capsys.readouterr().out
    assert "job prepare\n" in shown
    assert "job train, when prepare has succeeded: its service waits\n" in shown
    assert "its service waits for train, and apply waits for search\n" in shown


def test_a_plan_of_a_mounted_output_asks_no_service(
    chained: Chained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chained(PREPARE)
    path = tmp_path / "later.yaml"
    path.write_text(TRAIN.replace("name: train", "name: later"))

    def connect(self: LocalProvider, facts: object) -> object:
        raise AssertionError("a service is asked")

    monkeypatch.setattr(LocalProvider, "connect", connect)
    assert run(["plan", str(path)]) == 0


def test_a_setting_is_for_one_job_or_for_all(chained: Chained) -> None:
    chained.path.write_text(f"{PREPARE}---\n{TRAIN}")

    jobs = load_chain(chained.path, settings=["train:timeout=5m", "retry.attempts=2"]).jobs

    assert [job.spec.timeout for job in jobs.values()] == [None, 300]
    assert [job.spec.retry.attempts for job in jobs.values()] == [2, 2]
    with pytest.raises(UsageError, match="the chain has no job 'nothing'"):
        load_chain(chained.path, settings=["nothing:timeout=5m"])
