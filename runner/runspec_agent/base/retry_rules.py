"""The rules of `retry.on`: whether another attempt may follow one that has ended in some way.

A run's record has them as `retry_on`, in order, and the first that matches decides. Each is a mapping with `action`,
which is `retry` or `stop`, and `codes`, a list of the first and the last exit code of ranges; a rule without `codes`
matches any code. Only runs whose spec has rules have the field.
"""

from typing import Any, Mapping, Optional

RULES = "retry_on"
STOP = "stop"


def find_action(record: Mapping[str, Any], code: int) -> Optional[str]:
    """Return the action of the first rule of *record* for an attempt that failed with *code*, or None.

    >>> rules = [{"codes": [[42, 43]], "action": "stop"}]
    >>> find_action({"retry_on": rules}, 43), find_action({"retry_on": rules}, 1)
    ('stop', None)
    """
    for rule in record.get(RULES) or ():
        codes = rule.get("codes")
        if codes is None or any(first <= code <= last for first, last in codes):
            action: str = rule["action"]
            return action
    return None


def is_final(record: Mapping[str, Any], code: int) -> bool:
    """Return whether the rules of *record* end a task that failed with *code*, whatever attempts are left."""
    return find_action(record, code) == STOP
