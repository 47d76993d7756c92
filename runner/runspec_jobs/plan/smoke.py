"""Makes the spec of a smoke test, a short job that runs on the same machines before the job, and reads its log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.document.nodes import Value, format_flow
from runspec_jobs.regex import regex
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.placeholders import SMOKE, make_smoke_name, tasks

# The exit code of `runspec_agent.rendezvous.connectivity` if nodes cannot reach each other.
UNREACHED = 68
LONGEST_S = 1800  # the longest attempt, including the time to build an environment
# The fields of a spec that say where and in what the job runs; the smoke test gets no others.
KEPT = (
    "apiVersion", "params", "provider", "cluster", "container", "mounts", "outputs", "secrets", "launch",
    "processes_per_node", "setup", "providers", "ulimits",
)  # fmt: skip
# The lines that `runspec_agent.rendezvous.connectivity` prints.
WAY = regex(r"runspec: node (\d+) \((.*)\) -> node (\d+) \((.*)\) port (\d+): (.+)")
RULE = regex(r"runspec: (?:check|look at): (.+)")  # agents of version 0.1.0 print "look at"


def drop_entrypoint(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields *content* of a spec without the ENTRYPOINT of its image, for a job with another program."""
    container = content.get("container")
    if not isinstance(container, Mapping):
        return dict(content)
    kept = {name: value for name, value in container.items() if name not in ("entrypoint", "args")}
    return {**content, "container": kept}


def make_text(spec: Spec, value: Mapping[str, Value]) -> str:
    """Return the text of the spec of a smoke test for *spec*, whose parsed text is *value*.

    It has the same machines and files, but only the first task of a sweep, one attempt, and its own timeout.
    """
    env, retry = value.get("env", {}), value.get("retry", {})
    assert isinstance(env, dict), "BUG: the spec was not validated"
    assert isinstance(retry, dict), "BUG: the spec was not validated"
    content = drop_entrypoint({name: value[name] for name in KEPT if name in value})
    if spec.cluster.nodes.elastic:
        # The test is not elastic: it checks every node that the job may get.
        content["cluster"] = {**content["cluster"], "nodes": spec.cluster.nodes.max}
    if spec.sweep:
        content["sweep"] = {name: [value] for name, value in tasks(spec)[0].items()}
    content |= {
        "name": make_smoke_name(spec.name),
        "env": {**env, SMOKE: "1"},
        "run" if isinstance(spec.smoke, str) else "command": value["smoke"],
        # A test that fails once has failed, but a reclaimed machine says nothing about the job.
        "retry": {k: v for k, v in retry.items() if k == "spot_attempts"},
        "timeout": f"{min(LONGEST_S, spec.timeout or LONGEST_S)}s",
    }
    return format_flow(content)


class Unreached(NamedTuple):
    """One node that could not reach another; *why* is quoted from the log."""

    node: int
    host: str
    other: int
    other_host: str
    port: int
    why: str


def find_unreached(lines: Iterable[str]) -> tuple[list[Unreached], str | None]:
    """Return the pairs of nodes in the log that could not reach each other, and the setting that the log says to check.

    >>> find_unreached(["runspec: node 1 (10.0.0.2) -> node 0 (10.0.0.1) port 40213: timed out"])[0][0].why
    'timed out'
    """
    pairs, rule = [], None
    for line in lines:
        if match := WAY.fullmatch(line):
            node, host, other, other_host, port, why = match.groups()
            pairs.append(Unreached(int(node), host, int(other), other_host, int(port), why))
        elif rule_match := RULE.fullmatch(line):
            rule = rule_match[1]
    return pairs, rule
