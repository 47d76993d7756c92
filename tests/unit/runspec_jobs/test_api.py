"""Jobs run from Python as from the command line: nothing is printed, and one run is made however many apply."""

from __future__ import annotations

import datetime
import pickle
import re
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from runspec_jobs import api
from runspec_jobs.api.lifecycle import get_all
from runspec_jobs.api.reports import Asked, compare_sizes
from runspec_jobs.api.specs import read_spec
from runspec_jobs.document.nodes import format_flow
from runspec_jobs.errors import Conflict, TimedOut, UsageError
from runspec_jobs.load.source import InvalidSpec, read
from runspec_jobs.spec import validate
from tests.support.root import ROOT
from tests.support.spec_examples import GOOD
from tests.support.wait import until

pytestmark = pytest.mark.process

SPECS = [
    path for path in sorted((ROOT / "specs").rglob("*.yaml")) if "apiVersion" in path.read_text()
]


def value(name: str, *command: str, **more: Any) -> dict[str, Any]:
    head = {"apiVersion": "runspec/v1", "name": name, "provider": "local"}
    return {**head, "command": list(command), **more}


def test_the_page_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "python.md").read_text()
    names: dict[str, Any] = {}

    for block in re.findall(r"(?ms)^```python\n(.*?)^```", page):
        exec(block, names)

    shown = capsys.readouterr().out
    assert "[task 1] found 25" in shown
    assert "100 25.0" in shown
    assert re.search(r"primes-out/\S+ 97\n", shown)
    assert "there is no run 'no-such-run'" in shown


DOCUMENTS = [text for path in SPECS for text in path.read_text().split("\n---\n")]


@pytest.mark.parametrize("text", [*GOOD.values(), *DOCUMENTS])
def test_a_spec_is_the_same_as_text_as_a_mapping_and_as_a_model(text: str) -> None:
    document = read("a.yaml", text.encode()).document
    assert document is not None
    spec, _ = validate.parse_spec(document)
    assert spec is not None

    again = read_spec(spec).document

    assert again is not None
    assert validate.parse_spec(again) == (spec, [])


def test_every_name_is_there_and_nothing_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, runspec_jobs.api as api; before = set(sys.modules);"
        "assert not before & {'pydantic', 'runspec_jobs.api.jobs', 'runspec_jobs.engine'};"
        "print(all(getattr(api, name) for name in api.__all__), sorted(dir(api)) == sorted(api.__all__))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("True True\n", "")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = api.nothing


def test_the_api_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    run = api.apply(api.load(value("quiet", "echo", "hi")))

    assert run.wait().state == api.State.SUCCEEDED
    assert [line.text for line in run.logs()] == ["hi"]
    assert [line.text for line in run.logs(follow=True)] == ["hi"]
    assert capfd.readouterr() == ("", "")


def test_events_tell_what_is_done() -> None:
    events: list[api.Event] = []

    run = api.apply(api.load(value("events", "true")), on_event=events.append)

    assert events[0] == api.Event("note", f"run {run.id}")
    assert [event.kind for event in events[1:]] == ["step"]


def test_mistakes_have_positions_and_start_nothing() -> None:
    with pytest.raises(InvalidSpec) as wrong:
        api.load(value("Wrong", "true"))

    (text,) = wrong.value.texts
    assert [found.path for found in text.diagnostics] == ["name"]
    assert [found.path for found in api.validate(value("Wrong", "true"))] == ["name"]
    assert api.validate(value("right", "true")) == []
    assert api.runs() == []


LOOP: dict[str, Any] = {}
LOOP["again"] = LOOP


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"DAY": datetime.date(2026, 1, 2)}, "env.DAY: a spec cannot have a value of the type 'date'"),
        ({"A": [b"x"]}, "env.A.0: a spec cannot have a value of the type 'bytes'"),
        ({datetime.date(2026, 1, 2): "x"}, "env: a spec cannot have a value of the type 'date'"),
        ({"A": 10**5000}, "a number of the spec has too many digits"),
        (LOOP, "the spec is nested too deeply, or contains itself"),
    ],
)  # fmt: skip
def test_values_that_yaml_cannot_express_are_refused(env: Any, message: str) -> None:
    with pytest.raises(UsageError) as wrong:
        api.load(value("odd", "true", env=env))

    assert wrong.value.message == message


def test_any_mapping_is_a_spec() -> None:
    one = MappingProxyType(value("any", "true", env=MappingProxyType({"A": "b"})))

    assert api.load(one).spec.env == {"A": "b"}


def test_the_text_of_a_spec_is_bytes_and_a_str_is_a_path() -> None:
    text = "apiVersion: runspec/v1\nname: text\nprovider: local\ncommand: ['true']\n"

    assert api.load(text.encode()).spec.name == "text"
    with pytest.raises(UsageError) as wrong:
        api.load(text)
    assert wrong.value.hint == "pass the text of a spec as bytes: text.encode()"
    with pytest.raises(UsageError, match="null byte"):
        api.load("a\0b")


