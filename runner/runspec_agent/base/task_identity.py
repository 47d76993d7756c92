"""Which job of a run this is, by the variables of the service that runs it."""

from typing import Any, Dict, Mapping, NamedTuple, Sequence


class TaskIdentity(NamedTuple):
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


def place(env: Mapping[str, str], record: Mapping[str, Any]) -> TaskIdentity:
    """Find out which job this is: an array has one index for tasks and nodes together."""
    job = env["RUNSPEC_JOB"].partition(":")[0].partition("#")[0]
    index = int(env.get("RUNSPEC_INDEX") or env.get("RUNSPEC_TASK") or "0")
    rank = int(env.get("RUNSPEC_RANK", "0"))
    if record["shape"] == "array":
        index, rank = divmod(index, record["nodes"])
    return TaskIdentity(job, index, rank, int(env.get("RUNSPEC_ATTEMPT", "1")))


def seat(of: TaskIdentity, record: Mapping[str, Any]) -> TaskIdentity:
    """Return which node of which task *of* is, where every node that comes and goes is a task to the service.

    >>> seat(TaskIdentity("7", 5, 0, 1), {"nodes": 1, "elastic": {"min": 1, "max": 4}})
    TaskIdentity(job='7', task=1, rank=1, attempt=1)
    """
    if record["nodes"] > 1:
        return of
    task, rank = divmod(of.task, record["elastic"]["max"])
    return of._replace(task=task, rank=rank)


def values(sweep: Sequence[Any], task: int) -> Dict[str, str]:
    """Return the sweep's values for *task*: the last parameter changes fastest.

    Parameters that go together stand as a list of names, with a list of values for each place.

    >>> values([("lr", ["a", "b"]), ("seed", ["1", "2", "3"])], 4)
    {'seed': '2', 'lr': 'b'}
    >>> values([("lr", ["a", "b"]), (["x", "y"], [["1", "2"], ["3", "4"]])], 1)
    {'x': '3', 'y': '4', 'lr': 'a'}
    """
    found = {}
    for name, among in reversed(sweep):
        task, at = divmod(task, len(among))
        if isinstance(name, str):
            found[name] = among[at]
        else:
            found.update(zip(name, among[at]))
    return found


def variable(kind: str, name: str) -> str:
    return "RUNSPEC_{}_{}".format(kind, name.upper().replace("-", "_"))
