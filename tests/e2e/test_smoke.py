"""`apply --smoke` where the network keeps nodes apart: the job does not begin, and it is said who cannot reach whom.

Each job is run in a network of its own, whose loopback addresses are the nodes'.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.requirements import need, need_root

pytestmark = [pytest.mark.slow, pytest.mark.root]

DROP = "iptables -A OUTPUT -d {} -p tcp -j DROP"
REFUSE = "iptables -A OUTPUT -d {} -p tcp -j REJECT --reject-with tcp-reset"
FORBID = "iptables -A OUTPUT -d {} -p tcp -j REJECT --reject-with icmp-host-prohibited"
SAY = 'echo "begun $RUNSPEC_RANK"'
RULES = {
    "local": None,
    "aws-batch": "security groups sg-1 must let all TCP in from itself",
    "azure-batch": "enableInterNodeCommunication",
}


class Case(NamedTuple):
    provider: str
    capacity: str
    hosts: tuple[str, str]
    rule: str
    why: str


CASES = {
    "local": Case("local", "on-demand", ("127.0.0.1", "127.0.0.2"), REFUSE, "refused"),
    "aws, nodes": Case("aws-batch", "on-demand", ("127.0.0.2", "127.0.0.3"), DROP, "timed out"),
    "aws, array": Case("aws-batch", "spot", ("127.0.0.2", "127.0.0.3"), FORBID, "unreachable"),
    "azure": Case("azure-batch", "on-demand", ("127.0.1.1", "127.0.1.2"), REFUSE, "refused"),
}


def applied(folder: Path, case: Case, rule: str) -> tuple[int, list[dict[str, Any]], str]:
    """Apply a job of two nodes where *rule* holds; give the code, and what is told as JSON and otherwise."""
    need_root()
    need("unshare", "ip", "iptables", *(["azurite"] if case.provider == "azure-batch" else []))
    spec = {
        "apiVersion": "runspec/v1",
        "name": "job",
        "provider": case.provider,
        "container": {"image": "example.org/work:1"},
        "cluster": {"nodes": 2, "capacity": case.capacity},
        "smoke": f'[ -n "$RUNSPEC_SMOKE" ] && {SAY}',
        "run": f'[ -z "${{RUNSPEC_SMOKE-}}" ] && {SAY}',
        "providers": {"local": {"engine": "process"}} if case.provider == "local" else {},
    }
    if case.provider == "local":
        del spec["container"]
    (folder / "job.yaml").write_text(json.dumps(spec))
    rehearse = ["rehearse", "--engine", "process", "--folder", "kept"]
    verb = ["apply"] if case.provider == "local" else rehearse
    line = [sys.executable, "-m", "runspec_jobs", *verb, "--smoke", "--json", "job.yaml"]
    inside = f'set -e; ip link set lo up; {rule}; exec "$@"'
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", inside, "sh", *line],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, [json.loads(one) for one in done.stdout.splitlines()], done.stderr


def printed(folder: Path) -> list[str]:
    """Return what the programs of the last run printed, as a rehearsal or this machine keeps it."""
    runs = Path(os.environ["RUNSPEC_HOME"], "local/runs")
    logs = [*folder.glob("kept/logs/*"), *runs.glob("*/logs/*.log")]
    lines = (line for log in logs for line in log.read_text().splitlines())
    return sorted(line for line in lines if not line.startswith("runspec: "))


@pytest.mark.parametrize("name", CASES)
def test_a_job_whose_nodes_cannot_talk_is_not_begun(name: str, tmp_path: Path) -> None:
    """The second node can reach the first, and not the other way round; neither comes to the program."""
    case = CASES[name]

    code, told, said = applied(tmp_path, case, case.rule.format(case.hosts[1]))

    assert (code, told[0]["exit_code"], told[0]["state"]) == (1, 68, "failed"), said
    (way,) = told[0]["unreached"]
    assert way["from"] == {"node": 0, "host": case.hosts[0]}
    assert (way["to"]["node"], way["to"]["host"]) == (1, case.hosts[1])
    assert way["to"]["port"] > 1023
    assert way["why"] == case.why
    expected = RULES[case.provider]
    assert (expected is None) == (told[0]["rule"] is None)
    assert (expected or "") in (told[0]["rule"] or "")
    assert {one["run"][:10] for one in told if "run" in one} == {"job-smoke-"}
    assert printed(tmp_path) == []


def test_a_job_of_an_array_whose_nodes_can_talk_begins(tmp_path: Path) -> None:
    code, told, said = applied(tmp_path, CASES["aws, array"], ":")

    assert code == 0, said
    assert {one["run"][:10] for one in told if one["format"] == "runspec.destroy/v1"} > {
        "job-smoke-"
    }
    assert printed(tmp_path) == ["begun 0", "begun 1"]
