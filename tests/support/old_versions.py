"""Runs that an older version of runspec has left, as tests/fixtures/v0 keeps them, put where a test wants them."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import zlib
from collections.abc import Mapping
from pathlib import Path

from runspec_jobs.engine import clients
from runspec_jobs.engine.apply import fill_request
from runspec_jobs.state import run_record
from tests.support.root import ROOT
from tests.support.wait import until

FROZEN = ROOT / "tests/fixtures/v0"
LINE = re.compile(rb'\{"crc": "[0-9a-f]{8}", (.*)')
AGENT = lzma.decompress((FROZEN / "agent.pyz.xz").read_bytes())
AGENT_KEY = f"inside/{hashlib.sha256(AGENT).hexdigest()}.pyz"


def thawed(provider: str, place: Path, marks: Mapping[str, str] | None = None) -> Path:
    """Put the files of *provider* below *place*, and return that folder; *marks* say what markers stand for."""
    marks = {"@PLACE@": str(place), **(marks or {})}
    source = FROZEN / provider
    for path in (path for path in source.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for mark, text in marks.items():
            content = content.replace(mark.encode(), text.encode())
        target = place / provider / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.write_bytes(_summed(content) if path.name == "journal.jsonl" else content)
    return place / provider


def _summed(journal: bytes) -> bytes:
    """Return a journal with the checksums of its lines as they are now; the form of a line is frozen here, too."""
    bodies = [LINE.fullmatch(line) for line in journal.splitlines()]
    return b"".join(
        b'{"crc": "%08x", %s\n' % (zlib.crc32(b"{" + body[1]), body[1]) for body in bodies if body
    )


def stored(provider: str) -> Mapping[str, bytes]:
    """Return what the store of *provider* held, by key, and the agent that the runs were made with."""
    base = FROZEN / provider / "store"
    found = {str(p.relative_to(base)): p.read_bytes() for p in base.rglob("*") if p.is_file()}
    return {**found, f"v0/{AGENT_KEY}": AGENT}


def boot_text() -> str:
    """Return what stands for @BOOT_PY@ within JSON: the older version's boot.py, as it travelled."""
    return json.dumps((FROZEN / "boot.txt").read_text(), ensure_ascii=False)[1:-1]


def run_of(name: str) -> str:
    """Return the only run of a spec."""
    return run_record.find(name).run


def submitted_again(name: str) -> None:
    """Have the service of a run be asked for all that its plan says, word for word; the agent is there already."""
    of = run_record.find(name)
    _, client, _ = clients.connect(of)
    answers = of.read_memory().answers
    for step in of.plan.steps:
        if step.id == "inside" or client.find(step) is not None:
            continue
        client.call(fill_request(step.do, answers))
        until(lambda step=step: client.settled(step))  # type: ignore[misc]
