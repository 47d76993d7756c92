"""The identity of a job within its run, read from the variables of the service."""

import json
from typing import Any, Callable, Dict, Mapping, MutableMapping, NamedTuple, Optional, Sequence


class TaskIdentity(NamedTuple):
    """The task, rank and attempt of one job of a run."""

    job: str  # the service's id of the whole job; it stays the same in later attempts
    task: int
    rank: int
    attempt: int


def restore_path(env: MutableMapping[str, str], keep: bool = False) -> None:
    """Set the PATH of the spec, which a shim that started this Python may have changed, as those of pyenv do.

    *keep*: the nodes that this process starts are started by such a shim, too.
    """
    path = env.get("RUNSPEC_PATH") if keep else env.pop("RUNSPEC_PATH", None)
    if path is not None:
        env["PATH"] = path


def rename(env: Any) -> None:
    """Copy variables of the service to the RUNSPEC_* names that RUNSPEC_WORDS maps to them."""
    for pair in env.get("RUNSPEC_WORDS", "").split():
        new, _, old = pair.partition("=")
        if old in env:
            env[new] = env[old]


def place(env: Mapping[str, str], record: Mapping[str, Any]) -> TaskIdentity:
    """Return the identity of this job; an array has one index for tasks and nodes together."""
    job = env["RUNSPEC_JOB"].partition(":")[0].partition("#")[0]
    index = int(env.get("RUNSPEC_INDEX") or env.get("RUNSPEC_TASK") or "0")
    rank = int(env.get("RUNSPEC_RANK", "0"))
    if record["shape"] == "array":
        index, rank = divmod(index, record["nodes"])
    attempt = int(env.get("RUNSPEC_ATTEMPT", "1")) + int(env.get("RUNSPEC_ATTEMPTS_BEFORE", "0"))
    return TaskIdentity(job, index, rank, attempt)


def resume_node(
    env: MutableMapping[str, str],
    record: Mapping[str, Any],
    read: Callable[[str], Optional[bytes]],
) -> bool:
    """Give this job the place of the node that has come back as it; return whether there is one.

    An index beyond those of all nodes is for the node that `returned/INDEX` names, with its earlier attempts. *read*
    returns the content of a path below the run, or None.
    """
    count = record["elastic"]["max"]
    for _, among in record["sweep"]:
        count *= len(among)
    index = int(env.get("RUNSPEC_INDEX") or "0")
    if index < count:
        return True
    content = read("returned/{}".format(index))
    if content is None:
        return False
    of = json.loads(content.decode("utf-8"))
    env.update(
        RUNSPEC_INDEX=str(of["node"]),
        RUNSPEC_ATTEMPTS_BEFORE=str(of["before"]),
        RUNSPEC_JOB=str(index),
        RUNSPEC_CLAIM="returned/{}-{}.claim".format(of["node"], of["before"]),
    )
    return True


def seat(of: TaskIdentity, record: Mapping[str, Any]) -> TaskIdentity:
    """Return the task and rank of a node of an elastic job, which is a task of its own to the service.

    >>> seat(TaskIdentity("7", 5, 0, 1), {"nodes": 1, "elastic": {"min": 1, "max": 4}})
    TaskIdentity(job='7', task=1, rank=1, attempt=1)
    """
    if record["nodes"] > 1:
        return of
    task, rank = divmod(of.task, record["elastic"]["max"])
    return of._replace(task=task, rank=rank)


def values(sweep: Sequence[Any], task: int) -> Dict[str, str]:
    """Return the parameter values of *task* in a sweep; the last parameter changes fastest.

    Parameters that change together are a list of names, with one list of values for each combination.

    >>> values([("lr", ["a", "b"]), ("seed", ["1", "2", "3"])], 4)
    {'seed': '2', 'lr': 'b'}
    >>> values([("lr", ["a", "b"]), (["x", "y"], [["1", "2"], ["3", "4"]])], 1)
    {'x': '3', 'y': '4', 'lr': 'a'}
    """
    choice = {}
    for name, among in reversed(sweep):
        task, at = divmod(task, len(among))
        if isinstance(name, str):
            choice[name] = among[at]
        else:
            choice.update(zip(name, among[at]))
    return choice


def variable(kind: str, name: str) -> str:
    return "RUNSPEC_{}_{}".format(kind, name.upper().replace("-", "_"))
