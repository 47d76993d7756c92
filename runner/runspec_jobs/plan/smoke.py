"""The smoke test of a job: a small job of its own, run on the same machines before the one that is paid for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from runspec_jobs.document.nodes import Value, flow
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.placeholders import SMOKE, smoke_name, tasks

UNREACHED = (
    68  # what the job ends with where nodes cannot talk: `runspec_agent.rendezvous.connectivity`
)
LONGEST_S = 1800  # a try of it, with all that an environment takes to be built
# All that says where and in what it runs. What is not named here is the job's alone.
KEPT = (
    "apiVersion", "provider", "cluster", "container", "mounts", "outputs", "secrets", "launch",
    "processes_per_node", "providers",
)  # fmt: skip
# As `runspec_agent.rendezvous.connectivity` prints them.
WAY = re.compile(r"runspec: node (\d+) \((.*)\) -> node (\d+) \((.*)\) port (\d+): (.+)")
RULE = re.compile(r"runspec: look at: (.+)")


def text(spec: Spec, value: Mapping[str, Value]) -> str:
    """Give the smoke test of *spec*, whose text holds *value*, as a spec of its own.

    It has the same machines and files, but of a sweep the first task alone, one try, and a time of its own.
    """
    env, retry = value.get("env", {}), value.get("retry", {})
    assert isinstance(env, dict), "BUG: a spec was checked"
    assert isinstance(retry, dict), "BUG: a spec was checked"
    found: dict[str, Any] = {name: value[name] for name in KEPT if name in value}
    if spec.cluster.nodes.elastic:
        found["cluster"] = {**found["cluster"], "nodes": spec.cluster.nodes.max}
    if spec.sweep:
        found["sweep"] = {name: [value] for name, value in tasks(spec)[0].items()}
    found |= {
        "name": smoke_name(spec.name),
        "env": {**env, SMOKE: "1"},
        "run" if isinstance(spec.smoke, str) else "command": value["smoke"],
        "retry": {k: v for k, v in retry.items() if k != "attempts"},
        "timeout": f"{min(LONGEST_S, spec.timeout or LONGEST_S)}s",
    }
    return flow(found)


class Unreached(NamedTuple):
    """One node that could not reach another; *why* is in the words of the job's log."""

    node: int
    host: str
    other: int
    other_host: str
    port: int
    why: str


def unreached(lines: Iterable[str]) -> tuple[list[Unreached], str | None]:
    """Give what the log of the first node says of nodes that cannot talk, and where it says to look.

    >>> unreached(["runspec: node 1 (10.0.0.2) -> node 0 (10.0.0.1) port 40213: timed out"])[0][0].why
    'timed out'
    """
    found, rule = [], None
    for line in lines:
        if way := WAY.fullmatch(line):
            node, host, other, other_host, port, why = way.groups()
            found.append(Unreached(int(node), host, int(other), other_host, int(port), why))
        elif said := RULE.fullmatch(line):
            rule = said[1]
    return found, rule
