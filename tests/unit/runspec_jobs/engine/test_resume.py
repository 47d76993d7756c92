"""A run goes on from the save of another one: which save that is, and what is refused."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from runspec_agent.store.folder import FolderBucket
from runspec_agent.transfer.output_saver import Saver
from runspec_agent.transfer.resume import Resume as Resumed
from runspec_jobs import api
from runspec_jobs.api import chains
from runspec_jobs.cli.app import run
from runspec_jobs.engine import adopt, resume
from runspec_jobs.engine.outputs.saves_bundle import SavesBundle
from runspec_jobs.engine.resume import Wanted
from runspec_jobs.errors import Conflict, UsageError
from runspec_jobs.plan import model
from runspec_jobs.provider import Resume, Source, Step, SupportsRunMounts
from runspec_jobs.provider.saved_outputs import read_saved_outputs
from runspec_jobs.provider.streams.tar_stream import tar_blocks
from runspec_jobs.provider.types import copy_name
from tests.support.profiles import own_profile
from tests.unit.specs import test_plans

SPEC: dict[str, Any] = {
    "apiVersion": "runspec/v1",
    "name": "job",
    "provider": "local",
    "outputs": [{"name": "state", "path": "/job/state"}],
    "run": 'n=$(cat "${outputs.state}/n" 2>/dev/null || echo 0); echo "after $n"; '
    'echo $((n + 1)) > "${outputs.state}/n"; exit "${CODE:-0}"',
    "providers": {"local": {"engine": "process"}},
}
FAILS = {**SPEC, "env": {"CODE": "3"}}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("mnist-7k2m9p", Wanted("mnist-7k2m9p")),
        ("mnist:12", Wanted("mnist", 12)),
    ],
)
def test_a_run_and_a_save_are_read(text: str, wanted: Wanted) -> None:
    assert resume.parse(text) == wanted


@pytest.mark.parametrize("text", ["", ":3", "mnist:", "mnist:0", "mnist:x", "a/b", "-x"])
def test_text_that_names_no_save_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no save of a run"):
        resume.parse(text)


# Plans


def begun(copied: bool) -> tuple[Resume, dict[str, Source]]:
    saves = {"model": {"0/0": 3, "1/0": 4}}
    copies = {
        copy_name(part): Source(f"sha256:{n * 64}", 2, 9)
        for part, n in (("0/0", "a"), ("1/0", "b"))
    }
    return Resume("other-7k2m9p", saves, copied), copies if copied else {}


@pytest.mark.parametrize("copied", [False, True], ids=["in-place", "copied"])
@pytest.mark.parametrize("provider", ["local", "slurm", "aws-batch", "azure-batch"])
def test_a_plan_says_with_which_saves_outputs_begin(provider: str, copied: bool) -> None:
    """The digest is that of the same job without them, so that an apply without them finds the run."""
    path, _, engine = next(row for row in test_plans.CASES if row[1] == provider)
    known, spec, facts = test_plans.prepared(path, provider, engine)
    resumed, copies = begun(copied)
    began = facts._replace(resume=resumed, sources={**facts.sources, **copies})

    made = model.make_plan(known, spec, "abc123", began)

    assert made.digest == model.make_plan(known, spec, "abc123", facts).digest
    (told,) = [one for one in map(recorded, made.steps) if one is not None]
    assert (told["run"], told["saves"]) == (resumed.run, resumed.saves)
    assert set(told.get("from", {})) == (set(resumed.parts) if copied else set())
    uploads = [step.id for step in made.steps if "resume" in step.id]
    assert uploads == (["upload-resume:0/0", "upload-resume:1/0"] if copied else [])
    assert isinstance(known, SupportsRunMounts)
    for key in told.get("from", {}).values():
        assert any(key in model.format_canonical(step.do.params) for step in made.steps[:-1])


def recorded(step: Step) -> Any:
    """Return the field `resume` of the record that *step* writes, or of the job that it starts."""
    params = step.do.params
    if "resume" in params:
        return params["resume"]
    texts = [value for value in params.values() if isinstance(value, str) and value[:1] == "{"]
    return next((json.loads(text).get("resume") for text in texts), None)


def test_a_run_that_is_adopted_begins_with_the_same_saves() -> None:
    path, _, engine = next(row for row in test_plans.CASES if row[1] == "aws-batch")
    known, spec, facts = test_plans.prepared(path, "aws-batch", engine)
    resumed, copies = begun(copied=True)
    began = facts._replace(resume=resumed, sources={**facts.sources, **copies})
    made = model.make_plan(known, spec, "abc123", began)

    kept = adopt.read(adopt.format_state(path.read_bytes(), made, began, 1.0), made.run)

    assert kept.resume is not None
    assert Resume(**kept.resume.model_dump()) == resumed


# Copies


def test_a_copy_of_saves_has_all_that_was_saved(tmp_path: Path) -> None:
    """Files, links, empty folders, modes and times go from one store to another as one tar."""
    first, second = (FolderBucket({"RUNSPEC_STORE": f"file://{tmp_path / n}"}) for n in "ab")
    folder = tmp_path / "state"
    (folder / "empty").mkdir(parents=True)
    for name, content in {"one": b"1" * 100_000, "same": b"1" * 100_000, ".env": b"x"}.items():
        (folder / name).write_bytes(content)
    (folder / "one").chmod(0o751)
    os.utime(folder / "one", ns=(5, 1_000_000_007))
    os.symlink("one", folder / "latest")
    os.symlink("nowhere", folder / "broken")
    saver = Saver(first)
    saver.add("state", str(folder), "runs/x/outputs/state/2/1/", None)
    assert saver.whole() == []
    files = read_saved_outputs(
        "runs/x/outputs/", [(o.key, o.size) for o in first.listing("runs/")], opened(tmp_path / "a")
    )

    bundle = SavesBundle.of(files)
    assert bundle == SavesBundle.of(files)
    key = f"blobs/{bundle.digest.rpartition(':')[2]}.tar"
    second.put(key, b"".join(tar_blocks(bundle, lambda done, whole: None)))
    record = {"run": "x", "saves": {"state": {"2/1": 1}}, "from": {"2/1": key}}
    Resumed(second, record, {}, str(tmp_path)).begin("state", str(tmp_path / "back"), 2, 1)

    assert tree(tmp_path / "back") == tree(folder)
    assert len([file for file in bundle.files if file.bytes == 100_000]) == 1


def opened(store: Path) -> Any:
    def open_object(key: str, start: int, end: int | None) -> Any:
        return io.BytesIO((store / key).read_bytes()[start:end])

    return open_object


def tree(top: Path) -> Mapping[str, tuple[str, int, int]]:
    """Return what is below *top*: content, mode and time, but for times of links."""
    found = {}
    for path in sorted(top.rglob("*")):
        name, told = str(path.relative_to(top)), path.lstat()
        if path.is_symlink():
            found[name] = os.readlink(path), told.st_mode, 0
        else:
            content = "" if path.is_dir() else path.read_text()
            found[name] = content, told.st_mode, told.st_mtime_ns
    return found


def test_a_copy_that_differs_from_the_save_is_refused(tmp_path: Path) -> None:
    store = FolderBucket({"RUNSPEC_STORE": f"file://{tmp_path / 'a'}"})
    (tmp_path / "state").mkdir()
    (tmp_path / "state/one").write_text("1")
    saver = Saver(store)
    saver.add("state", str(tmp_path / "state"), "runs/x/outputs/state/0/0/", None)
    assert saver.whole() == []
    keys = [(o.key, o.size) for o in store.listing("runs/")]
    bundle = SavesBundle.of(read_saved_outputs("runs/x/outputs/", keys, opened(tmp_path / "a")))
    (made,) = (tmp_path / "a").rglob("objects/*")
    made.write_text("2")

    with pytest.raises(Conflict, match="differs from what was saved"):
        list(tar_blocks(bundle, lambda done, whole: None))


# Runs of this machine


def applied(spec: Mapping[str, Any] = FAILS, **how: Any) -> api.Run:
    return api.apply(api.load(spec), detach=False, **how)


def log(of: api.Run) -> Sequence[str]:
    return [line.text for line in of.logs() if not line.text.startswith("runspec: ")]


@pytest.mark.process
def test_each_run_goes_on_from_the_last_one_until_one_has_succeeded() -> None:
    """A run that saved nothing of its own goes on from where it began; one that has succeeded is not resumed."""
    first = applied()
    second = applied(resume=True)
    silent = applied({**FAILS, "run": 'rm "${outputs.state}/n"; exit 3'}, resume=True)
    last = applied(SPEC, resume=True)
    again = applied(SPEC, resume=True)

    assert [log(one) for one in (first, second)] == [["after 0"], ["after 1"]]
    assert log(last) == ["after 2"]
    began = last.record.resume
    assert began is not None and (began.run, began.number) == (second.id, 1)
    assert again.id == last.id and again.ended is not None
    with pytest.raises(UsageError, match=f"{last.id} has succeeded, so there is nothing to resume"):
        applied({**SPEC, "env": {"A": "1"}}, resume=True)
    assert api.apply(api.load(SPEC)).id == last.id
    assert silent.id not in (last.id, second.id)


@pytest.mark.process
def test_a_run_goes_on_from_a_run_that_is_named_once() -> None:
    first = applied()
    other = {**SPEC, "name": "other"}

    began = applied(other, resume=first.id)
    again = applied(other, resume=first.id)

    assert log(began) == ["after 1"]
    assert again.id == began.id
    assert applied(other, resume=f"{first.id}:1").id != began.id
    with pytest.raises(UsageError, match="no save number 7"):
        applied(other, resume=f"{first.id}:7")
    with pytest.raises(UsageError, match="'other' is the name of this spec"):
        applied(other, resume="other")


@pytest.mark.process
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sweep": {"lr": [1, 2]}}, "has 1 task, and this spec 2 tasks"),
        ({"cluster": {"nodes": 2}}, "saved by 1 node, and here each of 2 nodes saves it"),
        (
            {"outputs": [{"name": "else", "path": "/job/else"}], "run": ":"},
            "no output of this spec",
        ),
    ],
    ids=["tasks", "nodes", "outputs"],
)
def test_a_run_of_another_shape_is_refused(change: Mapping[str, Any], why: str) -> None:
    first = applied()

    with pytest.raises(UsageError, match=why):
        api.apply(api.load({**SPEC, **change}), resume=first.id)

    assert api.runs() == [first]


@pytest.mark.process
def test_a_run_without_a_save_is_refused() -> None:
    with pytest.raises(UsageError, match="no run of 'job' is on record"):
        api.apply(api.load(SPEC), resume=True)
    silent = applied({**FAILS, "run": "exit 3"})

    with pytest.raises(UsageError, match=f"{silent.id} has saved nothing"):
        api.apply(api.load(SPEC), resume=True)
    with pytest.raises(UsageError, match=f"{silent.id} has saved nothing"):
        api.apply(api.load(SPEC), resume=silent.id)


@pytest.mark.process
def test_a_run_that_others_wait_for_is_not_destroyed(tmp_path: Path) -> None:
    first = applied()
    text = f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done"
    waits = api.apply(api.load({**SPEC, "name": "other", "run": text}), resume=first.id)

    with pytest.raises(Conflict, match=f"{waits.id} begins with the saves of {first.id}"):
        first.destroy()
    (tmp_path / "go").touch()
    waits.wait()

    first.destroy()
    assert first.destroyed


@pytest.mark.process
def test_the_status_of_a_run_says_how_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my job.yaml").write_text(json.dumps(FAILS))
    assert run(["apply", "my job.yaml"]) == 1
    capsys.readouterr()

    assert run(["status", "job"]) == 0
    assert "  can be resumed: runspec apply 'my job.yaml' --resume\n" in capsys.readouterr().out
    assert run(["apply", "my job.yaml", "--resume"]) == 1
    assert run(["list", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out.splitlines()[-1])["runs"]
    content = second["resumed"].pop("content")
    assert second["resumed"] == {"run": first["run"], "save": 1}
    assert run(["status", first["run"], "--json"]) == 0
    command = json.loads(capsys.readouterr().out)["resume"]
    assert command == f"runspec apply 'my job.yaml' --from {first['run']}"
    assert run(["status", second["run"]]) == 0
    shown = f"{first['run']}, save 1, content {content[:12]}"
    assert f"  goes on from: {shown}\n" in capsys.readouterr().out
    assert run(["report", second["run"], "--html", "page.html"]) == 0
    assert shown in Path("page.html").read_text()


def test_a_job_without_an_agent_is_told_to_mount_what_it_would_begin_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    of_aws = {"name": "far", "provider": "aws-batch", "container": {"image": "python:3.12"}}
    Path("far.yaml").write_text(json.dumps({**SPEC, **of_aws, "providers": {}}))
    instance = "arn:aws:iam::123456789012:instance-profile/i"
    settings = {
        "region": "eu-west-1", "bucket": "bucket", "files": "signed", "subnets": ["subnet-1"],
        "security_groups": ["sg-1"], "instance_role": instance,
    }  # fmt: skip
    own_profile().write_text(json.dumps({"providers": {"aws-batch": settings}}))

    assert run(["plan", "far.yaml", "--from", "job-7k2m9p"]) == 2
    assert "there is no run 'job-7k2m9p'" in capsys.readouterr().err
    assert run(["plan", "far.yaml", "--resume"]) == 69

    said = capsys.readouterr().err
    assert "'aws-batch', as it is set up here, cannot begin with what another run has saved" in said
    assert "mount it, and let the script copy what it needs: source: run://RUN/state" in said


@pytest.mark.process
def test_a_plan_shows_what_apply_would_begin_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(json.dumps(FAILS))
    assert run(["plan", "job.yaml", "--resume"]) == 2
    assert "no run of 'job' is on record" in capsys.readouterr().err
    assert run(["apply", "job.yaml"]) == 1
    capsys.readouterr()

    assert run(["plan", "job.yaml", "--resume", "--json"]) == 0

    shown = capsys.readouterr()
    before = api.get("job").id
    assert f"going on from {before}, save 1" in shown.err
    (begins,) = [step["do"]["params"].get("resume") for step in json.loads(shown.out)["steps"]]
    assert begins == {"run": before, "saves": {"state": {"0/0": 1}}}
    assert [one.id for one in api.runs("job")] == [before]
    assert run(["plan", "job.yaml", "--from", f"{before}:7"]) == 2
    assert f"{before} has no save number 7" in capsys.readouterr().err
    Path("job.yaml").write_text(json.dumps(SPEC))
    assert run(["apply", "job.yaml"]) == 0
    assert run(["plan", "job.yaml", "--resume"]) == 0
    assert "has already succeeded; nothing to resume" in capsys.readouterr().err


CHAIN = """
apiVersion: runspec/v1
name: prepare
provider: local
outputs: [{name: data, path: /job/data}]
run: echo 1 > "${outputs.data}/a"
---
apiVersion: runspec/v1
name: train
provider: local
needs: [prepare]
outputs: [{name: state, path: /job/state}]
run: |
  echo step >> "${outputs.state}/steps"
  [ "$(wc -l < "${outputs.state}/steps")" -ge 2 ]
"""


@pytest.mark.process
def test_each_job_of_a_chain_goes_on_from_its_own_last_save(tmp_path: Path) -> None:
    """A job that has succeeded is not run again, and one without a save begins without."""
    (tmp_path / "all.yaml").write_text(CHAIN)

    first = chains.apply_chain(chains.load_chain(tmp_path / "all.yaml"), resume=True)
    second = chains.apply_chain(chains.load_chain(tmp_path / "all.yaml"), resume=True)

    assert [one.state for one in first] == ["succeeded", "failed"]
    assert [one.state for one in second] == ["succeeded", "succeeded"]
    before, after = first[1].run, second[1].run
    assert before is not None and after is not None and first[0].run == second[0].run
    began = after.record.resume
    assert began is not None and began._replace(content="") == Resume(
        before.id, {"state": {"0/0": 1}}
    )
