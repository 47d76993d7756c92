"""What a zipapp left beside it goes when it goes, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_jobs.provider import Request
from runspec_slurm.client import SlurmClient
from runspec_slurm.options import SlurmOptions
from tests.support.slurm.forgetful_queue import forgetful

KNOWN, OTHER, GONE = (letter * 64 for letter in "abc")
PLACES = {
    f"{KNOWN}.pyz",
    f"{KNOWN}.cpython-311-3495.kept",
    f"{KNOWN}.cpython-36-3379.kept",
    f"{OTHER}.pyz",
    f"{OTHER}.cpython-311-3495.kept",
    f"{GONE}.cpython-311-3495.kept",
}


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    folder.mkdir()
    for name in PLACES:
        (folder / name).write_text("x")
    return folder


@pytest.mark.process
def test_compiled_modules_are_litter_where_their_zipapp_is(inside: Path) -> None:
    client = SlurmClient(SlurmOptions(workspace=str(inside.parent)))
    made = {f"inside/{KNOWN}.pyz"}

    found = list(client.find_orphans((), made))

    assert sorted(one.what for one in found) == [
        f"upload inside/{OTHER}.pyz (1 bytes)",
        f"upload inside/{GONE}.cpython-311-3495.kept (1 bytes)",
    ]
    for one in found:
        for request in one.remove:
            client.call(request)
    assert {path.name for path in inside.iterdir()} == {name for name in PLACES if KNOWN in name}
    assert list(client.find_orphans((), made)) == []


@pytest.mark.process
def test_removing_the_agent_removes_its_bytecode(inside: Path) -> None:
    """As `destroy --shared` does; what has only a like name stays."""
    client = SlurmClient(SlurmOptions(workspace=str(inside.parent)))

    client.call(Request("folder", "remove", {"key": f"inside/{KNOWN}.pyz"}))

    assert {path.name for path in inside.iterdir()} == {n for n in PLACES if KNOWN not in n}


@pytest.mark.process
def test_a_later_array_keeps_its_run_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, or by its claim if the site has renamed it."""
    waits = "7|N/A|PENDING|Priority|0|0|9|N/A|N/A||/w|"
    client = forgetful(tmp_path, monkeypatch, "cancelled", 0, f"{waits}job-a1.1|")

    def alive() -> list[bool]:
        return [found.alive for found in client.find_orphans((), ()) if found.run == "job-a1"]

    assert alive() == [True]
    (tmp_path / "bin/squeue").write_text(
        (tmp_path / "bin/squeue").read_text().replace("job-a1.1", "site-7")
    )
    assert alive() == [False]
    client.store.put("runs/job-a1/claim.1", b"7")
    assert alive() == [True]
