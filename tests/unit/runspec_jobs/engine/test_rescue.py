"""Runs whose record is damaged are ended by what their service has of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runspec_jobs.engine import rescue
from runspec_jobs.engine.reporter import Reporter
from runspec_jobs.errors import Damaged
from runspec_jobs.load import registry
from runspec_jobs.provider import Orphan


class Service:
    """Its client and its provider at once, which has nothing but a run of another name."""

    def connect(self, facts: Any) -> Service:
        return self

    def find_orphans(self, runs: Any, made: Any) -> tuple[Orphan, ...]:
        return (Orphan("a job", (), "other-abc234", alive=False),)


def test_a_run_of_which_nothing_is_found_does_not_count_as_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may run in another account, or the file system that has its files is not mounted."""
    monkeypatch.setattr(registry, "load", lambda name: Service())
    record: Any = SimpleNamespace(
        run="job-abc234",
        plan=SimpleNamespace(provider="fake", steps=()),
        read_facts=lambda provider: None,
    )

    with pytest.raises(Damaged, match="it is cut off") as caught:
        rescue.destroy(record, Damaged("it is cut off"), Reporter())

    assert "runspec destroy job-abc234 --forget" in (caught.value.hint or "")


@pytest.mark.parametrize("delete", [False, True])
def test_cancel_deletes_nothing_of_a_damaged_run_and_destroy_deletes_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, delete: bool
) -> None:
    ended: list[tuple[str, bool]] = []

    class Ending(Service):
        def end_by_id(self, run: str, texts: Any, *, delete: bool) -> bool:
            ended.append((run, delete))
            return True

    def refuse(wait: Any) -> Any:
        raise Damaged("its journal, too")

    monkeypatch.setattr(registry, "load", lambda name: Ending())
    folder = tmp_path / "job-abc234"
    folder.mkdir()
    record: Any = SimpleNamespace(
        run="job-abc234",
        plan=SimpleNamespace(provider="fake", steps=()),
        folder=folder,
        open_journal=refuse,
    )

    (rescue.destroy if delete else rescue.cancel)(record, Damaged("it is cut off"), Reporter())

    assert ended == [("job-abc234", delete)]
    assert folder.exists() != delete
