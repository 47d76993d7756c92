"""Which job of a run this is, by the variables of the service that runs it."""

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple


class Place(NamedTuple):
    """Which job this is of all that the run is made of."""

    job: str  # the service's id of the whole; retries have the same
    task: int
    rank: int
    attempt: int


def rename(env: Any) -> None:
    """Give the service's variables the names of the contract, as RUNSPEC_WORDS says."""
    for pair in env.get("RUNSPEC_WORDS", "").split():
        new, _, old = pair.partition("=")
        if old in env:
            env[new] = env[old]


def place(env: Mapping[str, str], record: Mapping[str, Any]) -> Place:
    """Find out which job this is: an array has one index for tasks and nodes together."""
    job = env["RUNSPEC_JOB"].partition(":")[0].partition("#")[0]
    index = int(env.get("RUNSPEC_INDEX") or env.get("RUNSPEC_TASK") or "0")
    rank = int(env.get("RUNSPEC_RANK", "0"))
    if record["shape"] == "array":
        index, rank = divmod(index, record["nodes"])
    return Place(job, index, rank, int(env.get("RUNSPEC_ATTEMPT", "1")))


def values(sweep: Sequence[Tuple[str, List[str]]], task: int) -> Dict[str, str]:
    """Return the sweep's values for *task*: the last parameter changes fastest.

    >>> values([("lr", ["a", "b"]), ("seed", ["1", "2", "3"])], 4)
    {'seed': '2', 'lr': 'b'}
    """
    found = {}
    for name, among in reversed(sweep):
        task, at = divmod(task, len(among))
        found[name] = among[at]
    return found


def variable(kind: str, name: str) -> str:
    return "RUNSPEC_{}_{}".format(kind, name.upper().replace("-", "_"))
