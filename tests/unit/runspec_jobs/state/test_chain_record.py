"""The record of a chain says which run each job has, and is read anew before it is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspec_jobs.errors import Newer
from runspec_jobs.state.chain_record import (
    ChainRecord,
    current,
    note_run,
    note_want,
)
from runspec_jobs.state_folder import find_chains_folder


@pytest.fixture
def chain(tmp_path: Path) -> ChainRecord:
    return ChainRecord("all", tmp_path / "all.yaml", {"first": {}, "last": {"first": "succeeded"}})


def test_the_record_with_the_new_run_is_returned_and_written(chain: ChainRecord) -> None:
    note_run(chain, "first", "first-abc123", None)
    found = note_run(chain, "last", "last-abc123", None)

    assert found.runs == {"first": "first-abc123", "last": "last-abc123"}
    assert current(chain) == found


def test_no_run_is_noted_of_a_chain_that_is_to_end(chain: ChainRecord) -> None:
    note_want(chain, "cancel")

    found = note_run(chain, "first", "first-abc123", None)

    assert (found.want, found.runs) == ("cancel", {})


def test_a_run_that_another_command_noted_before_stays(chain: ChainRecord) -> None:
    note_run(chain, "first", "first-abc123", None)

    assert note_run(chain, "first", "first-xyz789", None).runs == {"first": "first-abc123"}
    assert note_run(chain, "first", "first-xyz789", "first-abc123").earlier == ("first-abc123",)


def test_the_record_of_a_newer_version_is_refused_with_its_version(chain: ChainRecord) -> None:
    note_want(chain, "cancel")
    (file,) = find_chains_folder().glob("*.json")
    newer = {**json.loads(file.read_text()), "format": "runspec.chain/v9", "runspec": "9.1"}
    file.write_text(json.dumps(newer))

    with pytest.raises(Newer, match=r"runspec 9\.1 wrote it"):
        current(chain)