def test_a_run_can_be_sent_to_another_process() -> None:
    run = api.apply(api.load(value("sent", "true")), on_event=lambda event: None)

    assert pickle.loads(pickle.dumps(run)) == run


def test_the_spec_of_a_run_has_the_provider_that_replaced_its_own() -> None:
    run = api.apply(api.load({**value("moved", "true"), "provider": "slurm"}, provider="local"))

    assert (run.provider, run.spec.provider) == ("local", "local")


@pytest.mark.parametrize("chosen", [{"node": 1}, {"node": -1}, {"task": 1}])
def test_a_node_that_does_not_exist_has_no_log(chosen: dict[str, Any], tmp_path: Path) -> None:
    run = api.apply(api.load(value("one", "true")), detach=False)

    for read_log in (
        lambda: list(run.logs(**chosen)),
        lambda: list(run.logs(**chosen, follow=True)),
        lambda: run.save_logs(tmp_path / "log", **chosen),
        lambda: run.follow(lambda line: None, **chosen),
    ):
        with pytest.raises(UsageError, match=r"there is no (node|task) -?1") as wrong:
            read_log()
        assert re.fullmatch("the run has only (node|task) 0", wrong.value.hint or "")


def test_sizes_of_a_spec_that_is_unknown_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="there is no spec 'unknown' with scaling"):
        compare_sizes("unknown", Asked(None, None, None))


@pytest.mark.parametrize("state", ["state", "\udcff"])
def test_folders_whose_names_are_not_utf_8_hold_a_spec_and_its_run(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "\udcff"  # the byte 255
    folder.mkdir()
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / state))
    path = folder / "job.yaml"
    path.write_bytes(format_flow(value("raw", "true")).encode())

    run = api.apply(api.load(path), detach=False)

    assert run.status().state == api.State.SUCCEEDED
    assert run.record.base == folder


def test_a_run_of_another_spec_is_a_conflict_and_the_same_is_found_again() -> None:
    run = api.apply(api.load(value("long", "sleep", "60")))

    assert api.apply(api.load(value("long", "sleep", "60"))) == run == api.get("long")
    with pytest.raises(Conflict, match="another spec"):
        api.apply(api.load(value("long", "sleep", "61")))
    with pytest.raises(TimedOut):
        run.wait(timeout_s=0.05)

    assert run.cancel().state == api.State.CANCELLED
    run.destroy()
    assert api.runs() == []
    with pytest.raises(UsageError, match="was destroyed"):
        api.get(run.id)


def test_a_followed_log_can_be_left() -> None:
    """Its thread ends, and the job goes on."""
    run = api.apply(api.load(_script("talks", "while :; do echo on; sleep 0.05; done")))
    before = threading.active_count()

    lines = run.logs(follow=True)
    assert next(lines).text == "on"
    lines.close()  # type: ignore[attr-defined]  # a generator has it

    until(lambda: threading.active_count() <= before)
    assert run.status().state == api.State.RUNNING
    run.destroy()


def _script(name: str, text: str) -> dict[str, Any]:
    found = value(name)
    del found["command"]
    return {**found, "run": text}


def test_a_missing_newline_and_a_long_line_lose_nothing() -> None:
    run = api.apply(
        api.load(_script("lines", "head -c 3000000 /dev/zero | tr '\\0' x; echo; printf end"))
    )
    waited: list[api.LogLine] = []
    run.wait(on_line=waited.append)

    expected = [3_000_000, 3]
    assert [len(line.text) for line in waited] == expected
    assert [len(line.text) for line in run.logs()] == expected
    assert [len(line.text) for line in run.logs(follow=True)] == expected


def test_sizes_are_applied_one_by_one() -> None:
    job = api.load(value("sizes", "true", scaling={"nodes": [1, 2]}, cluster={"nodes": 1}))

    with pytest.raises(UsageError, match="scaling"):
        api.apply(job)
    found = [api.apply(one, detach=False) for one in job.sizes()]

    assert [run.name for run in found] == ["sizes-n1", "sizes-n2"]
    assert get_all("sizes") == found
    for run in found:
        run.destroy()
    assert get_all("sizes") == found
    assert all(run.destroyed for run in found)


@pytest.mark.parametrize("names", ["equal", "distinct"])
def test_threads_that_apply_at_once_make_one_run_of_each_name(names: str) -> None:
    """Eight threads, fifteen applies each; a job is short, and later applies find its run."""

    def work(thread: int) -> list[tuple[str, str]]:
        found = []
        for number in range(15):
            name = f"job-{number % 5}" if names == "equal" else f"job-{thread}-{number % 5}"
            found.append((name, api.apply(api.load(value(name, "true"))).id))
        return found

    with ThreadPoolExecutor(8) as threads:
        made = {pair for pairs in threads.map(work, range(8)) for pair in pairs}

    count = 5 if names == "equal" else 40
    assert Counter(name for name, _ in made) == dict.fromkeys({name for name, _ in made}, 1)
    assert len(made) == len(api.runs()) == count
