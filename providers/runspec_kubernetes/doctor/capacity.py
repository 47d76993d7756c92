"""Whether a namespace and its nodes have room for a pod of a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from runspec_jobs.provider import Finding
from runspec_kubernetes.decision import Decision

Amounts = Mapping[str, Decimal]
quantity: Any = parse_quantity  # without types


def _amounts(values: Mapping[str, str] | None) -> Amounts:
    return {name: quantity(value) for name, value in (values or {}).items()}


def _shown(name: str, amount: Decimal) -> str:
    is_bytes = name.endswith(("memory", "storage"))
    return f"{float(amount) / 2**30:g} GiB" if is_bytes else f"{amount:f}"


def _requests(decision: Decision) -> Amounts:
    """Return what a pod asks for; without a request, a limit is one."""
    return {**_amounts(decision.limits), **_amounts(decision.requests)}


def check_ranges(decision: Decision, ranges: Iterable[Any]) -> Iterator[Finding]:
    """https://kubernetes.io/docs/concepts/policy/limit-range/"""
    requests, limits = _requests(decision), _amounts(decision.limits)
    for entry in (limit for each in ranges for limit in each["spec"].get("limits") or ()):
        if entry.get("type") not in ("Container", "Pod"):
            continue
        for name, most in _amounts(entry.get("max")).items():
            if max(requests.get(name, 0), limits.get(name, 0)) > most:
                text = f"the namespace permits at most {entry['max'][name]} {name} for a pod"
                yield Finding(text, False, "ask for less, or for a larger LimitRange")
        for name, least in _amounts(entry.get("min")).items():
            if name in requests and requests[name] < least:
                text = f"the namespace permits no pod with less than {entry['min'][name]} {name}"
                yield Finding(text, False, "ask for more, or for a smaller LimitRange")


def check_quotas(
    decision: Decision, quotas: Iterable[Any], ranges: Iterable[Any]
) -> Iterator[Finding]:
    """Yield what a quota of the namespace leaves for one task; what is in use makes the job wait.

    https://kubernetes.io/docs/concepts/policy/resource-quotas/
    """
    requests, limits = _requests(decision), _amounts(decision.limits)
    pod = {"pods": Decimal(1), **requests, **{f"limits.{k}": v for k, v in limits.items()}}
    pod |= {f"requests.{k}": v for k, v in requests.items()}
    defaults = [limit for each in ranges for limit in each["spec"].get("limits") or ()]
    filled = {f"limits.{name}" for entry in defaults for name in entry.get("default") or ()}
    filled |= {name for entry in defaults for name in entry.get("defaultRequest") or ()}
    filled |= {f"requests.{name}" for name in filled}
    must = {"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"}
    for quota in quotas:
        if quota["spec"].get("scopes") or quota["spec"].get("scopeSelector"):
            continue  # it counts some pods only
        used = _amounts(quota.get("status", {}).get("used"))
        for name, hard in _amounts(quota["spec"].get("hard")).items():
            what = f"quota {quota['metadata']['name']}: {name}"
            need = pod.get(name, Decimal(0)) * decision.nodes
            if name in must - filled and name not in pod:
                key = name.rpartition(".")[2]
                hint = f"write cluster: {{{key}: ...}}, or give the namespace a LimitRange"
                yield Finding(f"{what} must be set, and the job has none", False, hint)
            elif need > hard:
                hint = "ask for less, or for a larger quota"
                yield Finding(
                    f"{what} is {_shown(name, hard)}, and a task needs {_shown(name, need)}",
                    False,
                    hint,
                )
            elif need and need > hard - used.get(name, Decimal(0)):
                yield Finding(f"{what} is in use: the job waits until others end", True)


def check_nodes(decision: Decision, nodes: Sequence[Any]) -> Finding:
    """Return whether a node can ever run a pod; one that the cluster may add is not known."""
    requests = _requests(decision)
    able = [node for node in nodes if _fits(decision, requests, node)]
    asked = (
        ", ".join(f"{name} {_shown(name, value)}" for name, value in requests.items()) or "any pod"
    )
    asked += "".join(f", {key}={value}" for key, value in decision.selector.items())
    if able:
        return Finding(f"{len(able):,} of {len(nodes):,} nodes are large enough ({asked})", True)
    text = f"none of {len(nodes):,} nodes can run a pod of the job ({asked})"
    hint = "the job waits for ever, unless the cluster adds such nodes by itself"
    return Finding(text, True, hint, unknown=True)


def _fits(decision: Decision, requests: Amounts, node: Any) -> bool:
    labels, spec = node["metadata"].get("labels") or {}, node.get("spec", {})
    room = _amounts(node.get("status", {}).get("allocatable"))
    return (
        decision.selector.items() <= labels.items()
        and not spec.get("unschedulable")
        and all(room.get(name, Decimal(0)) >= value for name, value in requests.items())
        and all(_is_tolerated(taint, decision.tolerations) for taint in spec.get("taints") or ())
    )


def _is_tolerated(taint: Mapping[str, str], tolerations: Iterable[Mapping[str, str]]) -> bool:
    """https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"""
    return taint.get("effect") == "PreferNoSchedule" or any(
        each.get("effect", taint.get("effect")) == taint.get("effect")
        and each.get("key", taint.get("key")) == taint.get("key")
        and (
            each.get("operator") == "Exists" or each.get("value", "") == (taint.get("value") or "")
        )
        for each in tolerations
    )
