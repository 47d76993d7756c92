"""The rules of `retry.on`: whether another attempt may follow one that has ended in some way.

A run's record has them as `retry_on`, in order, and the first that matches decides. Each is a mapping with `action`,
which is `retry` or `stop`, and `codes`, a list of the first and the last exit code of ranges, or `reason`. A rule with
neither matches every failure of a program. Only runs whose spec has rules have the field.
"""

from typing import Any, Mapping, Optional

RULES = "retry_on"
RETRY, STOP = "retry", "stop"
LOST, OOM, IMAGE, TIMEOUT = "lost", "oom", "image", "timeout"  # reasons
SETUP = "setup"  # no reason for a spec: its exit code is not one of the program
APART = (LOST, IMAGE)  # with no failure of a program: only a rule that names the reason matches


def find_action(
    record: Mapping[str, Any], code: int = 0, reason: Optional[str] = None
) -> Optional[str]:
    """Return the action of the first rule of *record* for an attempt that ended with *code*, or None.

    >>> rules = [{"codes": [[42, 43]], "action": "stop"}, {"reason": "oom", "action": "retry"}, {"action": "stop"}]
    >>> find_action({"retry_on": rules}, 43), find_action({"retry_on": rules}, 137, "oom")
    ('stop', 'retry')
    >>> find_action({"retry_on": rules}, 75, "lost") is None, find_action({"retry_on": rules[:2]}, 42, "setup") is None
    (True, True)
    """
    action: Optional[str] = find_rule(record, code, reason).get("action")
    return action


def find_rule(
    record: Mapping[str, Any], code: int = 0, reason: Optional[str] = None
) -> Mapping[str, Any]:
    """Return the first rule of *record* for an attempt that ended with *code*, or an empty mapping."""
    for rule in record.get(RULES) or ():
        if "reason" in rule:
            if rule["reason"] == reason:
                return dict(rule)
        elif reason in APART:
            continue
        elif "codes" not in rule or (
            reason != SETUP and any(first <= code <= last for first, last in rule["codes"])
        ):
            return dict(rule)
    return {}


def grow(rule: Mapping[str, Any], memory: int) -> Optional[int]:
    """Return the memory of the next attempt in bytes, after one that had *memory*; None if it stays.

    >>> rule = {"action": "retry", "memory": {"grow": 2, "most": 100}}
    >>> grow(rule, 30), grow(rule, 60), grow(rule, 100)
    (60, 100, None)
    """
    growth = rule.get("memory")
    if not growth or memory >= growth["most"]:
        return None
    more: int = min(memory * growth["grow"], growth["most"])
    return more


def asks_for(record: Mapping[str, Any], reason: str) -> bool:
    """Return whether a rule of *record* names *reason*."""
    return any(rule.get("reason") == reason for rule in record.get(RULES) or ())


def is_final(record: Mapping[str, Any], code: int, reason: Optional[str] = None) -> bool:
    """Return whether the rules of *record* end a task that failed so, whatever attempts are left."""
    return find_action(record, code, reason) == STOP
