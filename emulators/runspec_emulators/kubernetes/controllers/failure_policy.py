"""The pod failure policy of jobs: which rule a failed pod matches.

https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
"""

from __future__ import annotations

from typing import NamedTuple

from runspec_emulators.kubernetes.world import Object


class Verdict(NamedTuple):
    """What a policy says of a failed pod."""

    action: str
    message: str = ""


COUNT = Verdict("Count")


def judge(job: Object, pod: Object) -> Verdict:
    """Return the action of the first rule that fits: "Once a rule matches a Pod failure, the remaining are ignored"."""
    rules = job["spec"].get("podFailurePolicy", {}).get("rules") or ()
    # Rules are asked of failed pods alone, not of those that are being deleted:
    # https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
    if pod["status"].get("phase") != "Failed":
        return COUNT
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for number, rule in enumerate(rules):
        action = rule["action"]
        matching = f"matching {action} rule at index {number}"
        if "onExitCodes" in rule:
            hit = _by_code(rule["onExitCodes"], pod)
            if hit is not None:
                container, code = hit
                said = (
                    f"Container {container} for pod {name} failed with exit code {code} {matching}"
                )
                return Verdict(action, said)
        for pattern in rule.get("onPodConditions") or ():
            if any(
                (c["type"], c["status"]) == (pattern["type"], pattern["status"])
                for c in pod["status"].get("conditions") or ()
            ):
                return Verdict(action, f"Pod {name} has condition {pattern['type']} {matching}")
    return COUNT


def _by_code(wanted: Object, pod: Object) -> tuple[str, int] | None:
    """Return the container and the exit code that a rule fits; success is never matched."""
    statuses = [
        *(pod["status"].get("containerStatuses") or ()),
        *(pod["status"].get("initContainerStatuses") or ()),
    ]
    for status in statuses:
        code = status.get("state", {}).get("terminated", {}).get("exitCode", 0)
        # "Containers completed with success (exit code 0) are excluded from the requirement check".
        if code == 0 or wanted.get("containerName") not in (None, status["name"]):
            continue
        if (code in wanted["values"]) == (wanted["operator"] == "In"):
            return status["name"], code
    return None
