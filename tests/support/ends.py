"""The table of ends: what runspec says of each way in which a job can end, on each provider.

Tests end real jobs in these ways and compare what `status --json` says with `tests/golden/ends`. docs/ends.md is
made of these files. `RUNSPEC_GOLDEN=write` writes both anew.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.support.root import ROOT

FOLDER, PAGE = ROOT / "tests" / "golden" / "ends", ROOT / "docs" / "ends.md"
ATTEMPTS, TIMEOUT_S = 2, 20
RETRY = {"attempts": ATTEMPTS, "spot_attempts": 3}
CODES = (0, 1, 2, 3, 75, 77, 120, 124, 126, 127, 130, 137, 143, 255)
SIGNALS = ("HUP", "INT", "QUIT", "ABRT", "KILL", "USR1", "SEGV", "TERM")
# A task of a sweep ends in the way that its parameter names. BELOW: a launcher is between the agent and the program.
# MARK: a path on the machine of the tests, which knows whether an elastic node was killed before.
SCRIPT = """\
agent() { p=$PPID; while [ "$BELOW" ] && ! tr '\\0' ' ' <"/proc/$p/cmdline" | grep -q "${AGENT:-pyz jo[b]}"
do read -r _ _ _ p _ <"/proc/$p/stat"; done; echo "$p"; }
[ "$RUNSPEC_SWEEP_END" != service ] || { kill -s STOP "$(agent)"; sleep 600; }
[ "$RUNSPEC_SWEEP_END" != node ] || case $RUNSPEC_RANK in
0) until [ -e "$MARK-2" ]; do sleep 0.2; done; exit 0 ;;
*) [ ! -e "$MARK" ] || { touch "$MARK-2"; exit 0; }; touch "$MARK"; kill -s KILL "$(agent)"; sleep 600 ;;
esac
[ "$RUNSPEC_RANK" = "${LAST:-0}" ] || { case $RUNSPEC_SWEEP_END in
*-0) ;; full-*) sleep 30 ;; *) sleep 600 ;; esac; exit 0; }
case $RUNSPEC_SWEEP_END in
exit-*) exit "${RUNSPEC_SWEEP_END#exit-}" ;;
full-*) eval "${FILL:-:}"; head -c 3000000 /dev/urandom >"$RUNSPEC_OUTPUT_OUT/large" || :
exit "${RUNSPEC_SWEEP_END#full-}" ;;
disk-*) cat /dev/zero >"$RUNSPEC_OUTPUT_OUT/zero" || :; exit "${RUNSPEC_SWEEP_END#disk-}" ;;
signal-*) kill -s "${RUNSPEC_SWEEP_END#signal-}" $$; sleep 600 ;;
part) sleep 600 & kill $!; wait $! ;;
timeout) sleep 600 ;;
cancel) echo begun; sleep 600 ;;
agent) kill -s KILL "$(agent)"; sleep 600 ;;
hang) read -r _ _ _ batch _ <"/proc/$PPID/stat"; kill -s STOP "$batch"; sleep 600 ;;
batch) read -r _ _ _ batch _ <"/proc/$PPID/stat"; kill -s KILL "$batch"; sleep 600 ;;
esac
"""
OF_PROGRAM = (*(f"exit-{code}" for code in CODES), *(f"signal-{name}" for name in SIGNALS), "part")
WORDS = {
    "part": "the code of a part that SIGTERM killed",
    "timeout": f"it reaches `timeout: {TIMEOUT_S}s`",
    "service": "the agent hangs",
    "hang": "the batch script hangs",
    "agent": "SIGKILL ends the agent",
    "batch": "SIGKILL ends the batch script",
    "cancel": "`runspec cancel`",
    "supervisor": "SIGKILL ends the supervisor",
    "node": "SIGKILL ends the agent of one node once",
    "lost": "the machine is lost once",
    "notice": "the machine is reclaimed once, after a notice",
    "evicted": "its pod is evicted once, since its node lacks memory or disk",
    "preempted": "a pod with a higher priority takes its place once",
    "withdrawn": "there is a notice once, and the machine stays",
    "full-0": "it succeeds, without room for its outputs",
    "full-3": "exit code 3, without room for its outputs",
    "disk-0": "it succeeds, although the disk of its machine is full",
    "disk-3": "exit code 3, since the disk of its machine is full",
    "image": "its image cannot be pulled",
    "architecture": "its image is for another processor",
    "shell": "its image has no `/bin/sh`",
    "entrypoint": "its image has an ENTRYPOINT that does not exist",
    "rule-stop": "exit code 42, for which `retry.on` says stop",
    "rule-again": "exit code 7, of which `retry.on` says nothing",
    "rule-timeout": "it reaches `timeout`, for which `retry.on` says stop",
    "rule-oom": "the kernel kills it for its memory, for which `retry.on` says stop",
    "rule-lost": "its machine is lost, for which `retry.on` says stop",
    "rule-image": "its image cannot be pulled, for which `retry.on` says retry",
    "setup": "its `setup` exits with 6",
    "max-failed": "it is one of two failed tasks, with `max_failed: 2`",
    "max-running": "it runs when two tasks have failed, with `max_failed: 2`",
    "max-waiting": "it waits when two tasks have failed, with `max_failed: 2`",
    "program-memory": "the program needs more memory than the job has",
    "memory": "the container needs more than its memory once",
}
HEAD = (
    "| how it ends | state | exit code | attempts, and how each counts in the bill | reason |\n"
    "| --- | --- | --- | --- | --- |\n"
)
BEGIN, END = "<!-- Written by the tests of the table of ends. -->\n", "<!-- End. -->\n"
UNRECORDED = "the agent recorded no end"
TITLES = {
    "local": "`local`",
    "slurm": "`slurm` and `parallelcluster`",
    "aws-batch": "`aws-batch`, rehearsed",
    "azure-batch": "`azure-batch`, rehearsed",
    "azure-batch-ai": "`azure-batch-ai`, rehearsed",
    "kubernetes": "`kubernetes`, rehearsed",
}
KINDS = {
    "": "one node",
    "-nodes": "two nodes",
    "-mpi": "`mpi`",
    "-torchrun": "`torchrun`",
    "-signed": "`files: signed`",
    "-spot": "spot",
    "-spot-nodes": "two spot nodes",
    "-elastic": "elastic `torchrun`",
    "-rules": "rules",
}
NAMES = [f"{title}{kind}" for title in TITLES for kind in KINDS]


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
        "retry": RETRY,
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
    """Return docs/ends.md with the tables of what is recorded."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + "".join(_tables()) + END + rest.partition(END)[2]


