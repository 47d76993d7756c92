"""Taints and tolerations, and the selectors of nodes.

https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/,
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from __future__ import annotations

from runspec_emulators.kubernetes.world import Object


def tolerates(toleration: Object, taint: Object) -> bool:
    """Return whether a toleration fits a taint; an empty key with Exists fits all."""
    # "An empty effect matches all effects with key".
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    key, operator = toleration.get("key", ""), toleration.get("operator", "Equal")
    if key and key != taint["key"]:
        return False
    if operator == "Exists":
        return True
    # A toleration without a key needs the operator Exists, and then fits all taints.
    return bool(key) and toleration.get("value", "") == taint.get("value", "")


def toleration_of(pod: Object, taint: Object) -> Object | None:
    """Return the toleration of a pod that fits a taint, if it has one."""
    tolerations = pod["spec"].get("tolerations") or ()
    return next((t for t in tolerations if tolerates(t, taint)), None)


def untolerated(pod: Object, node: Object) -> Object | None:
    """Return the first taint for which a pod cannot be scheduled to a node."""
    for taint in node["spec"].get("taints") or ():
        # PreferNoSchedule is a preference, which never keeps a pod from a node.
        if taint["effect"] in ("NoSchedule", "NoExecute") and toleration_of(pod, taint) is None:
            return dict(taint)
    return None


def matches(pod: Object, node: Object) -> bool:
    """Return whether a pod's nodeSelector and required node affinity choose a node."""
    labels = node["metadata"].get("labels") or {}
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(k) != v for k, v in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(
        all(_fits(e, labels) for e in term.get("matchExpressions") or ())
        and all(
            _fits(e, {"metadata.name": node["metadata"]["name"]})
            for e in term.get("matchFields") or ()
        )
        for term in required["nodeSelectorTerms"]
    )


def _fits(wanted: Object, labels: Object) -> bool:
    key, operator, values = wanted["key"], wanted["operator"], wanted.get("values") or []
    if operator in ("Exists", "DoesNotExist"):
        return bool((key in labels) == (operator == "Exists"))
    # A label that is not there is not in the values either.
    if operator == "NotIn":
        return bool(labels.get(key) not in values)
    if key not in labels:
        return False
    if operator == "In":
        return bool(labels[key] in values)
    above: int = int(labels[key]) - int(values[0])
    return above > 0 if operator == "Gt" else above < 0
