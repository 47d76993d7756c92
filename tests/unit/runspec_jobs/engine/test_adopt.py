"""What a store keeps of a run is data that a stranger may have written: what becomes of it on this machine."""

from __future__ import annotations

import copy
import json
import stat
from collections.abc import Callable
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.document import reader
from runspec_jobs.engine import adopt
from runspec_jobs.errors import Conflict, Damaged, Newer, RemoteError
from runspec_jobs.load import registry
from runspec_jobs.load.profile import Profile
from runspec_jobs.plan import model
from runspec_jobs.provider import (
    Facts,
    Places,
    Provider,
    Request,
    Response,
    Scope,
    Source,
    State as RunState,
    Status,
    Step,
)
from runspec_jobs.spec.validate import parse_spec as checked
from runspec_jobs.state import run_record
from tests.support.profiles import own_profile

Capture = pytest.CaptureFixture[str]
RUN = "job-abc234"
ROLE = "arn:aws:iam::123456789012:role/"
SETTINGS: dict[str, Any] = {
    "region": "eu-central-1",
    "bucket": "mine",
    "prefix": "team",
    "job_role": f"{ROLE}job",
    "execution_role": f"{ROLE}agent",
    "instance_role": "arn:aws:iam::123456789012:instance-profile/machines",
    "subnets": ["subnet-1"],
    "security_groups": ["sg-1"],
}
JOB = {
    "apiVersion": "runspec/v1",
    "name": "job",
    "provider": "aws-batch",
    "mounts": [{"name": "code", "source": "./code", "target": "/job/code"}],
    "secrets": {"TOKEN": "hf"},
    "command": ["train"],
}
SECRETS = {"hf": "aws-sm:arn:aws:secretsmanager:eu-central-1:123456789012:secret:hf-a1b2c3"}
BORN = 1_700_000_000.5
# What the machine that began the run has, and no other need.
THEIRS = {**SETTINGS, "secrets": SECRETS, "queue": "theirs", "account_profile": "theirs"}
Change = Callable[[dict[str, Any]], Any]


def provider() -> Provider:
    return registry.load("aws-batch")


def state(
    job: dict[str, Any] = JOB, digest: str = f"sha256:{'5a' * 32}", **settings: Any
) -> dict[str, Any]:
    """Return the state that another machine keeps of a run, with *settings* over its own."""
    text = json.dumps(job).encode()
    spec, problems = checked(reader.read(text))
    assert spec is not None, problems
    options = provider().options_model.model_validate({**THEIRS, **settings})
    facts = Facts(options, {"code": Source(digest, 3, 4096)})
    made = model.make_plan(provider(), spec, RUN[-6:], facts)
    found: dict[str, Any] = json.loads(adopt.format_state(text, made, facts, BORN))
    return found


def understood(found: dict[str, Any], **settings: Any) -> adopt.Adopted:
    """Return what this machine makes of a state, with *settings* over its own."""
    kept = adopt.read(json.dumps(found).encode(), RUN)
    own = Profile(providers={"aws-batch": {**SETTINGS, "secrets": SECRETS, **settings}})
    return adopt.convert_state(kept, provider(), own)


def step(found: dict[str, Any], name: str) -> dict[str, Any]:
    steps: list[dict[str, Any]] = found["plan"]["steps"]
    return next(one for one in steps if one["id"] == name)


def test_the_plan_is_that_of_the_machine_that_began_the_run() -> None:
    found = state()

    adopted = understood(found)

    assert model.write_plan(adopted.plan) == found["plan"]
    assert (adopted.elsewhere, adopted.born) == (frozenset(), BORN)
    assert adopted.facts.options.queue == "theirs"


def test_folders_with_files_of_several_parts_are_adopted() -> None:
    found = state(digest=f"sha256-parts:{'5a' * 32}")

    assert model.write_plan(understood(found).plan) == found["plan"]


def test_settings_of_the_user_alone_are_neither_kept_nor_taken() -> None:
    """Whose login asks which bucket is this machine's to say."""
    found = state()
    of_user = {"bucket", "prefix", "account_profile", "secrets", "job_role", "subnets", "log_group"}
    assert of_user & found["options"].keys() == set()
    found["options"] |= {"account_profile": "stolen", "bucket": "another"}

    options = understood(found).facts.options

    assert (options.account_profile, options.bucket) == (None, "mine")