def _tables() -> Iterable[str]:
    """Yield a table for each provider. Ways to end that differ in the exit code alone share a row, where it is N."""
    for title, words in TITLES.items():
        rows: dict[tuple[str, ...], dict[str, list[str]]] = {}
        for kind in KINDS:
            for end, nodes in recorded(title + kind).items():
                rows.setdefault(_cells(end, nodes), {}).setdefault(kind, []).append(end)
        lines = "".join(f"| {_jobs(cells, ends)} |\n" for cells, ends in rows.items())
        yield f"\n### {words}\n\n{HEAD}{lines}"
    yield "\n"


def _jobs(cells: tuple[str, ...], ends: Mapping[str, Iterable[str]]) -> str:
    """Return a row: kinds of jobs, the ways in which they end, and what is said of each of these."""
    kinds: dict[str, list[str]] = {}
    for kind, ways in ends.items():
        kinds.setdefault(_words(ways), []).append(KINDS[kind])
    jobs = "<br>".join(f"{', '.join(names)}: {ways}" for ways, names in kinds.items())
    return " | ".join((jobs, *cells))


def _words(ends: Iterable[str]) -> str:
    codes, signals, others = list[str](), list[str](), list[str]()
    for end in ends:
        if end in WORDS:
            others.append(WORDS[end])
        else:
            kind, _, what = end.partition("-")
            (codes if kind == "exit" else signals).append(what)
    told = [f"exit code {', '.join(codes)}"] if codes else []
    told += [f"SIG{', SIG'.join(signals)}"] if signals else []
    return "; ".join((*told, *others))


def _cells(end: str, nodes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the cells of a row; with several nodes, each cell has a value for each that is not the same for all."""
    own = nodes[-1]["exit_code"] if end in OF_PROGRAM else None
    each = [
        (
            node["state"],
            "" if node["exit_code"] is None else _code(node["exit_code"], own),
            ", ".join(f"{_code(code, own)} {how}" for code, how in node["attempts"]),
            re.sub(rf"\bcode {own or 'none'}\b", "code N", _short(node["reason"])),
        )
        for node in nodes
    ]
    return tuple("<br>".join(dict.fromkeys(column)) for column in zip(*each, strict=True))


def _code(code: int | None, own: int | None) -> str:
    """Return an exit code as a cell shows it: N is that of the program, where the row has several."""
    return "?" if code is None else "N" if code and code == own else str(code)


def _short(reason: str) -> str:
    """Return a reason without the causes of an end that was not recorded, which the page says once."""
    before, told, _ = reason.replace("|", "\\|").partition(UNRECORDED)
    return before + told
