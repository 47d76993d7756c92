"""`doctor --probe` says what it would do before it does anything, and only then opens a client."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.errors import RemoteError
from runspec_jobs.load import registry
from runspec_jobs.provider import Facts, Options, Request, Response
from runspec_jobs.provider.probe import Observation, Probe, ProbeContext, Verdict
from runspec_jobs.state import probe_leftovers

Capture = pytest.CaptureFixture[str]


class Service:
    """A client and a provider of nothing but probes; *there* is what is there."""

    name, options_model = "tiny", Options

    def __init__(self) -> None:
        self.there: list[str] = []
        self.opened = 0
        self.refuses: set[str] = set()

    def connect(self, facts: Facts) -> Service:
        self.opened += 1
        return self

    def call(self, request: Request) -> Response:
        name = request.params["name"]
        if name in self.refuses:
            raise RemoteError(f"{name} stays")
        if name in self.there:
            self.there.remove(name)
        return {}

    def probes(self, options: Any) -> Sequence[Probe]:
        return (
            Probe("tiny-1", "one holds", 3, 0.0, self.one(Verdict.CONFIRMED)),
            Probe("tiny-2", "two fails", 300, 0.25, self.one(None)),
            Probe("tiny-3", "three is otherwise", 3, 0.001, self.one(Verdict.REFUTED), "tiny-2"),
        )

    def one(self, verdict: Verdict | None) -> Any:
        def probe(client: Service, context: ProbeContext) -> Observation:
            name = f"{context.name}-{verdict}"
            context.note(f"thing {name}", f"tiny rm {name}", Request("tiny", "rm", {"name": name}))
            client.there.append(name)
            if verdict is None:
                raise RemoteError("no such luck")
            return Observation(verdict, "it answered")

        return probe


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Service:
    found = Service()
    monkeypatch.setattr(registry, "load", lambda name: found)
    monkeypatch.setattr(probe_leftovers, "PAUSE_S", 0.01)
    monkeypatch.chdir(tmp_path)
    return found


def answered(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(text))


def test_time_and_cost_of_each_are_told_and_nothing_is_done_without_a_yes(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    answered(monkeypatch, "\n")

    code = run(["doctor", "tiny", "--probe"])

    told = capsys.readouterr().err
    assert code == 2
    assert "tiny-2       5 min 0.25 USD  two fails" in told
    assert "3 probes" in told
    assert "about 5 min, at most 0.25 USD" in told
    assert "not confirmed: no probe was run" in told
    assert service.opened == 0


def test_probes_without_a_terminal_name_the_command_to_type(
    service: Service, capsys: Capture
) -> None:
    code = run(["doctor", "tiny", "--probe"])

    assert code == 2
    assert "hint: runspec doctor tiny --probe --yes" in capsys.readouterr().err
    assert service.opened == 0


def test_after_a_yes_each_says_what_it_has_seen_and_all_is_taken_away(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    answered(monkeypatch, "y\n")

    code = run(["doctor", "tiny", "--probe"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 69  # a belief was refuted
    assert [line.split("  ")[0] for line in lines[::2]] == [
        "confirmed",
        "unknown",
        "refuted",
    ]
    assert "seen: no such luck" in lines[3]
    assert service.there == []
    assert probe_leftovers.list_sessions("tiny") == []


def test_some_may_be_chosen_and_json_has_all(service: Service, capsys: Capture) -> None:
    code = run(["doctor", "tiny", "--probe", "--only", "tiny-1", "--yes", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert found["provider"] == "tiny"
    assert [(p["id"], p["verdict"], p["seen"]) for p in found["probes"]] == [
        ("tiny-1", "confirmed", "it answered")
    ]
    assert found["left"] == []


def test_the_cost_of_one_has_that_of_what_it_needs(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    answered(monkeypatch, "n\n")

    run(["doctor", "tiny", "--probe", "--only", "tiny-3"])

    told = capsys.readouterr().err
    assert "2 probes" in told
    assert "at most 0.25 USD" in told
    assert "tiny-1" not in told


def test_a_probe_that_is_not_there_is_named_with_those_that_are(
    service: Service, capsys: Capture
) -> None:
    code = run(["doctor", "tiny", "--probe", "--only", "tiny-1,tiny-9", "--yes"])

    assert code == 2
    told = capsys.readouterr().err
    assert "there is no probe 'tiny-9'" in told
    assert "one of tiny-1, tiny-2, tiny-3" in told


def test_leftovers_of_probes_are_named_and_block_the_next_session(
    service: Service, capsys: Capture
) -> None:
    only = ["doctor", "tiny", "--probe", "--yes", "--only", "tiny-1"]
    service.refuses = Everything()
    assert run(only) == 69
    assert "tiny rm probe-" in capsys.readouterr().err
    assert run(only) == 69
    assert "cannot delete all resources that probe-" in capsys.readouterr().err
    service.refuses = set()

    assert run(only) == 0

    assert service.there == []


class Everything(set[str]):
    def __contains__(self, _: object) -> bool:
        return True


def test_a_mistake_of_ours_in_a_probe_takes_its_things_away(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(client: Service, context: ProbeContext) -> Observation:
        service.one(Verdict.CONFIRMED)(client, context)
        raise ZeroDivisionError

    monkeypatch.setattr(service, "probes", lambda _: [Probe("tiny-1", "broken", 1, 0, broken)])

    assert run(["doctor", "tiny", "--probe", "--yes"]) == 70

    assert service.there == []
    assert probe_leftovers.list_sessions("tiny") == []


def test_a_second_session_of_probes_is_refused(service: Service, capsys: Capture) -> None:
    with probe_leftovers.lock_probes("tiny") as free:
        assert free
        code = run(["doctor", "tiny", "--probe", "--yes"])

    assert code == 4
    assert "another runspec is running probes of 'tiny'" in capsys.readouterr().err


def test_a_provider_without_probes_says_so(capsys: Capture) -> None:
    assert run(["doctor", "local", "--probe", "--yes"]) == 69
    assert "'local' has no probes" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--only", "aws-1"], ["--yes"]])
def test_options_for_probes_are_refused_without_probe(words: list[str], capsys: Capture) -> None:
    assert run(["doctor", "local", *words]) == 2
    assert "can only be used with --probe" in capsys.readouterr().err


def test_messages_count_probes_in_singular_and_plural(service: Service, capsys: Capture) -> None:
    run(["doctor", "tiny", "--probe", "--only", "tiny-1"])

    assert (
        ": 1 probe creates resources in your account at tiny and deletes them"
        in capsys.readouterr().err
    )


def test_a_look_from_a_node_does_not_go_with_probes(service: Service, capsys: Capture) -> None:
    assert run(["doctor", "tiny", "--probe", "--node", "--yes"]) == 2

    assert "--node and --probe cannot be combined" in capsys.readouterr().err
    assert service.opened == 0