DAMAGED: dict[str, Change] = {
    "another run": lambda s: s.update(run="job-zzzzzz"),
    "no plan": lambda s: s.pop("plan"),
    "a plan that is none": lambda s: s.update(plan={"steps": 1}),
    "a step without its call": lambda s: step(s, "job").pop("do"),
    "two steps of one name": lambda s: s["plan"]["steps"].insert(0, step(s, "record")),
    "a shared step by the name of one of the run": lambda s: s["plan"]["steps"].insert(
        0, {**step(s, "record"), "scope": "site"}
    ),
    "a digest that is a path": lambda s: s["sources"]["code"].update(digest="sha256:../../x"),
    "an empty digest": lambda s: s["sources"]["code"].update(digest="sha256:"),
    "a folder that is missing": lambda s: s.update(sources={}),
    "a spec that is none": lambda s: s.update(job="["),
    "a spec with an unknown key": lambda s: s.update(job=s["job"].replace("command", "comand")),
    "a spec of another name": lambda s: s.update(job=s["job"].replace('"job"', '"other"')),
    "a time that is none": lambda s: s.update(born="NaN"),
    "a time without end": lambda s: s.update(born=float("inf")),
    "requirements that are a number": lambda s: s.update(requirements=3),
    "a requirement that is a file": lambda s: s.update(requirements=["-r /etc/passwd"]),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_state_is_refused(name: str) -> None:
    found = state()
    DAMAGED[name](found)

    with pytest.raises(Damaged, match=RUN):
        understood(found)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"null", b"\xff\xfe", b"[" * 100_000])
def test_content_that_is_no_state_is_refused(content: bytes) -> None:
    with pytest.raises(Damaged, match="the state of job-abc234 in the store is damaged"):
        adopt.read(content, RUN)


def test_a_state_of_a_newer_version_is_refused_and_the_version_named() -> None:
    found = {**state(), "format": "runspec.state/v2", "runspec": "9.1.0", "born": {"new": "form"}}

    with pytest.raises(Newer, match=rf"the state of {RUN} in the store: runspec 9.1.0 wrote it"):
        understood(found)


def test_keys_that_a_later_version_adds_are_left_out() -> None:
    assert understood({**state(), "more": 1}) == understood(state())


@pytest.mark.parametrize("key", ["bucket", "account_profile", "job_role"])
def test_its_spec_may_set_no_more_than_a_job_file(key: str) -> None:
    found = state()
    job = {**JOB, "providers": {"aws-batch": {key: THEIRS[key]}}}
    found["job"] = json.dumps(job)

    with pytest.raises(Conflict, match="belongs to a profile, not to a job file"):
        understood(found)


UNDO = Request("runspec", "empty_prefix", {"bucket": "mine", "prefix": "team/"})._asdict()


def test_a_run_whose_undo_would_take_away_more_is_refused() -> None:
    found = state()
    step(found, "record")["undo"] = UNDO

    with pytest.raises(Conflict, match="differently than this version"):
        understood(found)


def test_a_run_with_a_further_undo_is_refused() -> None:
    found = state()
    found["plan"]["steps"].append({**step(found, "record"), "id": "more", "undo": UNDO})

    with pytest.raises(Conflict, match="differently than this version"):
        understood(found)


def test_shared_steps_that_were_planned_differently_are_not_undone() -> None:
    """Another version of runspec uploads another file for what runs in the job, and gc is to leave that alone."""
    found = state()
    upload = step(found, "inside")
    upload["do"]["params"]["Key"] = upload["undo"]["params"]["Key"] = "team/inside/other.pyz"

    adopted = understood(found)

    (inside,) = (s for s in adopted.plan.steps if s.id == "inside")
    assert (inside.undo, adopted.elsewhere) == (None, frozenset({"inside"}))
    assert inside.do.params["Key"] == "team/inside/other.pyz"


def test_a_shared_step_with_another_title_is_the_same_step() -> None:
    """Another version of runspec may word titles differently; what it made can still be taken away here."""
    found = state()
    for one in found["plan"]["steps"]:
        one["title"] = f"{one['title']}, as version 9 says it"

    adopted = understood(found)

    assert (adopted.plan, adopted.elsewhere) == (understood(state()).plan, frozenset())


def test_a_call_of_the_run_is_never_that_of_the_store() -> None:
    """`find` would look for another's job, and `cancel` then end it."""
    found = state()
    step(found, "job")["do"]["params"]["jobName"] = "another-aaaaaa"

    adopted = understood(found)

    (job,) = (s for s in adopted.plan.steps if s.id == "job")
    assert job.do.params["jobName"] == RUN
    assert adopted.plan.digest != found["plan"]["digest"]  # no apply takes it for its own


def test_settings_with_which_it_would_be_another_run_are_refused() -> None:
    with pytest.raises(Conflict, match="differently than this version"):
        understood(state(), prefix="other")


def test_a_setting_that_is_missing_here_is_named() -> None:
    with pytest.raises(Conflict, match="cannot be adopted with the settings of this machine"):
        understood(state(), bucket=None)


# The verb


