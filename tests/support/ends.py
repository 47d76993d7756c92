"""The table of ends: what runspec says of each way in which a job can end, on each provider.

Tests end real jobs in these ways and compare what `status --json` says with `tests/golden/ends`. The section of
docs/exit-codes.md is made of these files. `RUNSPEC_GOLDEN=write` writes both anew.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.root import ROOT

FOLDER, PAGE = ROOT / "tests" / "golden" / "ends", ROOT / "docs" / "exit-codes.md"
ATTEMPTS, TIMEOUT_S = 2, 20
CODES = (0, 1, 2, 3, 75, 77, 120, 124, 126, 127, 130, 137, 143, 255)
SIGNALS = ("HUP", "INT", "QUIT", "ABRT", "KILL", "USR1", "SEGV", "TERM")
# A task of a sweep ends in the way that its parameter names. BELOW: a launcher is between the agent and the program.
SCRIPT = """\
agent() { p=$PPID; while [ "$BELOW" ] && ! tr '\\0' ' ' <"/proc/$p/cmdline" | grep -q "${AGENT:-pyz jo[b]}"
do read -r _ _ _ p _ <"/proc/$p/stat"; done; echo "$p"; }
[ "$RUNSPEC_SWEEP_END" != service ] || { kill -s STOP "$(agent)"; sleep 600; }
[ "$RUNSPEC_RANK" = "${LAST:-0}" ] || { case $RUNSPEC_SWEEP_END in
*-0) ;; full-*) sleep 30 ;; *) sleep 600 ;; esac; exit 0; }
case $RUNSPEC_SWEEP_END in
exit-*) exit "${RUNSPEC_SWEEP_END#exit-}" ;;
full-*) eval "${FILL:-:}"; head -c 3000000 /dev/urandom >"$RUNSPEC_OUTPUT_OUT/large" || :
exit "${RUNSPEC_SWEEP_END#full-}" ;;
signal-*) kill -s "${RUNSPEC_SWEEP_END#signal-}" $$; sleep 600 ;;
part) sleep 600 & kill $!; wait $! ;;
timeout) sleep 600 ;;
agent) kill -s KILL "$(agent)"; sleep 600 ;;
hang) read -r _ _ _ batch _ <"/proc/$PPID/stat"; kill -s STOP "$batch"; sleep 600 ;;
batch) read -r _ _ _ batch _ <"/proc/$PPID/stat"; kill -s KILL "$batch"; sleep 600 ;;
esac
"""
OF_PROGRAM = (*(f"exit-{code}" for code in CODES), *(f"signal-{name}" for name in SIGNALS), "part")
WORDS = {
    "part": "the program ends with the code of a part that SIGTERM killed",
    "timeout": f"it reaches `timeout: {TIMEOUT_S}s`",
    "service": "the agent hangs, so that the service ends it",
    "hang": "the batch script hangs, so that Slurm ends it",
    "agent": "SIGKILL ends the agent",
    "batch": "SIGKILL ends the batch script",
    "cancel": "`runspec cancel`",
    "supervisor": "SIGKILL ends the supervisor",
    "lost": "the machine is lost once",
    "notice": "the machine is reclaimed once, after a notice",
    "withdrawn": "there is a notice once, and the machine stays",
    "full-0": "the program succeeds, and there is no room for its outputs",
    "full-3": "the program exits with 3, and there is no room for its outputs",
    "image": "its image cannot be pulled",
    "architecture": "its image is for another processor",
    "shell": "its image has no `/bin/sh`",
    "entrypoint": "its image has an ENTRYPOINT that does not exist",
    "program-memory": "the program needs more memory than the job has",
    "memory": "the container needs more than its memory once",
}
HEAD = (
    "| how it ends | state | exit code | attempts, and how each counts in the bill | reason |\n"
    "| --- | --- | --- | --- | --- |\n"
)
BEGIN, END = "<!-- Written by the tests of the table of ends. -->\n", "<!-- End. -->\n"
TITLES = {
    "local": "`local`",
    "local-nodes": "`local`, two nodes: the second one ends as the row says",
    "local-mpi": "`local`, two nodes with `launch: mpi`: the rank on the second one ends so",
    "local-torchrun": "`local`, two nodes with `launch: torchrun`: a worker ends so",
    "slurm": "`slurm` and `parallelcluster`",
    "slurm-nodes": "`slurm` and `parallelcluster`, two nodes: the second one ends as the row says",
    "slurm-mpi": "`slurm` and `parallelcluster`, two nodes with `launch: mpi`: the rank on the second one ends so",
    "slurm-torchrun": "`slurm` and `parallelcluster`, two nodes with `launch: torchrun`: a worker ends so",
    "aws-batch": "`aws-batch`, rehearsed",
    "aws-batch-nodes": "`aws-batch`, two nodes, rehearsed: the second one ends so, the first one later with 0",
    "aws-batch-mpi": "`aws-batch`, two nodes with `launch: mpi`, rehearsed: the rank on the second one ends so",
    "aws-batch-torchrun": "`aws-batch`, two nodes with `launch: torchrun`, rehearsed: a worker ends so",
    "aws-batch-signed": "`aws-batch` with `files: signed`, rehearsed",
    "aws-batch-spot": "`aws-batch` on spot machines, rehearsed",
    "aws-batch-spot-nodes": "`aws-batch` on spot machines, two nodes, rehearsed: the second one ends so",
    "azure-batch": "`azure-batch`, rehearsed",
    "azure-batch-nodes": "`azure-batch`, two nodes, rehearsed: the second one ends so, the first one later with 0",
    "azure-batch-mpi": "`azure-batch`, two nodes with `launch: mpi`, rehearsed: the rank on the second one ends so",
    "azure-batch-torchrun": "`azure-batch`, two nodes with `launch: torchrun`, rehearsed: a worker ends so",
    "azure-batch-signed": "`azure-batch` with `files: signed`, rehearsed",
    "azure-batch-spot": "`azure-batch` on spot machines, rehearsed",
    "azure-batch-spot-nodes": "`azure-batch` on spot machines, two nodes, rehearsed: the second one ends so",
    "azure-batch-ai": "`azure-batch-ai`, rehearsed",
}


def spec(provider: str, ends: Iterable[str], nodes: int = 1, **more: Any) -> dict[str, Any]:
    """Return a spec whose tasks end in these ways."""
    return {
        "apiVersion": "runspec/v1",
        "name": "job",
        "provider": provider,
        "run": SCRIPT,
        "sweep": {"end": list(ends)},
        "env": {"LAST": str(nodes - 1)},
        "cluster": {"nodes": nodes},
        "retry": {"attempts": ATTEMPTS, "spot_attempts": 3},
        "timeout": f"{TIMEOUT_S}s",
        **more,
    }


def rows(status: Mapping[str, Any], ends: Iterable[str]) -> dict[str, Any]:
    """Return the rows of the tasks of a run: for each way to end, what `status --json` says of each node."""
    found: dict[str, Any] = {}
    for task, end in enumerate(ends):
        nodes = [node for node in status["nodes"] if node["task"] == task]
        found[end] = [
            {
                "state": node["state"],
                "exit_code": node["exit_code"],
                "reason": _reason(node),
                "attempts": [[a["exit_code"], _outcome(node, a)] for a in node["attempts"]],
            }
            for node in nodes
        ]
    return found


def _outcome(node: Mapping[str, Any], attempt: Mapping[str, Any]) -> str:
    """Return how an attempt counts in the bill, by the rules of docs/machines.md."""
    if attempt["reclaimed"]:
        return "reclaimed"
    if attempt["exit_code"] == 0:
        return "succeeded"
    last = attempt["number"] == node["attempts"][-1]["number"]
    return "cancelled" if last and node["state"] == "cancelled" else "failed"


def _reason(node: Mapping[str, Any]) -> str:
    """Return the reason of a node, or else of its last attempt, without what differs between two runs."""
    reason: str = node["reason"] or (node["attempts"] or [node])[-1]["reason"]
    return re.sub(r"/\S+/runs/\S+", "FOLDER", re.sub(r"\bi-[0-9a-f]+\b", "i-0", reason))


def recorded(name: str) -> dict[str, Any]:
    """Return the rows that are recorded under *name*: a provider, or one with several nodes."""
    path = FOLDER / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def check(name: str, found: Mapping[str, Any]) -> None:
    """Compare rows with those that are recorded under *name*, or record them."""
    path, known = FOLDER / f"{name}.json", recorded(name)
    if os.environ.get("RUNSPEC_GOLDEN") == "write":
        merged = {**known, **found}
        known = {end: merged[end] for end in (*OF_PROGRAM, *WORDS) if end in merged}
        path.write_text(json.dumps(known, indent=1) + "\n")
        PAGE.write_text(page())
    assert {end: known.get(end) for end in found} == dict(found)


def page() -> str:
    """Return docs/exit-codes.md with the tables of what is recorded."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + "".join(_tables()) + END + rest.partition(END)[2]


def _tables() -> Iterable[str]:
    for name, title in TITLES.items():
        known = recorded(name)
        if not known:
            continue
        lines = "".join(f"| {_words(end)} | {_cells(known[end])} |\n" for end in known)
        yield f"\n### {title}\n\n{HEAD}{lines}"
    yield "\n"


def _words(end: str) -> str:
    kind, _, what = end.partition("-")
    if kind == "exit":
        return f"the program exits with {what}"
    return f"the program ends by SIG{what}" if kind == "signal" else WORDS[end]


def _cells(nodes: Iterable[Mapping[str, Any]]) -> str:
    """Return the cells of a row; with several nodes, each cell has a value for each that is not the same for all."""
    each = [
        (
            node["state"],
            "" if node["exit_code"] is None else str(node["exit_code"]),
            ", ".join(f"{_code(code)} {how}" for code, how in node["attempts"]),
            node["reason"].replace("|", "\\|"),
        )
        for node in nodes
    ]
    columns = zip(*each, strict=True)
    return " | ".join("<br>".join(dict.fromkeys(column)) for column in columns)


def _code(code: int | None) -> str:
    return "?" if code is None else str(code)
