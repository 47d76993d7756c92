"""A setup makes what is missing, adopts what is there, writes the profile, and undoes only what it has made."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.accounts import lifecycle, setup_record
from runspec_jobs.accounts.lifecycle import Preview
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.errors import Conflict, Unavailable, UsageError
from runspec_jobs.load import registry, trust
from runspec_jobs.load.source import UntrustedProfile
from runspec_jobs.provider import (
    NoAnswer,
    Options,
    Request,
    Response,
    Scope,
    Setup,
    Step,
)
from runspec_jobs.provider.settings import User, Word
from runspec_jobs.provider.types import Exported

PROFILE = Path("runspec-profile.yaml")


class TinyOptions(Options):
    """Settings of a service that is a dictionary."""

    shelf: User[Word | None] = None
    box: User[Word | None] = None


class TinySetup(TinyOptions):
    """What only a setup is told."""

    size: User[Word] = "small"


class TinyService:
    """A provider whose account is `things`: names of what there is, and who has made it."""

    name = "tiny"
    options_model: type[Options] = TinyOptions
    setup_model: type[Options] = TinySetup

    def __init__(self) -> None:
        self.things: dict[str, str] = {}
        self.full: set[str] = set()
        self.used: set[str] = set()
        self.lost: set[str] = set()  # requests whose answers do not come
        self.notes: tuple[str, ...] = ()

    def survey_account(self, options: Any) -> Mapping[str, Any]:
        return {"account": "a1"}

    def plan_setup(self, options: Any, survey: Mapping[str, Any], setup: str) -> Setup:
        names = [f"{name}-{options.size}" for name in ("shelf", "box")]
        steps = tuple(
            Step(
                name.partition("-")[0],
                f"make {name}",
                Scope.SITE,
                Request("tiny", "make", {"name": name, "by": setup}),
                Request("tiny", "delete", {"name": name}),
            )
            for name in names
        )
        settings = {"shelf": names[0], "box": {"$ref": "box.id"}}
        data = {"box": Request("tiny", "empty", {"name": names[1]})}
        return Setup(f"account {survey['account']}", steps, settings, notes=self.notes, data=data)

    def connect_setup(self, options: Any, survey: Any, setup: str) -> TinyClient:
        return TinyClient(self, setup)

    def first_profile(self) -> str:
        return "providers:\n  tiny:\n    shelf: my-bucket\n"

    def setup_policy(self, options: Any) -> Mapping[str, Any]:
        return {"rights": [options.size]}

    def export_setup(self, setup: Setup) -> Exported:
        return Exported(
            {"setup.txt": repr(setup.place)},
            ("run: tiny FILE", "then: setup --set place=x SETTINGS, again"),
        )


class TinyClient:
    def __init__(self, service: TinyService, setup: str) -> None:
        self.service, self.setup = service, setup

    def call(self, request: Request) -> Response:
        name, things = request.params["name"], self.service.things
        if request.operation == "empty":
            self.service.full.discard(name)
        elif request.operation == "delete":
            if name in self.service.full:
                raise Conflict(f"{name} is full, and stays", "add --with-data")
            if things.get(name) == self.setup:
                del things[name]
        else:
            things[name] = request.params["by"]
            if name in self.service.lost:
                raise NoAnswer("nothing came back")
        return {"id": f"id-{name}"}

    def find(self, step: Step) -> Response | None:
        name = step.do.params["name"]
        if self.service.things.get(name) == "somebody":
            raise Conflict(f"{name} is somebody's", "--set size=OTHER")
        return {"id": f"id-{name}"} if name in self.service.things else None

    def settled(self, step: Step) -> bool:
        return True

    def check_undo(
        self, requests: Sequence[Request], together: Collection[str], *, with_data: bool
    ) -> Sequence[Conflict]:
        names = [request.params["name"] for request in requests]
        data = () if with_data else self.service.full
        full = [Conflict(f"{n} is full", "add --with-data") for n in names if n in data]
        used = [Conflict(f"{n} is used", "ask them") for n in names if n in self.service.used]
        return [*full, *used]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TinyService:
    monkeypatch.chdir(tmp_path)
    found, real = TinyService(), registry.load
    monkeypatch.setattr(registry, "load", lambda name: found if name == "tiny" else real(name))
    return found


def set_up(*settings: str, confirm: Callable[[Preview], None] = lambda _: None) -> lifecycle.Made:
    return lifecycle.set_up("tiny", settings, confirm, Reporter())


def undo(*settings: str, with_data: bool = False) -> lifecycle.Undone:
    return lifecycle.undo("tiny", settings, lambda _: None, Reporter(), with_data=with_data)


def test_a_setup_makes_all_and_writes_and_trusts_the_profile(service: TinyService) -> None:
    made = set_up()

    assert list(service.things) == ["shelf-small", "box-small"]
    assert made.settings == {"shelf": "shelf-small", "box": "id-box-small"}
    assert "    box: id-box-small\n" in PROFILE.read_text()
    assert made.trusted and trust.is_trusted(PROFILE, PROFILE.read_bytes())
    assert made.preview.missing == 2


def test_records_of_setups_are_for_their_owner_alone(service: TinyService) -> None:
    set_up()

    (record,) = setup_record.list_all()
    modes = {path.stat().st_mode & 0o077 for path in [record.folder, *record.folder.iterdir()]}
    assert modes == {0}


def test_nothing_is_made_and_nothing_is_on_record_unless_confirmed(service: TinyService) -> None:
    def refuse(_: Preview) -> None:
        raise UsageError("no")

    with pytest.raises(UsageError):
        set_up(confirm=refuse)

    assert (service.things, setup_record.list_all(), PROFILE.exists()) == ({}, [], False)


def test_undo_spares_resources_that_existed_before(service: TinyService) -> None:
    service.things["box-small"] = "another setup"
    set_up()

    undone = undo()

    assert service.things == {"box-small": "another setup"}
    assert undone.deleted == ["make shelf-small"]
    assert undone.profile is not None and not PROFILE.exists()


def test_notes_on_what_was_made_are_told_afterwards(
    service: TinyService, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = TinyClient.call

    def noted(self: TinyClient, request: Request) -> Response:
        service.notes = ("known before", f"the quota of {request.params['name']} is 0")
        return call(self, request)

    service.notes = ("known before",)
    monkeypatch.setattr(TinyClient, "call", noted)

    made = set_up()

    assert (made.preview.notes, made.notes) == (
        ("known before",),
        ("the quota of box-small is 0",),
    )


def test_a_profile_that_init_wrote_and_nobody_changed_is_replaced(service: TinyService) -> None:
    PROFILE.write_text(service.first_profile())

    set_up()

    assert "box: id-box-small" in PROFILE.read_text()
    assert "my-bucket" not in PROFILE.read_text()


def test_a_profile_without_settings_that_need_trust_is_trusted_with_those_of_a_setup(
    service: TinyService,
) -> None:
    PROFILE.write_text("prices: {tiny: 1.0}\nproviders:\n")

    assert set_up().trusted


def test_edits_of_the_profile_during_a_setup_are_kept_untrusted(
    service: TinyService,
) -> None:
    PROFILE.write_text("providers:\n  local: {}\n")
    edited = "providers:\n  local: {}  # mine\n  tiny:\n    other: theirs\n"

    made = set_up(confirm=lambda _: (PROFILE.write_text(edited), None)[1])

    assert "# mine" in PROFILE.read_text() and "other: theirs" in PROFILE.read_text()
    assert "box: id-box-small" in PROFILE.read_text()
    assert not made.trusted


def test_a_repeated_setup_makes_nothing_and_adds_no_record(service: TinyService) -> None:
    set_up("size=large")

    made = set_up()  # what the first one was told is on record

    assert (made.preview.missing, list(service.things)) == (0, ["shelf-large", "box-large"])
    assert len(setup_record.list_all()) == 1


def test_a_second_setup_makes_deleted_resources_again(
    service: TinyService,
) -> None:
    set_up()
    del service.things["box-small"]

    assert set_up().preview.missing == 1

    assert len(setup_record.list_all()) == 2
    undo()
    assert service.things == {}


def test_a_lost_answer_is_looked_for_and_counts_as_made(service: TinyService) -> None:
    service.lost.add("box-small")

    set_up()

    undo()
    assert service.things == {}


def test_everything_that_is_somebody_elses_is_told_at_once(service: TinyService) -> None:
    service.things = {"shelf-small": "somebody", "box-small": "somebody"}

    with pytest.raises(Conflict) as refused:
        set_up()

    assert refused.value.message == "shelf-small is somebody's; box-small is somebody's"
    assert refused.value.hint == "--set size=OTHER"
    assert setup_record.list_all() == []


def test_data_of_users_keeps_everything_unless_it_may_be_deleted(service: TinyService) -> None:
    set_up()
    service.full.add("box-small")

    with pytest.raises(Conflict) as refused:
        undo()

    assert list(service.things) == ["shelf-small", "box-small"]
    assert refused.value.hint == "add --with-data"
    undo(with_data=True)
    assert service.things == {}


def test_what_others_use_keeps_everything_also_with_data(service: TinyService) -> None:
    set_up()
    service.full.add("box-small")
    service.used = {"shelf-small", "box-small"}

    with pytest.raises(Conflict) as refused:
        undo(with_data=True)

    assert refused.value.message == "shelf-small is used; box-small is used"
    assert list(service.things) == ["shelf-small", "box-small"]
    assert service.full == {"box-small"}


def test_data_that_comes_while_a_setup_is_undone_stays(service: TinyService) -> None:
    set_up()

    def store(_: Sequence[str]) -> None:
        service.full.add("box-small")

    with pytest.raises(Conflict, match="box-small is full, and stays"):
        lifecycle.undo("tiny", (), store, Reporter())

    assert list(service.things) == ["box-small"]
    undo(with_data=True)
    assert service.things == {}


def test_a_profile_that_was_changed_since_stays(service: TinyService) -> None:
    set_up()
    PROFILE.write_text(PROFILE.read_text() + "# mine\n")

    assert undo().profile is None

    assert PROFILE.exists()


def test_settings_of_a_profile_are_not_trusted_with_those_of_others(service: TinyService) -> None:
    PROFILE.write_text("providers:\n  slurm: {host: login.example.com}\n")

    made = set_up()

    assert not made.trusted
    assert "slurm: {host: login.example.com}" in PROFILE.read_text()
    assert not trust.is_trusted(PROFILE, PROFILE.read_bytes())


def test_a_profile_that_needs_trust_is_not_believed(service: TinyService) -> None:
    PROFILE.write_text("providers:\n  tiny: {shelf: theirs}\n")

    with pytest.raises(UntrustedProfile):
        set_up()

    assert service.things == {}


def test_settings_without_a_place_in_the_profile_are_told(service: TinyService) -> None:
    PROFILE.write_text("providers: {}\n")

    made = set_up()

    assert made.text == "providers:\n  tiny:\n    shelf: shelf-small\n    box: id-box-small\n"
    assert PROFILE.read_text() == "providers: {}\n"


@pytest.mark.parametrize(
    ("setting", "what"),
    [("size", "is not NAME=VALUE"), ("length=3", "length"), ("size=[", "cannot be read")],
)
def test_a_wrong_setting_is_refused(service: TinyService, setting: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        set_up(setting)


def test_undo_without_a_setup_is_refused(service: TinyService) -> None:
    with pytest.raises(UsageError, match="no setup of tiny is on record"):
        undo()


def test_a_provider_without_setups_names_those_with(service: TinyService) -> None:
    with pytest.raises(Unavailable) as refused:
        lifecycle.set_up("local", (), lambda _: None, Reporter())

    assert "aws-batch" in str(refused.value.hint)


def test_an_export_makes_nothing_and_replaces_no_file(service: TinyService) -> None:
    notes = lifecycle.export("tiny", (), Path("out"))

    told = ["run: tiny out", "then: setup --set place=x, again"]
    assert (Path("out").read_text(), list(notes)) == ("'account a1'", told)
    assert (service.things, setup_record.list_all()) == ({}, [])
    with pytest.raises(Conflict):
        lifecycle.export("tiny", (), Path("out"))


def test_an_export_is_followed_by_a_setup_with_the_same_settings(service: TinyService) -> None:
    notes = lifecycle.export("tiny", ("size=large", "shelf=a;b"), Path("out"))

    assert notes[1] == "then: setup --set place=x --set size=large --set 'shelf=a;b', again"


def test_a_record_that_was_cut_off_is_told_with_its_folder(service: TinyService) -> None:
    set_up()
    (record,) = setup_record.list_all()
    (record.folder / "plan.json").write_text(json.dumps({})[:1])

    with pytest.raises(Exception, match=record.name):
        undo()