class Store:
    """The store of an account that has runs, and a service that has done *done* steps of each."""

    def __init__(self, states: dict[str, bytes], done: int) -> None:
        self.states, self.done = states, done
        self.looked: list[str] = []

    def kept_runs(self) -> list[str]:
        return list(self.states)

    def kept_state(self, run: str) -> bytes | None:
        return self.states.get(run) or None

    def keep_state(self, run: str, content: bytes) -> None:
        raise AssertionError

    def find(self, step: Step) -> Response | None:
        self.looked.append(step.id)
        return {"jobId": "1", "jobDefinitionArn": "arn"} if len(self.looked) <= self.done else None

    def state(self, run: str) -> Status:
        return Status(RunState.GONE)

    def places(self, run: str) -> Places:
        return Places("the log group", f"s3://bucket/{run}")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    found = Store({RUN: json.dumps(state()).encode()}, done=99)
    settings = {**SETTINGS, "secrets": SECRETS}
    own_profile().write_text(json.dumps({"providers": {"aws-batch": settings, "local": {}}}))
    monkeypatch.setattr("runspec_aws.provider.AwsBatchProvider.connect", lambda *_: found)
    return found


def test_an_adopted_run_is_on_record_for_its_owner_alone(store: Store) -> None:
    assert run(["adopt", "aws-batch", RUN]) == 0

    (of,) = run_record.list_all()
    memory = of.read_memory()
    assert [of.run, memory.born, memory.want] == [RUN, BORN, "run"]
    assert list(memory.answers) == [s.id for s in of.plan.steps]
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in of.folder.iterdir()}
    assert set(modes.values()) == {0o600}, modes
    assert stat.S_IMODE(of.folder.stat().st_mode) == 0o700


def test_a_list_says_where_the_outputs_of_an_adopted_run_are(store: Store, capsys: Capture) -> None:
    run(["adopt", "aws-batch", RUN])
    capsys.readouterr()

    run(["list", "--all", "--json"])

    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert (row["logs"], row["outputs"]) == ("the log group", f"s3://bucket/{RUN}")
    assert row["node_count"] == 1


def test_names_that_are_no_run_ids_are_not_adopted(store: Store, capsys: Capture) -> None:
    """They would be paths of this machine."""
    store.states = dict.fromkeys(("../job-abc234", "x", "job-abc234\n", ".."), store.states[RUN])

    assert run(["adopt", "aws-batch"]) == 0
    assert run(["list", "--remote", "--json"]) == 0
    assert run(["adopt", "aws-batch", "../job-abc234"]) == 2

    assert run_record.list_all() == []
    assert json.loads(capsys.readouterr().out.splitlines()[0])["runs"] == []


def said(code: int, capsys: Capture) -> tuple[int, str]:
    return code, capsys.readouterr().err


def test_each_failed_adoption_has_its_exit_code(store: Store, capsys: Capture) -> None:
    store.states["old-abc234"] = b""
    store.states["bad-abc234"] = b"{"

    code, why = said(run(["adopt", "aws-batch", "other-aaaaaa"]), capsys)
    assert (code, "there is no run 'other-aaaaaa' in the store" in why) == (2, True)
    code, why = said(run(["adopt", "aws-batch", "old-abc234"]), capsys)
    assert (code, "an earlier version of runspec started it" in why) == (4, True)
    code, why = said(run(["adopt", "aws-batch", "bad-abc234"]), capsys)
    assert (code, "is damaged" in why) == (69, True)
    code, why = said(run(["adopt", "local", "job-abc234"]), capsys)
    assert (code, "other machines cannot read its store" in why) == (69, True)
    assert run(["adopt", "aws-batch", RUN]) == 0
    code, why = said(run(["adopt", "aws-batch", RUN]), capsys)
    assert (code, "this machine has a record of" in why) == (2, True)


def test_a_run_that_was_destroyed_here_is_not_taken_up_again(store: Store, capsys: Capture) -> None:
    store.done = 0
    assert run(["adopt", "aws-batch", RUN]) == 0
    (of,) = run_record.list_all()
    with of.open_journal() as journal:
        journal.add("deleted")
    store.done = 99

    code, why = said(run(["adopt", "aws-batch", RUN]), capsys)

    assert (code, f"a record of {RUN}, which was destroyed" in why) == (2, True)
    assert of.read_memory().answers == {}


def test_runs_of_another_provider_in_the_same_store_are_left_to_it(
    store: Store, capsys: Capture
) -> None:
    other = {**state(), "provider": "other-batch"}
    store.states = {RUN: json.dumps(other).encode()}

    assert run(["adopt", "aws-batch", "--json"]) == 0
    assert run(["list", "--remote", "--json"]) == 0
    assert [json.loads(line)["runs"] for line in capsys.readouterr().out.splitlines()] == [[], []]
    code, why = said(run(["adopt", "aws-batch", RUN]), capsys)
    assert (code, f"{RUN} runs on 'other-batch'" in why) == (2, True)
    assert run_record.list_all() == []


