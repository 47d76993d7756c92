"""What the real commands of Slurm print is read, and whatever of it arrives makes no healthy job a broken one.

`recorded/slurm-22.05.8.json` holds what they printed, with the format and the environment that runspec gives them;
`recorded/documented.json` holds what the documentation of other versions has beside it.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.provider import NoAnswer, RemoteError
from runspec_slurm import discover, queue
from runspec_slurm.queue import BETWEEN, Queue, Row
from runspec_slurm.session.process import Done
from runspec_slurm.session.transport import Here
from runspec_slurm.store.workspace import WorkspaceStore
from tests.unit.runspec_slurm.test_client_queue import said

FOLDER = Path(__file__).parent / "recorded"
STATES = queue.ENDED | frozenset(
    "PENDING RUNNING COMPLETING CONFIGURING REQUEUED REQUEUE_HOLD SUSPENDED STOPPED RESIZING SIGNALING "
    "SPECIAL_EXIT STAGE_OUT REQUEUE_FED RESV_DEL_HOLD".split()
)


def calls(file: str, *words: str) -> list[dict[str, Any]]:
    found = json.loads((FOLDER / f"{file}.json").read_text())["calls"]
    return [call for call in found if call["argv"][: len(words)] == list(words)]


REAL = "slurm-22.05.8"
QUEUES = [call["out"] for call in calls(REAL, "squeue") if call["out"]]
PAST = calls("documented", "sacct")[0]["out"].replace("|", BETWEEN)


def prefixes(text: str) -> Iterator[str]:
    """Yield what may have come of *text*, cut at any byte."""
    data = text.encode()
    return (data[:end].decode(errors="replace") for end in range(len(data)))


def test_the_queue_of_a_real_cluster_is_read() -> None:
    found = [row for text in QUEUES for row in queue.rows(text)]

    assert len(found) == sum(text.count("\n") for text in QUEUES)
    assert {row.state for row in found} <= STATES
    assert {"PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"} <= {r.state for r in found}
    by_name = {row.name: row for row in queue.rows(QUEUES[0])}
    assert by_name["failed"].code == 3 and by_name["killed"].code == 137
    assert by_name["dep"].reason == "DependencyNeverSatisfied"
    assert by_name["held"].reason == "JobHeldUser"
    assert by_name["limited"].restarts == 1
    assert by_name["big|a b"].state == "PENDING"
    assert len([task for r in queue.rows(QUEUES[0]) if r.name == "array" for task in r.tasks]) == 21


@pytest.mark.parametrize("text", QUEUES, ids=range(len(QUEUES)))
def test_of_a_queue_that_is_cut_off_every_row_that_is_read_is_true(text: str) -> None:
    true = {key(row) for row in queue.rows(text)}

    wrong = [row for part in prefixes(text) for row in queue.rows(part) if key(row) not in true]

    assert wrong == []


def key(row: Row) -> Row:
    """The name comes last, and may be cut off: then the row is nobody's."""
    return row._replace(name="")


def test_tries_are_read_from_the_accounting() -> None:
    found = [(past.task, past.state, past.code, past.restarts) for past in queue.pasts(PAST)]

    assert found[:4] == [
        (0, "CANCELLED", 143, 0),
        (3, "OUT_OF_MEMORY", 253, 0),
        (4, "NODE_FAIL", 1, 0),
        (4, "REQUEUED", 0, 1),
    ]
    assert [task for task, state, *_ in found if state == "PENDING"] == [5, 6, 7, 8, 9]


def test_of_an_accounting_that_is_cut_off_every_try_that_is_read_is_true() -> None:
    true = {past._replace(name="") for past in queue.pasts(PAST)}

    found = (past for part in prefixes(PAST) for past in queue.pasts(part))

    assert {past._replace(name="") for past in found} <= true


REFUSED = [call for call in calls(REAL) if call["code"]]


@pytest.mark.parametrize(
    "call", REFUSED, ids=lambda call: f"{call['argv'][0]} {call['argv'][-1]}"[:60]
)
def test_a_real_refusal_says_whether_anything_was_done(call: dict[str, Any]) -> None:
    kind = NoAnswer if "Unable to contact" in call["err"] else RemoteError
    code = 1 if call["code"] == 255 else call["code"]  # as SUBMIT hands it on: see the next test
    command = said(code, call["out"], call["err"])

    if "Invalid job id" in call["err"]:
        assert command.of_job("99999") == []
        return
    with pytest.raises(kind) as refused:
        command.refuse(call["argv"][0], Done(code, b"", call["err"]))

    assert refused.value.message


@pytest.mark.process
def test_exit_code_255_of_sbatch_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with 255 then, which is also what ssh ends with when nobody knows."""
    (call,) = [one for one in REFUSED if one["code"] == 255]
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{call['err'].strip()}' >&2\nexit 255\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    (tmp_path / "w" / "runs" / "r").mkdir(parents=True)

    with pytest.raises(RemoteError, match="Invalid --time specification"):
        Queue(WorkspaceStore(Here(), str(tmp_path / "w"))).submit("r", ["--time=x"], "#!/bin/sh\n")


def test_the_survey_of_a_real_cluster_is_read_and_any_part_of_it() -> None:
    parts = {
        "partitions": calls(REAL, "scontrol", "--all")[0]["out"],
        "nodes": calls(REAL, "sinfo")[0]["out"],
        "config": calls(REAL, "scontrol", "show", "config")[0]["out"],
        "mpi": calls(REAL, "srun")[0]["out"],
    }
    text = "".join(f"\n== {name}\n{said}" for name, said in parts.items())

    found = discover.read(text)

    assert set(found["partitions"]) == {"main", "spot", "short"}
    assert found["partitions"]["main"]["gpus"] == {"": 2}
    assert found["mpi"] == ["cray_shasta", "none", "pmi2", "pmix"]
    assert found["version"] == "22.05.8"
    for part in itertools.islice(prefixes(text), 0, None, 7):
        assert set(discover.read(part).get("partitions", {})) <= {
            *found["partitions"],
            *cut_names(),
        }


def cut_names() -> set[str]:
    """A name of a partition may itself be cut off: it is then one that nobody asks for."""
    return {name[:end] for name in ("main", "spot", "short") for end in range(len(name))}


def test_plugins_of_mpi_are_read_as_older_versions_list_them() -> None:
    assert discover.mpi_plugins(calls("documented", "srun")[0]["err"]) == [
        "none",
        "pmi2",
        "pmix",
        "pmix_v3",
    ]


def test_an_id_is_found_in_what_a_real_sbatch_prints() -> None:
    (plain,) = calls(REAL, "sbatch")[:1]

    assert plain["out"].strip().isdigit()
    assert calls("documented", "sbatch")[0]["out"].partition(";")[0].isdigit()