def test_list_remote_says_why_a_run_cannot_be_adopted(store: Store, capsys: Capture) -> None:
    store.states["bad-abc234"] = b"{"

    assert run(["list", "--remote"]) == 0

    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[:3] for line in lines[::2]] == [
        ["bad-abc234", "aws-batch", "unreadable"],
        [RUN, "aws-batch", "gone"],
    ]
    assert "is damaged" in lines[1]


def test_a_store_that_cannot_be_asked_is_told_and_decides_the_exit_code(
    store: Store, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> list[str]:
        raise RemoteError("no such bucket")

    monkeypatch.setattr(store, "kept_runs", refuse)

    code, why = said(run(["list", "--remote"]), capsys)

    assert (code, "aws-batch: no such bucket" in why) == (69, True)


def test_a_damaged_run_stops_no_other_adoption(store: Store, capsys: Capture) -> None:
    store.states = {"bad-abc234": b"{", **store.states}

    code = run(["adopt", "aws-batch", "--json"])

    assert (code, [of.run for of in run_record.list_all()]) == (69, [RUN])
    assert json.loads(capsys.readouterr().out)["runs"] == [{"run": RUN, "provider": "aws-batch"}]


def test_a_run_that_its_apply_is_still_at_work_on_is_completed_by_adopting_it_again(
    store: Store,
) -> None:
    count = len(state()["plan"]["steps"])
    store.done = count - 1
    assert run(["adopt", "aws-batch", RUN]) == 0
    (of,) = run_record.list_all()
    assert "job" in of.read_memory().begun
    assert "job" not in of.read_memory().answers
    store.done, store.looked = 99, []

    assert run(["adopt", "aws-batch", RUN]) == 0

    assert store.looked == ["job"]
    assert len(of.read_memory().answers) == count


@pytest.mark.parametrize("which", ["made otherwise", "not planned"])
def test_a_run_without_a_job_is_not_adopted_where_it_could_not_be_gone_on_with(
    store: Store, capsys: Capture, which: str
) -> None:
    found = state()
    if which == "not planned":
        found["plan"]["steps"].remove(step(found, "inside"))
    else:
        step(found, "inside")["undo"]["params"]["Key"] = "team/inside/other.pyz"
    found["plan"]["steps"].append({**step(found, "definition"), "id": "more"})
    store.states = {RUN: json.dumps(found).encode()}
    store.done = 0

    code, why = said(run(["adopt", "aws-batch", RUN]), capsys)

    assert (code, "has no job yet, and this machine plans its" in why) == (4, True)
    assert (run_record.list_all(), store.looked) == ([], ["job"])
    store.done = 99
    assert run(["adopt", "aws-batch", RUN]) == 0


def test_steps_before_a_found_step_count_as_done(store: Store) -> None:
    """A job definition may be gone, and what its undo would name is not known any more."""
    found = copy.copy(store.find)
    store.find = lambda step: None if step.scope is Scope.SITE else found(step)  # type: ignore[method-assign]

    assert run(["adopt", "aws-batch", RUN]) == 0

    (of,) = run_record.list_all()
    assert of.read_memory().answers["definition"] == {}
    assert of.read_memory().undone == {"definition"}


@pytest.mark.parametrize("is_submitted", [True, False])
def test_a_lost_answer_that_a_job_to_be_submitted_needs_counts_as_not_done(
    store: Store, is_submitted: bool
) -> None:
    """Otherwise, the next apply could not fill the request of that job."""
    found = copy.copy(store.find)
    lost = ("definition",) if is_submitted else ("definition", "job")
    kept = state()
    order = [each["id"] for each in kept["plan"]["steps"]]
    assert order.index("definition") < order.index("record")
    store.find = lambda step: None if step.id in lost else found(step)  # type: ignore[method-assign]

    assert run(["adopt", "aws-batch", RUN]) == 0

    (of,) = run_record.list_all()
    assert ("definition" in of.read_memory().answers) is is_submitted


def test_runs_of_other_machines_are_ordered_by_when_they_began(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, born in enumerate((300.0, 100.0, 200.0)):
        kept = {**state(), "born": born}
        text = json.dumps(kept).replace(RUN, name := f"job-abc00{number}")
        store.states = {name: text.encode()}
        assert run(["adopt", "aws-batch"]) == 0

    assert [of.read_memory().born for of in run_record.list_runs("job")] == [100.0, 200.0, 300.0]
